// What workers have and what they are called: capabilities, patterns of actions, queues for one
// name alone.
#include <doctest/doctest.h>

#include "fsm/base/limits.h"
#include "fsm/derived/agenda.h"

namespace dfsmr {
namespace {

QueueKey KeyOf(const std::string& action, std::vector<std::string> capabilities = {},
               const std::string& agent = "") {
  return {"ns", "m", 1, action, action, "q", std::move(capabilities), agent};
}
ReadyEntry Entry(std::string instance, int64_t since = 0, int64_t priority = 0) {
  return {std::move(instance), 1, FromMicros(since), priority};
}
std::string PopOf(Agenda& agenda, const Filter& filter, std::string_view name = "") {
  auto popped = agenda.Pop(filter, name);
  return popped ? popped->entry.instance : "";
}
Filter Has(std::vector<std::string> capabilities) {
  Filter filter{.ns = "ns"};
  filter.capabilities = std::move(capabilities);
  return filter;
}
Filter Actions(std::vector<std::string> actions, std::vector<std::string> packages = {}) {
  Filter filter{.ns = "ns"};
  filter.actions = std::move(actions);
  filter.packages = std::move(packages);
  return filter;
}
std::optional<WaiterId> Match(Agenda& agenda) {
  auto match = agenda.NextMatch();
  return match ? std::optional(match->first) : std::nullopt;
}

TEST_CASE("a worker takes what it has all capabilities for") {
  Agenda agenda;
  agenda.Push(agenda.QueueFor(KeyOf("a", {"arm64", "gpu"})), Entry("both"));
  agenda.Push(agenda.QueueFor(KeyOf("a", {"gpu"})), Entry("gpu", 1));
  agenda.Push(agenda.QueueFor(KeyOf("a")), Entry("none", 2));
  CHECK(PopOf(agenda, Has({"arm64"})) == "none");
  CHECK(PopOf(agenda, Has({"arm64"})) == "");
  CHECK(PopOf(agenda, Has({"gpu", "linux"})) == "gpu");
  CHECK(PopOf(agenda, Has({"gpu", "linux"})) == "");
  CHECK(PopOf(agenda, Has({"arm64", "gpu", "linux"})) == "both");
}

TEST_CASE("a pattern of actions is a name, all below a name, or all") {
  const auto matches = [](const Filter& filter, const std::string& action) {
    return filter.Matches(KeyOf(action));
  };
  CHECK(matches(Actions({"site.build"}), "site.build"));
  CHECK_FALSE(matches(Actions({"site.build"}), "site.build.x"));
  CHECK(matches(Actions({"site.*"}), "site.build"));
  CHECK_FALSE(matches(Actions({"site.*"}), "site"));
  CHECK_FALSE(matches(Actions({"site.*"}), "sites.build"));
  CHECK(matches(Actions({"*"}), "site.build"));
  CHECK(matches(Actions({"x", "site.*"}), "site.build"));
  CHECK(matches(Actions({"site.build"}, {"acme"}), "site.build"));
  CHECK_FALSE(matches(Actions({}, {"acme"}), "site.build"));
  CHECK_FALSE(matches(Actions({}, {"*"}), "site.build"));
  CHECK_FALSE(matches(Actions({"x"}, {"*"}), "site.build"));
  QueueKey of_package = KeyOf("site.build");
  of_package.package = "site";
  CHECK(Actions({}, {"*"}).Matches(of_package));
  CHECK(Actions({"x"}, {"*"}).Matches(of_package));
  CHECK(Actions({"x"}, {"site"}).Matches(of_package));
  CHECK_FALSE(Actions({"x"}, {"acme"}).Matches(of_package));
}

TEST_CASE("what packages in force require and serve changes under what is queued") {
  for (const std::string agent : {"", "h1"}) {
    CAPTURE(agent);
    Agenda agenda;
    agenda.Push(agenda.QueueFor(KeyOf("p.load", {"linux"}, agent)), Entry("i"));
    agenda.AddWaiter(1, Has({"linux"}), "h1");
    Filter all = Actions({}, {"*"});
    all.capabilities = {"gpu", "linux"};
    agenda.AddWaiter(2, all, "h1");
    CHECK(Match(agenda) == 1);
    agenda.Derive("ns", [](QueueKey* key) {
      key->package = "p";
      key->required = {"gpu"};
    });
    CHECK(Match(agenda) == 2);
    CHECK(PopOf(agenda, Has({"linux"}), "h1") == "");
    CHECK(agenda.QueueFor(KeyOf("p.load", {"linux"}, agent)) != nullptr);
    agenda.Derive("ns", [](QueueKey* key) { key->package.clear(); });
    CHECK_FALSE(Match(agenda));  // it still requires gpu, and is of no package
    agenda.Derive("ns", [](QueueKey* key) { key->required.clear(); });
    CHECK(Match(agenda) == 1);
    CHECK(PopOf(agenda, Has({"linux"}), "h1") == "i");
    CHECK_FALSE(Match(agenda));
  }
}

TEST_CASE("of several queues one is enough, and what is refused is not offered") {
  Filter filter{.ns = "ns"};
  filter.queues = {"a", "b"};
  CHECK_FALSE(filter.Matches(KeyOf("x")));
  filter.queues = {"a", "q"};
  CHECK(filter.Matches(KeyOf("x")));
  filter.refuses = {{"m", 1, "x"}};
  CHECK_FALSE(filter.Matches(KeyOf("x")));
  filter.refuses = {{"m", 1, "y"}, {"m", 2, "x"}};
  CHECK(filter.Matches(KeyOf("x")));
  QueueKey dry = KeyOf("x");
  dry.dry_run = true;
  CHECK_FALSE(filter.Matches(dry));
  filter.dry_run = true;
  CHECK(filter.Matches(dry));
  CHECK(filter.Matches(KeyOf("x")));
}

TEST_CASE("what is for one name is for workers of that name alone") {
  Agenda agenda;
  agenda.Push(agenda.QueueFor(KeyOf("a", {}, "h1")), Entry("for-h1", 2));
  agenda.Push(agenda.QueueFor(KeyOf("a")), Entry("for-all", 1));
  CHECK(PopOf(agenda, {.ns = "ns"}, "h2") == "for-all");
  CHECK(PopOf(agenda, {.ns = "ns"}, "h2") == "");
  CHECK(PopOf(agenda, {.ns = "ns"}) == "");
  CHECK(PopOf(agenda, {.ns = "other"}, "h1") == "");
  CHECK(PopOf(agenda, {.ns = "ns", .action = "b"}, "h1") == "");
  CHECK(PopOf(agenda, {.ns = "ns"}, "h1") == "for-h1");
}

TEST_CASE("what is for all and what is for one name come in one order") {
  Agenda agenda;
  auto* own = agenda.QueueFor(KeyOf("a", {}, "h1"));
  auto* all = agenda.QueueFor(KeyOf("a"));
  agenda.Push(own, Entry("a", 1));
  agenda.Push(all, Entry("b", 2));
  agenda.Push(own, Entry("c", 3));
  agenda.Push(all, Entry("d", 4));
  agenda.Push(own, Entry("z", 9, 1));
  std::string order;
  const Filter machine{.ns = "ns", .machine = "m"};
  while (auto popped = agenda.Pop(machine, "h1")) order += popped->entry.instance;
  CHECK(order == "zabcd");
}

TEST_CASE("a parked waiter hears of what is for its name, whenever the queue is made") {
  Agenda agenda;
  const Filter any{.ns = "ns"};
  agenda.AddWaiter(1, any, "h1");
  agenda.AddWaiter(2, any, "h2");
  agenda.AddWaiter(3, any, "h1");
  CHECK_FALSE(Match(agenda));
  auto* queue = agenda.QueueFor(KeyOf("a", {}, "h1"));
  CHECK_FALSE(Match(agenda));
  agenda.Push(queue, Entry("x"));
  CHECK(Match(agenda) == 1);
  CHECK(Match(agenda) == 3);  // the longest waiting first
  CHECK(Match(agenda) == 1);
  agenda.RemoveWaiter(1);
  CHECK(Match(agenda) == 3);
  CHECK(PopOf(agenda, any, "h1") == "x");
  CHECK_FALSE(Match(agenda));
  agenda.AddWaiter(4, Has({"gpu"}), "h1");  // of another filter, with the queue there
  agenda.Push(queue, Entry("y"));
  agenda.RemoveWaiter(3);
  CHECK(Match(agenda) == 4);
  agenda.RemoveWaiter(4);
  CHECK_FALSE(Match(agenda));
}

TEST_CASE("a waiter waits for its name and for all at once") {
  Agenda agenda;
  const Filter any{.ns = "ns"};
  auto* own = agenda.QueueFor(KeyOf("a", {}, "h1"));
  auto* all = agenda.QueueFor(KeyOf("a"));
  agenda.AddWaiter(1, any, "h1");
  agenda.AddWaiter(2, any, "h2");
  agenda.Push(all, Entry("x"));
  CHECK(Match(agenda) == 1);
  CHECK(Match(agenda) == 2);
  CHECK(PopOf(agenda, any, "h2") == "x");
  agenda.Push(own, Entry("y"));
  CHECK(Match(agenda) == 1);
  CHECK(Match(agenda) == 1);
  CHECK(PopOf(agenda, any, "h1") == "y");
}

TEST_CASE("dropping a version drops what was for a name, and its waiters go on waiting") {
  Agenda agenda;
  const Filter any{.ns = "ns"};
  agenda.AddWaiter(1, any, "h1");
  agenda.Push(agenda.QueueFor(KeyOf("a", {}, "h1")), Entry("old"));
  agenda.DropVersions("ns", "m", 2);
  CHECK_FALSE(Match(agenda));
  QueueKey next = KeyOf("a", {}, "h1");
  next.version = 2;
  agenda.Push(agenda.QueueFor(next), Entry("new"));
  CHECK(Match(agenda) == 1);
  CHECK(PopOf(agenda, any, "h1") == "new");
  agenda.RemoveWaiter(1);
}

TEST_CASE("closing a queue holds back what is for a name, too") {
  Agenda agenda;
  const Filter any{.ns = "ns"};
  agenda.Push(agenda.QueueFor(KeyOf("a", {}, "h1")), Entry("x"));
  agenda.SetClosed("ns", Agenda::Subject::kQueue, "q", true);
  CHECK(PopOf(agenda, any, "h1") == "");
  CHECK(agenda.ReadyIn("ns", Agenda::Subject::kQueue, "q") == 1);
  agenda.SetClosed("ns", Agenda::Subject::kQueue, "q", false);
  CHECK(PopOf(agenda, any, "h1") == "x");
}

TEST_CASE("queues for names that nothing is in are not kept for ever") {
  Agenda agenda;
  const Filter any{.ns = "ns"};
  auto* full = agenda.QueueFor(KeyOf("a", {}, "full"));
  agenda.Push(full, Entry("x"));
  auto* kept = agenda.QueueFor(KeyOf("a", {}, "kept"));
  Agenda::Keep(kept);
  agenda.AddWaiter(1, any, "gone");
  for (size_t i = 0; i < 3 * limits::kFilters; ++i) {
    const std::string name = i == 5 ? "gone" : "n" + std::to_string(i);
    agenda.Push(agenda.QueueFor(KeyOf("a", {}, name)), Entry("y"));
    CHECK(PopOf(agenda, any, name) == "y");
  }
  CHECK(agenda.QueueFor(KeyOf("a", {}, "kept")) == kept);
  CHECK(agenda.QueueFor(KeyOf("a", {}, "full")) == full);
  CHECK(agenda.named_queues() < 2 * limits::kFilters);
  CHECK(PopOf(agenda, any, "full") == "x");
  CHECK_FALSE(Match(agenda));
  agenda.Push(agenda.QueueFor(KeyOf("a", {}, "gone")), Entry("z"));
  CHECK(Match(agenda) == 1);
}

}  // namespace
}  // namespace dfsmr
