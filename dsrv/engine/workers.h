// Who works: the workers that have claimed, polled or streamed lately, and how that went. In
// memory: it begins anew with the server.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/pulse.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"

namespace dfsmr {

struct WorkerView {
  std::string worker;
  std::string address;
  std::string how;       // "poll", "stream" or "agent"
  std::string asks_for;  // its last filter
  uint64_t in_hand = 0;
  uint64_t capacity = 0;  // of a stream
  uint64_t done = 0;      // in the last hour, like those below
  uint64_t failed = 0;    // reports of errors
  uint64_t timed_out = 0;
  uint64_t stale = 0;
  Timestamp seen;
};

class Workers : public Part {
 public:
  Workers(OpenTurn& turn, const Residents& residents) : turn_(turn), residents_(residents) {}

  void Polled(const Filter& filter, const std::string& worker, const WorkerTerms& terms);
  void Opened(SessionId session, const Filter& filter, const std::string& worker, int32_t capacity,
              const WorkerTerms& terms);
  void Closed(SessionId session);
  // A report of this worker came too late.
  void NoteStale(const std::string& ns, const std::string& worker);

  // By name; empty: any.
  std::vector<WorkerView> List(const std::string& ns, const std::string& machine,
                               const std::string& queue);
  uint64_t CountIn(const std::string& ns);
  // When it last asked for work or reported; Timestamp(): not in the last 15 minutes.
  Timestamp Heard(const std::string& ns, const std::string& worker) const;
  // What was done in a namespace that goes. Streams that are open ask the next one of its name.
  void Forget(const std::string& ns);

  void Absorb(const Change& change) override;

 private:
  struct Hour {
    uint32_t done = 0;
    uint32_t failed = 0;
    uint32_t timed_out = 0;
    uint32_t stale = 0;
  };
  using Name = std::pair<std::string, std::string>;  // namespace, worker
  struct Worker {
    std::string address;
    bool agent = false;
    size_t streams = 0;  // that are open
    uint64_t capacity = 0;
    Filter filter;
    Ring<Hour, 10 * kMinuteUs, 6> hour;
    Timestamp seen;
    bool forgotten = false;  // its namespace is gone, and it has not been heard of since
  };

  Worker& See(const std::string& ns, const std::string& worker);
  Hour& HourOf(const std::string& ns, const std::string& worker);
  void DropGone();

  OpenTurn& turn_;
  const Residents& residents_;
  std::map<Name, Worker> workers_;
  std::map<SessionId, std::pair<Name, uint64_t>> streams_;  // with their capacity
  // The one that was looked up last: reports often come from one worker after the other.
  std::map<Name, Worker>::iterator last_ = workers_.end();
  Timestamp drop_due_;
};

}  // namespace dfsmr
