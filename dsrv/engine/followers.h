// Instances that begin after others have stopped: which of them wait for which. A follower hears of
// a stop in the same commit; one that lives in another partition, by a message. Kept in memory,
// rebuilt from the live instances, and from the rows of those that live elsewhere.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"
#include "fsm/rules/tokens.h"
#include "storage/rows/message.h"

namespace dfsmr {

class Followers : public Part {
 public:
  Followers(OpenTurn& turn, Residents& residents, Changer& changer, Messages& messages,
            const EngineOptions& options)
      : turn_(turn),
        residents_(residents),
        changer_(changer),
        messages_(messages),
        options_(options) {}

  // At start: those that live elsewhere.
  Result<Ok> Recover();

  // The ids of those that wait for the instance `id`, wherever it lives, ascending: all that live
  // here are among them.
  std::vector<std::string> Of(const std::string& ns, const std::string& id) const;
  // `follower` waits for the instance `id` of its namespace. If that lives elsewhere, it is asked
  // to tell.
  void Add(const Instance& follower, const std::string& id);

  // One that lives in `from` waits for an instance here; it is told at once if that has stopped
  // already, or is not here.
  void Follow(PartitionId from, const rows::Message::Follow& follow);
  // What a follower here waited for elsewhere has stopped.
  void Tell(const rows::Message::Ended& ended);

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  // Tells the followers of one instance that it has stopped.
  bool Work() override;

 private:
  struct Stopped {
    std::string ns;
    std::string id;
    InstanceResult result;
  };
  // By id and partition; the number of its first record, of one that lives elsewhere.
  using Waiting = std::map<std::pair<std::string, PartitionId>, uint64_t>;

  OpenTurn& turn_;
  Residents& residents_;
  Changer& changer_;
  Messages& messages_;
  const EngineOptions& options_;
  std::unordered_map<std::string, Waiting> waiting_;  // ns\0id → followers
  // Of instances elsewhere: the followers here, as long as these have not been told.
  std::unordered_map<std::string, std::set<std::string>> away_;
  std::deque<Stopped> stopped_;
};

}  // namespace dfsmr
