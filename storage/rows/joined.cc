#include "storage/rows/joined.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "storage/place.h"
#include "storage/rows/clock.h"
#include "storage/rows/encoding.h"
#include "storage/rows/feed.h"
#include "storage/rows/joined_shares.h"
#include "storage/rows/kinds.h"
#include "storage/rows/message.h"
#include "storage/rows/records.h"
#include "storage/rows/trigger.h"
#include "storage/rows/under_way.h"

namespace dfsmr::rows {
namespace {

constexpr size_t kRowsAhead = 32 << 20;  // bytes, in all partitions together
constexpr int kLastKind = 0x7F;

// The key as another partition has it.
std::string KeyIn(PartitionId partition, std::string_view key) {
  std::string moved(key);
  moved[0] = static_cast<char>(partition >> 8);
  moved[1] = static_cast<char>(partition);
  return moved;
}

}  // namespace

// Before anything is read -------------------------------------------------------------------------

Result<Ok> Joined::Begin() {
  auto done = CheckMessages();
  if (done) done = feed_.Open();
  return done ? FindCuts() : done;
}

// What partitions tell each other has been applied: then what each has is all that there is.
Result<Ok> Joined::CheckMessages() const {
  std::vector<std::map<PartitionId, uint64_t>> ins;
  for (PartitionId id = 0; id < partitions_; ++id) {
    auto applied = GetIns({source_, id});
    if (!applied) return applied.error();
    ins.push_back(*std::move(applied));
  }
  uint64_t waiting = 0;
  for (PartitionId id = 0; id < partitions_; ++id) {
    auto read = ScanOut({source_, id}, [&](PartitionId to, uint64_t number) {
      if (to >= partitions_) return;
      const auto applied = ins[to].find(id);
      if (applied == ins[to].end() || applied->second < number) ++waiting;
    });
    if (!read) return read;
  }
  if (/*mutant joined-messages-lost*/ waiting == 0 /*end*/) return Ok{};
  return UnderWay(std::to_string(waiting) + " messages between partitions have not arrived yet",
                  "wait until `dcli cluster --partitions` shows OUTBOX 0 for each of them, stop "
                  "its servers with SIGTERM");
}

// Up to where the feeds have been read by those that go on from there.
Result<Ok> Joined::FindCuts() {
  std::vector<JoinedFeed::Cut> cuts;
  counted_.clear();
  for (PartitionId id = 0; id < partitions_; ++id) {
    auto counted = GetStatsSeq({source_, id});
    if (!counted) return counted.error();
    counted_.push_back(*counted);
  }
  counted_ = feed_.Within(std::move(counted_));
  cuts.push_back(counted_);
  if (auto moved = feed_.MovedFromHome()) cuts.push_back(*std::move(moved));
  if (auto added = AddTriggers(&cuts); !added) return added;
  std::ranges::sort(cuts);
  for (size_t i = 1; i < cuts.size(); ++i) {
    if (JoinedFeed::Includes(cuts[i - 1], cuts[i])) continue;
    return UnderWay(
        "its triggers and its statistics have not come equally far in all partitions",
        "wait until `dcli trigger list` shows that no trigger lags behind, stop its servers with "
        "SIGTERM");
  }
  return feed_.Read(std::move(cuts));
}

// One that listens to changes has a row in other partitions as well; where there is none yet it is
// to read what comes.
Result<Ok> Joined::AddTriggers(std::vector<JoinedFeed::Cut>* cuts) {
  std::map<std::string, JoinedFeed::Cut> found;
  std::set<std::string> listening;
  for (PartitionId id = 0; id < partitions_; ++id) {
    const Reader reader{source_, id};
    auto followed = GetFollowed(reader);
    if (!followed) return followed.error();
    auto read = ScanTriggers(reader, [&](TriggerName name, const TriggerRow& row) {
      const std::string key = Key(kHome, kTrigger).Text(name.ns).Text(name.name);
      if (id == kHome ? row.deleted : !found.contains(key)) return;
      const auto cut = found.try_emplace(key, partitions_, UINT64_MAX).first;
      cut->second[id] = row.following ? std::max(row.position, *followed) : row.position;
      if (id != kHome) listening.insert(key);
    });
    if (!read) return read;
  }
  for (const std::string& key : listening) {
    triggers_.push_back({key, feed_.Within(std::move(found.at(key)))});
    cuts->push_back(triggers_.back().cut);
  }
  return Ok{};
}

// Reading -----------------------------------------------------------------------------------------

Result<std::optional<std::string>> Joined::Get(std::string_view key) const {
  std::optional<std::string> found;
  auto read = Scan(
      key, std::string(key) + '\0',
      [&found](std::string_view, std::string_view value) {
        found = value;
        return false;
      },
      false);
  return read ? Result<std::optional<std::string>>(std::move(found)) : read.error();
}

Result<Ok> Joined::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                        bool reverse) const {
  const auto scan = [&](int number) -> Result<bool> {
    const auto kind = static_cast<Kind>(number);
    const std::string first = Key(kHome, kind);
    const std::string last = PrefixEnd(first);
    Range range{std::max(first, std::string(begin)), last, reverse};
    if (!end.empty()) range.end = std::min(last, std::string(end));
    return range.begin < range.end ? ScanKind(kind, range, visit) : Result<bool>(true);
  };
  Result<bool> more = true;
  for (int i = 0; i <= kLastKind && more && *more; ++i) {
    more = scan(reverse ? kLastKind - i : i);
  }
  return more ? Result<Ok>(Ok{}) : more.error();
}

