// Limits whose holders live in several partitions: never more than may, each word as in one, and
// nothing lost or held for ever whoever crashes.
#include "tests/dsrv/engine/limits_play.h"
#include "tests/dsrv/engine/parted.h"

namespace dfsmr {
namespace {

constexpr char kGuestRows = '\x73';
constexpr char kToldRows = '\x74';

struct Apart : Parted {
  explicit Apart(const std::string& limit) : Parted(3) { Define(Limited(limit)); }

  std::string State(const std::string& id) { return StateOf(Of(id), id); }
  // Starts one, and lets all messages come.
  void Begin(const std::string& id, StartArgs args = {}) {
    args.machine = "m";
    args.id = id;
    auto started = Of(id).TryStart(std::move(args));
    REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
    Carry();
  }
  // Starts one that lives elsewhere; home has heard of it, and has not been heard.
  World& Ask(const std::string& id) {
    REQUIRE(Of(id).TryStart({.machine = "m", .id = id}));
    DeliverAll(PlaceOf(id), 0);
    return Of(id);
  }
  // Home's answer to whether it may begin elsewhere.
  Result<Ok> MayBegin(const std::string& id) {
    StartArgs args{.ns = "ns", .machine = "m", .id = id};
    std::optional<std::string> question;
    Of(id).Do([&](Engine& e) { return question = e.QuestionOf(&args), true; });
    REQUIRE(question);
    return at(0).Do([&](Engine& e) { return e.limits().Reserve(*question); });
  }
  void AskLater(const std::string& id) {
    for (PartitionId at = 0; at < 3; ++at) this->at(at).Advance(std::chrono::seconds(1));
    Ask(id);
  }
  void DeliverAll(PartitionId from, PartitionId to) {
    for (const Letter& letter : Offered(from, to)) Confirm(letter, Deliver(letter));
  }
  void End(const std::string& id) {
    REQUIRE(Of(id).Move(id, "ok"));
    Carry();
  }
  Ids Running(const Ids& all) {
    Ids running;
    for (const std::string& id : all) {
      if (State(id) == "RUNNING") running.push_back(id);
    }
    return running;
  }

