// What came due of schedules and triggers, in the words of tables; and what is done with it.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>
#include <vector>

#include "dcli/call/context.h"
#include "dfsmr/v1/schedule.pb.h"

namespace dfsmr::cli {

// A schedule or a trigger of the context's namespace.
struct OccurrencesOf {
  bool trigger = false;
  std::string name;
};

void PrintOccurrences(Context& context,
                      const google::protobuf::RepeatedPtrField<v1::Occurrence>& occurrences);
using Outcomes = std::vector<v1::Occurrence::Outcome>;
// The newest `limit` of them; 0: all.
Result<v1::ListOccurrencesResponse> ListOccurrences(Context& context, const OccurrencesOf& of,
                                                    const Outcomes& outcomes, int limit);
int PrintHistory(Context& context, const OccurrencesOf& of,
                 const std::vector<std::string>& outcomes, int limit);
// Tries dead letters again, or drops them: those with these ids, or all.
int RetryOccurrences(Context& context, const OccurrencesOf& of,
                     const std::vector<std::string>& ids, bool all, bool drop);
Result<v1::SetPausedResponse> SetPaused(Context& context, const OccurrencesOf& of, bool paused,
                                        const std::string& note, bool skip_missed = false);
// Prints what an occurrence that was made by hand has come to, as `start` does. `wait`: follows its
// instance, of `machine`, to its end; 0 for SUCCESS. `begun` is the feed before it.
std::string OutcomeText(const v1::Occurrence& occurrence);

}  // namespace dfsmr::cli