Result<bool> Joined::ScanKind(Kind kind, const Range& range, const Visit& visit) const {
  switch (kind) {
    case kFeed: {
      bool more = true;
      auto read = feed_.Scan(
          range.begin, range.end,
          [&](std::string_view key, std::string_view value) { return more = visit(key, value); },
          range.reverse);
      return read ? Result<bool>(more) : read.error();
    }
    case kKept:
      return ScanKept(range, visit);
    case kFeedStart:
    case kStatsSeq:
    case kPast:
      return ScanNumber(kind, range, visit);
    case kExpiry:
    case kLeftover:
    case kStats:
    case kDropped:
    case kSharedGraph:
    case kGroupHead:
    case kAgent:
    case kBulk:
    case kClock:
      return ScanAllOf(kind, range, visit);
    case kOut:
    case kIn:
    case kFollower:
    case kGuest:
    case kTold:
    case kEmptied:
    case kCounted:
    case kCopied:
      return true;
    default:
      return TextsBeforeInstance(kind) ? ScanAllOf(kind, range, visit)
                                       : ScanHome(kind, range, visit);
  }
}

Result<bool> Joined::ScanHome(Kind kind, const Range& range, const Visit& visit) const {
  Result<bool> more = true;
  auto read = source_.Scan(
      range.begin, range.end,
      [&](std::string_view key, std::string_view value) {
        if (kind != kTrigger && kind != kSpace) return *(more = visit(key, value));
        if (kind == kTrigger && key.size() == Key(kHome, kTrigger).bytes().size()) return true;
        auto renumbered = Renumber(kind, key, {kHome, std::string(value)});
        more = renumbered ? Result<bool>(visit(key, *renumbered)) : renumbered.error();
        return more && *more;
      },
      range.reverse);
  return read ? more : read.error();
}

Result<bool> Joined::ScanKept(const Range& range, const Visit& visit) const {
  Result<bool> more = true;
  for (PartitionId i = 0; i < partitions_ && more && *more; ++i) {
    const auto id = static_cast<PartitionId>(range.reverse ? partitions_ - 1 - i : i);
    const std::string begin = Key(id, kKept);
    auto read = source_.Scan(
        begin, PrefixEnd(begin),
        [&](std::string_view key, std::string_view value) {
          const std::string moved =
              Key(kHome, kKept).Number(feed_.KeptNumberOf(id, KeyReader(key).Number()));
          return !range.Has(moved) || *(more = visit(moved, value));
        },
        range.reverse);
    if (!read) return read.error();
  }
  return more;
}

