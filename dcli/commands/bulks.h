// One thing done to all instances that a filter finds.
#pragma once

#include <optional>
#include <string>

#include "dcli/commands/commands.h"
#include "dfsmr/v1/view.pb.h"

namespace dfsmr::cli {

// The exit status if --filter was given, and all is done; nullopt: one instance is meant.
std::optional<int> InBulk(Context& context, v1::StartBulkRequest::Action action,
                          const ControlOptions& options);
std::optional<int> InBulk(Context& context, const TransitionOptions& options);

struct BulksOptions {
  std::string action;  // "stop", or a bulk to show; empty: all of them
  std::string id;
};
int Bulks(Context& context, const BulksOptions& options);

}  // namespace dfsmr::cli
