// What workers have refused: a worker's session is not offered a node again for a while after it
// said that it cannot begin it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/agent_views.h"
#include "fsm/derived/agenda.h"

namespace dfsmr {

class WorkRefusals {
 public:
  static constexpr Duration kFor = std::chrono::seconds(60);
  // A worker's process: its session, or the number of a stream that has none.
  using Who = SessionName;
  static Who Of(const std::string& ns, const WorkerTerms& terms, SessionId stream) {
    Who who = terms.NameIn(ns);
    if (who.session.empty()) who.session = "#" + std::to_string(stream);
    return who;
  }

  bool empty() const { return by_worker_.empty(); }
  void Note(const Who& who, RefusedWork work);
  std::vector<RefusedWork> By(const Who& who) const;
  // The same as a filter has it.
  std::vector<RefusedNode> NodesOf(const Who& who) const;
  Timestamp Due() const { return ends_.empty() ? kNever : ends_.begin()->first; }
  // Forgets what has ended by `now`, of one worker. REQUIRES: something is due.
  Who Forget(Timestamp now);

 private:
  std::map<Who, std::vector<RefusedWork>> by_worker_;
  std::set<std::pair<Timestamp, Who>> ends_;
};

}  // namespace dfsmr