Result<bool> Joined::ScanNumber(Kind kind, const Range& range, const Visit& visit) const {
  const std::string key = Key(kHome, kind);
  const uint64_t number = kind == kFeedStart ? feed_.start()
                          : kind == kPast    ? feed_.past_start()
                                             : /*mutant joined-counted-again*/
                                             feed_.NumberOf(counted_) /*end*/;
  const uint64_t none = kind == kFeedStart ? 1 : kind == kPast ? UINT64_MAX : 0;
  return number == none || !range.Has(key) || visit(key, NumberValue(number));
}

// The one partition that has rows of a range within one instance.
std::optional<Joined::OneInstance> Joined::InstanceOf(Kind kind, const Range& range) const {
  const auto before = TextsBeforeInstance(kind);
  if (!before) return std::nullopt;
  const auto texts = static_cast<std::ptrdiff_t>(*before) + 2;
  if (std::ranges::count(std::string_view(range.begin).substr(3), '\0') < texts) {
    return std::nullopt;
  }
  const InstanceName name = InstanceIn(range.begin, *before);
  const auto id_at = static_cast<size_t>(name.id.data() - range.begin.data());
  std::string prefix = range.begin.substr(0, id_at + name.id.size() + 1);
  if (range.end > PrefixEnd(prefix)) return std::nullopt;
  return OneInstance{PartitionOf(name.ns, name.id, partitions_), std::move(prefix)};
}

// The rows of all partitions, in the order of their keys.
Result<bool> Joined::ScanAllOf(Kind kind, const Range& range, const Visit& visit) const {
  const auto one = InstanceOf(kind, range);
  const PartitionId first = one ? one->partition : PartitionId{0};
  const auto count = one ? size_t{1} : size_t{partitions_};
  std::string begin = range.begin;
  std::string end = range.end;
  if (kind == kHistory) {  // the number in its key is another one here
    begin = one ? one->prefix : Key(kHome, kind).bytes();
    end = PrefixEnd(begin);
  }
  std::vector<Pull> pulls;
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<PartitionId>(first + i);
    pulls.emplace_back(source_, KeyIn(id, begin), KeyIn(id, end),
                       std::max<size_t>(kRowsAhead / count, 32 << 10), range.reverse);
  }
  struct Head {
    std::string key;
    size_t pull;
  };
  const auto after = [&range](const Head& a, const Head& b) {
    const int order = a.key.compare(b.key);
    if (order == 0) return a.pull > b.pull;
    return range.reverse ? order < 0 : order > 0;
  };
  std::priority_queue<Head, std::vector<Head>, decltype(after)> heads(after);
  const auto advance = [&](size_t pull) -> Result<Ok> {
    auto more = pulls[pull].Next();
    if (!more) return more.error();
    if (*more) heads.push({KeyIn(kHome, pulls[pull].key()), pull});
    return Ok{};
  };
  for (size_t i = 0; i < pulls.size(); ++i) {
    if (auto begun = advance(i); !begun) return begun.error();
  }
  while (!heads.empty()) {
    const std::string key = heads.top().key;
    std::vector<RowOf> rows;
    while (!heads.empty() && heads.top().key == key) {
      const size_t pull = heads.top().pull;
      heads.pop();
      rows.push_back({static_cast<PartitionId>(first + pull), std::string(pulls[pull].value())});
      if (auto advanced = advance(pull); !advanced) return advanced.error();
    }
    auto row = Take(kind, key, rows);
    if (!row) return row.error();
    if (range.Has(row->key) && !visit(row->key, row->value)) return false;
  }
  return true;
}

Result<Joined::Row> Joined::Take(Kind kind, const std::string& key,
                                 const std::vector<RowOf>& rows) const {
  const bool alone = TextsBeforeInstance(kind) || kind == kExpiry || kind == kLeftover;
  if (alone && rows.size() > 1) return Corrupt("row that two partitions have", key);
  auto value = alone ? Renumber(kind, key, rows.front()) : AddUp(kind, key, rows);
  if (!value) return value.error();
  if (kind != kHistory) return Row{key, *std::move(value)};
  KeyReader parts(key);
  const std::string_view ns = parts.Text();
  const InstanceName name(ns, parts.Text());
  const uint64_t number = feed_.NumberOf(rows.front().partition, parts.Number());
  return Row{Key(kHome, kHistory).Of(name).Number(number), *std::move(value)};
}

