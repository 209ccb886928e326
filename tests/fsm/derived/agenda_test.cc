#include "fsm/derived/agenda.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

QueueKey KeyOf(const std::string& machine, const std::string& node = "n", uint32_t version = 1) {
  return {"ns", machine, version, node, machine + "." + node, "default"};
}
ReadyEntry Entry(std::string instance, int64_t since = 0, int32_t priority = 0) {
  return {std::move(instance), 1, FromMicros(since), priority};
}
std::string PopOf(Agenda& agenda, const Filter& filter = {.ns = "ns"}) {
  auto popped = agenda.Pop(filter);
  return popped ? popped->entry.instance : "";
}
std::string PopAll(Agenda& agenda, const Filter& filter = {.ns = "ns"}) {
  std::string all;
  while (auto popped = agenda.Pop(filter)) all += popped->entry.instance;
  return all;
}

TEST_CASE("higher priority comes first, then the oldest") {
  Agenda agenda;
  auto* queue = agenda.QueueFor(KeyOf("m"));
  agenda.Push(queue, Entry("c", 3));
  agenda.Push(queue, Entry("a", 1));
  agenda.Push(queue, Entry("z", 9, 5));
  agenda.Push(queue, Entry("b", 2));
  agenda.Push(queue, Entry("y", 8, 5));
  agenda.Push(queue, Entry("-", 0, -7));
  CHECK(PopAll(agenda) == "yzabc-");
}

std::string JoinTimes(const std::vector<Timestamp>& times) {
  std::string all;
  for (const Timestamp time : times) all += (all.empty() ? "" : ",") + std::to_string(Micros(time));
  return all;
}

TEST_CASE("who only looks is told of the highest priorities that are enough, and takes nothing") {
  Agenda agenda;
  const auto peek = [&](size_t most) {
    std::string all;
    for (const Agenda::Level& level : agenda.Peek({.ns = "ns"}, "", most)) {
      all += std::to_string(level.priority) + "*" + std::to_string(level.entries) + "@" +
             JoinTimes(level.since) + " ";
    }
    return all;
  };
  CHECK(peek(10) == "");
  auto* first = agenda.QueueFor(KeyOf("m"));
  auto* second = agenda.QueueFor(KeyOf("other"));
  agenda.Push(first, Entry("a", 4, 5));
  agenda.Push(first, Entry("b", 1));
  agenda.Push(second, Entry("c", 3, 5));
  agenda.Push(second, Entry("d", 9, -2));
  CHECK(peek(1) == "5*1@4 ");
  CHECK(peek(2) == "5*2@3,4 ");
  CHECK(peek(3) == "5*2@3,4 0*1@1 ");
  CHECK(peek(100) == "5*2@3,4 0*1@1 -2*1@9 ");
  agenda.Push(second, Entry("e", 7, 5));
  CHECK(peek(1) == "5*1@4 ");  // one queue is enough
  CHECK(peek(2) == "5*3@3,4 ");
  CHECK(peek(3) == "5*3@3,4,7 ");
  agenda.SetFrozen("ns", true);
  CHECK(peek(100) == "");
  agenda.SetFrozen("ns", false);
  CHECK(PopAll(agenda).size() == 5);
}

TEST_CASE("entries of the same age come in the order in which they were pushed") {
  Agenda agenda;
  auto* queue = agenda.QueueFor(KeyOf("m"));
  agenda.Push(queue, Entry("z", 5));
  for (const char* one : {"a", "b", "c"}) agenda.Push(queue, Entry(one, 1));
  CHECK(PopAll(agenda) == "abcz");
}

