// Schedules and occurrences as messages, read from one moment of the store. The reads block: for the
// pool.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/engine/launch_keeper.h"
#include "dsrv/engine/types.h"
#include "dsrv/wire/moment.h"
#include "fsm/when/schedule.h"
#include "fsm/when/zones.h"
#include "storage/rows/document.h"

namespace dfsmr {

// What only the engine knows at the time of a read.
struct Seen {
  Timestamp now;
  std::map<std::string, LaunchCounts> counts;  // by cause
};

void ToProto(const PlannedTime& planned, v1::PlannedTime* out);
void ToProto(const rows::DocumentName& of, const Occurrence& one, v1::Occurrence* out);
// Of the occurrence's instance.
void ShowStanding(InstanceState state, InstanceResult result, v1::Occurrence* out);
void ToProto(const StartArgs& args, v1::StartRequest* out);

// An occurrence with the state and result of its instance.
Result<Ok> ShowOccurrence(const Moment& moment, const rows::DocumentName& of,
                          const Occurrence& one, v1::Occurrence* out);

// The document of a version, as it is kept. `version` 0: the latest. NO_SUCH_SCHEDULE and its like:
// it does not stand, nor is it retired if that will do, too.
struct StoredDocument {
  rows::DocumentHead head;
  uint32_t version = 0;
  rows::DocumentText text;
  Document document;
};
Result<StoredDocument> ReadDocumentOf(const Moment& moment, const FindZone& zones,
                                      const rows::DocumentName& name, uint32_t version,
                                      bool or_retired = false);

// A schedule that stands or is retired, with as many of its next times.
Result<Ok> ShowSchedule(const Moment& moment, const FindZone& zones, const Seen& seen,
                        const rows::DocumentName& name, uint32_t version, size_t upcoming,
                        v1::Schedule* out);

}  // namespace dfsmr
