// Groups: instances under one name, with a state, a result and a progress of their own, and orders
// to all of them. A group is counted as its members change, so it costs the same for ten members
// and a million. Its settings, its order and what its stopped members count are a row, written in
// the turn that changes them; what its live members count is found from them at start.
//
// A group may have members to come: the times of a backfill, which do not exist yet. Their source
// keeps them, and is asked to make the next one when the group has room for it, in the commit that
// frees the place.
//
// Of several partitions home has the groups, with what members count wherever they live: the others
// tell it with the turn in which that changes (of progress alone, within a second), and are told
// what their members are to do (groups_apart.cc). There a group is what its members there need.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"
#include "storage/rows/group.h"
#include "storage/rows/message.h"

namespace dfsmr {

// Where members to come are kept: durable, by whoever announces them with Groups::SetToCome, also
// after a restart.
class MemberSource {
 public:
  virtual ~MemberSource() = default;
  // Makes the next member of the group in this turn: starts it with the group in its provenance, or
  // finds that there is nothing to start for it. Answers how many are to come after it.
  virtual uint64_t MakeNext(const std::string& ns, const std::string& group) = 0;
  // Those to come never will be: the group is cancelled.
  virtual void DropRest(const std::string& ns, const std::string& group) = 0;
};

// A group as clients see it.
struct GroupView {
  std::string ns;
  std::string name;
  rows::GroupRow row;  // its counts are those of all members
  uint64_t to_come = 0;
  std::optional<uint32_t> max_running;
};

struct GroupSettings {
  std::optional<uint32_t> max_running;  // 0: no member begins
  bool no_max_running = false;
  std::optional<uint32_t> stop_on_fail;
  std::string schedule;  // of a backfill
  std::string client;    // who sets them
};

struct GroupControl {
  rows::GroupOrder::Action action = rows::GroupOrder::Action::kNone;
  bool members = false;
  std::string note;
};

// NO_SUCH_GROUP.
Error NoSuchGroup(const std::string& ns, const std::string& name);

class Groups : public Part {
 public:
  Groups(OpenTurn& turn, Residents& residents, Changer& changer, Limits& limits, Resumer& resumer,
         Messages& messages, const EngineOptions& options)
      : turn_(turn),
        residents_(residents),
        changer_(changer),
        limits_(limits),
        resumer_(resumer),
        messages_(messages),
        options_(options) {}
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  // At start, before any instance is loaded.
  Result<Ok> Recover();

  // For calls. kNotFound: there is no such group.
  Result<GroupView> Get(const std::string& ns, const std::string& name);
  // At most `limit` after the group `after`, in order of name. kNone, empty: any.
  std::vector<GroupView> List(const std::string& ns, InstanceState state,
                              const std::string& schedule, const std::string& after, size_t limit);
  // Makes the group or changes it; what is absent stays as it is.
  Result<GroupView> Set(const std::string& ns, const std::string& name,
                        const GroupSettings& settings);
  Result<GroupView> Control(const std::string& ns, const std::string& name,
                            const GroupControl& control);

  // For imports: the settings of a group, before its members come. One that is there stays. In
  // another partition than home only whether it is paused counts.
  void Import(const std::string& ns, const std::string& name, const rows::GroupRow& row);

  // For the part that keeps members to come. Call SetSource once, before the first turn.
  void SetSource(MemberSource* source) { source_ = source; }
  // So many are to come. For a group that Set has made, or at start; then again whenever their
  // number changes otherwise than by MakeNext.
  void SetToCome(const std::string& ns, const std::string& name, uint64_t count);
  // None is to come to a group that Set has made, and none was: it has finished.
  void EndEmpty(const std::string& ns, const std::string& name);

  // The next member lives in another partition, which is to tell of it.
  void Await(const std::string& ns, const std::string& group);

  // Of several partitions. At home: members elsewhere have changed.
  void TakeTally(const rows::Message::Tally& tally);
  // Elsewhere: what home has its members do.
  void TakeOrder(const rows::Message::Ordered& order);
  // Elsewhere: it is decided what becomes of a member that home awaits.
  void NoteLaunched(const std::string& ns, const std::string& group);
  // When home is to be told of progress, by real time.
  Timestamp TellDue() const { return tell_due_; }

  // Whether the group lets no member begin: it is paused, or being cancelled.
  bool Closed(const std::string& ns, const std::string& group) const;

  // Lets some members follow an order, and some begin that a closed group held back.
  void FollowSome();
  // A stopped instance is removed.
  void NoteDropped(const Instance& instance);
  // At the end of a turn: puts the rows of the groups that it has changed.
  void Write();

