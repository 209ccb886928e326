// One simulated store of several partitions, each with an engine, and the messages between them,
// which are lost, doubled and overtaken, while engines crash, are taken over, and lose the disk. A
// model of what clients asked for says what must have happened in the end, and how often.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/dsrv/engine/parted.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/random.h"

namespace dfsmr::message_sim {

inline constexpr size_t kMayRun = 2;  // of those that the limit holds for
std::string LimitedJobs();            // their machines
std::string ListenedJobs();           // and those that a trigger starts
std::string KeyedJobs();              // and those whose machine has a limit by itself
std::string GroupedJobs();            // and members of groups
std::string PlacedJobs();             // and those whose tasks need places
std::string AskedJobs();              // and those of which home is asked first

class MessageSim {
 public:
  MessageSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();
  const std::map<std::string, uint64_t>& hits() const { return hits_; }
  uint64_t records() const { return records_; }

 private:
  struct Answer {  // to `from`: `to` has applied all up to a number
    PartitionId from = 0;
    PartitionId to = 0;
    uint64_t up_to = 0;
  };
  struct Seen {  // of an instance, in what is durable
    uint64_t begun = 0;
    uint64_t refused = 0;      // starts with reports on it
    uint64_t poked = 0;        // transitions that a schedule has sent
    uint64_t begun_at = 0;     // in the order of all records
    uint64_t finished_at = 0;
    bool goes_on = false;  // resumed after it had stopped  // 0: it has not
    bool exists = false;
    InstanceResult result = InstanceResult::kPending;

    bool Live() const { return exists && (finished_at == 0 || goes_on); }
  };
  struct Report {
    std::string instance;
    std::string starts;  // the id that it starts
  };
  using Pair = std::pair<PartitionId, PartitionId>;

  void Wrong(const std::string& what);
  void Note(const std::string& what);
  bool Good() const { return problem_.empty(); }
  PartitionId Any() { return static_cast<PartitionId>(random_.Below(parted_->size())); }
  World& at(PartitionId id) { return parted_->at(id); }
  void Open(uint16_t partitions);
  void Published(PartitionId id, const Event& event);

  // What clients do.
  void Client();
  void Start();
  void StartMany();
  bool Free(const std::string& id);
  void Move();
  void ReportWithStart();
  void Define();
  void Limited();
  void StartLimited();
  void Pause();
  void Keyed();
  void Asked();
  void Ask();
  void StartAsked();
  void SetMax(const std::string& key, std::optional<uint32_t> max);
  void Grouped();
  void StartMember(const std::string& group);

  // What messages do.
  void Offer();
  void Take(PartitionId from, PartitionId to, const Outgoing& outgoing, uint64_t after);
  void Arrive();
  void Deliver(const Parted::Letter& letter);
  void Confirm();
  void Commit(PartitionId id);

  // What goes wrong.
  void Fault();
  void Restart(PartitionId id, const std::string& why);
  void Mend(PartitionId id);  // after a write that failed

  // In the end.
  void Finish();
  void Join();
  void Settle();
  void FollowAll();
  bool CarryAll();
  bool MoveAll();
  void CheckAll();
  void CheckFollowers();
  void CheckReports();
  void CheckSchedules();
  void CheckLimits();
  void DefineTrigger();
  void SetPaused(bool paused);
  void CheckTrigger();
  void CheckRows();
  void ResumeAll();
  void DefineKeys();
  void NoteKeyed(PartitionId id, const Event& event);
  void CheckKeys();
  void NoteAsked(const Event& event);
  void CheckAsked();
  std::optional<StartArgs> LetIn();
  void TryAsked();
  void DefineGroups();
  void ResumeGroups();
  void CheckGroups();
  void NoteGroup(const Event& event);
  void PauseSchedules();
  void Quiet();
  void CrashSome();
  void SetQuota(uint64_t most);
  void TryQuota();
  void TryPlaces();
  void TryNumber();

  Random random_;
  const bool trace_;
  std::string problem_;
  std::map<std::string, uint64_t> hits_;
  std::unique_ptr<MemoryStore> below_;
  std::vector<std::unique_ptr<FaultyStore>> disks_;
  std::unique_ptr<Parted> parted_;

  std::vector<Parted::Letter> wire_;
  std::vector<Answer> answers_;
  std::map<Pair, uint64_t> sent_;     // the last that was fetched
  std::map<Pair, uint64_t> applied_;  // as was answered
  std::map<std::tuple<PartitionId, PartitionId, uint64_t>, std::string> texts_;
  // Of engines that are gone.
  std::vector<std::pair<PartitionId, std::shared_ptr<Outgoing>>> former_;

  uint64_t records_ = 0;
  bool over_ = false;  // all is done: nothing more is to happen
  std::set<std::pair<PartitionId, uint64_t>> known_;  // records, by partition and number
  uint64_t names_ = 0;
  std::map<std::string, Seen> seen_;
  std::map<std::string, std::vector<Instance::Prerequisite>> after_;  // of instances asked for
  std::map<std::string, Report> reports_;  // by the params of their transitions
  std::set<std::string> reported_;         // of these, the durable ones
  std::set<std::string> limited_;          // instances that a limit holds for
  std::set<std::string> stopped_by_hand_;  // of these
  std::set<std::string> running_;          // of these
  std::string target_;                     // of what a schedule sends
  bool paused_ = false;                    // the trigger, as was asked
  std::set<std::string> keyed_;         // instances of a machine of which so many may run
  std::set<std::string> keyed_running_;  // of these
  std::set<std::string> asked_;          // instances of which home was asked, or might have been
  std::set<std::string> asked_running_;  // of these
  std::set<std::string> promised_;       // of these: home has let them begin, and has gone on since
  std::vector<StartArgs> waiting_starts_;  // until home's answer comes
  std::map<std::string, std::string> members_;        // of groups, by instance
  std::map<std::string, uint64_t> group_finished_at_;  // in the order of all records
  std::map<std::string, uint64_t> member_ended_at_;    // the last one of a group
};

}  // namespace dfsmr::message_sim
