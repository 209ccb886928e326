#include "dcli/agent/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "fsm/base/result.h"

namespace dfsmr::cli {
namespace {

constexpr int kMostWait = 60'000;  // milliseconds

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
    if (posted_.size() > 1) return;  // the loop has been woken
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

int Loop::Patience() const {
  if (timers_.empty()) return kMostWait;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first -
                                                                 std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, kMostWait));
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

void Loop::Run() {
  std::array<epoll_event, 64> events{};
  while (!stopped_) {
    if (rest_) rest_();
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), Patience());
    const uint64_t before = next_;  // what is watched from here on was not meant by these events
    for (int i = 0; i < count && !stopped_; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == wake_.get()) {
        uint64_t posts = 0;
        [[maybe_unused]] const ssize_t taken = read(fd, &posts, sizeof posts);
        RunPosted();
        continue;
      }
      const auto found = watched_.find(fd);
      if (found == watched_.end() || found->second->serial >= before) continue;
      const std::shared_ptr<Watched> watched = found->second;  // it may be unwatched meanwhile
      watched->ready();
    }
    RunTimers();
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
