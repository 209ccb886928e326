// What the members of a group add up to: how many are in which state, and the state, result and
// progress of the group that follow from it. Adding or taking away one member costs the same for
// ten members and a million.
#pragma once

#include <array>
#include <cstdint>

#include "fsm/rules/instance.h"

namespace dfsmr {

// 0 to 1. Of a plan the weighted mean of its steps, of a machine what the worker last said.
double ProgressOf(const Instance& instance);

// What one member counts in its group.
struct MemberShare {
  enum class Kind : uint8_t {
    kNone,  // it is in no group, or was not there yet
    kScheduled,
    kRunning,
    kPaused,
    kSuccess,
    kWarning,
    kError,
    kCancelled,
    kAborted
  };
  static constexpr size_t kKinds = 9;

  Kind kind = Kind::kNone;
  bool failed = false;   // it stopped with ERROR or ABORTED, or is paused because steps failed
  int64_t progress = 0;  // in billionths, so that sums are exact

  bool Stopped() const { return kind >= Kind::kSuccess; }
  friend bool operator==(const MemberShare&, const MemberShare&) = default;
};
// kNone for an instance that is a member of no group.
MemberShare ShareOf(const Instance& instance);

struct GroupCounts {
  using Kind = MemberShare::Kind;

  std::array<uint64_t, MemberShare::kKinds> members{};  // by kind
  uint64_t stuck = 0;                                   // paused because steps failed
  int64_t progress_live = 0;                            // of those that have not stopped
  int64_t progress_stopped = 0;

  void Add(const MemberShare& share) { Count(share, +1); }
  void Remove(const MemberShare& share) { Count(share, -1); }

  uint64_t Of(Kind kind) const { return members[static_cast<size_t>(kind)]; }
  uint64_t Live() const { return Of(Kind::kScheduled) + Of(Kind::kRunning) + Of(Kind::kPaused); }
  uint64_t Stopped() const;
  uint64_t Total() const { return Live() + Stopped(); }
  uint64_t Failed() const { return Of(Kind::kError) + Of(Kind::kAborted) + stuck; }

  // Of the group, when so many members more are to come, which do not exist yet.
  InstanceState State(uint64_t to_come) const;
  InstanceResult Result(uint64_t to_come) const;
  double Progress(uint64_t to_come) const;

  friend bool operator==(const GroupCounts&, const GroupCounts&) = default;

 private:
  void Count(const MemberShare& share, int sign);
};

}  // namespace dfsmr
