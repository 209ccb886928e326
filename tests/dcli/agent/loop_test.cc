#include "dcli/agent/loop.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace dfsmr::cli {
namespace {

// A loop with its thread.
class Running {
 public:
  Running() : thread_([this] { loop.Run(); }) {}
  ~Running() {
    loop.Post([this] { loop.Stop(); });
    thread_.join();
  }
  // Has this thread do something in the loop's place.
  void DoHere(const std::function<void()>& what) {
    for (bool here = false; !here;) {
      const auto done = std::make_shared<std::promise<bool>>();
      loop.Do([&what, done, us = std::this_thread::get_id()] {
        const bool by_us = us == std::this_thread::get_id();
        if (by_us) what();
        done->set_value(by_us);
      });
      here = done->get_future().get();
    }
  }

  Loop loop;

 private:
  std::thread thread_;
};

}  // namespace

TEST_CASE("a timer that another thread sets in the loop's place wakes the loop") {
  std::promise<std::thread::id> fired;
  Running running;
  running.DoHere([&] {
    running.loop.After(std::chrono::milliseconds(1),
                       [&] { fired.set_value(std::this_thread::get_id()); });
  });
  CHECK(fired.get_future().get() != std::this_thread::get_id());
}

TEST_CASE("another thread may end the loop in its place") {
  Loop loop;
  std::promise<void> runs;
  std::thread thread([&] { loop.Run(); });
  loop.Post([&] { runs.set_value(); });
  runs.get_future().get();
  loop.Do([&] { loop.Stop(); });
  thread.join();
}

TEST_CASE("what is done in the loop's place is followed by the rest, and by what it posts") {
  std::vector<std::string> done;
  Running running;
  running.DoHere([&] {
    done.push_back("first");
    running.loop.OnRest([&] { done.push_back("rest"); });
    running.loop.Post([&] {
      done.push_back("posted");
      running.loop.OnRest({});
    });
  });
  CHECK(done == std::vector<std::string>{"first", "rest", "posted"});
}

TEST_CASE("one thing after the other, in the order of each thread, whoever does it") {
  constexpr int kEach = 20'000;
  std::array<int, 3> next{};
  std::atomic<int> inside = 0;
  bool alone = true;
  std::promise<void> all;
  {
    Running running;
    int left = 3 * kEach;
    const auto take = [&](size_t who, int number) {
      alone = alone && ++inside == 1 && next[who]++ == number;
      --inside;
      if (--left == 0) all.set_value();
    };
    std::vector<std::thread> threads;
    for (size_t who = 0; who < next.size(); ++who) {
      threads.emplace_back([&, who] {
        for (int i = 0; i < kEach; ++i) {
          const auto action = [&take, who, i] { take(who, i); };
          i % 3 == 0 ? running.loop.Post(action) : running.loop.Do(action);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    all.get_future().get();
  }
  CHECK(alone);
}

TEST_CASE("a descriptor that is watched in the loop's place is told of") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const Descriptor from(ends[0]);
  const Descriptor to(ends[1]);
  std::promise<std::thread::id> ready;
  Running running;
  running.DoHere([&] {
    running.loop.Watch(from.get(), false, [&] {
      running.loop.Unwatch(from.get());
      ready.set_value(std::this_thread::get_id());
    });
  });
  REQUIRE(write(to.get(), "x", 1) == 1);
  CHECK(ready.get_future().get() != std::this_thread::get_id());
}

}  // namespace dfsmr::cli
