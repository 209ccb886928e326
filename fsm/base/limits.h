// Every limit on what comes from outside, in one place.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "fsm/base/time.h"

namespace dfsmr::limits {

inline constexpr size_t kName = 128;            // machines, nodes, transitions, queues, labels, …
inline constexpr size_t kInstanceId = 256;
inline constexpr size_t kWorkerName = 256;  // characters
inline constexpr size_t kLabels = 64;
inline constexpr size_t kLabelValue = 256;  // characters
inline constexpr size_t kJson = 1 << 20;        // one JSON object
inline constexpr size_t kJsonDepth = 200;
inline constexpr size_t kErrorText = 64 << 10;
inline constexpr size_t kMessage = 4 << 20;     // one gRPC message
inline constexpr size_t kBatchItems = 1'000;    // items of a StartBatch, Report or Extend
inline constexpr size_t kSource = 1 << 20;      // one Define
inline constexpr size_t kNodes = 10'000;        // of a machine
inline constexpr size_t kFlowParts = 100'000;   // steps and blocks, as written
inline constexpr size_t kSteps = 100'000;       // of a plan
inline constexpr size_t kSectionSteps = 10'000;  // of a section, and of its compensation
inline constexpr size_t kStepPath = 256;        // a step's name with those of the plans around it
inline constexpr size_t kFlowDepth = 1'000;     // blocks and plans within each other
inline constexpr size_t kExtends = 100;         // actions that extend one another
inline constexpr size_t kYamlDepth = 64;
inline constexpr size_t kTokensShown = 10'000;  // of an instance, so that it fits a message
inline constexpr size_t kTokensBrief = 3;       // the same, in a brief list
inline constexpr size_t kStepParams = 128 << 10;  // an instance's params beyond this are not sent
                                                // with the tasks of its steps, which have inputs
inline constexpr int32_t kTasks = 1'000;        // of one Ready; larger is clamped
inline constexpr int32_t kCapacity = 10'000;    // of a Work stream; larger is clamped
inline constexpr int32_t kPageDefault = 100;
inline constexpr int32_t kPage = 1'000;
inline constexpr Duration kWait = std::chrono::minutes(5);    // of a long poll; longer is clamped
inline constexpr Duration kExtend = std::chrono::hours(24 * 365);
inline constexpr Duration kBeginWithin = std::chrono::minutes(10);
inline constexpr Duration kKeepFor = std::chrono::minutes(5);
inline constexpr size_t kCheckpoint = 64 << 10;  // one JSON object
inline constexpr size_t kSessionName = 64;
inline constexpr size_t kNote = 256;            // characters, of an Extend
inline constexpr size_t kChangeReason = 1'000;  // characters, of a pause, a cancel, …
inline constexpr size_t kReason = 4 << 10;      // of a Relinquish
inline constexpr size_t kEvents = 1'000;        // that wait for one step to suspend
inline constexpr size_t kEventBytes = 4 << 20;  // of them
inline constexpr size_t kClaimsPerVisit = 100;  // remembered; the oldest timed-out ones go first
inline constexpr size_t kWaiters = 50'000;      // parked polls and streams
inline constexpr size_t kAgents = 10'000;
inline constexpr size_t kCachedPackages = 1'000;  // that an agent names
inline constexpr size_t kStops = 1'000;           // stop reports of one message
inline constexpr size_t kWatchers = 10'000;     // Changes streams
inline constexpr size_t kStreamsPerConnection = 10'000;  // calls under way; more wait at the client
inline constexpr size_t kMailboxItems = 100'000;
inline constexpr size_t kMailboxBytes = 256 << 20;
inline constexpr Duration kMailboxWait = std::chrono::seconds(1);  // of the oldest, in a crowd
inline constexpr size_t kFilters = 4'096;       // distinct filters of polls remembered
inline constexpr size_t kCapabilities = 64;     // of a worker; words of a runs_on

inline constexpr size_t kTurnItems = 2'000;     // of one turn of the engine

}  // namespace dfsmr::limits
