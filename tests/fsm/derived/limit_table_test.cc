#include "fsm/derived/limit_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

namespace dfsmr {
namespace {

using namespace std::chrono_literals;
using Turn = LimitTable::Turn;
using Standing = LimitTable::Standing;
using Ids = std::vector<std::string>;

constexpr Timestamp kNoon = FromMicros(1'800'000'000'000'000);

std::vector<LimitKey> Keys(std::initializer_list<const char*> keys) {
  std::vector<LimitKey> list;
  for (const char* key : keys) list.push_back({key, {}});
  return list;
}

// A table in one namespace, whose instances have numbers.
struct Play {
  void Max(const std::string& key, std::optional<uint32_t> max) {
    table.SetNumbers("ns", key, {max, {}}, now);
  }
  void Take(const std::string& key, int id) {
    table.Take("ns", key, std::to_string(id), {0, now, false});
  }
  void Release(const std::string& key, int id) { table.Release("ns", key, std::to_string(id), 0); }
  void Wait(std::initializer_list<const char*> keys, int id, int priority = 0,
            Standing standing = Standing::kWaits) {
    table.Stand("ns", Keys(keys), TurnOf(id, priority), std::to_string(id), now, standing);
  }
  static Turn TurnOf(int id, int priority) { return {priority, static_cast<uint64_t>(id), 0}; }
  // Lets in whoever's turn it is, and answers them in their order.
  Ids LetIn() {
    Ids ids;
    while (auto next = table.Next(now)) {
      std::vector<LimitKey> keys;
      for (const std::string& key : next->keys) keys.push_back({key, {}});
      table.Leave("ns", keys, next->turn);
      for (const LimitKey& key : keys) {
        table.Take("ns", key.key, next->instance, {0, now, false});
        table.Spend("ns", key.key, now);
      }
      ids.push_back(next->instance);
    }
    return ids;
  }

  LimitTable table;
  Timestamp now = kNoon;
};

TEST_CASE("the next is of the highest priority, then the first that was started") {
  Play play;
  play.Max("k", 1);
  play.Take("k", 1);
  CHECK_FALSE(play.table.HasRoom("ns", "k", "2", play.now));
  play.Wait({"k"}, 3);
  play.Wait({"k"}, 2);
  play.Wait({"k"}, 4, 1);
  CHECK(play.LetIn() == Ids{});
  CHECK(play.table.Waiting("ns", "k", play.now) == 3);
  CHECK(play.table.Ahead("ns", "k", Play::TurnOf(3, 0), 10) == 2);
  play.Release("k", 1);
  CHECK(play.LetIn() == Ids{"4"});
  play.Release("k", 4);
  CHECK(play.LetIn() == Ids{"2"});
  play.Max("k", 2);
  CHECK(play.LetIn() == Ids{"3"});
  CHECK(play.table.Used("ns", "k") == 2);
}

TEST_CASE("one that lacks another key is passed, and keeps its place") {
  Play play;
  play.Max("a", 1);
  play.Max("b", 1);
  play.Take("a", 1);
  play.Take("b", 2);
  play.Wait({"a", "b"}, 3);
  play.Wait({"a"}, 4);
  play.Release("a", 1);
  CHECK(play.LetIn() == Ids{"4"});
  play.Wait({"a"}, 5);
  play.Release("b", 2);
  CHECK(play.LetIn() == Ids{});
  play.Release("a", 4);
  CHECK(play.LetIn() == Ids{"3"});
  play.Release("a", 3);
  CHECK(play.LetIn() == Ids{"5"});
}

TEST_CASE("paused ones stand aside and keep their places") {
  Play play;
  play.Max("k", 1);
  play.Take("k", 1);
  play.Wait({"k"}, 2, 0, Standing::kPaused);
  play.Wait({"k"}, 3);
  CHECK(play.table.InLine("ns", "k") == 1);
  CHECK(play.table.Waiting("ns", "k", play.now) == 2);
  play.Release("k", 1);
  CHECK(play.LetIn() == Ids{"3"});
  play.Wait({"k"}, 4);
  play.Wait({"k"}, 2);
  play.Release("k", 3);
  CHECK(play.LetIn() == Ids{"2"});
}

TEST_CASE("0 lets nobody in, and no number everybody") {
  Play play;
  play.Max("k", 0);
  play.Wait({"k"}, 1);
  play.Wait({"k"}, 2);
  CHECK(play.LetIn() == Ids{});
  play.Max("k", std::nullopt);
  CHECK(play.LetIn() == Ids{"1", "2"});
}

TEST_CASE("a key that is shut lets nobody in until it is opened") {
  Play play;
  play.Max("a", 2);
  play.table.SetShut("ns", "a", true);
  play.Wait({"a"}, 1);
  CHECK(play.LetIn().empty());
  CHECK(!play.table.HasRoom("ns", "a", "2", play.now));
  play.Max("a", 3);
  CHECK(play.LetIn().empty());
  play.table.SetShut("ns", "a", false);
  CHECK(play.LetIn() == Ids{"1"});

  play.table.SetShut("ns", "b", true);
  CHECK(play.table.Knows("ns", "b"));
  play.table.SetShut("ns", "b", false);
  CHECK(!play.table.Knows("ns", "b"));
}

TEST_CASE("a number that is lowered stops nobody, and lets in nobody until there is room") {
  Play play;
  play.Max("k", 3);
  for (int id : {1, 2, 3}) play.Take("k", id);
  play.Max("k", 1);
  play.Wait({"k"}, 4);
  play.Release("k", 1);
  play.Release("k", 2);
  CHECK(play.LetIn() == Ids{});
  play.Release("k", 3);
  CHECK(play.LetIn() == Ids{"4"});
}

TEST_CASE("a rate that is raised lets in those that wait, and what has begun keeps its weight") {
  Play play;
  play.table.SetNumbers("ns", "k", {{}, Rate{.count = 1, .per = 1h, .burst = 1}}, play.now);
  for (int id = 1; id <= 3; ++id) play.Wait({"k"}, id);
  CHECK(play.LetIn() == Ids{"1"});
  CHECK(play.table.NextToken("ns", "k") == play.now + 1h);
  play.table.SetNumbers("ns", "k", {{}, Rate{.count = 1, .per = 1s, .burst = 1}}, play.now);
  CHECK(play.table.NextToken("ns", "k") == play.now + 1s);
  play.now += 1s;
  play.table.FireDue(play.now);
  CHECK(play.LetIn() == Ids{"2"});
}

TEST_CASE("one that lacks two keys which become free together goes before one that lacks one") {
  Play play;
  play.Max("a", 1);
  play.Max("b", 1);
  play.Take("a", 1);
  play.Take("b", 1);
  play.Wait({"a", "b"}, 2);
  play.Wait({"b"}, 3);
  play.table.Release("ns", "b", "1", 0);
  play.table.Release("ns", "a", "1", 0);
  CHECK(play.LetIn() == Ids{"2"});
}

TEST_CASE("an instance counts once, however many of its tokens hold a key") {
  Play play;
  play.Max("k", 2);
  play.table.Take("ns", "k", "1", {0, kNoon});
  play.table.Take("ns", "k", "1", {7, kNoon});
  CHECK(play.table.Used("ns", "k") == 1);
  play.table.Release("ns", "k", "1", 0);
  CHECK(play.table.Used("ns", "k") == 1);
  play.table.Release("ns", "k", "1", 7);
  CHECK_FALSE(play.table.Knows("ns", "k"));
}

TEST_CASE("a rate is evenly spaced, and a burst may begin at once after a rest") {
  Play play;
  play.table.SetNumbers("ns", "k", {{}, Rate{.count = 6, .per = 60s, .burst = 3}}, play.now);
  for (int id = 1; id <= 8; ++id) play.Wait({"k"}, id);
  CHECK(play.LetIn() == Ids{"1", "2", "3"});
  CHECK(play.table.TokensOf("ns", "k", play.now) == doctest::Approx(0));
  CHECK(play.table.Due() == kNoon + 10s);
  play.now += 9s;
  play.table.FireDue(play.now);
  CHECK(play.LetIn() == Ids{});
  play.now = kNoon + 10s;
  play.table.FireDue(play.now);
  CHECK(play.LetIn() == Ids{"4"});
  play.now = kNoon + 25s;
  play.table.FireDue(play.now);
  CHECK(play.LetIn() == Ids{"5"});
  play.now = kNoon + 30s;
  play.table.FireDue(play.now);
  CHECK(play.LetIn() == Ids{"6"});
  CHECK(play.table.FullAt("ns", "k", play.now) == kNoon + 60s);
}

TEST_CASE("those that are ready are turned away when another takes the last place") {
  Play play;
  play.Max("k", 1);
  play.Wait({"k"}, 1, 0, Standing::kAsks);
  play.Wait({"k"}, 2, 0, Standing::kAsks);
  CHECK_FALSE(play.table.NextTurnedAway(play.now));
  play.table.Leave("ns", Keys({"k"}), Play::TurnOf(1, 0));
  play.Take("k", 1);
  auto away = play.table.NextTurnedAway(play.now);
  REQUIRE(away);
  CHECK(away->instance == "2");
  play.Wait({"k"}, 2);
  CHECK_FALSE(play.table.NextTurnedAway(play.now));
  play.Release("k", 1);
  CHECK(play.LetIn() == Ids{"2"});
}

TEST_CASE("holders that somebody else counts leave room by their count") {
  Play play;
  play.Max("queue:mail", 2);
  play.table.SetCount("ns", "queue:mail", 2);
  play.Wait({"queue:mail"}, 1);
  CHECK(play.LetIn() == Ids{});
  play.table.SetCount("ns", "queue:mail", 1);
  auto next = play.table.Next(play.now);
  REQUIRE(next);
  CHECK(next->instance == "1");
}

TEST_CASE("nothing is kept of keys that nobody holds or awaits") {
  Play play;
  play.Max("k", 1);
  play.Take("k", 1);
  play.Wait({"k", "l"}, 2);
  play.table.Leave("ns", Keys({"k", "l"}), Play::TurnOf(2, 0));
  play.Release("k", 1);
  CHECK_FALSE(play.table.Next(play.now));
  CHECK_FALSE(play.table.Knows("ns", "k"));
  CHECK_FALSE(play.table.Knows("ns", "l"));
}

TEST_CASE("those that wait are listed in the order of their turns, page by page") {
  Play play;
  play.Max("k", 0);
  play.Wait({"k"}, 3);
  play.Wait({"k", "l"}, 1);
  play.Wait({"k"}, 2, 0, Standing::kPaused);
  play.Wait({"k"}, 9, 5);
  const auto page = [&](std::optional<Turn> after, size_t size) {
    Ids ids;
    play.table.ForEachWaiter("ns", "k", after, [&](const LimitTable::Waiter& waiter) {
      ids.push_back(waiter.instance);
      return ids.size() < size;
    });
    return ids;
  };
  CHECK(page({}, 10) == Ids{"9", "1", "2", "3"});
  CHECK(page({}, 2) == Ids{"9", "1"});
  CHECK(page(Play::TurnOf(1, 0), 2) == Ids{"2", "3"});
}

// Against a model that looks at everybody each time -----------------------------------------------

struct Model {
  struct One {
    std::set<std::string> keys;
    int priority = 0;
    bool holds = false;
    bool paused = false;
  };
  size_t Held(const std::string& key) const {
    return static_cast<size_t>(std::ranges::count_if(
        all, [&](const auto& one) { return one.second.holds && one.second.keys.contains(key); }));
  }
  bool HasRoom(const One& one) const {
    return std::ranges::all_of(one.keys,
                               [&](const std::string& key) { return Held(key) < max.at(key); });
  }
  // The first of all that wait, in the order of turns, that lacks nothing.
  std::optional<int> Next() const {
    std::optional<int> best;
    for (const auto& [id, one] : all) {
      if (one.holds || one.paused || !HasRoom(one)) continue;
      if (!best || one.priority > all.at(*best).priority) best = id;
    }
    return best;
  }

  std::map<int, One> all;
  std::map<std::string, size_t> max;
};

TEST_CASE("a table lets in the same ones as a model that looks at everybody") {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<int>(random() % n); };
    Play play;
    Model model;
    const Ids names = {"a", "b", "c", "d"};
    for (const std::string& name : names) {
      model.max[name] = static_cast<size_t>(below(3));
      play.Max(name, static_cast<uint32_t>(model.max[name]));
    }
    int last = 0;
    const auto list = [](const Model::One& one) {
      std::vector<LimitKey> keys;
      for (const std::string& key : one.keys) keys.push_back({key, {}});
      return keys;
    };
    for (int step = 0; step < 200; ++step) {
      const int dice = below(10);
      if (dice < 4) {
        Model::One one;
        one.keys.insert(names[static_cast<size_t>(below(4))]);
        while (below(2) == 0) one.keys.insert(names[static_cast<size_t>(below(4))]);
        one.priority = below(3);
        const int id = ++last;
        // Nothing is kept of a key that nobody asks for, so whoever asks says the number.
        for (const std::string& key : one.keys) {
          play.Max(key, static_cast<uint32_t>(model.max[key]));
        }
        play.table.Stand("ns", list(one), Play::TurnOf(id, one.priority), std::to_string(id),
                         play.now, Standing::kWaits);
        model.all[id] = one;
      } else if (dice < 9 && !model.all.empty()) {
        auto it = std::next(model.all.begin(), below(model.all.size()));
        auto& [id, one] = *it;
        const Turn turn = Play::TurnOf(id, one.priority);
        if (one.holds) {
          for (const std::string& key : one.keys) play.Release(key, id);
          model.all.erase(it);
        } else if (dice < 6) {
          play.table.Leave("ns", list(one), turn);
          model.all.erase(it);
        } else {
          one.paused = !one.paused;
          play.table.Stand("ns", list(one), turn, std::to_string(id), play.now,
                           one.paused ? Standing::kPaused : Standing::kWaits);
        }
      } else {
        const std::string& name = names[static_cast<size_t>(below(4))];
        model.max[name] = static_cast<size_t>(below(4));
        play.Max(name, static_cast<uint32_t>(model.max[name]));
      }
      // Whom the table lets in one after the other must be a possible order: each has room, and
      // passes nobody that lacks nothing.
      while (auto next = play.table.Next(play.now)) {
        const int id = std::stoi(next->instance);
        Model::One& one = model.all.at(id);
        REQUIRE(model.HasRoom(one));
        REQUIRE_FALSE(one.paused);
        for (const auto& [other, it] : model.all) {
          if (it.holds || it.paused || it.keys != one.keys) continue;
          REQUIRE_FALSE(Play::TurnOf(other, it.priority) < Play::TurnOf(id, one.priority));
        }
        play.table.Leave("ns", list(one), Play::TurnOf(id, one.priority));
        for (const std::string& key : one.keys) play.Take(key, id);
        one.holds = true;
      }
      REQUIRE_FALSE(model.Next().has_value());  // nobody with room is left waiting
      for (const std::string& name : names)
        REQUIRE(play.table.Used("ns", name) == model.Held(name));
    }
  }
}

TEST_CASE("freeing a place costs the same for ten and for a million that wait") {
  // The number of lines and keys is the same, and each of them is looked at in logarithmic time.
  Play play;
  play.Max("k", 1);
  play.Max("l", 1);
  play.Take("k", 1);
  play.Take("l", 2);
  for (int id = 10; id < 100'000; ++id)
    id % 2 == 0 ? play.Wait({"k"}, id) : play.Wait({"k", "l"}, id);
  play.Release("k", 1);
  CHECK(play.LetIn() == Ids{"10"});
  play.Release("k", 10);
  CHECK(play.LetIn() == Ids{"12"});
  play.Release("l", 2);
  CHECK(play.LetIn() == Ids{});
  play.Release("k", 12);
  CHECK(play.LetIn() == Ids{"11"});
}

TEST_CASE("a rate of one in a year with a large burst lets as many begin at once") {
  Play play;
  play.table.SetNumbers("ns", "k", {{}, Rate{1, 8760h, 1'000'000}}, play.now);
  for (int i = 0; i < 1'000; ++i) {
    REQUIRE(play.table.HasRoom("ns", "k", "x", play.now));
    play.table.Spend("ns", "k", play.now);
  }
  CHECK(play.table.TokensOf("ns", "k", play.now) > 998'000);
  // As many as there is time to wait for: then there is no room.
  for (int i = 0; i < 1'000'000; ++i) play.table.Spend("ns", "k", play.now);
  CHECK_FALSE(play.table.HasRoom("ns", "k", "x", play.now));
}

TEST_CASE("another rate misses at most what it lets begin at once") {
  Play play;
  const auto set = [&](std::optional<Rate> rate) {
    play.table.SetNumbers("ns", "k", {{}, rate}, play.now);
  };
  set(Rate{1, 1h, 10});
  for (int i = 0; i < 10; ++i) play.table.Spend("ns", "k", play.now);
  SUBCASE("at once") { set(Rate{1, 1s, 2}); }
  SUBCASE("after a time without one") {
    set(std::nullopt);
    set(Rate{1, 1s, 2});
  }
  CHECK_FALSE(play.table.HasRoom("ns", "k", "x", play.now));
  CHECK(play.table.NextToken("ns", "k") == play.now + 1s);
  set(Rate{1, 2h, 2});
  CHECK(play.table.NextToken("ns", "k") == play.now + 2h);
}

TEST_CASE("those that wait in many lines are shown in the order of their turns, page by page") {
  Play play;
  play.Max("pool", 0);
  std::mt19937 random(7);
  std::vector<Turn> turns;
  for (int id = 1; id <= 300; ++id) {
    const int priority = static_cast<int>(random() % 3);
    const std::string own = "user/" + std::to_string(random() % 100);
    const auto standing = random() % 3 == 0 ? Standing::kPaused : Standing::kWaits;
    play.Wait({"pool", own.c_str()}, id, priority, standing);
    turns.push_back(Play::TurnOf(id, priority));
  }
  std::sort(turns.begin(), turns.end());
  std::vector<Turn> shown;
  while (shown.size() < turns.size()) {
    const std::optional<Turn> after = shown.empty() ? std::nullopt : std::optional(shown.back());
    size_t left = 7;
    const size_t before = shown.size();
    play.table.ForEachWaiter("ns", "pool", after, [&](const LimitTable::Waiter& waiter) {
      shown.push_back(waiter.turn);
      return --left > 0;
    });
    REQUIRE(shown.size() > before);
  }
  CHECK(shown == turns);
}

TEST_CASE("nobody of a closed group is next") {
  Play play;
  play.Max("k", 1);
  const auto stand = [&](int id, std::string_view group) {
    play.table.Stand("ns", Keys({"k"}), Play::TurnOf(id, 0), std::to_string(id), play.now,
                     Standing::kWaits, group);
  };
  stand(1, "g");
  stand(2, "");
  play.table.SetClosed("ns", "g", true);
  auto next = play.table.Next(play.now);
  REQUIRE(next);
  CHECK(next->instance == "2");
  play.table.SetClosed("ns", "g", false);
  next = play.table.Next(play.now);
  REQUIRE(next);
  CHECK(next->instance == "1");
  CHECK(next->group == "g");
  play.table.Leave("ns", Keys({"k"}), next->turn, next->group);
  CHECK(play.table.InLine("ns", "k") == 1);
}

}  // namespace
}  // namespace dfsmr
