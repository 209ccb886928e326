// What members add up to.
#include "fsm/rules/group.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace dfsmr {
namespace {

using Kind = MemberShare::Kind;

Instance Member(InstanceState state, InstanceResult result = InstanceResult::kPending) {
  Instance instance;
  instance.provenance = Provenance{.group = "g"};
  instance.state = state;
  instance.result = result;
  return instance;
}

GroupCounts Of(std::initializer_list<MemberShare> shares) {
  GroupCounts counts;
  for (const MemberShare& share : shares) counts.Add(share);
  return counts;
}

const MemberShare kWaits{.kind = Kind::kScheduled};
const MemberShare kRuns{.kind = Kind::kRunning};
const MemberShare kRests{.kind = Kind::kPaused};
const MemberShare kDone{.kind = Kind::kSuccess, .progress = 1'000'000'000};
const MemberShare kWarned{.kind = Kind::kWarning};
const MemberShare kFails{.kind = Kind::kError, .failed = true};
const MemberShare kCancel{.kind = Kind::kCancelled};
const MemberShare kAbort{.kind = Kind::kAborted, .failed = true};

TEST_CASE("what an instance counts follows from its state and result") {
  using enum InstanceState;
  CHECK(ShareOf(Member(kScheduled)).kind == Kind::kScheduled);
  CHECK(ShareOf(Member(kPlanning)).kind == Kind::kRunning);
  CHECK(ShareOf(Member(InstanceState::kRunning)).kind == Kind::kRunning);
  CHECK(ShareOf(Member(kPaused)).kind == Kind::kPaused);
  CHECK(ShareOf(Member(kStopped, InstanceResult::kWarning)).kind == Kind::kWarning);
  CHECK(ShareOf(Member(kStopped, InstanceResult::kError)).failed);
  CHECK(ShareOf(Member(kStopped, InstanceResult::kAborted)).failed);
  CHECK_FALSE(ShareOf(Member(kStopped, InstanceResult::kCancelled)).failed);
  CHECK(ShareOf(Member(kNone)) == MemberShare());
  Instance stuck = Member(kPaused);
  CHECK_FALSE(ShareOf(stuck).failed);
  stuck.waits.Add(Wait::kStuck);
  CHECK(ShareOf(stuck).failed);
  Instance stranger = Member(InstanceState::kRunning);
  stranger.provenance->group.clear();
  CHECK(ShareOf(stranger) == MemberShare());
}

TEST_CASE("the state of a group") {
  using enum InstanceState;
  CHECK(Of({}).State(0) == kNone);
  CHECK(Of({}).State(1) == InstanceState::kRunning);
  CHECK(Of({kWaits, kWaits}).State(0) == kScheduled);
  CHECK(Of({kWaits}).State(1) == InstanceState::kRunning);
  CHECK(Of({kWaits, kDone}).State(0) == InstanceState::kRunning);
  CHECK(Of({kRests, kDone}).State(0) == kPaused);
  CHECK(Of({kRests, kDone}).State(1) == InstanceState::kRunning);
  CHECK(Of({kRests, kWaits}).State(0) == InstanceState::kRunning);
  CHECK(Of({kRests, kRuns}).State(0) == InstanceState::kRunning);
  CHECK(Of({kDone, kFails}).State(0) == kStopped);
  CHECK(Of({kDone}).State(1) == InstanceState::kRunning);
}

TEST_CASE("the result of a group is the worst that a member has, once all have stopped") {
  using enum InstanceResult;
  CHECK(Of({}).Result(0) == kPending);
  CHECK(Of({kFails, kRuns}).Result(0) == kPending);
  CHECK(Of({kFails}).Result(1) == kPending);
  CHECK(Of({kDone, kDone}).Result(0) == kSuccess);
  CHECK(Of({kDone, kWarned}).Result(0) == kWarning);
  CHECK(Of({kDone, kWarned, kCancel}).Result(0) == InstanceResult::kCancelled);
  CHECK(Of({kFails, kCancel}).Result(0) == kError);
  CHECK(Of({kAbort, kCancel}).Result(0) == kError);
}

TEST_CASE("the progress of a group is the mean over all, and those to come have none") {
  CHECK(Of({}).Progress(0) == 0);
  CHECK(Of({kDone, kRuns}).Progress(0) == doctest::Approx(0.5));
  CHECK(Of({kDone, kRuns}).Progress(2) == doctest::Approx(0.25));
}

TEST_CASE("taking away what was added leaves nothing, in any order") {
  std::mt19937 random(7);
  std::vector<MemberShare> shares;
  GroupCounts counts;
  for (int i = 0; i < 1'000; ++i) {
    MemberShare share;
    share.kind = static_cast<Kind>(1 + random() % 8);
    share.failed = share.kind == Kind::kError || share.kind == Kind::kAborted ||
                   (share.kind == Kind::kPaused && random() % 2 == 0);
    share.progress = static_cast<int64_t>(random() % 1'000'000'001);
    shares.push_back(share);
    counts.Add(share);
  }
  CHECK(counts.Total() == 1'000);
  std::shuffle(shares.begin(), shares.end(), random);
  for (const MemberShare& share : shares) counts.Remove(share);
  CHECK(counts == GroupCounts());
}

}  // namespace
}  // namespace dfsmr
