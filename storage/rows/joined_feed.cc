#include "storage/rows/joined_feed.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "storage/place.h"
#include "storage/rows/encoding.h"
#include "storage/rows/feed.h"
#include "storage/rows/keys.h"
#include "storage/rows/past.h"

namespace dfsmr::rows {
namespace {

constexpr size_t kPagesAhead = 64 << 20;  // bytes, in all partitions together
constexpr char kTimeTag = record::Event::kTimeFieldNumber << 3;

// A record's time, which is the first of its fields; nullopt: it has none.
std::optional<int64_t> TimeOf(std::string_view record) {
  if (record.empty() || record.front() != kTimeTag) return std::nullopt;
  record.remove_prefix(1);
  const auto time = TakeVarint(&record, 64);
  return time ? std::optional(static_cast<int64_t>(*time)) : std::nullopt;
}

uint64_t SeqIn(std::string_view key) { return KeyReader(key).Number(); }

std::string EndOfFeed(PartitionId partition) { return PrefixEnd(Key(partition, kFeed).bytes()); }

}  // namespace

// The pages of portions that are asked for in the order of their partitions' feeds.
class JoinedFeed::Pages {
 public:
  Pages(const View& source, uint16_t partitions)
      : source_(source), ahead_(std::max<size_t>(kPagesAhead / partitions, 64 << 10)) {}

  Result<std::string_view> Get(const Portion& portion) {
    auto [pull, added] = pulls_.try_emplace(
        portion.partition, source_, FeedKey(portion.partition, portion.page),
        EndOfFeed(portion.partition), ahead_);
    // A page that a cut goes through is asked for again, and past ones may be left out.
    while (added || SeqIn(pull->second.key()) < portion.page) {
      added = false;
      auto more = pull->second.Next();
      if (!more) return more.error();
      if (!*more) return Missing(portion);
    }
    if (SeqIn(pull->second.key()) != portion.page) return Missing(portion);
    return pull->second.value();
  }

 private:
  static Error Missing(const Portion& portion) {
    return {Code::kDataLoss, Reason::kStoreFailed,
            "the store has lost the page of the feed that begins with record " +
                std::to_string(portion.page)};
  }

