#include "dcli/agent/link.h"

#include <atomic>
#include <thread>

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAwake{4'000};  // the server wants to hear from us every 5 s
constexpr milliseconds kSilence{15'000};
constexpr milliseconds kLook{1'000};

}  // namespace

// One stream, with a thread that reads it and one that gives signs of life, whatever the loop does.
struct Link::Line {
  explicit Line(std::unique_ptr<AttachStream> of) : stream(std::move(of)) {}

  void StayAwake() {
    Lock lock(mutex);
    while (!over) {
      changed.WaitUntil(lock, stream->written() + kAwake,
                        [this]() REQUIRES(mutex) { return over; });
      if (over || steady_clock::now() < stream->written() + kAwake) continue;
      lock.Unlock();
      stream->Send({});
      lock.Relock();
    }
  }

  void End() {
    {
      const Lock lock(mutex);
      over = true;
    }
    changed.NotifyAll();
  }

  // All of the stream's life.
  Result<Ok> Live(const v1::AgentMessage& first, const AttachStream::Hear& hear) {
    std::thread awake([this] { StayAwake(); });
    const auto why = stream->Live(first, [&](AttachStream::Order order, const std::string& life) {
      hearing = true;
      hear(std::move(order), life);
      heard = steady_clock::now().time_since_epoch().count();
      hearing = false;
    });
    End();
    awake.join();
    return why;
  }

  const std::unique_ptr<AttachStream> stream;
  std::atomic<steady_clock::rep> heard{steady_clock::now().time_since_epoch().count()};
  std::atomic<bool> hearing = false;  // what was heard is dealt with, and nothing is read meanwhile
  std::thread reader;
  Mutex mutex;
  ConditionVariable changed;
  bool over GUARDED(mutex) = false;
};

Link::Link(Client& client, Loop& loop, Events events)
    : client_(client), loop_(loop), events_(std::move(events)), silence_(loop) {}

Link::~Link() {
  if (line_ == nullptr) return;
  line_->stream->Cancel();
  line_->reader.join();
}

void Link::Open(v1::AgentMessage first) {
  if (line_ != nullptr) line_->reader.join();
  line_ = std::make_shared<Line>(client_.agents().Attach());
  line_->reader = std::thread([this, line = line_.get(), first = std::move(first)] {
    const auto hear = [this, line](AttachStream::Order order, const std::string& life) {
      const bool slow = order->has_welcome();
      auto heard = [this, line, order = std::move(order), life] {
        if (line_.get() == line) events_.heard(*order, life);
      };
      slow ? loop_.Post(std::move(heard)) : loop_.Do(std::move(heard));
    };
    const auto over = line->Live(first, hear);
    loop_.Post([this, line, over] {
      if (line_.get() == line) events_.over(over);
    });
  });
  Watch();
}

void Link::Send(v1::AgentMessage message) {
  if (line_ != nullptr) line_->stream->Send(std::move(message));
}

void Link::Cancel() {
  if (line_ != nullptr) line_->stream->Cancel();
}

void Link::Watch() {
  silence_.SetIn(kLook, [this] {
    const steady_clock::time_point heard{steady_clock::duration(line_->heard.load())};
    if (!line_->hearing && steady_clock::now() - heard > kSilence) line_->stream->Cancel();
    Watch();
  });
}

}  // namespace dfsmr::cli
