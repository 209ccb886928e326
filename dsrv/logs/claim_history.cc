#include "dsrv/logs/claim_history.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "dsrv/engine/registry.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kRecords = 20'000;  // of a history, that are looked at

// Goes through the records of an instance, the latest first, until the one that tells of the
// hand-out.
class Search {
 public:
  Search(const ClaimRef& claim, Traces::Trace trace, Timestamp since)
      : claim_(claim), trace_(std::move(trace)), since_(since) {}

  // False: what follows is of no interest.
  bool Look(const Event& event) {
    if (!latest_) latest_ = event.time;
    if (!ended_ && event.time < since_) return false;
    if (Closes(event)) ended_ = event.time;
    if (event.kind == ChangeKind::kRelinquished && event.visit == claim_.visit) {
      given_back_[event.attempt] = event.time;
    }
    if (event.kind != ChangeKind::kClaimed || event.visit != claim_.visit) return true;
    if (trace_.attempt == 0 ? others_.contains(event.attempt) : event.attempt != trace_.attempt) {
      return true;
    }
    found_ = true;
    trace_.attempt = event.attempt;
    trace_.node = event.node;
    if (trace_.worker.empty()) trace_.worker = event.client;
    return false;
  }

  std::optional<ClaimEnd> End() {
    if (!found_) return std::nullopt;
    Timestamp time = ended_.value_or(*latest_);
    if (auto given = given_back_.find(trace_.attempt); given != given_back_.end()) {
      time = std::min(time, given->second);
    }
    if (time < since_) return std::nullopt;
    return ClaimEnd{std::move(trace_), time};
  }

 private:
  // Whether the record ends the claim's visit, or all visits.
  bool Closes(const Event& event) {
    if (event.answer && event.answer->claim == claim_.id) {
      trace_.attempt = event.attempt;
      return true;
    }
    if (event.left_visit == claim_.visit) {
      // Another attempt's report, or a call from outside, which has no attempt.
      if (event.answer && event.attempt != 0) others_.insert(event.attempt);
      return true;
    }
    return event.kind == ChangeKind::kFinished || event.kind == ChangeKind::kUpgraded;
  }

  const ClaimRef& claim_;
  Traces::Trace trace_;
  const Timestamp since_;
  std::optional<Timestamp> latest_;
  std::optional<Timestamp> ended_;
  std::map<uint32_t, Timestamp> given_back_;  // by attempt
  std::set<uint32_t> others_;                 // attempts of other claims of the visit
  bool found_ = false;
};

}  // namespace

std::optional<ClaimEnd> FindClaimEnd(const Reader& reader, const std::string& ns,
                                     const std::string& id, const ClaimRef& claim,
                                     const Traces::Trace& trace, Timestamp since) {
  const std::unique_ptr<const View> view = reader.store.Snapshot();
  const rows::Reader rows{*view, reader.partition};
  auto instance = rows::GetInstance(rows, {ns, id}, reader.registry.resolve());
  if (!instance) return std::nullopt;
  rows::FeedReader feed(rows);
  Search search(claim, trace, since);
  size_t looked = 0;
  auto read = rows::HistoryBackwards(rows, *instance, [&](uint64_t seq) {
    auto event = feed.Get(seq);
    return event && search.Look(*event) && ++looked < kRecords;
  });
  return read ? search.End() : std::nullopt;
}

}  // namespace dfsmr
