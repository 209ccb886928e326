// Turns requests of dfsmr.v1 into values, and checks them against limits.h before anything is done
// with them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/engine/engine.h"
#include "dsrv/feed/changes.h"
#include "dsrv/wire/checks.h"
#include "fsm/filter/filter.h"
#include "storage/rows/plan.h"

namespace dfsmr {

Result<StartArgs> ToStart(const v1::StartRequest& request);
struct ReportCommand {
  std::string ns;
  std::string instance;
  ReportArgs args;
  std::vector<rows::ChildStart> children;
  std::vector<StartArgs> starts;
  std::string reason;  // why, for people
};
// A report with a claim is taken even when something else in it is wrong. Then its arguments hold
// the error, and the engine ends the claim with it.
Result<ReportCommand> ToReport(const v1::TransitionRequest& request);
// `peer` is the caller's address, which names a worker that gives no name.
Result<PollArgs> ToPoll(const v1::ReadyRequest& request, const std::string& peer, Timestamp now);
struct ExtendCommand {
  std::string ns;
  std::string instance;
  ClaimRef claim;
  std::optional<Duration> by;
  ExtendArgs args;
};
Result<ExtendCommand> ToExtend(const std::string& ns, const v1::ExtendRequest::Item& item);
struct RelinquishCommand {
  std::string ns;
  std::string instance;
  ClaimRef claim;
  GiveBackArgs args;  // args.client: who does it without a claim
};
Result<RelinquishCommand> ToRelinquish(const v1::RelinquishRequest& request);
Result<CancelMode> ToCancelMode(v1::CancelRequest::Mode mode);
Result<ChangeFilter> ToChangeFilter(const v1::ChangesRequest& request);

enum class ListOrder : uint8_t { kId, kChanged, kStarted };
inline constexpr Duration kSearchPatience = std::chrono::milliseconds(200);

struct InstanceQuery {
  std::string ns;
  std::string machine;
  std::string node;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kNone;
  std::map<std::string, std::string> labels;
  std::string parent;
  std::string group;
  std::string cause;
  std::string package;   // pinned to it: "etl" or "etl@1.4.0"
  bool dry_run = false;  // with dry runs
  size_t limit = 0;
  std::string after;
  InstanceFilter filter = {};
  ListOrder order = ListOrder::kId;
  bool backwards = false;  // the latest first
  bool brief = false;
  bool tells_places = false;  // of the items, see pages.h; in order of time only
  // Ascending: the instances that wait for the one that the filter's `after` names, if it names
  // one.
  std::vector<std::string> followers = {};
  // The machines that all of them are of, which have few instances; absent: it is not known.
  std::optional<std::vector<std::string>> machines = {};
  Timestamp now = {};  // what deadlines are compared with
  // How long to search for one page; a page looks at one row at least. Absent: to the end.
  std::optional<Duration> patience = {};

  bool Searches() const { return !filter.empty() || order != ListOrder::kId; }
};
// `now` is what times in the filter count from.
Result<InstanceQuery> ToQuery(const v1::ListInstancesRequest& request, Timestamp now);

}  // namespace dfsmr
