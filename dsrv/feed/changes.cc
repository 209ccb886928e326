#include "dsrv/feed/changes.h"

#include <algorithm>

#include "storage/rows/feed.h"

namespace dfsmr {
namespace {

constexpr size_t kShared = 16;
constexpr auto kMarkEvery = std::chrono::milliseconds(100);
constexpr size_t kMarks = 6'000;
constexpr auto kRound = std::chrono::seconds(2);  // at most, so that idle watchers send their beats
// The time between two rounds, in multiples of what the last round took. So even many watchers get
// their changes in few large messages.
constexpr int kRest = 9;
constexpr auto kLongestRest = std::chrono::milliseconds(50);

size_t SizeOf(const Event& event) {
  return sizeof(Event) + event.instance.size() + event.params.size() + event.note.size();
}

Error Expired(uint64_t first) {
  return {Code::kOutOfRange, Reason::kCursorExpired,
          "the cursor is older than the feed, which starts at record " + std::to_string(first) +
              "; read on from '0', the oldest, and list the instances again"};
}

}  // namespace

bool ChangeFilter::Matches(const Event& event) const {
  return (ns.empty() || ns == event.ns) && (machine.empty() || machine == event.machine) &&
         (instance.empty() ||
          /*mutant watcher-sees-children*/ instance == event.instance /*end*/) &&
         (kinds.empty() || kinds.contains(event.kind)) &&
         (dry_run || !(event.about && event.about->dry_run));
}

Changes::Changes(const Store& store, FeedEnd start, Pool& pool, Serialise serialise,
                 const ChangesSizes& sizes)
    : sizes_(sizes),
      store_(store),
      partition_(start.partition),
      life_(start.life),
      pool_(pool),
      serialise_(std::move(serialise)),
      head_(start.seq),
      shown_(start.seq) {
  pump_ = std::thread([this] { Pump(); });
}

Changes::~Changes() {
  {
    const Lock lock(mutex_);
    stopped_ = true;
  }
  published_.NotifyAll();
  pump_.join();
}

void Changes::Publish(std::shared_ptr<const std::vector<rows::FeedPage>> pages) {
  bool awaited;
  {
    const Lock lock(mutex_);
    SetMark(pages->front().first);
    for (const rows::FeedPage& page : *pages) {
      recent_.push_back({{pages, &page}, {}, sizeof(Page) + page.bytes.size()});
      recent_bytes_ += recent_.back().bytes;
    }
    while (recent_bytes_ > sizes_.recent_bytes && recent_.size() > 1) DropPage();
    head_.store(pages->back().last, std::memory_order_release);
    news_ = true;
    awaited = !waiting_.empty() && !resting_;
  }
  if (awaited) published_.NotifyOne();
}

void Changes::SetMark(uint64_t first) {
  const auto now = std::chrono::steady_clock::now();
  if (!marks_.empty() && now - marks_.back().time < kMarkEvery) return;
  marks_.push_back({first, now});
  if (marks_.size() > kMarks) marks_.pop_front();
}

std::chrono::steady_clock::duration Changes::LagOf(uint64_t after) const {
  if (after >= head()) return {};
  const Lock lock(mutex_);
  auto later = std::ranges::upper_bound(marks_, after + 1, {}, &Mark::first);
  if (later == marks_.end() && later == marks_.begin()) return {};
  if (later != marks_.begin()) --later;
  return std::chrono::steady_clock::now() - later->time;
}

void Changes::Trim(uint64_t first) {
  const Lock lock(mutex_);
  while (!recent_.empty() && recent_.front().encoded->first < first) DropPage();
}

void Changes::DropPage() {
  recent_bytes_ -= recent_.front().bytes;
  recent_.pop_front();
}

void Changes::Decode(Page* page) {
  recent_bytes_ -= page->bytes;
  (void)rows::ReadPage(*page->encoded, 0, [page](Event event) {
    page->bytes += SizeOf(event);
    page->records.push_back({std::move(event), nullptr});
    return true;
  });
  recent_bytes_ += page->bytes;
}

Changes::PortionPtr Changes::Read(uint64_t after, uint64_t until, const ChangeFilter& filter) {
  const Lock lock(mutex_);
  const bool follows = until == UINT64_MAX;
  until = std::min(until, follows ? shown_ : head_.load(std::memory_order_relaxed));
  for (const Shared& one : shared_) {
    if (follows && one.after == after && one.filter == filter) return one.portion;
  }
  auto portion = std::make_shared<Portion>();
  portion->up_to = after;
  portion->at_head = true;
  if (after >= until) return portion;
  auto page = std::ranges::upper_bound(recent_, after + 1, {},
                                       [](const Page& one) { return one.encoded->first; });
  /*mutant watcher-behind-memory-starves*/ if (page == recent_.begin())
    return nullptr; /*end*/
  --page;
  size_t bytes = 0;
  size_t scanned = 0;
  while (portion->up_to < until) {
    if (bytes >= sizes_.portion_bytes || ++scanned > sizes_.portion_scanned) {
      portion->at_head = false;
      break;
    }
    if (portion->up_to == page->encoded->last) ++page;
    if (page->records.empty()) Decode(&*page);
    Record& record = page->records[++portion->up_to - page->encoded->first];
    if (!filter.Matches(record.event)) continue;
    if (!record.wire) {
      record.wire = std::make_shared<const std::string>(serialise_(record.event, partition_));
    }
    bytes += record.wire->size();
    portion->changes.push_back(record.wire);
  }
  if (follows) shared_.push_back({after, filter, portion});
  if (shared_.size() > kShared) shared_.pop_front();
  return portion;
}

Result<Changes::PortionPtr> Changes::ReadStore(uint64_t after, uint64_t until,
                                               const ChangeFilter& filter, bool from_first) const {
  auto first = rows::FirstSeq({store_, partition_});
  if (!first) return first.error();
  if (from_first) after = std::max(after, *first - 1);
  if (after + 1 < *first) return Expired(*first);
  /*mutant watcher-sees-unpublished*/ until = std::min(until, head()); /*end*/
  return ReadRows(partition_, *first, after, until, filter);
}

Result<Changes::PortionPtr> Changes::ReadOther(PartitionId partition, uint64_t after,
                                               const ChangeFilter& filter) const {
  auto first = rows::FirstSeq({store_, partition});
  if (!first) return first.error();
  if (after + 1 < *first) return Expired(*first);
  return ReadRows(partition, *first, after, UINT64_MAX, filter);
}

Result<Changes::PortionPtr> Changes::ReadRows(PartitionId partition, uint64_t first,
                                              uint64_t after, uint64_t until,
                                              const ChangeFilter& filter) const {
  auto portion = std::make_shared<Portion>();
  portion->up_to = after;
  portion->at_head = true;
  size_t bytes = 0;
  size_t scanned = 0;
  bool gap = false;
  auto outcome = rows::ScanFeed({store_, partition}, after + 1, [&](const Event& event) {
    if (event.seq > until) return false;
    if (event.seq != portion->up_to + 1) gap = true;  // retention has dropped it meanwhile
    if (gap) return false;
    if (bytes >= sizes_.portion_bytes || ++scanned > sizes_.portion_scanned) {
      /*mutant planted-21*/ portion->at_head = false; /*end*/
      return false;
    }
    portion->up_to = event.seq;
    if (!filter.Matches(event)) return true;
    portion->changes.push_back(std::make_shared<const std::string>(serialise_(event, partition)));
    bytes += portion->changes.back()->size();
    return true;
  });
  if (!outcome) return outcome.error();
  if (gap) return Expired(first);
  return PortionPtr(std::move(portion));
}

void Changes::WakeLater(std::weak_ptr<Watcher> watcher, uint64_t after) {
  bool news;
  {
    const Lock lock(mutex_);
    waiting_.push_back(std::move(watcher));
    news_ = news_ || head_.load() > after;
    news = news_ && !resting_;
  }
  if (news) published_.NotifyOne();
}

// Wakes watchers in rounds, not for each change: what is published during a round is read in the
// next one, all of it together.
void Changes::Pump() {
  using Clock = std::chrono::steady_clock;
  std::vector<std::weak_ptr<Watcher>> woken;
  Clock::duration rest{};
  while (true) {
    {
      Lock lock(mutex_);
      resting_ = true;
      published_.WaitFor(lock, rest, [this]() REQUIRES(mutex_) { return stopped_; });
      resting_ = false;
      published_.WaitFor(lock, kRound, [this]() REQUIRES(mutex_) {
        return stopped_ || (news_ && !waiting_.empty());
      });
      if (stopped_) return;
      news_ = false;
      shown_ = head_.load(std::memory_order_relaxed);
      shared_.clear();
      woken.swap(waiting_);
    }
    const auto begin = Clock::now();
    for (const auto& weak : woken) {
      if (auto watcher = weak.lock()) watcher->Wake();
    }
    woken.clear();
    rest = std::min<Clock::duration>(kRest * (Clock::now() - begin), kLongestRest);
  }
}

}  // namespace dfsmr
