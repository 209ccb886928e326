#include "dsrv/wire/in_order.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "fsm/base/hex.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

// Records of the feed are numbered from 1. Where places are told, the time and a point stand in
// front.
uint64_t NumberIn(std::string_view place) {
  const size_t point = place.find('.');
  if (point != place.npos) place.remove_prefix(point + 1);
  uint64_t seq = 0;
  std::from_chars(place.data(), place.data() + place.size(), seq);
  return seq;
}

// The number of the record that says where the instance stands; 0: there is no such instance.
Result<uint64_t> PlaceOf(const Moment& moment, const InstanceQuery& query,
                         const std::string& id) {
  const rows::InstanceName name(query.ns, id);
  if (query.order == ListOrder::kStarted) {
    auto spec = rows::FindSpec(moment.rows, name);
    if (!spec) return spec.error();
    if (!*spec) return uint64_t{0};
    if ((*spec)->first_seq != 0) return (*spec)->first_seq;
  }
  auto instance = rows::GetInstance(moment.rows, name, moment.resolve);
  if (!instance) {
    const bool missing = instance.error().code == Code::kNotFound;
    return missing ? uint64_t{0} : Result<uint64_t>(instance.error());
  }
  if (query.order == ListOrder::kStarted) {  // from before the first record was noted
    auto history = rows::History(moment.rows, *instance, 0);
    if (!history) return history.error();
    return history->empty() ? uint64_t{0} : history->front();
  }
  uint64_t last = 0;
  auto read = rows::HistoryBackwards(moment.rows, *instance, [&last](uint64_t seq) {
    last = seq;
    return false;
  });
  if (!read) return read.error();
  return last;
}

class Walk {
 public:
  Walk(const Moment& moment, const InstanceQuery& query)
      : moment_(moment), query_(query), matcher_(moment, query), patience_(query.patience) {}

  Result<SearchPage> Run() {
    auto feed = rows::FirstSeq(moment_.rows);
    if (!feed) return feed.error();
    const uint64_t after = NumberIn(query_.after);
    const auto visit = [this](const Event& event) { return Visit(event); };
    Result<Ok> read = Ok{};
    if (query_.backwards) {
      const uint64_t before = after == 0 ? UINT64_MAX : after;
      read = rows::ScanFeedBackwards(moment_.rows, *feed, before, visit);
      if (read && !ended_) {
        read = rows::ScanKept(moment_.rows, 0, std::min(before, *feed), /*backwards=*/true, visit);
      }
    } else {
      read = rows::ScanKept(moment_.rows, after + 1, *feed, /*backwards=*/false, visit);
      if (read && !ended_) {
        read = rows::ScanFeed(moment_.rows, std::max(after + 1, *feed), visit);
      }
    }
    if (failed_) return *failed_;
    if (!read) return read.error();
    if (ended_) page_.last = PlaceText(reached_, page_.back_to);
    return std::move(page_);
  }

 private:
  // False: the search ends before this record, or cannot go on.
  bool Visit(const Event& event) {
    const bool full = page_.hits.size() == query_.limit;
    if (full || (reached_ != 0 && patience_.IsOver())) {
      ended_ = true;
      return false;
    }
    reached_ = event.seq;
    page_.back_to = event.time;
    ++page_.looked_at;
    if (event.ns != query_.ns || event.instance.empty()) return true;
    const auto known = places_.find(event.instance);
    if (known != places_.end()) {
      return known->second != event.seq || Consider(event);
    }
    auto place = PlaceOf(moment_, query_, event.instance);
    if (!place) failed_ = place.error();
    if (failed_) return false;
    places_.emplace(event.instance, *place);
    return *place != event.seq || Consider(event);
  }

  bool Consider(const Event& event) {
    auto instance = rows::GetInstance(moment_.rows, {query_.ns, event.instance}, moment_.resolve);
    if (!instance) {
      if (instance.error().code != Code::kNotFound) failed_ = instance.error();
      return !failed_;
    }
    auto view = matcher_.Match(*std::move(instance));
    if (!view) failed_ = view.error();
    if (failed_) return false;
    if (*view) page_.hits.push_back({**std::move(view), PlaceText(event.seq, event.time)});
    return true;
  }

  std::string PlaceText(uint64_t seq, Timestamp time) const {
    const std::string number = std::to_string(seq);
    return query_.tells_places ? ToHex(static_cast<uint64_t>(Micros(time))) + '.' + number : number;
  }

  const Moment& moment_;
  const InstanceQuery& query_;
  Matcher matcher_;
  const Patience patience_;
  SearchPage page_;
  std::unordered_map<std::string, uint64_t> places_;  // by id
  uint64_t reached_ = 0;                              // the last record that was looked at
  bool ended_ = false;                                // there is more
  std::optional<Error> failed_;
};

// Finds them by their machines, which have few, and brings those found in order. Their places have
// no times, which lists of several partitions are merged by.
Result<SearchPage> SortFew(const Moment& moment, const InstanceQuery& query) {
  InstanceQuery whole = query;
  whole.after.clear();
  whole.patience.reset();
  auto page = SearchById(moment, whole, SIZE_MAX - 1);
  if (!page) return page.error();
  std::vector<std::pair<uint64_t, SearchHit*>> places;
  const uint64_t after = NumberIn(query.after);
  for (SearchHit& hit : page->hits) {
    auto place = PlaceOf(moment, query, hit.place);
    if (!place) return place.error();
    const bool seen = after != 0 && (query.backwards ? *place >= after : *place <= after);
    if (!seen) places.emplace_back(*place, &hit);
  }
  std::ranges::sort(places);
  if (query.backwards) std::ranges::reverse(places);
  SearchPage sorted;
  sorted.looked_at = page->looked_at;
  if (places.size() > query.limit) {
    places.resize(query.limit);
    sorted.last = std::to_string(places.back().first);
  }
  for (auto& [place, hit] : places) {
    hit->place = std::to_string(place);
    sorted.hits.push_back(std::move(*hit));
  }
  return sorted;
}

}  // namespace

Result<SearchPage> SearchInOrder(const Moment& moment, const InstanceQuery& query) {
  const bool few = query.machines && !query.tells_places;
  return few ? SortFew(moment, query) : Walk(moment, query).Run();
}

}  // namespace dfsmr
