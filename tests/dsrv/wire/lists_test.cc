// What readers see while the engine goes on: between any two reads of the store a turn may be
// written, and what one reply shows must have been true at once all the same.
#include "dsrv/wire/lists.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "dsrv/engine/survey.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/plan_view.h"
#include "storage/rows/instance.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

// Lets a turn be written before each read of it that a reader makes. Its snapshots are of one
// moment, unless it is told to break them: to show that the turns would tear what is read.
class BusyStore final : public MemoryStore {
 public:
  using Turn = std::function<void(int number)>;

  void Overtake(Turn turn, bool broken_snapshots) {
    turn_ = std::move(turn);
    broken_snapshots_ = broken_snapshots;
    turns_ = 0;
  }
  void Rest() { turn_ = nullptr; }

  std::unique_ptr<const View> Snapshot() const override {
    if (broken_snapshots_) return std::make_unique<const Now>(*this);
    auto snapshot = MemoryStore::Snapshot();
    Make();  // what is written next is not in it
    return snapshot;
  }
  Result<std::optional<std::string>> Get(std::string_view key) const override {
    Make();
    return MemoryStore::Get(key);
  }
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override {
    Make();
    return MemoryStore::Scan(begin, end, visit, reverse);
  }

 private:
  class Now final : public View {
   public:
    explicit Now(const BusyStore& store) : store_(store) {}
    Result<std::optional<std::string>> Get(std::string_view key) const override {
      return store_.Get(key);
    }
    Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                    bool reverse) const override {
      return store_.Scan(begin, end, visit, reverse);
    }

   private:
    const BusyStore& store_;
  };

  void Make() const {
    if (!turn_) return;
    const Turn turn = std::exchange(turn_, nullptr);  // its own reads are the engine's
    turn(turns_++);
    turn_ = turn;
  }

  mutable Turn turn_;
  mutable int turns_ = 0;
  bool broken_snapshots_ = false;
};

constexpr std::string_view kMachines = R"(
id: job
nodes:
  a: {start: true, transitions: {ok: z, loop: a}}
  z: {final: true}
---
plan: p
flow:
  - sequence:
      - {step: a, action: x}
      - {step: b, action: x}
      - {step: c, action: x}
---
plan: inner
flow: {for_each: "${params.h}", as: n, do: {step: a, action: x}}
---
plan: child
flow: [{step: b, plan: inner, input: {h: "${params.h}"}}]
---
plan: parent
flow: [{step: s, spawn: {plan: child, for_each: [1], as: h, input: {h: "${h}"}}}]
)";

struct Busy {
  BusyStore store;
  World world{{}, &store};

  Busy() { world.Define(kMachines); }

  // What `read` answers while `turn` is made before each of its reads, if its moment is none.
  template <typename Read>
  auto Torn(BusyStore::Turn turn, Read read, bool broken = true) {
    store.Overtake(std::move(turn), broken);
    auto outcome = read(Moment(world.engine().reader()));
    store.Rest();
    return outcome;
  }
  // The same, of a moment as it should be.
  template <typename Read>
  auto Whole(BusyStore::Turn turn, Read read) {
    return Torn(std::move(turn), std::move(read), /*broken=*/false);
  }
  void Report(const std::string& transition = "ok") {
    for (const Task& task : world.Ready()) {
      REQUIRE(world.Report(task, transition));
    }
  }
};

TEST_CASE("a list shows an instance once that stops while it is read") {
  Busy busy;
  for (const char* id : {"0", "1", "2", "3"}) busy.world.Start("job", id);
  const auto turn = [&busy](int number) {
    if (number < 4) REQUIRE(busy.world.Move(std::to_string(number), "ok"));
  };
  const auto read = [](const Moment& moment) {
    auto page = ReadInstances(moment, {.ns = "ns", .limit = 100});
    REQUIRE(page);
    std::string shown;
    for (const InstanceView& one : page->instances) {
      shown += one.instance.id + (one.instance.Stopped() ? " stopped " : " runs ");
    }
    return shown;
  };
  SUBCASE("") {
    CHECK(busy.Whole(turn, read) == "0 runs 1 runs 2 runs 3 runs ");
    CHECK(read(Moment(busy.world.engine().reader())) == "0 stopped 1 runs 2 runs 3 runs ");
  }
  SUBCASE("of several moments") {
    // The store without moments shows a change from the middle of the read.
    CHECK(busy.Torn(turn, read) == "0 stopped 1 runs 2 runs 3 runs ");
  }
}

