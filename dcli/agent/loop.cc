#include "dcli/agent/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "fsm/base/result.h"

namespace dfsmr::cli {
namespace {

constexpr std::chrono::milliseconds kMostWait{60'000};

int MillisUntil(SteadyTime time) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(time - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

}  // namespace

Loop::Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  Check(epoll_.open() && wake_.open(), "descriptors for the agent's loop");
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_.get()}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

void Loop::Watch(int fd, bool writes, Action ready) {
  auto watched = std::make_shared<Watched>(Watched{next_++, std::move(ready)});
  const bool known = watched_.contains(fd);
  watched_[fd] = std::move(watched);
  epoll_event event{};
  event.events = writes ? EPOLLOUT : EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
}

void Loop::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Loop::TimerId Loop::At(SteadyTime time, Action action) {
  const TimerId id{time, next_++};
  timers_.emplace(id, std::move(action));
  return id;
}

Loop::TimerId Loop::After(std::chrono::milliseconds wait, Action action) {
  return At(std::chrono::steady_clock::now() + wait, std::move(action));
}

void Loop::Drop(const TimerId& timer) { timers_.erase(timer); }

void Loop::Post(Action action) {
  {
    const Lock lock(mutex_);
    posted_.push_back(std::move(action));
    if (taken_ || posted_.size() > 1) return;  // whoever has it looks; or it has been woken
  }
  Wake();
}

void Loop::Do(Action action) {
  {
    const Lock lock(mutex_);
    posted_.push_back(std::move(action));
    if (taken_) return;
    taken_ = true;
  }
  bool wakes = false;
  do {
    RunPosted();
    if (rest_) rest_();
    wakes = stopped_ || (!timers_.empty() && timers_.begin()->first.first < waits_until_);
  } while (!Leave());
  if (wakes) Wake();
}

void Loop::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

void Loop::Take() {
  Lock lock(mutex_);
  left_.Wait(lock, [this]() REQUIRES(mutex_) { return !taken_; });
  taken_ = true;
}

bool Loop::Leave() {
  const Lock lock(mutex_);
  if (!posted_.empty() && !stopped_) return false;
  taken_ = false;
  left_.NotifyOne();
  return true;
}

SteadyTime Loop::WaitsUntil() const {
  const SteadyTime latest = std::chrono::steady_clock::now() + kMostWait;
  return timers_.empty() ? latest : std::min(latest, timers_.begin()->first.first);
}

void Loop::RunTimers() {
  const SteadyTime now = std::chrono::steady_clock::now();
  while (!stopped_ && !timers_.empty() && timers_.begin()->first.first <= now) {
    const Action action = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    action();
  }
}

void Loop::RunPosted() {
  std::vector<Action> posted;
  {
    const Lock lock(mutex_);
    posted.swap(posted_);
  }
  for (const Action& action : posted) action();
}

// `before`: what is watched from there on was not meant by these events.
void Loop::RunEvents(std::span<const epoll_event> events, uint64_t before) {
  for (const epoll_event& event : events) {
    if (stopped_) return;
    const int fd = event.data.fd;
    if (fd == wake_.get()) {
      uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t taken = read(fd, &wakes, sizeof wakes);
      continue;
    }
    const auto found = watched_.find(fd);
    if (found == watched_.end() || found->second->serial >= before) continue;
    const std::shared_ptr<Watched> watched = found->second;  // it may be unwatched meanwhile
    watched->ready();
  }
}

void Loop::Run() {
  std::array<epoll_event, 64> events{};
  while (!stopped_) {
    if (rest_) rest_();
    const SteadyTime until = WaitsUntil();
    waits_until_ = until;
    const uint64_t before = next_;
    const bool left = Leave();
    const int wait = left ? MillisUntil(until) : 0;
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), wait);
    if (left) Take();
    RunEvents({events.data(), static_cast<size_t>(std::max(count, 0))}, before);
    RunTimers();
    if (!stopped_) RunPosted();
  }
}

void Timer::Set(SteadyTime time, Loop::Action action) {
  Clear();
  id_ = loop_.At(time, [this, action = std::move(action)] {
    id_ = {};
    action();
  });
}

void Timer::Clear() {
  if (id_.second != 0) loop_.Drop(id_);
  id_ = {};
}

}  // namespace dfsmr::cli