  // A namespace goes: the members to come never come; then, when its instances are gone, its groups.
  void CancelToCome(const std::string& ns);
  void Forget(const std::string& ns);

  // Before a rule runs on an instance with a provenance: tells it whether its group is closed.
  void AdviseMember(const Instance& instance, Scene* scene) const;

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  void BeginPass() override;
  // Makes a member that is to come, or says that a group has finished.
  bool Work() override;

 private:
  using Action = rows::GroupOrder::Action;
  // Whose turn it is among those that a closed group holds back: the higher priority, then the
  // earlier start. Such an entry may be out of date: its instance says whether it still waits.
  using Held = std::tuple<int64_t, uint64_t, std::string>;  // -priority, first record, id

  struct Group {
    std::string ns;
    std::string name;
    rows::GroupRow row;  // its counts are those of all members in this partition
    uint64_t to_come = 0;
    std::set<Held> held;
    rows::Message::Tally tally;  // elsewhere: what home is to hear besides the counts
    bool untold = false;         // in untold_
    Timestamp told;              // when it heard last
    uint64_t ordered_turn = 0;  // the turn in which the order was given
    bool dirty = false;         // its row is to be written with this turn
    bool stirred = false;       // in stirred_: Work is to look at it
    bool following = false;     // in following_
    bool ended = false;         // a member stopped, or the last to come came, since Work looked
    bool gone = false;          // its last member was removed: it goes at the end of the turn

    bool Closed() const { return row.paused || row.order.Cancels(); }
    uint64_t ToCome() const { return to_come + row.awaited; }
  };

  Group* Find(const std::string& ns, const std::string& name);
  Group& Make(const std::string& ns, const std::string& name);
  GroupView ViewOf(const Group& group) const;
  void MarkDirty(Group& group);
  void Stir(Group& group);
  void Count(Group& group, const MemberShare& was, const MemberShare& is, const Instance& instance);
  void NoteStopped(Group& group, const Instance& instance);
  void CountFailure(Group& group, const Instance& instance);
  void AddFailures(Group& group, uint64_t more, const std::string& last);
  void CountRecovered(Group& group, uint64_t members);
  void StopOnFail(Group& group, const std::string& last);
  std::optional<uint32_t> MaxOf(const Group& group) const;
  void SetOrder(Group& group, Action action);
  void Order(Group& group, Action action, bool members);
  void SetToCome(Group& group, uint64_t count);
  bool HasRoom(const Group& group) const;
  void Finish(Group& group);
  // Those that have finished without a member are kept as long as a member would be.
  void KeepEmpty(const Group& group);
  void DropEmpty();
  // Its last member was removed: it goes at the end of the turn.
  void Leave(Group& group);

  // groups_apart.cc.
  bool Apart() const;  // in another partition than home
  // Of all members that are known here.
  GroupCounts AllOf(const Group& group) const;
  bool Empty(const Group& group) const {
    return AllOf(group).Total() == 0 && group.ToCome() == 0;
  }
  void TellOthers(const Group& group, Action action, bool members);
  void TellLater(Group& group);
  void TellAll();
  bool Tell(Group& group, bool progress);

  // group_orders.cc: members follow in portions. True: all have.
  void FollowLater(Group& group);
  bool Follow(Group& group);
  bool Sweep(Group& group);
  bool CancelHeld(Group& group);
  bool Release(Group& group);
  void Obey(Action action, Resident& resident);
  // Takes the next that is held back out of `held`; null: it does not wait any more.
  Resident* NextHeld(Group& group);
  static Held HeldOf(const Instance& instance);

  OpenTurn& turn_;
  Residents& residents_;
  Changer& changer_;
  Limits& limits_;
  Resumer& resumer_;
  Messages& messages_;
  const EngineOptions& options_;
  MemberSource* source_ = nullptr;
  std::map<std::pair<std::string, std::string>, Group> groups_;  // by ns, name
  std::vector<Group*> dirty_;
  std::vector<Group*> stirred_;
  std::vector<Group*> following_;  // that have an order, or members to let begin, in turn
  std::vector<Group*> sourced_;    // that have members to come
  std::set<std::tuple<Timestamp, std::string, std::string>> empty_;  // end, ns, name
  size_t made_ = 0;                // members, in this pass
  std::vector<Group*> untold_;     // elsewhere: whose members have changed since home heard
  std::map<std::pair<std::string, std::string>, uint64_t> launched_;  // in this turn, by ns, name
  Timestamp tell_due_ = kNever;
};

}  // namespace dfsmr