// Numbers in rows ---------------------------------------------------------------------------------

// Of several partitions it is a time; of one the number of the first record.
template <typename Limits>
Result<Ok> Joined::RenumberOrder(InstanceName name, PartitionId partition, Limits* limits) const {
  if (limits->order() == 0) return Ok{};
  const std::string key = Key(partition, kSpec).Of(name);
  auto value = source_.Get(key);
  if (!value) return value.error();
  if (!*value) return Corrupt("instance's params", key);
  auto spec = ParseRow<record::Spec>(key, **value, "instance's params");
  if (!spec) return spec.error();
  limits->set_order(feed_.NumberOf(partition, spec->first_seq()));
  return Ok{};
}

Result<std::string> Joined::Renumber(Kind kind, std::string_view key, const RowOf& row) const {
  const auto number = [&](uint64_t seq) { return feed_.NumberOf(row.partition, seq); };
  switch (kind) {
    case kLive:
    case kStopped: {
      auto instance = ParseRow<record::Instance>(key, row.value, "instance");
      if (!instance) return instance.error();
      const InstanceName name = InstanceIn(key, 0);
      /*mutant joined-history-as-it-was*/
      for (uint64_t& seq : *instance->mutable_history()) seq = number(seq); /*end*/
      Result<Ok> done = Ok{};
      if (/*mutant joined-order-as-it-was*/ instance->has_limits() /*end*/) {
        done = RenumberOrder(name, row.partition, instance->mutable_limits());
      }
      for (auto* tokens : {instance->mutable_tokens(), instance->mutable_left()}) {
        for (record::Token& token : *tokens) {
          if (!done || !token.has_limits()) continue;
          done = RenumberOrder(name, row.partition, token.mutable_limits());
        }
      }
      return done ? Result<std::string>(Serialized(*instance)) : done.error();
    }
    case kStep: {
      auto step = ParseRow<record::Step>(key, row.value, "step");
      if (!step) return step.error();
      const bool limited = step->token().has_limits() || step->left().has_limits();
      if (!limited) return row.value;
      Result<Ok> done = Ok{};
      for (const bool left : {false, true}) {
        if (!done || !(left ? step->left() : step->token()).has_limits()) continue;
        record::Token* const token = left ? step->mutable_left() : step->mutable_token();
        done = RenumberOrder(InstanceIn(key, 0), row.partition, token->mutable_limits());
      }
      return done ? Result<std::string>(Serialized(*step)) : done.error();
    }
    case kSpec: {
      auto spec = ParseRow<record::Spec>(key, row.value, "instance's params");
      if (!spec) return spec.error();
      spec->set_first_seq(number(spec->first_seq()));
      return Serialized(*spec);
    }
    case kHistory: {
      auto page = ParseRow<record::HistoryPage>(key, row.value, "page of a history");
      if (!page) return page.error();
      for (uint64_t& seq : *page->mutable_seqs()) seq = number(seq);
      return Serialized(*page);
    }
    case kExpiry: {
      auto expiry = ParseRow<record::Expiry>(key, row.value, "time an instance may go");
      if (!expiry) return expiry.error();
      expiry->set_first_seq(number(expiry->first_seq()));
      return Serialized(*expiry);
    }
    case kSpace: {
      auto space = ParseRow<record::Namespace>(key, row.value, "namespace");
      if (!space) return space.error();
      space->set_feed_floor(number(space->feed_floor()));
      return Serialized(*space);
    }
    case kTrigger: {
      auto trigger = ParseRow<record::Trigger>(key, row.value, "trigger");
      if (!trigger) return trigger.error();
      const auto known = std::ranges::lower_bound(triggers_, key, {}, &TriggerCut::key);
      const bool listens = known != triggers_.end() && known->key == key;
      const uint64_t position =
          listens ? /*mutant joined-trigger-from-home*/ feed_.NumberOf(known->cut) /*end*/
                  : number(trigger->position());
      trigger->set_position(position);
      trigger->set_since(std::min(number(trigger->since()), position));
      trigger->set_following(false);
      trigger->clear_rounds();
      return Serialized(*trigger);
    }
    default:
      return row.value;
  }
}

}  // namespace dfsmr::rows