  const View& source_;
  const size_t ahead_;
  std::map<PartitionId, Pull> pulls_;
};

// Where they are ----------------------------------------------------------------------------------

Result<Ok> JoinedFeed::Open() {
  moved_.resize(partitions_);
  uint64_t below = 0;
  for (PartitionId id = 0; id < partitions_; ++id) {
    const Reader reader{source_, id};
    auto first = FirstSeq(reader);
    auto last = first ? LastSeq(reader) : first;
    if (!last) return last.error();
    starts_.push_back(*first);
    lasts_.push_back(*last);
    base_.push_back(below);
    kept_.push_back(0);
    auto read = ReadKept(id);
    if (read) read = ReadPast(id);
    if (!read) return read;
    below += kept_.back();
  }
  start_ = below + 1;
  return Ok{};
}

Result<Ok> JoinedFeed::ReadKept(PartitionId partition) {
  const std::string begin = Key(partition, kKept);
  return source_.Scan(
      begin, PrefixEnd(begin),
      [&](std::string_view key, std::string_view) {
        kept_[partition] = SeqIn(key);
        return false;
      },
      /*reverse=*/true);
}

Result<Ok> JoinedFeed::ReadPast(PartitionId partition) {
  auto begin = PastStart({source_, partition});
  if (!begin) return begin.error();
  if (*begin >= starts_[partition]) return Ok{};
  // Home's own are nobody's copies.
  const uint64_t until = partition == kHome ? UINT64_MAX : starts_[kHome];
  Moved& moved = moved_[partition];
  Result<Ok> outcome = Ok{};
  auto read = source_.ScanOnce(
      FeedKey(partition, *begin), FeedKey(partition, starts_[partition]),
      [&](std::string_view key, std::string_view value) {
        Portion portion{.page = SeqIn(key), .partition = partition};
        portion.first = portion.page;
        portion.number = base_[partition] + portion.page;
        uint64_t last = 0;
        outcome = VisitEncoded({portion.page, 0, std::string(value)},
                               [&](uint64_t seq, std::string_view) {
                                 last = seq;
                                 portion.count += seq < until ? 1 : 0;
                                 return true;
                               });
        portion.whole = last < until;
        moved.first = std::min(moved.first, portion.page);
        moved.last = std::max(moved.last, last);
        if (portion.count == 0) return outcome.has_value();
        past_.push_back(portion);
        kept_[partition] = std::max(kept_[partition], portion.first + portion.count - 1);
        return outcome.has_value();
      });
  return read ? outcome : read;
}

JoinedFeed::Cut JoinedFeed::Within(Cut cut) const {
  for (PartitionId id = 0; id < partitions_; ++id) {
    cut[id] = std::clamp(cut[id], starts_[id] - 1, lasts_[id]);
  }
  return cut;
}

bool JoinedFeed::Includes(const Cut& first, const Cut& second) {
  return std::ranges::equal(first, second, std::less_equal());
}

std::optional<JoinedFeed::Cut> JoinedFeed::MovedFromHome() const {
  uint64_t last = 0;
  for (PartitionId id = 1; id < partitions_; ++id) last = std::max(last, moved_[id].last);
  if (last < starts_[kHome]) return std::nullopt;
  Cut cut(partitions_, 0);
  cut[kHome] = last;
  return Within(std::move(cut));
}

// Reading them ------------------------------------------------------------------------------------

Result<Ok> JoinedFeed::Read(std::vector<Cut> cuts) {
  std::ranges::sort(cuts);
  std::vector<std::vector<Timed>> feeds;
  for (PartitionId id = 0; id < partitions_; ++id) {
    auto feed = ReadPages(id, cuts);
    if (!feed) return feed.error();
    feeds.push_back(*std::move(feed));
  }
  Merge(std::move(feeds), cuts);
  return Ok{};
}

Result<std::vector<JoinedFeed::Timed>> JoinedFeed::ReadPages(PartitionId partition,
                                                             const std::vector<Cut>& cuts) const {
  std::vector<Timed> feed;
  Result<Ok> outcome = Ok{};
  size_t cut = 0;  // the first that does not lie before the record
  auto read = source_.ScanOnce(
      FeedKey(partition, starts_[partition]), EndOfFeed(partition),
      [&](std::string_view key, std::string_view value) {
        Timed timed;
        const uint64_t page = SeqIn(key);
        const int64_t before = feed.empty() ? 0 : feed.back().time;
        const auto begin = [&](uint64_t seq) {
          timed = {.portion = {.page = page, .first = seq, .partition = partition},
                   .time = before};
          while (cut < cuts.size() && cuts[cut][partition] < seq) ++cut;
        };
        begin(page);
        outcome = VisitEncoded(
            {page, 0, std::string(value)}, [&](uint64_t seq, std::string_view record) {
              if (/*mutant joined-cut-through-a-page*/ cut < cuts.size() &&
                  cuts[cut][partition] < seq /*end*/) {
                if (timed.portion.count > 0) feed.push_back(timed);
                begin(seq);
              }
              if (timed.portion.count++ == 0) {
                timed.time = std::max(before, TimeOf(record).value_or(before));
              }
              return true;
            });
        timed.portion.whole = timed.portion.first == page;
        if (timed.portion.count > 0) feed.push_back(timed);
        return outcome.has_value();
      });
  if (!read || !outcome) return read ? outcome.error() : read.error();
  return feed;
}

void JoinedFeed::Merge(std::vector<std::vector<Timed>> feeds, const std::vector<Cut>& cuts) {
  struct Head {
    size_t cuts;  // that lie before it
    int64_t time;
    PartitionId partition;
    auto operator<=>(const Head&) const = default;
  };
  std::vector<size_t> next(partitions_, 0);
  std::vector<size_t> passed(partitions_, 0);
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  const auto push = [&](PartitionId id) {
    if (next[id] == feeds[id].size()) return;
    const Timed& timed = feeds[id][next[id]];
    while (passed[id] < cuts.size() && cuts[passed[id]][id] < timed.portion.first) ++passed[id];
    heads.push({/*mutant joined-cut-forgotten*/ passed[id] /*end*/, timed.time, id});
  };
  size_t count = 0;
  for (const auto& feed : feeds) count += feed.size();
  portions_.reserve(count);
  in_order_.resize(partitions_);
  for (PartitionId id = 0; id < partitions_; ++id) push(id);
  uint64_t number = start_;
  while (!heads.empty()) {
    const PartitionId id = heads.top().partition;
    heads.pop();
    Portion& portion = portions_.emplace_back(feeds[id][next[id]++].portion);
    in_order_[id].push_back(static_cast<uint32_t>(portions_.size() - 1));
    portion.number = number;
    number += portion.count;
    push(id);
  }
}

// Numbers -----------------------------------------------------------------------------------------

uint64_t JoinedFeed::NumberOf(PartitionId partition, uint64_t seq) const {
  if (seq == 0) return 0;
  const Moved& moved = moved_[partition];
  const bool copied = partition != kHome && seq >= std::max(moved.first, starts_[kHome]) &&
                      seq <= moved.last;
  if (/*mutant joined-past-twice*/ copied /*end*/) return NumberOf(kHome, seq);
  // There may be no such record any more.
  if (seq < starts_[partition]) return base_[partition] + std::min(seq, kept_[partition]);
  const std::vector<uint32_t>& order = in_order_[partition];
  const auto behind = std::ranges::upper_bound(
      order, seq, {}, [this](uint32_t index) { return portions_[index].first; });
  if (behind == order.begin()) return start_ - 1;
  const Portion& portion = portions_[*std::prev(behind)];
  return portion.number + (seq - portion.first);
}

uint64_t JoinedFeed::NumberOf(const Cut& cut) const {
  uint64_t number = start_ - 1;
  for (PartitionId id = 0; id < partitions_; ++id) number += cut[id] - (starts_[id] - 1);
  return number;
}

// Rows --------------------------------------------------------------------------------------------

Result<Ok> JoinedFeed::Scan(std::string_view begin, std::string_view end, const View::Visit& visit,
                            bool reverse) const {
  Result<Ok> outcome = Ok{};
  const auto walk = [&](const std::vector<Portion>& portions) {
    const auto at = [&](std::string_view key) {
      return std::ranges::partition_point(portions, [key](const Portion& one) {
        return FeedKey(kHome, one.number) < key;
      });
    };
    const auto first = at(begin);
    const auto last = end.empty() ? portions.end() : at(end);
    if (first >= last) return true;
    bool more = true;
    if (reverse) {
      for (auto one = last; more && one != first;) {
        Pages page(source_, partitions_);
        more = Visit(*--one, page, visit, &outcome);
      }
    } else {
      Pages pages(source_, partitions_);
      for (auto one = first; more && one != last; ++one) {
        more = Visit(*one, pages, visit, &outcome);
      }
    }
    return more;
  };
  if (walk(reverse ? portions_ : past_)) walk(reverse ? past_ : portions_);
  return outcome;
}

bool JoinedFeed::Visit(const Portion& portion, Pages& pages, const View::Visit& visit,
                       Result<Ok>* outcome) const {
  auto page = pages.Get(portion);
  if (!page) *outcome = page.error();
  if (!page) return false;
  const std::string key = FeedKey(kHome, portion.number);
  if (portion.whole) return visit(key, *page);
  std::string bytes(1, '\0');
  const uint64_t end = portion.first + portion.count;
  *outcome = VisitEncoded({portion.page, 0, std::string(*page)},
                          [&](uint64_t seq, std::string_view record) {
                            if (seq < portion.first) return true;
                            if (seq >= end) return false;
                            AppendVarint(record.size(), &bytes);
                            bytes += record;
                            return true;
                          });
  return outcome->has_value() && visit(key, bytes);
}

}  // namespace dfsmr::rows