  const std::string home = Named("home", 0);
  const std::string one = Named("one", 1);
  const std::string two = Named("two", 2);
  const std::string late = Named("late", 1);
};

TEST_CASE("home keeps a place for one that it has let begin elsewhere") {
  Apart apart("{key: k, on_conflict: skip}");
  REQUIRE(apart.MayBegin(apart.one));
  const auto refused = apart.MayBegin(apart.two);
  REQUIRE(!refused);
  CHECK(refused.error().reason == Reason::kLimitReached);
  CHECK(refused.error().message ==
        "limit 'k' has no room: max is 1, and 1 holds it: instance '" + apart.one +
            "'; start it with on_conflict wait (dcli: --on-conflict wait), so that it waits its "
            "turn, or with force (--force) to begin past all limits");
  SUBCASE("until it begins") {
    apart.at(0).Elapse(std::chrono::seconds(9));
    apart.Begin(apart.one);
    CHECK(apart.State(apart.one) == "RUNNING");
    apart.at(0).Elapse(std::chrono::seconds(9));
    CHECK(!apart.MayBegin(apart.two));
    apart.End(apart.one);
    CHECK(apart.MayBegin(apart.two));
  }
  SUBCASE("for ten seconds, if it does not") {
    apart.at(0).Elapse(std::chrono::seconds(9));
    CHECK(!apart.MayBegin(apart.two));
    apart.at(0).Elapse(std::chrono::seconds(2));
    CHECK(apart.MayBegin(apart.two));
  }
  SUBCASE("unless its start is refused for another reason") {
    StartArgs args{.machine = "m", .id = apart.one, .start_before = Timestamp()};
    args.home_says = Ok{};
    CHECK(!apart.Of(apart.one).TryStart(std::move(args)));
    apart.Carry();
    SUBCASE("so that another begins") { CHECK(apart.MayBegin(apart.two)); }
    SUBCASE("until it asks again, from when on it has ten seconds") {
      apart.at(0).Elapse(std::chrono::seconds(5));
      REQUIRE(apart.MayBegin(apart.one));
      apart.at(0).Elapse(std::chrono::seconds(7));
      CHECK(!apart.MayBegin(apart.two));
    }
  }
  SUBCASE("unless home crashes") {
    apart.at(0).Crash();
    CHECK(apart.MayBegin(apart.two));
  }
}

TEST_CASE("home keeps a place in the line for one that it has let wait elsewhere") {
  Apart apart("{key: k, waiting: 1}");
  apart.Begin(apart.one);
  REQUIRE(apart.MayBegin(apart.two));
  REQUIRE(!apart.MayBegin(apart.late));
  SUBCASE("so that it waits") {
    apart.Begin(apart.two);
    CHECK(apart.State(apart.two) == "SCHEDULED");
    apart.End(apart.one);
    CHECK(apart.State(apart.two) == "RUNNING");
  }
  SUBCASE("so that it has its turn before it asks") {
    apart.End(apart.one);
    CHECK(apart.MayBegin(apart.late));  // it may wait now
    apart.Begin(apart.two);
    CHECK(apart.State(apart.two) == "RUNNING");
  }
}

TEST_CASE("home is asked only of what limits may leave out") {
  const auto asks = [](const std::string& limit) {
    Apart apart(limit);
    StartArgs args{.ns = "ns", .machine = "m"};
    bool any = false;
    apart.at(1).Do([&](Engine& e) { return any = e.QuestionOf(&args).has_value(), true; });
    CHECK(apart.PlaceOf(args.id) == 1);
    return any;
  };
  CHECK(asks("{key: k, on_conflict: skip}"));
  CHECK(asks("{key: k, waiting: 3}"));
  CHECK(!asks("{key: k}"));
  CHECK(!asks("{key: k, on_conflict: fail}"));
}

TEST_CASE("only so many hold a key over all partitions, and the next begins when one is done") {
  Apart apart("{key: k, max: 2}");
  const Ids all{apart.one, apart.two, apart.home, apart.late};
  for (const std::string& id : all) apart.Begin(id);
  CHECK(apart.Running(all) == Ids{apart.one, apart.two});
  CHECK(WaitersOf(apart.at(0), "k") == Ids{apart.home, apart.late});
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of home") { apart.at(0).Crash(); }
  SUBCASE("after a crash of the others") {
    apart.at(1).Crash();
    apart.at(2).Crash();
  }
  SUBCASE("after a crash of all") { apart.Crash(); }
  apart.Carry();
  CHECK(apart.Running(all) == Ids{apart.one, apart.two});
  apart.End(apart.two);
  CHECK(apart.Running(all) == Ids{apart.one, apart.home});
  apart.End(apart.home);
  CHECK(apart.Running(all) == Ids{apart.one, apart.late});
  CHECK(HoldersOf(apart.at(0), "k").size() == 2);
  apart.End(apart.one);
  apart.End(apart.late);
  CHECK(HoldersOf(apart.at(0), "k").empty());
  CHECK(apart.at(0).RowsOf(kGuestRows).empty());
  CHECK(apart.at(1).RowsOf(kToldRows).empty());
  for (const std::string& id : all) CHECK(apart.Begun(id) == 1);
}

TEST_CASE("one that may waits only as long as messages take") {
  Apart apart("{key: k, max: 1}");
  REQUIRE(apart.Of(apart.one).TryStart({.machine = "m", .id = apart.one}));
  CHECK(apart.State(apart.one) == "SCHEDULED");
  apart.Carry();
  CHECK(apart.State(apart.one) == "RUNNING");
}

TEST_CASE("each word of on_conflict does what it says to one of another partition") {
  const auto play = [](const std::string& word) {
    auto apart = std::make_unique<Apart>("{key: k, max: 1, on_conflict: " + word + "}");
    apart->Begin(apart->one);
    apart->Begin(apart->two);
    return apart;
  };
  SUBCASE("wait") {
    auto apart = play("wait");
    CHECK(apart->State(apart->two) == "SCHEDULED");
  }
  SUBCASE("skip") {
    auto apart = play("skip");
    CHECK(apart->State(apart->two) == "STOPPED CANCELLED");
    CHECK(apart->Must(apart->two).error.find("limit 'k'") != std::string::npos);
    CHECK(apart->Must(apart->two).error.find(apart->one) != std::string::npos);
  }
  SUBCASE("fail") {
    auto apart = play("fail");
    CHECK(apart->State(apart->two) == "STOPPED ERROR");
  }
  SUBCASE("latest") {
    auto apart = play("latest");
    CHECK(apart->State(apart->two) == "SCHEDULED");
    apart->Begin(apart->late);
    CHECK(apart->State(apart->two) == "STOPPED CANCELLED");
    CHECK(apart->State(apart->late) == "SCHEDULED");
    apart->End(apart->one);
    CHECK(apart->State(apart->late) == "RUNNING");
  }
  SUBCASE("cancel") {
    Apart apart("{key: k, max: 1, on_conflict: cancel}");
    apart.Begin(apart.one);
    const Task task = apart.at(1).ReadyOne();
    apart.Begin(apart.two);
    CHECK(apart.Must(apart.one).Cancelling());  // its worker is waited for
    CHECK(apart.State(apart.two) == "SCHEDULED");
    REQUIRE(apart.at(1).Report(task, "ok"));
    apart.Carry();
    CHECK(apart.State(apart.one) == "STOPPED CANCELLED");
    CHECK(apart.State(apart.two) == "RUNNING");
  }
  SUBCASE("replace") {
    auto apart = play("replace");
    CHECK(apart->State(apart->one) == "STOPPED CANCELLED");
    CHECK(apart->State(apart->two) == "RUNNING");
    apart->Begin(apart->home);
    CHECK(apart->State(apart->two) == "STOPPED CANCELLED");
    CHECK(apart->State(apart->home) == "RUNNING");
  }
}

TEST_CASE("one that is told to give way takes no turn until it has heard so") {
  Apart apart("{key: k, max: 2, on_conflict: replace}");
  const std::string first = apart.Named("first", 1);
  const std::string second = apart.Named("second", 1);
  const std::string told = apart.Named("told", 2);
  const Ids newer{apart.Named("a", 2), apart.Named("b", 2), apart.Named("c", 2)};
  apart.Begin(first);
  apart.Begin(second);
  apart.AskLater(told);
  for (const std::string& id : newer) {
    if (id == newer.back()) {
      // Both places become free while the word to `told` is on its way.
      apart.DeliverAll(0, 1);
      apart.DeliverAll(1, 0);
    }
    apart.AskLater(id);
  }
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of home") { apart.at(0).Crash(); }
  apart.Carry();
  CHECK(apart.State(told) == "STOPPED CANCELLED");
  CHECK(apart.Running(newer) == Ids{newer[1], newer[2]});
  CHECK(HoldersOf(apart.at(0), "k").size() == 2);
}

TEST_CASE("turns of all partitions go by priority, then by the order of starts") {
  Apart apart("{key: k, max: 1}");
  apart.Begin(apart.home);
  const std::string high = apart.Named("high", 2);
  const Ids all{apart.late, apart.two, apart.one, high};
  for (const std::string& id : all) apart.Begin(id, {.priority = id == high ? 1 : 0});
  CHECK(WaitersOf(apart.at(0), "k") == Ids{high, apart.late, apart.two, apart.one});
  std::string last = apart.home;
  for (const std::string& next : Ids{high, apart.late, apart.two, apart.one}) {
    apart.End(last);
    CHECK(apart.Running(all) == Ids{next});
    last = next;
  }
}

TEST_CASE("an operator's number at home counts for all partitions") {
  Apart apart("{key: k, max: 1}");
  const Ids all{apart.one, apart.two, apart.late};
  for (const std::string& id : all) apart.Begin(id);
  CHECK(apart.Running(all).size() == 1);
  Set(apart.at(0), "k", {.max = 3});
  apart.Carry();
  CHECK(apart.Running(all).size() == 3);
}

TEST_CASE("force begins past the limit, and counts") {
  Apart apart("{key: k, max: 1}");
  apart.Begin(apart.one);
  apart.Begin(apart.two, {.force = true});
  CHECK(apart.State(apart.two) == "RUNNING");
  apart.Begin(apart.home);
  apart.End(apart.one);
  CHECK(apart.State(apart.home) == "SCHEDULED");
  apart.End(apart.two);
  CHECK(apart.State(apart.home) == "RUNNING");
}

TEST_CASE("one that is paused gives its place back, and has to wait for another") {
  Apart apart("{key: k, max: 1}");
  apart.Begin(apart.one);
  apart.Begin(apart.two);
  REQUIRE(Pause(apart.Of(apart.one), apart.one));
  apart.Carry();
  CHECK(apart.State(apart.two) == "RUNNING");
  REQUIRE(Resume(apart.Of(apart.one), apart.one));
  apart.Carry();
  CHECK(apart.State(apart.one) == "PAUSED");
  apart.End(apart.two);
  CHECK(apart.State(apart.one) == "RUNNING");
}

TEST_CASE("an answer to what one asked before it was paused lets nobody in") {
  Apart apart("{key: k, max: 1}");
  World& there = apart.Ask(apart.two);
  const auto answers = apart.Offered(0, 2);
  REQUIRE(answers.size() == 1);
  REQUIRE(Pause(there, apart.two));
  REQUIRE(Resume(there, apart.two));
  for (const auto& letter : answers) apart.Confirm(letter, apart.Deliver(letter));
  CHECK(apart.State(apart.two) == "SCHEDULED");
  apart.Begin(apart.one);
  CHECK(apart.Running({apart.one, apart.two}).size() == 1);
}

TEST_CASE("one that is cancelled while it is let in holds nothing") {
  Apart apart("{key: k, max: 1}");
  World& there = apart.Ask(apart.two);
  REQUIRE(Cancel(there, apart.two));
  apart.Carry();
  CHECK(apart.State(apart.two) == "STOPPED CANCELLED");
  apart.Begin(apart.one);
  CHECK(apart.State(apart.one) == "RUNNING");
}

TEST_CASE("nodes hold a key over all partitions from when they are called until they are done") {
  Apart apart("{key: other, max: 100}");
  apart.Define(
      "id: n\nnodes:\n  n: {start: true, timeout: 0.0, limit: {key: k, max: 1}, "
      "transitions: {ok: z}}\n  z: {final: true}\n");
  const Ids all{apart.one, apart.two, apart.home};
  for (const std::string& id : all) {
    REQUIRE(apart.Of(id).TryStart({.machine = "n", .id = id}));
    apart.Carry();
  }
  size_t done = 0;
  for (int round = 0; round < 6 && done < 3; ++round) {
    size_t handed_out = 0;
    for (PartitionId id = 0; id < 3; ++id) {
      for (const Task& task : apart.at(id).Ready()) {
        ++handed_out;
        REQUIRE(apart.at(id).Report(task, "ok"));
      }
    }
    CHECK(handed_out <= 1);
    done += handed_out;
    apart.Carry();
  }
  CHECK(done == 3);
  CHECK(HoldersOf(apart.at(0), "k").empty());
}

TEST_CASE("a single partition has no guests") {
  World world;
  world.Define(Limited("{key: k, max: 1}"));
  world.Start("m", "a");
  world.Start("m", "b");
  CHECK(world.RowsOf(kGuestRows).empty());
  CHECK(world.RowsOf(kToldRows).empty());
  CHECK(world.RowsOf('\x70').empty());
}

}  // namespace
}  // namespace dfsmr
