#include "storage/rows/joined_shares.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "storage/place.h"
#include "storage/rows/bulk.h"
#include "storage/rows/encoding.h"
#include "storage/rows/group.h"
#include "storage/rows/records.h"

namespace dfsmr::rows {
namespace {

// Of a batch that puts one row.
std::string ValueIn(const Batch& batch) { return batch.operations().front().value; }

Result<std::string> AddStats(std::string_view key, const std::vector<RowOf>& rows) {
  StatsRow sum;
  std::map<std::string, Latency> latencies;
  for (const RowOf& row : rows) {
    auto share = DecodeStats(key, row.value);
    if (!share) return share.error();
    sum.ns = share->ns;
    sum.machine = share->machine;
    for (const auto& [version, counts] : share->versions) {
      VersionCounts& to = sum.versions[version];
      /*mutant joined-counters-of-home*/ Add(counts.stopped, &to.stopped); /*end*/
      for (const auto& [node, count] : counts.nodes) {
        to.nodes[node].completed += count.completed;
        to.nodes[node].timed_out += count.timed_out;
      }
    }
    for (const auto& [node, snapshot] : share->latencies) {
      Latency latency = Latency::Restore(snapshot);
      const auto [known, added] = latencies.try_emplace(node, latency);
      if (!added) known->second.Merge(latency);
    }
  }
  for (const auto& [node, latency] : latencies) sum.latencies[node] = latency.Save();
  Batch batch;
  PutStats({batch, kHome}, sum);
  return ValueIn(batch);
}

Result<std::string> AddDropped(std::string_view key, const std::vector<RowOf>& rows) {
  DroppedCounts sum;
  for (const RowOf& row : rows) {
    auto share = DroppedIn(key, row.value);
    if (!share) return share.error();
    for (const auto& [version, counts] : *share) Add(counts, &sum[version]);
  }
  Batch batch;
  PutDropped({batch, kHome}, "", "", sum);
  return ValueIn(batch);
}

// Each counts its own members that have stopped. An order that some have followed to the end and
// others have not is given once more, from the first member on that may not have followed it.
Result<std::string> AddGroup(std::string_view key, const std::vector<RowOf>& rows) {
  std::optional<GroupRow> sum;
  for (const RowOf& row : rows) {
    auto share = DecodeGroup(key, row.value);
    if (!share) return share.error();
    if (!sum) {
      sum = *std::move(share);
      continue;
    }
    /*mutant joined-group-of-home*/ Add(share->counts, 1, &sum->counts); /*end*/
    sum->end_time = std::max(sum->end_time, share->end_time);
    if (share->order.action == GroupOrder::Action::kNone) continue;
    if (sum->order.action == GroupOrder::Action::kNone) sum->order = share->order;
    sum->order.swept = std::min(sum->order.swept, share->order.swept);
  }
  sum->apart = {};
  sum->awaited = 0;
  Batch batch;
  PutGroup({batch, kHome}, {"", ""}, *sum);
  return ValueIn(batch);
}

Result<std::string> AddAgent(std::string_view key, const std::vector<RowOf>& rows) {
  auto sum = ParseRow<record::Agent>(key, rows.front().value, "agent");
  if (!sum) return sum.error();
  for (size_t i = 1; i < rows.size(); ++i) {
    auto share = ParseRow<record::Agent>(key, rows[i].value, "agent");
    if (!share) return share.error();
    sum->set_done(sum->done() + share->done());
    sum->set_failed(sum->failed() + share->failed());
    sum->set_abandoned(sum->abandoned() + share->abandoned());
  }
  return Serialized(*sum);
}

// While one runs, all do; of those that are over STOPPED and LIMITED say more than DONE.
uint32_t LaterOf(uint32_t a, uint32_t b) {
  constexpr auto kRuns = static_cast<uint32_t>(BulkState::kRunning);
  return a == kRuns || b == kRuns ? kRuns : std::max(a, b);
}

Result<std::string> AddBulk(std::string_view key, const std::vector<RowOf>& rows) {
  auto sum = ParseRow<record::Bulk>(key, rows.front().value, "bulk");
  if (!sum) return sum.error();
  for (size_t i = 1; i < rows.size(); ++i) {
    auto share = ParseRow<record::Bulk>(key, rows[i].value, "bulk");
    if (!share) return share.error();
    sum->mutable_instances()->MergeFrom(share->instances());
    sum->mutable_sample()->MergeFrom(share->sample());
    sum->set_state(LaterOf(sum->state(), share->state()));
    sum->set_end_time(std::max(sum->end_time(), share->end_time()));
    sum->set_at_most(sum->at_most() + share->at_most());
    sum->set_looked_at(sum->looked_at() + share->looked_at());
    sum->set_matched(sum->matched() + share->matched());
    sum->set_changed(sum->changed() + share->changed());
    sum->set_unchanged(sum->unchanged() + share->unchanged());
    sum->set_refused(sum->refused() + share->refused());
    for (const auto& [reason, count] : share->reasons()) (*sum->mutable_reasons())[reason] += count;
  }
  std::ranges::sort(*sum->mutable_instances());
  return Serialized(*sum);
}

// They show the same; the last change of all counts.
Result<std::string> AddClock(std::string_view key, const std::vector<RowOf>& rows) {
  record::Clock latest;
  for (const RowOf& row : rows) {
    auto clock = ParseRow<record::Clock>(key, row.value, "clock");
    if (!clock) return clock.error();
    latest.set_time(std::max(latest.time(), clock->time()));
    latest.set_last_change(std::max(latest.last_change(), clock->last_change()));
  }
  return Serialized(latest);
}

}  // namespace

Result<std::string> AddUp(Kind kind, std::string_view key, const std::vector<RowOf>& rows) {
  if (rows.size() == 1 && rows.front().partition == kHome && kind != kGroupHead) {
    return rows.front().value;
  }
  switch (kind) {
    case kStats:
      return AddStats(key, rows);
    case kDropped:
      return AddDropped(key, rows);
    case kGroupHead:
      return AddGroup(key, rows);
    case kAgent:
      return AddAgent(key, rows);
    case kBulk:
      return AddBulk(key, rows);
    case kClock:
      return AddClock(key, rows);
    default:
      return rows.front().value;  // the same in all of them
  }
}

}  // namespace dfsmr::rows
