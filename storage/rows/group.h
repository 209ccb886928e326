// The rows of groups. What their live members count is not in them: it is found from the instances
// themselves at start.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/rules/group.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct GroupName {
  std::string_view ns;
  std::string_view name;
};

// An order that the members of a group follow, some at a time. Same numbers as
// ControlGroupRequest.Action.
struct GroupOrder {
  enum class Action : uint8_t { kNone, kPause, kResume, kCancel, kForce, kKill };

  Action action = Action::kNone;
  std::string swept;  // the last member, by id, that has followed it

  bool Cancels() const { return action >= Action::kCancel; }
  friend bool operator==(const GroupOrder&, const GroupOrder&) = default;
};

struct GroupRow {
  Timestamp create_time;
  Timestamp end_time;         // when a member stopped last; zero: none has
  uint32_t stop_on_fail = 0;  // pauses after so many failures; 0: never
  bool paused = false;
  std::string note;       // why it is paused
  uint64_t failures = 0;  // since it was resumed
  GroupCounts counts;     // of the members that have stopped
  std::string schedule;   // whose backfill it is
  bool own_max = false;   // its max_running was set through it, and goes with it
  GroupOrder order;
  // Of several partitions. At home: what the members count that live elsewhere, live ones, too.
  // Elsewhere: what home was told of those that live there.
  GroupCounts apart;
  uint64_t awaited = 0;  // at home: members of a backfill, of which those partitions are to tell
};

void PutGroup(const Writer& writer, GroupName name, const GroupRow& group);
void DropGroup(const Writer& writer, GroupName name);
// nullopt: there is no such group.
Result<std::optional<GroupRow>> GetGroup(const Reader& reader, GroupName name);
// What the row under a key says.
Result<GroupRow> DecodeGroup(std::string_view key, std::string_view value);
// All of all namespaces.
Result<Ok> ScanGroups(const Reader& reader, const std::function<void(GroupName, GroupRow)>& visit);

}  // namespace dfsmr::rows