TEST_CASE("a flood on one queue does not starve another") {
  Agenda agenda;
  auto* flood = agenda.QueueFor(KeyOf("flood"));
  auto* other = agenda.QueueFor(KeyOf("other"));
  auto* third = agenda.QueueFor(KeyOf("third"));
  for (int i = 0; i < 100; ++i) agenda.Push(flood, Entry("f", i));
  for (int i = 0; i < 3; ++i) agenda.Push(other, Entry("o", 1'000 + i));
  for (int i = 0; i < 3; ++i) agenda.Push(third, Entry("t", 1'000 + i));
  std::map<char, int> among;
  for (int i = 0; i < 9; ++i) ++among[PopOf(agenda)[0]];
  CHECK(among == std::map<char, int>{{'f', 3}, {'o', 3}, {'t', 3}});
}

TEST_CASE("of one machine the oldest is next, wherever it stands") {
  Agenda agenda;
  auto* first = agenda.QueueFor(KeyOf("m", "first"));
  auto* second = agenda.QueueFor(KeyOf("m", "second"));
  const auto push = [&] {
    agenda.Push(first, Entry("a", 1));
    agenda.Push(first, Entry("c", 3));
    agenda.Push(second, Entry("d", 4));
    agenda.Push(second, Entry("b", 2));
    agenda.Push(second, Entry("z", 9, 1));
  };
  const Filter machine{.ns = "ns", .machine = "m"};
  SUBCASE("asked for before it is there") {
    CHECK(PopOf(agenda, machine) == "");
    push();
  }
  SUBCASE("asked for then") { push(); }
  CHECK(PopAll(agenda, machine) == "zabcd");
}

TEST_CASE("priority goes before fairness") {
  Agenda agenda;
  auto* low = agenda.QueueFor(KeyOf("low"));
  auto* high = agenda.QueueFor(KeyOf("high"));
  for (int i = 0; i < 5; ++i) agenda.Push(low, Entry("l", i));
  for (int i = 0; i < 5; ++i) agenda.Push(high, Entry("h", 100 + i, 1));
  CHECK(PopAll(agenda) == "hhhhhlllll");
}

TEST_CASE("a queue's rank follows its best entry") {
  Agenda agenda;
  auto* one = agenda.QueueFor(KeyOf("one"));
  auto* two = agenda.QueueFor(KeyOf("two"));
  agenda.Push(one, Entry("a", 1, 3));
  agenda.Push(one, Entry("b", 1, 1));
  agenda.Push(two, Entry("c", 1, 2));
  CHECK(PopOf(agenda) == "a");
  CHECK(PopOf(agenda) == "c");
  CHECK(PopOf(agenda) == "b");
}

TEST_CASE("what a filter matches") {
  const QueueKey key{"ns", "m", 3, "n", "act", "q"};
  struct Row {
    Filter filter;
    bool matches;
  };
  for (const Row& row : {
           Row{{.ns = "ns"}, true},
           Row{{.ns = "other"}, false},
           Row{{.ns = ""}, false},
           Row{{.ns = "ns", .machine = "m"}, true},
           Row{{.ns = "ns", .machine = "x"}, false},
           Row{{.ns = "ns", .node = "n"}, true},
           Row{{.ns = "ns", .node = "x"}, false},
           Row{{.ns = "ns", .action = "act"}, true},
           Row{{.ns = "ns", .action = "x"}, false},
           Row{{.ns = "ns", .queue = "q"}, true},
           Row{{.ns = "ns", .queue = "x"}, false},
           Row{{.ns = "ns", .machine = "m", .node = "n", .action = "act", .queue = "q"}, true},
           Row{{.ns = "ns", .machine = "m", .node = "n", .action = "act", .queue = "x"}, false},
       }) {
    CAPTURE(row.filter.machine);
    CHECK(row.filter.Matches(key) == row.matches);
    Agenda agenda;  // known before the queue, and after it
    CHECK(PopOf(agenda, row.filter).empty());
    agenda.Push(agenda.QueueFor(key), Entry("a"));
    CHECK(PopOf(agenda, row.filter) == (row.matches ? "a" : ""));
    Agenda late;
    late.Push(late.QueueFor(key), Entry("a"));
    CHECK(PopOf(late, row.filter) == (row.matches ? "a" : ""));
  }
}

TEST_CASE("all versions of a node have queues of their own, and the same filter finds them") {
  Agenda agenda;
  auto* first = agenda.QueueFor(KeyOf("m", "n", 1));
  auto* second = agenda.QueueFor(KeyOf("m", "n", 2));
  CHECK(first != second);
  CHECK(agenda.QueueFor(KeyOf("m", "n", 1)) == first);
  agenda.Push(first, Entry("a"));
  agenda.Push(second, Entry("b"));
  CHECK(PopAll(agenda, {.ns = "ns", .machine = "m"}).size() == 2);
}

// Waiters -----------------------------------------------------------------------------------------

TEST_CASE("who waits longest is named first, and then last") {
  Agenda agenda;
  agenda.AddWaiter(1, {.ns = "ns"});
  agenda.AddWaiter(2, {.ns = "ns", .machine = "m"});
  agenda.AddWaiter(3, {.ns = "ns"});
  CHECK_FALSE(agenda.NextMatch());
  auto* queue = agenda.QueueFor(KeyOf("m"));
  agenda.Push(queue, Entry("a"));
  for (WaiterId expected : {1u, 2u, 3u, 1u, 2u}) {
    auto match = agenda.NextMatch();
    REQUIRE(match);
    CHECK(match->first == expected);
  }
  agenda.RemoveWaiter(3);
  CHECK(agenda.NextMatch()->first == 1);
  CHECK(agenda.waiters() == 2);
}

TEST_CASE("a waiter is named only while there is work for its filter") {
  Agenda agenda;
  auto* queue = agenda.QueueFor(KeyOf("m"));
  agenda.AddWaiter(1, {.ns = "ns", .machine = "other"});
  agenda.AddWaiter(2, {.ns = "ns", .machine = "m"});
  agenda.Push(queue, Entry("a"));
  auto match = agenda.NextMatch();
  REQUIRE(match);
  CHECK(match->first == 2);
  CHECK(match->second.machine == "m");
  CHECK(PopOf(agenda, match->second) == "a");
  CHECK_FALSE(agenda.NextMatch());
  agenda.Push(agenda.QueueFor(KeyOf("other")), Entry("b"));
  CHECK(agenda.NextMatch()->first == 1);
}

TEST_CASE("a waiter that comes when there is work already is named at once") {
  Agenda agenda;
  agenda.Push(agenda.QueueFor(KeyOf("m")), Entry("a"));
  agenda.AddWaiter(1, {.ns = "ns"});
  CHECK(agenda.NextMatch()->first == 1);
  agenda.RemoveWaiter(1);
  CHECK_FALSE(agenda.NextMatch());
  agenda.RemoveWaiter(1);  // nothing happens
}

TEST_CASE("a waiter may come back under its number") {
  Agenda agenda;
  agenda.AddWaiter(1, {.ns = "ns"});
  agenda.AddWaiter(2, {.ns = "ns"});
  agenda.RemoveWaiter(1);
  agenda.AddWaiter(1, {.ns = "ns"});
  agenda.Push(agenda.QueueFor(KeyOf("m")), Entry("a"));
  CHECK(agenda.NextMatch()->first == 2);
}

// Dropping ----------------------------------------------------------------------------------------

TEST_CASE("versions that are dropped hand out nothing more") {
  Agenda agenda;
  agenda.AddWaiter(1, {.ns = "ns", .machine = "m"});
  for (uint32_t version : {1u, 2u, 3u}) {
    agenda.Push(agenda.QueueFor(KeyOf("m", "n", version)), Entry(std::to_string(version)));
    agenda.Push(agenda.QueueFor(KeyOf("m2", "n", version)), Entry("o"));
  }
  auto* elsewhere = agenda.QueueFor({"other", "m", 1, "n", "a", "q"});
  agenda.Push(elsewhere, Entry("e"));
  agenda.DropVersions("ns", "m", 3);
  CHECK(PopAll(agenda, {.ns = "ns", .machine = "m"}) == "3");
  CHECK_FALSE(agenda.NextMatch());
  CHECK(PopAll(agenda, {.ns = "ns"}) == "ooo");
  CHECK(PopAll(agenda, {.ns = "other"}) == "e");
  agenda.Push(agenda.QueueFor(KeyOf("m", "n", 3)), Entry("4"));
  CHECK(agenda.NextMatch()->first == 1);
}

TEST_CASE("dropping a machine's versions spares one whose name goes on") {
  Agenda agenda;
  agenda.Push(agenda.QueueFor(KeyOf("m")), Entry("a"));
  agenda.Push(agenda.QueueFor(KeyOf("m.x")), Entry("b"));
  agenda.Push(agenda.QueueFor(KeyOf("m10")), Entry("c"));
  agenda.DropVersions("ns", "m", 10);
  CHECK(PopAll(agenda).size() == 2);
}

// Many filters ------------------------------------------------------------------------------------

TEST_CASE("filters come from outside, and forgetting some of them changes no answer") {
  Agenda agenda;
  auto* queue = agenda.QueueFor(KeyOf("m"));
  agenda.AddWaiter(1, {.ns = "ns", .machine = "m"});
  for (size_t i = 0; i < 3 * limits::kFilters; ++i) {
    CHECK(PopOf(agenda, {.ns = "ns", .node = "x" + std::to_string(i)}).empty());
  }
  agenda.Push(queue, Entry("a", 1));
  agenda.Push(queue, Entry("b", 2));
  agenda.Push(queue, Entry("c", 3));
  CHECK(agenda.NextMatch()->first == 1);  // a filter that somebody waits on is kept
  CHECK(PopOf(agenda, {.ns = "ns", .machine = "m"}) == "a");
  CHECK(PopOf(agenda, {.ns = "ns", .node = "n"}) == "b");
  CHECK(PopOf(agenda, {.ns = "ns"}) == "c");
  CHECK(PopOf(agenda, {.ns = "ns", .node = "x1"}).empty());
}

TEST_CASE("more waiters with filters of their own than are remembered are all served") {
  Agenda agenda;
  const size_t count = limits::kFilters + 500;
  for (size_t i = 0; i < count; ++i) {
    agenda.AddWaiter(i + 1, {.ns = "ns", .machine = "m" + std::to_string(i)});
  }
  for (size_t i = 0; i < count; i += 100) {
    agenda.Push(agenda.QueueFor(KeyOf("m" + std::to_string(i))), Entry("a"));
    auto match = agenda.NextMatch();
    REQUIRE(match);
    CHECK(match->first == i + 1);
    CHECK(PopOf(agenda, match->second) == "a");
  }
  CHECK(agenda.waiters() == count);
}

TEST_CASE("the same pushes and pops give the same order every time") {
  auto run = [] {
    Agenda agenda;
    std::vector<std::string> ballast;  // so that allocations fall elsewhere
    std::string order;
    for (int i = 0; i < 20; ++i) {
      static int runs = 0;
      ballast.push_back(std::string(static_cast<size_t>(++runs * 37 % 500), 'x'));
      agenda.Push(agenda.QueueFor(KeyOf("m" + std::to_string(i * 7 % 20))),
                  Entry(std::to_string(i) + ","));
    }
    return PopAll(agenda);
  };
  const std::string first = run();
  for (int i = 0; i < 20; ++i) CHECK(run() == first);
}

}  // namespace
}  // namespace dfsmr
