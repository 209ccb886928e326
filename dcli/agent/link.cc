#include "dcli/agent/link.h"

#include <atomic>
#include <deque>
#include <thread>

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAwake{4'000};  // the server wants to hear from us every 5 s
constexpr milliseconds kSilence{15'000};
constexpr milliseconds kLook{1'000};
constexpr size_t kLargestMessage = 1 << 20;  // of several taken together; the server takes 4 MiB
constexpr int kMostItems = 900;

// Whether both may go as one message.
bool Together(const v1::AgentMessage& a, const v1::AgentMessage& b) {
  const auto fits = [](int one, int other) { return one + other <= kMostItems; };
  return fits(a.work().transitions_size(), b.work().transitions_size()) &&
         fits(a.work().extends_size(), b.work().extends_size()) &&
         fits(a.work().relinquishes_size(), b.work().relinquishes_size()) &&
         fits(a.stops_size(), b.stops_size()) &&
         a.ByteSizeLong() + b.ByteSizeLong() <= kLargestMessage;
}

}  // namespace

// One stream. The thread that reads it makes it, and starts the one that writes.
struct Link::Line {
  Mutex mutex;
  ConditionVariable changed;
  std::deque<v1::AgentMessage> out GUARDED(mutex);
  bool over GUARDED(mutex) = false;
  AttachStream* stream GUARDED(mutex) = nullptr;
  std::atomic<steady_clock::rep> heard{steady_clock::now().time_since_epoch().count()};
  std::thread reader;

  // The next message; an empty one when there has been nothing to say for a while. False: over.
  bool Next(v1::AgentMessage* message) {
    Lock lock(mutex);
    changed.WaitFor(lock, kAwake, [this]() REQUIRES(mutex) { return over || !out.empty(); });
    if (over) return false;
    message->Clear();
    if (out.empty()) return true;
    message->Swap(&out.front());
    out.pop_front();
    while (!out.empty() && Together(*message, out.front())) {
      message->MergeFrom(out.front());
      out.pop_front();
    }
    return true;
  }

  void End() {
    {
      const Lock lock(mutex);
      over = true;
    }
    changed.NotifyAll();
  }

  void Cancel() {
    const Lock lock(mutex);
    over = true;
    changed.NotifyAll();
    if (stream != nullptr) stream->Cancel();
  }

  // All of the stream's life. `hear` is called for each message.
  Result<Ok> Live(Client& client, const v1::AgentMessage& first,
                  const std::function<void(const v1::AgentOrder&, const std::string&)>& hear) {
    const std::unique_ptr<AttachStream> made = client.agents().Attach();
    {
      const Lock lock(mutex);
      if (over) made->Cancel();
      stream = made.get();
    }
    made->Write(first);
    std::thread writer([this, &made] {
      v1::AgentMessage message;
      while (Next(&message) && made->Write(message)) continue;
    });
    v1::AgentOrder order;
    std::string life;
    for (bool known = false; made->Read(&order); known = true) {
      heard = steady_clock::now().time_since_epoch().count();
      if (!known) life = made->Said("dfsmr-life");
      hear(order, life);
    }
    End();
    writer.join();
    const auto finished = made->Finish();
    const Lock lock(mutex);
    stream = nullptr;
    return finished;
  }
};

Link::Link(Client& client, Loop& loop, Events events)
    : client_(client), loop_(loop), events_(std::move(events)), silence_(loop) {}

Link::~Link() {
  if (line_ == nullptr) return;
  line_->Cancel();
  line_->reader.join();
}

void Link::Open(v1::AgentMessage first) {
  if (line_ != nullptr) line_->reader.join();
  line_ = std::make_shared<Line>();
  line_->reader = std::thread([this, line = line_.get(), first = std::move(first)] {
    const auto hear = [this, line](const v1::AgentOrder& order, const std::string& life) {
      loop_.Post([this, line, order, life] {
        if (line_.get() == line) events_.heard(order, life);
      });
    };
    const auto over = line->Live(client_, first, hear);
    loop_.Post([this, line, over] {
      if (line_.get() == line) events_.over(over);
    });
  });
  Watch();
}

void Link::Send(v1::AgentMessage message) {
  if (line_ == nullptr) return;
  {
    const Lock lock(line_->mutex);
    line_->out.push_back(std::move(message));
  }
  line_->changed.NotifyAll();
}

void Link::Cancel() {
  if (line_ != nullptr) line_->Cancel();
}

void Link::Watch() {
  silence_.SetIn(kLook, [this] {
    const steady_clock::time_point heard{steady_clock::duration(line_->heard.load())};
    if (steady_clock::now() - heard > kSilence) line_->Cancel();
    Watch();
  });
}

}  // namespace dfsmr::cli
