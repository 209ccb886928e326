// What a server among others should do: renew its lease, bury those that fell silent, take what is
// free, give away what it has too much of. Pure: times and rows go in, what to do comes out. All
// servers compute the same plan from the same rows, so nobody has to assign anything.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/cluster/lease_time.h"
#include "storage/roster.h"

namespace dfsmr {

inline constexpr LeaseTime kRenewal = std::chrono::seconds(2);  // from one renewal to the next
// For so long after a renewal was sent, nobody else can own what this server owns. Less than the
// lease, for what the clocks of two machines may differ in pace.
inline constexpr LeaseTime kMayAnswer = std::chrono::seconds(8);

// One thread at a time.
class Member {
 public:
  struct Todo {
    // Nothing can be done any more, and this says why: another server has this one's address, or
    // the store is another one than it was. The process ends, with status 1.
    std::string end;
    // This server was buried. All that it had is lost; it may join under a new id.
    bool rejoin = false;
    std::vector<PartitionId> drop;  // those that it holds and does not own any more
    // Whom to bury. Then look again: what they had is free.
    std::vector<std::string> bury;
    std::vector<PartRow> take;
    // One of those that it holds, and the server to give it to.
    std::optional<std::pair<PartitionId, std::string>> give;
    // To what the level of the rows is to be raised: all servers have known it for a while.
    std::optional<uint32_t> raise;
    LeaseTime wait = kRenewal;  // until the next look
  };

  // `joined`: when Roster::Join was sent.
  Member(std::string id, std::string address, LeaseTime joined);

  // After each renewal that was answered. `sent`: when it was sent.
  Todo Look(const Roster::Seen& seen, LeaseTime sent, LeaseTime now);

  // What the caller holds: it has taken the partition, or has given it away or dropped it.
  void Took(PartitionId partition, Epoch epoch) {
    held_[partition] = epoch;
    highest_[partition] = epoch;
  }
  void Dropped(PartitionId partition) { held_.erase(partition); }

  // From now on it gives away what it holds, at once, and takes nothing.
  void Leave() { leaving_ = true; }
  bool leaving() const { return leaving_; }

  // Another server has reached this one at its address.
  void NotePing(LeaseTime now) { pinged_ = now; }
  // What the next renewal tells the others: whether one of them has reached this one lately. True
  // for one that was alone until a moment ago: it has not had the chance.
  bool Reached(LeaseTime now) const;

  // Nothing may be told to anybody without this: no reply, no task, no record.
  bool MayAnswer(LeaseTime now) const {
    return /*mutant cluster-answers-without-lease*/ now < answers_until_ /*end*/;
  }
  LeaseTime answers_until() const { return answers_until_; }

  // The share of each server that may own partitions, by id: what it has, up to the most that it
  // may have, and what else it is to get, in order of partitions. `dead` owners have nothing.
  static std::map<std::string, std::vector<PartitionId>> Plan(const std::vector<ServerRow>& servers,
                                                              const std::vector<PartRow>& parts);

 private:
  std::string WhyEnd(const Roster::Seen& seen);
  bool Restored(const Roster::Seen& seen);
  void NoteTimes(const Roster::Seen& seen, LeaseTime sent, LeaseTime now);
  void Bury(const Roster::Seen& seen, LeaseTime now, Todo* todo) const;
  void Share(const Roster::Seen& seen, LeaseTime now, Todo* todo) const;
  void Level(const Roster::Seen& seen, LeaseTime now, Todo* todo);

  const std::string id_;
  const std::string address_;
  std::map<PartitionId, Epoch> held_;
  bool leaving_ = false;

  LeaseTime answers_until_{};
  // Since when renewals have come without a gap, and the store's clock without a leap.
  LeaseTime calm_since_;
  std::optional<LeaseTime> outage_;  // when the last outage of the store was over
  LeaseTime looked_;           // the last renewal that counted was sent
  Timestamp store_looked_;  // the store's time at it
  bool looked_once_ = false;
  std::set<std::string> members_;  // the others that live
  LeaseTime changed_;                 // members_ is as it is since then
  LeaseTime alone_;                   // when there was nobody else for the last time
  bool was_alone_ = false;
  std::optional<LeaseTime> pinged_;
  std::optional<uint64_t> life_;
  std::map<PartitionId, Epoch> highest_;  // that was ever seen
  uint32_t known_level_ = 0;              // to all servers that live
  LeaseTime known_since_{};
};

}  // namespace dfsmr
