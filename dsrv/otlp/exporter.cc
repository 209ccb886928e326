#include "dsrv/otlp/exporter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "dsrv/otlp/store_past.h"
#include "storage/rows/feed.h"

namespace dfsmr::otlp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kIdle{10'000};
constexpr milliseconds kAnswer{10'000};
constexpr milliseconds kLastAnswer{2'000};  // when the server stops
constexpr milliseconds kLongestWait{30'000};
// A collector that takes spans slowly has so long in all when the server stops.
constexpr milliseconds kLeave{5'000};
// What a process that was killed had not sent: a batch's wait, and the time that sending it takes.
constexpr Duration kUnsent = std::chrono::seconds(5);

Tracker::Options OptionsAt(const Reader& reader, uint64_t end) {
  Tracker::Options options{.known_to = end};
  options.again_from = kNever;
  (void)rows::ScanFeedBackwards({reader.store, reader.partition}, end, end + 1, [&](Event last) {
    options.again_from = last.time - kUnsent;
    return false;
  });
  return options;
}

}  // namespace

// Wakes the thread; the feed may hold it for longer than there is an exporter.
class Exporter::Signal final : public Changes::Watcher {
 public:
  void Wake() override {
    const Lock lock(mutex_);
    awake_ = true;
    asked_ = false;
    changed_.NotifyAll();
  }
  // True: it is to be asked for now; false: it was, and comes.
  bool Ask() {
    const Lock lock(mutex_);
    return !std::exchange(asked_, true);
  }
  void Stop() {
    const Lock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  bool stopped() const {
    const Lock lock(mutex_);
    return stopped_;
  }
  // Until it is woken, or for so long.
  void Await(milliseconds most) {
    Lock lock(mutex_);
    changed_.WaitFor(lock, most, [this]() REQUIRES(mutex_) { return awake_ || stopped_; });
    awake_ = false;
  }
  // For so long, unless it is stopped.
  void Rest(milliseconds time) {
    Lock lock(mutex_);
    changed_.WaitFor(lock, time, [this]() REQUIRES(mutex_) { return stopped_; });
  }

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool awake_ GUARDED(mutex_) = false;
  bool asked_ GUARDED(mutex_) = false;
  bool stopped_ GUARDED(mutex_) = false;
};

Exporter::Exporter(ExporterOptions options, const Reader& reader, Changes& changes)
    : options_(std::move(options)),
      reader_(reader),
      changes_(changes),
      past_(std::make_unique<StorePast>(reader)),
      signal_(std::make_shared<Signal>()),
      position_(changes.head()),
      tracker_(OptionsAt(reader, position_), *past_),
      thread_([this] { Run(); }) {}

Exporter::~Exporter() { Stop(); }

void Exporter::Stop() {
  signal_->Stop();
  if (thread_.joinable()) thread_.join();
}

void Exporter::Run() {
  std::optional<steady_clock::time_point> end_by;
  for (;;) {
    const bool last = signal_->stopped();
    if (last && !end_by) end_by = steady_clock::now() + kLeave;
    const bool more = Read();
    const auto age = steady_clock::now() - oldest_;
    if (!spans_.empty() && (spans_.size() >= options_.batch || age >= options_.linger || last)) {
      const bool taken = Ship();
      if (last && (!taken || steady_clock::now() >= *end_by)) {
        if (!spans_.empty()) Drop(spans_.size(), "the server stops");
        break;
      }
    }
    if (more) continue;
    if (last && spans_.empty()) break;
    if (signal_->Ask()) changes_.WakeLater(signal_, position_);
    const auto left =
        std::chrono::ceil<milliseconds>(options_.linger - (steady_clock::now() - oldest_));
    signal_->Await(spans_.empty() ? kIdle : std::max(milliseconds(1), left));
  }
  spdlog::info("otlp: spans sent {} dropped {}", sent_.load(), dropped_.load());
}

bool Exporter::Read() {
  const uint64_t head = changes_.head();
  if (position_ >= head || spans_.size() >= options_.batch) return position_ < head;
  const bool none = spans_.empty();
  const rows::Reader rows{reader_.store, reader_.partition};
  const auto first = rows::FirstSeq(rows);
  if (first && *first > position_ + 1) {
    spdlog::warn("otlp: the feed begins with {} now, so that no spans are made of {} records",
                 *first, *first - position_ - 1);
    position_ = *first - 1;
  }
  const auto read = rows::ScanFeed(rows, position_ + 1, [&](Event event) {
    if (event.seq > head) return false;
    position_ = event.seq;
    tracker_.Take(event, &spans_);
    return spans_.size() < options_.batch;
  });
  if (!read) {
    spdlog::error("otlp: the feed cannot be read: {}", read.error().message);
    position_ = head;
  }
  if (none && !spans_.empty()) oldest_ = steady_clock::now();
  return position_ < head;
}

// Until the spans are taken, or dropped. False: the collector was asked, and is away.
bool Exporter::Ship() {
  const size_t count = std::min(spans_.size(), options_.batch);
  const std::vector<Span> batch(spans_.begin(), spans_.begin() + static_cast<ptrdiff_t>(count));
  const std::string json = ToJson(batch, options_.version);
  spans_.erase(spans_.begin(), spans_.begin() + static_cast<ptrdiff_t>(count));
  // Given up: it is tried now and then, and what comes meanwhile is counted without a wait.
  if (away_since_ && steady_clock::now() < try_again_) {
    Drop(count, "the collector is away");
    return true;
  }
  for (milliseconds wait = options_.first_wait;; wait = std::min(2 * wait, kLongestWait)) {
    const bool last = signal_->stopped();
    const Delivered delivered = options_.post(json, last ? kLastAnswer : kAnswer);
    if (delivered.delivery == Delivery::kTaken) {
      if (std::exchange(away_since_, std::nullopt)) {
        spdlog::info("otlp: the collector takes spans again");
      }
      sent_ += count;
      return true;
    }
    if (delivered.delivery == Delivery::kNever) {
      Drop(count, delivered.why);
      return true;  // it is there, and takes others
    }
    const auto now = steady_clock::now();
    if (!away_since_) {
      spdlog::warn("otlp: the collector does not take spans: {}; it is tried again for {} min",
                   delivered.why, options_.patience.count() / 60'000);
      away_since_ = now;
    }
    const bool given_up = now - *away_since_ >= options_.patience;
    if (given_up) try_again_ = now + kLongestWait;
    if (last || given_up) {
      Drop(count, delivered.why);
      return false;
    }
    signal_->Rest(wait);
  }
}

void Exporter::Drop(size_t count, const std::string& why) {
  const uint64_t before = dropped_.fetch_add(count);
  // The first, and then as often as it has doubled.
  const bool tell = before == 0 || std::bit_width(before) != std::bit_width(before + count);
  if (tell) spdlog::warn("otlp: {} spans are dropped in all: {}", before + count, why);
}

}  // namespace dfsmr::otlp
