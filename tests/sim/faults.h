// What can go wrong in a run, or is asked for by those whom a server must stand. Each run leaves a
// random half of them out: what is rare among all faults is common where few are left.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dfsmr {

enum class Fault : uint8_t {
  kCrash,
  kCrashWritten,
  kTornWrite,
  kUnknownWrite,
  kSlowWrite,
  kJoined,
  kFailedRead,
  kFailedStart,
  kTakeOver,
  kRestart,
  kClockForward,
  kClockBack,
  kClockBackRestart,
  kDeadWorker,
  kStalledWorker,
  kRepeated,
  kReordered,
  kStaleClaim,
  kWrongInstance,
  kWrongTransition,
  kWrongNode,
  kUndelivered,
  kStreamClosed,
  kRetriedStart,
  kConflictingStart,
  kPause,
  kResume,
  kForce,
  kCancel,
  kKill,
  kSkip,
  kOperator,
  kContinue,
  kUpgrade,
  kAbort,
  kPlanner,
  kChildren,
  kWatcher,
  kPages,
  kRetention,
  kEviction,
  kRebuilt,
  kCount
};

inline constexpr std::array<std::string_view, static_cast<size_t>(Fault::kCount)> kFaultNames = {
    "crash: what was being written is lost",
    "crash: written, but not answered",
    "a write fails: torn, nothing of it is kept",
    "a write fails: all of it is kept",
    "a slow write: the next turn is decided meanwhile",
    "a slow write: what comes before it ends joins the next turn",
    "a read of the store fails",
    "the store fails during a start",
    "another engine takes over: writes of the former are refused",
    "an orderly restart",
    "the clock jumps ahead",
    "the clock jumps back",
    "the clock is behind after a restart",
    "a worker dies with its task",
    "a worker stalls past its deadline",
    "a report is repeated",
    "reports come out of order",
    "a report under a claim that is over",
    "a claim is shown at another instance",
    "an unknown transition is reported",
    "a call from outside names a wrong node",
    "tasks do not reach their worker",
    "a stream closes with work in hand",
    "a start is retried",
    "a start conflicts with another",
    "pause",
    "resume",
    "resume with force, or relinquished from outside",
    "cancel",
    "force and kill",
    "a held step is skipped",
    "an operator moves an instance",
    "a definition changes: continue",
    "a definition changes: upgrade",
    "a definition changes: abort",
    "a worker plans the steps",
    "a worker's report starts children",
    "a watcher reconnects with its cursor",
    "lists are read page by page",
    "retention drops instances and the feed",
    "few instances are kept in memory",
    "memory is rebuilt and compared",
};

using FaultCounts = std::array<uint64_t, static_cast<size_t>(Fault::kCount)>;

}  // namespace dfsmr