TEST_CASE("a walk through the pages finds once what is there, though it stops on the way") {
  Busy busy;
  std::string all, shown;
  for (char id = 'a'; id <= 'j'; ++id) {
    busy.world.Start("job", std::string(1, id));
    all += id;
  }
  const std::string order = "caebdgjfhi";  // in which they stop, before, on and behind the page
  InstanceQuery query{.ns = "ns", .limit = 3};
  size_t stopped = 0;
  do {
    auto page = busy.Whole(
        [&](int) {
          if (stopped < order.size()) {
            REQUIRE(busy.world.Move(std::string(1, order[stopped++]), "ok"));
          }
        },
        [&query](const Moment& moment) { return ReadInstances(moment, query); });
    REQUIRE(page);
    for (const InstanceView& one : page->instances) shown += one.instance.id;
    query.after = page->last;
  } while (!query.after.empty());
  CHECK(stopped > 3);
  CHECK(shown == all);
}

TEST_CASE("a list shows what meets all that is asked for") {
  Busy busy;
  World& world = busy.world;
  auto labelled = [](std::map<std::string, std::string> labels) {
    return Spec{.labels = std::move(labels)};
  };
  for (const char* id : {"i", "j"}) {
    REQUIRE(world.TryStart({.machine = "p", .id = id, .spec = labelled({{"l", "1"}})}));
    const std::vector<rows::ChildStart> children = {
        {.machine = "job", .spec = labelled({{"l", "1"}, {"k", "a"}})},
        {.machine = "job", .spec = labelled({{"l", "2"}, {"k", "a"}})},
        {.machine = "job", .spec = labelled({{"l", "1"}, {"k", "b"}})},
        {.machine = "job"}};
    const std::vector<Task> tasks = world.Ready({.machine = "p"});
    REQUIRE(tasks.size() == 1);
    ReportArgs args{.transition = "suspend", .claim = tasks[0].claim, .children = children.size()};
    REQUIRE(world.Do([&](Engine& e) { return e.Report("ns", id, args, children); }));
    world.Drain();
  }
  REQUIRE(world.Move("i/a/2", "ok"));
  auto list = [&](InstanceQuery query) {
    query.ns = "ns";
    query.limit = 1;  // so that the walk from page to page is checked, too
    std::string shown;
    do {
      auto page = ReadInstances(Moment(world.engine().reader()), query);
      REQUIRE(page);
      for (const InstanceView& one : page->instances) shown += one.instance.id + " ";
      query.after = page->last;
    } while (!query.after.empty());
    return shown;
  };
  CHECK(list({.parent = "i"}) == "i/a/0 i/a/1 i/a/2 i/a/3 ");
  CHECK(list({.labels = {{"l", "1"}}, .parent = "i"}) == "i/a/0 i/a/2 ");
  CHECK(list({.labels = {{"l", "1"}, {"k", "b"}}, .parent = "i"}) == "i/a/2 ");
  CHECK(list({.labels = {{"l", "3"}}, .parent = "i"}) == "");
  CHECK(list({.labels = {{"l", "1"}}}) == "i i/a/0 i/a/2 j j/a/0 j/a/2 ");
  CHECK(list({.labels = {{"k", "a"}, {"l", "1"}}}) == "i/a/0 j/a/0 ");
  CHECK(list({.machine = "p", .labels = {{"l", "1"}}}) == "i j ");
  CHECK(list({.state = InstanceState::kStopped, .labels = {{"l", "1"}}}) == "i/a/2 ");
  CHECK(list({.result = InstanceResult::kPending, .labels = {{"l", "1"}}, .parent = "i"}) ==
        "i/a/0 ");
  CHECK(list({.node = "z", .parent = "i"}) == "i/a/2 ");
  CHECK(list({.node = "a", .labels = {{"l", "1"}}, .parent = "j"}) == "j/a/0 j/a/2 ");
}

TEST_CASE("a history is read whole while a page of it is cut off") {
  Busy busy;
  busy.world.Start("job", "i");
  for (int i = 0; i < 29; ++i) REQUIRE(busy.world.Move("i", "loop"));
  const auto turn = [&busy](int) { REQUIRE(busy.world.Move("i", "loop")); };
  const auto read = [](const Moment& moment) {
    auto page = ReadHistory(moment, {.ns = "ns", .id = "i", .limit = 1'000});
    REQUIRE(page);
    return page->events.size();
  };
  SUBCASE("") { CHECK(busy.Whole(turn, read) == 30); }
  SUBCASE("of several moments") { CHECK(busy.Torn(turn, read) > 60); }
}

TEST_CASE("the steps of a plan are shown as its tokens stand") {
  Busy busy;
  busy.world.Start("p", "i");
  const auto turn = [&busy](int) { busy.Report(); };
  const auto read = [](const Moment& moment) {
    auto view = ReadInstance(moment, "ns", "i");
    REQUIRE(view);
    v1::Instance shown;
    REQUIRE(ShowNodes(moment, view->instance, &shown));
    std::string text(Name(view->instance.state));
    for (const std::string& node : view->nodes) text += " " + node;
    for (const v1::Step& step : shown.steps()) text += " " + v1::Step::State_Name(step.state());
    return text;
  };
  SUBCASE("") {
    CHECK(busy.Whole(turn, read) == "RUNNING a READY PENDING PENDING");
    CHECK(read(Moment(busy.world.engine().reader())) == "RUNNING b DONE READY PENDING");
  }
}

// How each step stands, and whether that is what is shown of it.
std::string StandingOf(const Moment& moment, const std::string& id, std::string_view under) {
  auto view = ReadInstance(moment, "ns", id);
  REQUIRE(view);
  v1::Instance whole;
  REQUIRE(ShowNodes(moment, view->instance, &whole));
  auto steps = OpenSteps(moment, view->instance, under);
  REQUIRE(steps);
  REQUIRE(*steps);
  std::string text;
  for (size_t at = 0; at < (*steps)->size(); ++at) {
    v1::Step stands, shown;
    REQUIRE((*steps)->Stand(at, &stands));
    REQUIRE((*steps)->Show(at, &shown));
    CHECK((*steps)->PathOf(at) == shown.path());
    CHECK(stands.state() == shown.state());
    CHECK(stands.finalize() == shown.finalize());
    CHECK(stands.error() == shown.error());
    CHECK(stands.progress() == shown.progress());
    CHECK(stands.start_time().nanos() == shown.start_time().nanos());
    CHECK(stands.end_time().nanos() == shown.end_time().nanos());
    const auto before = (*steps)->Before(at);
    CHECK(std::equal(before.begin(), before.end(), shown.after().begin(), shown.after().end()));
    const auto is_shown = [&shown](const v1::Step& one) {
      return one.SerializeAsString() == shown.SerializeAsString();
    };
    CHECK(std::count_if(whole.steps().begin(), whole.steps().end(), is_shown) == 1);
    text += (text.empty() ? "" : " ") + shown.path() + "=" + v1::Step::State_Name(shown.state());
  }
  return text;
}

TEST_CASE("of the steps of a plan those under a path stand as the others do") {
  Busy busy;
  World& world = busy.world;
  world.Define(R"(
plan: q
flow:
  - sequence:
      - {step: a, action: x}
      - concurrence:
          - for_each: [1, 2]
            as: n
            do: {step: g, action: x}
      - section: s
        do: {step: t, action: x}
        retry: {limit: 2}
)");
  world.Start("q", "i");
  const auto standing = [&](std::string_view under) {
    return StandingOf(Moment(world.engine().reader()), "i", under);
  };
  CHECK(standing("") == "a=READY g.0=PENDING g.1=PENDING s=PENDING s.t=PENDING");
  REQUIRE(world.Report(world.ReadyOne(), "ok"));
  for (const Task& task : world.Ready()) {
    REQUIRE(world.Report(task, task.node == "g.0" ? "suspend" : "error"));
  }
  CHECK(standing("") == "a=DONE g.0=SUSPENDED g.1=HELD s=PENDING s.t=PENDING");
  CHECK(standing("g") == "g.0=SUSPENDED g.1=HELD");
  CHECK(standing("g.1") == "g.1=HELD");
  CHECK(standing("s.t") == "s.t=PENDING");
  CHECK(standing("g.11").empty());
}

TEST_CASE("a list of few machines has what one of all has, in the same order") {
  Busy busy;
  World& world = busy.world;
  for (const char* id : {"a", "b", "c", "d"}) {
    world.Start("job", id);
    world.Start("p", std::string("p") + id);
  }
  for (const char* id : {"b", "d", "a", "b"}) REQUIRE(world.Move(id, "loop"));
  REQUIRE(world.Move("c", "ok"));
  const auto list = [&](ListOrder order, bool backwards, bool few) {
    InstanceQuery query{.ns = "ns", .machine = "job", .limit = 2, .order = order,
                        .backwards = backwards};
    if (few) query.machines = std::vector<std::string>{"job", "none"};
    std::string shown;
    do {
      auto page = ReadInstances(Moment(world.engine().reader()), query);
      REQUIRE(page);
      for (const InstanceView& one : page->instances) shown += one.instance.id;
      if (few) CHECK(page->looked_at == 4);
      query.after = page->last;
      if (!query.after.empty()) shown += " ";
    } while (!query.after.empty());
    return shown;
  };
  for (bool few : {false, true}) {
    CAPTURE(few);
    CHECK(list(ListOrder::kChanged, true, few).starts_with("cb ad"));
    CHECK(list(ListOrder::kChanged, false, few).starts_with("da bc"));
    CHECK(list(ListOrder::kStarted, true, few).starts_with("dc ba"));
    CHECK(list(ListOrder::kStarted, false, few).starts_with("ab cd"));
  }
}

TEST_CASE("the machines in which a token is held are known while they have few instances") {
  Busy busy;
  World& world = busy.world;
  using Machines = std::vector<std::string>;
  const auto holding = [&](uint64_t most) { return world.engine().survey().Holding("ns", most); };
  world.Start("job", "j");
  world.Start("p", "i");
  CHECK(holding(10) == Machines{});
  const auto tasks = world.Ready({.machine = "p"});
  REQUIRE(tasks.size() == 1);
  REQUIRE(world.Report(tasks[0], "error"));
  CHECK(holding(10) == Machines{"p"});
  CHECK(holding(1) == Machines{"p"});
  CHECK_FALSE(holding(0));
  CHECK(world.engine().survey().Holding("other", 0) == Machines{});
}

TEST_CASE("an instance that lives again is found all the time") {
  Busy busy;
  World& world = busy.world;
  world.Start("parent", "i");
  world.Drain();
  REQUIRE(world.Must("i/s/0").Stopped());  // 1 is no list
  world.Define("plan: inner\nflow: [{step: a, action: x}]\n");
  const auto turn = [&world](int number) {
    if (number != 1) return;
    REQUIRE(world.Do([](Engine& e) { return e.Resume("ns", "i", "", false); }));
    world.Drain();
  };
  const auto read = [](const Moment& moment) {
    auto view = ReadInstance(moment, "ns", "i/s/0");
    return view ? std::string(Name(view->instance.state)) : view.error().message;
  };
  SUBCASE("") { CHECK(busy.Whole(turn, read) == "STOPPED"); }
  SUBCASE("of several moments") {
    CHECK(busy.Torn(turn, read) == rows::NoSuchInstance({"ns", "i/s/0"}).message);
  }
}

TEST_CASE("places in order of time begin with the time, and a list goes on behind each of them") {
  Busy busy;
  World& world = busy.world;
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    world.Start("job", id);
    world.Advance(std::chrono::seconds(1));
  }
  REQUIRE(world.Move("b", "loop"));
  for (const bool backwards : {false, true}) {
    InstanceQuery query{.ns = "ns", .limit = 10, .order = ListOrder::kChanged};
    query.backwards = backwards;
    query.tells_places = true;
    const Moment moment(world.engine().reader());
    const auto all = ReadInstances(moment, query);
    REQUIRE(all);
    REQUIRE(all->places.size() == 5);
    CHECK(all->last.empty());
    for (size_t i = 0; i < 5; ++i) {
      const std::string& place = all->places[i];
      CHECK(place.find('.') == 16);
      if (i > 0) CHECK((place < all->places[i - 1]) == backwards);
      query.after = place;
      const auto rest = ReadInstances(moment, query);
      REQUIRE(rest);
      REQUIRE(rest->instances.size() == 4 - i);
      if (i < 4) CHECK(rest->instances[0].instance.id == all->instances[i + 1].instance.id);
    }
    query.after.clear();
    query.limit = 2;
    const auto page = ReadInstances(moment, query);
    REQUIRE(page);
    CHECK(page->last == page->places.back());
  }
}

TEST_CASE("the places of a page are told in its token, where a server asks for them") {
  const PlacesOfPage places{{"p1", "p2"}, "p3"};
  const auto read = PlacesIn(TextOf(places));
  REQUIRE(read);
  CHECK(read->items == places.items);
  CHECK(read->last == "p3");
  const auto none = PlacesIn(TextOf(PlacesOfPage()));
  REQUIRE(none);
  CHECK(none->items.empty());
  CHECK(none->last.empty());
  CHECK_FALSE(PlacesIn("17"));
  v1::ListInstancesRequest request;
  request.set_page_token(PageToken(FiltersOf(request), "*5"));
  const auto by_id = ToQuery(request, {});
  REQUIRE(by_id);
  CHECK(by_id->after == "*5");
  CHECK_FALSE(by_id->tells_places);
  request.set_order_by("-changed");
  request.set_page_token(PageToken(FiltersOf(request), "*5"));
  const auto in_time = ToQuery(request, {});
  REQUIRE(in_time);
  CHECK(in_time->after == "5");
  CHECK(in_time->tells_places);
}

}  // namespace
}  // namespace dfsmr
