// What happens in one partition because of what happened in another: exactly once, whatever becomes
// of the messages and of whoever sends and takes them.
#include "dsrv/engine/messages.h"

#include <doctest/doctest.h>

#include <set>

#include "dsrv/engine/occurrences.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/triggers.h"
#include "storage/rows/occurrence.h"
#include "storage/rows/schedule.h"
#include "storage/rows/trigger.h"
#include "tests/dsrv/engine/parted.h"

namespace dfsmr {
namespace {

constexpr std::string_view kErrand = R"(
id: job
params: {type: object, properties: {n: {type: number}}}
nodes:
  work: {start: true, transitions: {ok: done, bad: broken, again: work}}
  done: {final: true}
  broken: {final: true, result: error}
)";
constexpr char kOut = '\x70';
constexpr char kIn = '\x71';
constexpr char kFollower = '\x72';

std::string ErrorOf(Parted& parted, const std::string& id) { return parted.Must(id).error; }

size_t RowsOfMessages(World& world) {
  return world.RowsOf(kOut).size() + world.RowsOf(kIn).size() + world.RowsOf(kFollower).size();
}

struct Jobs : Parted {
  explicit Jobs(uint16_t partitions = 3) : Parted(partitions) { Define(kErrand); }
  const std::string first = Named("first", 1);
  const std::string second = Named("second", 2 % size());
};

// Prerequisites ---------------------------------------------------------------------------------

TEST_CASE("an instance begins after one of another partition has stopped, once") {
  Jobs parted;
  parted.Start("job", parted.first);
  parted.Start("job", parted.second, {{parted.first}});
  auto went = parted.Carry();
  CHECK(parted.Must(parted.second).state == InstanceState::kScheduled);
  CHECK(parted.at(1).RowsOf(kFollower).size() == 1);
  SUBCASE("as all goes on") {}
  SUBCASE("after the prerequisite's engine has crashed") { parted.at(1).Crash(); }
  SUBCASE("after the follower's engine has crashed") { parted.at(2).Crash(); }
  SUBCASE("after both") { parted.Crash(); }
  parted.Move(parted.first, "ok");
  CHECK(parted.at(1).RowsOf(kFollower).empty());
  std::ranges::move(parted.Carry(), std::back_inserter(went));
  CHECK(parted.Must(parted.second).state == InstanceState::kRunning);
  CHECK(went.size() >= 2);  // the last one is told again after a crash
  for (const Parted::Letter& letter : went) parted.Deliver(letter);
  parted.Crash();
  for (const Parted::Letter& letter : went) parted.Deliver(letter);
  for (const Parted::Letter& letter : parted.Carry()) CHECK(letter.number == 1);
  CHECK(parted.Carry().empty());
  CHECK(parted.Begun(parted.second) == 1);
}

TEST_CASE("a follower whose message comes late is told at once what has become of the other") {
  Jobs parted;
  parted.Start("job", parted.first);
  parted.Start("job", parted.second, {{parted.first}});
  SUBCASE("it has ended well") {
    parted.Move(parted.first, "ok");
    parted.Carry();
    CHECK(parted.Must(parted.second).state == InstanceState::kRunning);
  }
  SUBCASE("it has failed") {
    parted.Move(parted.first, "bad");
    parted.Carry();
    CHECK(parted.Must(parted.second).result == InstanceResult::kError);
    CHECK(ErrorOf(parted, parted.second).find("ended with ERROR") != std::string::npos);
  }
  CHECK(parted.at(1).RowsOf(kFollower).empty());
}

TEST_CASE("any end of another will do where that is said") {
  Jobs parted;
  parted.Start("job", parted.first);
  parted.Start("job", parted.second, {{.instance = parted.first, .any_result = true}});
  parted.Carry();
  parted.Move(parted.first, "bad");
  parted.Carry();
  CHECK(parted.Must(parted.second).state == InstanceState::kRunning);
}

TEST_CASE("a follower of what is not there ends with an error that says so") {
  Jobs parted;
  parted.Start("job", parted.second, {{parted.first}});
  parted.Carry();
  CHECK(parted.Must(parted.second).result == InstanceResult::kError);
  CHECK(ErrorOf(parted, parted.second).find("there is no such instance") != std::string::npos);
}

TEST_CASE("a follower of several partitions waits for all of them") {
  Jobs parted;
  const std::string near = parted.Named("near", 2);
  const std::string home = parted.Named("home", 0);
  for (const std::string& id : {parted.first, near, home}) parted.Start("job", id);
  parted.Start("job", parted.second, {{parted.first}, {near}, {home}});
  parted.Carry();
  for (const std::string& id : {home, near, parted.first}) {
    CHECK(parted.Must(parted.second).state == InstanceState::kScheduled);
    parted.Move(id, "ok");
    parted.Carry();
  }
  CHECK(parted.Begun(parted.second) == 1);
}

TEST_CASE("what was said to a former instance of the id is not taken for another's") {
  Jobs parted;
  parted.Start("job", parted.second, {{parted.first}});
  const auto follow = parted.Offered(2, 1);
  REQUIRE(follow.size() == 1);
  auto said = rows::DecodeMessage(follow.front().text);
  REQUIRE(said);
  const auto& asked = std::get<rows::Message::Follow>(said->of);
  CHECK(asked.born > 0);
  // Of one that was born before.
  const rows::Message old{rows::Message::Ended{"ns", parted.first, parted.second, asked.born - 1,
                                               InstanceResult::kSuccess}};
  CHECK(parted.Deliver({1, 2, 1, rows::EncodeMessage(old)}) == 1);
  CHECK(parted.Must(parted.second).state == InstanceState::kScheduled);
}

TEST_CASE("a cancelled follower stays so") {
  Jobs parted;
  parted.Start("job", parted.first);
  parted.Start("job", parted.second, {{parted.first}});
  parted.Carry();
  REQUIRE(parted.at(2).Do(
      [&](Engine& e) { return e.Cancel("ns", parted.second, CancelMode::kCancel); }));
  parted.Move(parted.first, "ok");
  parted.Carry();
  CHECK(parted.Must(parted.second).result == InstanceResult::kCancelled);
  CHECK(parted.Begun(parted.second) == 0);
}

// Numbers ---------------------------------------------------------------------------------------

TEST_CASE("messages are applied in the order of their pair, each once") {
  Jobs parted;
  std::vector<std::string> followers;
  for (int i = 0; i < 5; ++i) {
    followers.push_back(parted.Named("f" + std::to_string(i) + "-", 2));
    parted.Start("job", followers.back(), {{parted.first}});
  }
  const auto letters = parted.Offered(2, 1);
  REQUIRE(letters.size() == 5);
  CHECK(parted.Deliver(letters[2]) == 0);  // what comes before is missing
  CHECK(parted.Deliver(letters[0]) == 1);
  CHECK(parted.Deliver(letters[0]) == 1);
  CHECK(parted.Deliver(letters[2]) == 1);
  CHECK(parted.Deliver(letters[1]) == 2);
  CHECK(parted.Deliver(letters[2]) == 3);
  parted.at(1).Crash();
  CHECK(parted.Deliver(letters[2]) == 3);
  CHECK(parted.Deliver(letters[3]) == 4);
  CHECK(parted.Deliver(letters[0]) == 4);
}

TEST_CASE("a message that cannot be read changes nothing, and is not applied") {
  Jobs parted;
  parted.Start("job", parted.second, {{parted.first}});
  const auto letter = parted.Offered(2, 1).front();
  for (const std::string& text : {std::string("\xFF\xFF"), std::string()}) {
    auto up_to = parted.at(1).Do([&](Engine& e) { return e.messages().Deliver(2, 1, text); });
    CHECK_FALSE(up_to);
    CHECK(up_to.error().code == Code::kDataLoss);
  }
  CHECK(parted.Deliver(letter) == 1);
}

TEST_CASE("what a crash takes before the commit is not told, what was written is told again") {
  Jobs parted;
  World& world = parted.at(2);
  world.Decide([&](Engine& e) {
    const std::vector<Instance::Prerequisite> after{{parted.first}};
    REQUIRE(e.Start({.ns = "ns", .machine = "job", .id = parted.second, .after = after}));
  });
  CHECK(parted.Offered(2, 1).empty());  // not before the commit
  SUBCASE("lost") {
    world.Crash();
    CHECK(parted.Offered(2, 1).empty());
    CHECK(world.RowsOf(kOut).empty());
  }
  SUBCASE("written, and never told") {
    REQUIRE(world.Write());
    world.Crash();
    CHECK(parted.Offered(2, 1).size() == 1);
  }
  SUBCASE("written") {
    world.Commit();
    CHECK(parted.Offered(2, 1).size() == 1);
    CHECK(parted.Offered(2, 1, 1).empty());
  }
}

TEST_CASE("rows of what was applied go, but for the last, and numbers go on") {
  Jobs parted;
  World& world = parted.at(2);
  const auto follow = [&](int i) {
    parted.Start("job", parted.Named("f" + std::to_string(i) + "-", 2), {{parted.first}});
  };
  parted.Start("job", parted.first);
  for (int i = 0; i < 3; ++i) follow(i);
  CHECK(world.RowsOf(kOut).size() == 3);
  parted.Carry();
  follow(3);  // drops those that were applied
  CHECK(parted.Offered(2, 1).front().number == 4);
  CHECK(world.RowsOf(kOut).size() == 1);
  parted.Carry();
  CHECK(world.RowsOf(kOut).size() == 1);
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash the last is told again, and skipped") {
    world.Crash();
    const auto again = parted.Offered(2, 1);
    REQUIRE(again.size() == 1);
    CHECK(again.front().number == 4);
    CHECK(parted.Deliver(again.front()) == 4);
  }
  follow(4);
  CHECK(parted.Offered(2, 1).back().number == 5);
  parted.Carry();
  CHECK(parted.at(1).RowsOf(kFollower).size() == 5);
}

TEST_CASE("many that are applied do not rest until there is another one") {
  Jobs parted;
  parted.Start("job", parted.first);
  parted.at(2).Decide([&](Engine& e) {
    for (int i = 0; i < 600; ++i) {
      const std::string id = parted.Named("f" + std::to_string(i) + "-", 2);
      REQUIRE(e.Start({.ns = "ns", .machine = "job", .id = id, .after = {{parted.first}}}));
    }
  });
  parted.at(2).Commit();
  CHECK(parted.at(2).RowsOf(kOut).size() == 600);
  parted.Carry();
  CHECK(parted.at(2).RowsOf(kOut).size() <= 17);
  CHECK(parted.at(2).engine().messages().outgoing()->waiting() == 0);
  parted.at(2).Crash();
  parted.Start("job", parted.Named("f600-", 2), {{parted.first}});
  CHECK(parted.Offered(2, 1).back().number == 601);
  parted.Carry();
  CHECK(parted.at(1).RowsOf(kFollower).size() == 601);
}

TEST_CASE("what has waited for long comes in portions, in order and without gaps") {
  Jobs parted;
  constexpr uint64_t kMany = 2'500;  // more than are kept in memory
  parted.at(2).Decide([&](Engine& e) {
    for (uint64_t i = 0; i < kMany; ++i) {
      e.messages().Send(1, {rows::Message::Finished{"ns", "schedule:s", std::to_string(i), false}});
    }
  });
  parted.at(2).Commit();
  SUBCASE("from memory and rows") {}
  SUBCASE("after a crash") { parted.at(2).Crash(); }
  CHECK(parted.at(2).engine().messages().outgoing()->waiting() == kMany);
  uint64_t last = 0;
  while (true) {
    const auto portion = parted.Offered(2, 1, last, 70);
    if (portion.empty()) break;
    CHECK(portion.size() <= 70);
    for (const Parted::Letter& letter : portion) {
      REQUIRE(letter.number == last + 1);
      const auto message = rows::DecodeMessage(letter.text);
      REQUIRE(message);
      CHECK(std::get<rows::Message::Finished>(message->of).instance == std::to_string(last));
      last = letter.number;
    }
  }
  CHECK(last == kMany);
}

TEST_CASE("large messages go in portions by their bytes") {
  Jobs parted;
  parted.at(2).Decide([&](Engine& e) {
    for (int i = 0; i < 10; ++i) {
      rows::Message::Finished large{"ns", "", std::string(400'000, 'x'), false};
      if (i == 5) large.instance.resize(3'000'000, 'x');
      e.messages().Send(1, {std::move(large)});
    }
  });
  parted.at(2).Commit();
  std::vector<size_t> sizes;
  for (uint64_t last = 0; last < 10; last += sizes.back()) {
    sizes.push_back(parted.Offered(2, 1, last).size());
    REQUIRE(sizes.back() > 0);
  }
  CHECK(sizes == std::vector<size_t>{2, 2, 1, 1, 2, 2});
}

TEST_CASE("who carries messages hears of each commit that has some, and of what waits already") {
  Jobs parted;
  std::vector<PartitionId> told;
  const auto tell = [&told](PartitionId to) { told.push_back(to); };
  parted.at(2).engine().messages().outgoing()->Notify(tell);
  CHECK(told.empty());
  parted.at(2).Decide([&](Engine& e) {
    for (int i = 0; i < 3; ++i) {
      e.messages().Send(1, {rows::Message::Finished{"ns", "", "x", false}});
    }
    e.messages().Send(0, {rows::Message::Finished{"ns", "", "x", false}});
  });
  CHECK(told.empty());
  parted.at(2).Commit();
  CHECK(told == std::vector<PartitionId>{0, 1});
  told.clear();
  parted.at(2).Crash();
  parted.at(2).engine().messages().outgoing()->Notify(tell);
  CHECK(told == std::vector<PartitionId>{0, 1});
}

TEST_CASE("a single partition writes no row of messages, whatever follows from what") {
  Parted parted(1);
  parted.Define(kErrand);
  parted.DefineDocuments("schedule: s\nevery: 1m\nstart: {machine: job}\n");
  parted.Start("job", "first");
  parted.Start("job", "second", {{"first"}});
  const Task task = parted.at(0).ReadyOne();
  REQUIRE(parted.at(0).Do([&](Engine& e) {
    return e.Report("ns", task.instance, {.transition = "ok", .claim = task.claim}, {},
                    {{.ns = "ns", .machine = "job", .id = "third"}});
  }));
  parted.Elapse(3min);
  CHECK(parted.Begun("second") == 1);
  CHECK(parted.Begun("third") == 1);
  CHECK(RowsOfMessages(parted.at(0)) == 0);
  CHECK(parted.at(0).engine().messages().outgoing()->waiting() == 0);
}

TEST_CASE("what is sent to the own partition is applied in that turn, and writes no row") {
  Jobs parted;
  parted.Start("job", parted.first);
  parted.Start("job", parted.second, {{parted.first}});
  parted.at(2).Decide([&](Engine& e) {
    e.messages().Send(2, {rows::Message::Ended{"ns", parted.first, parted.second,
                                               e.last_seq(), InstanceResult::kSuccess}});
  });
  parted.at(2).Commit();
  CHECK(parted.Begun(parted.second) == 1);
  CHECK(parted.at(2).RowsOf(kOut).size() == 1);  // to follow the other one
  CHECK(parted.at(2).RowsOf(kIn).empty());
}

// Starts with a report --------------------------------------------------------------------------

struct Reporting : Jobs {
  Reporting() {
    Start("job", first);
    task = at(1).ReadyOne();
  }
  Result<Answer> Report(std::vector<StartArgs> starts) {
    for (StartArgs& one : starts) one.ns = "ns";
    return at(1).Do([&](Engine& e) {
      return e.Report("ns", first, {.transition = "ok", .claim = task.claim}, {}, starts);
    });
  }
  std::vector<std::string> Refusals() {
    std::vector<std::string> notes;
    for (const Event& event : at(1).HistoryOf(Must(first))) {
      if (event.kind == ChangeKind::kStartRefused) notes.push_back(event.note);
    }
    return notes;
  }
  Task task;
};

StartArgs JobWith(const std::string& id, const std::string& params = "") {
  StartArgs args{.machine = "job", .id = id};
  args.spec.params = params;
  return args;
}

TEST_CASE("what a report starts in other partitions follows, as it was asked for") {
  Reporting parted;
  StartArgs far = JobWith(parted.second, R"({"n":1})");
  far.spec.labels["color"] = "red";
  far.priority = 7;
  far.provenance = Provenance{.group = "g"};
  const std::string home = parted.Named("home", 0);
  auto answer = parted.Report({far, JobWith(parted.Named("near", 1)), JobWith(home)});
  REQUIRE(answer);
  REQUIRE(answer->started);
  CHECK(answer->started->size() == 3);
  for (const Begun& one : *answer->started) CHECK(one.created);
  CHECK_FALSE(parted.at(2).Get(parted.second));
  CHECK(parted.Offered(1, 2).size() == 1);
  parted.Carry();
  auto view = parted.at(2).TryStart(far);  // the same again
  REQUIRE(view);
  CHECK_FALSE(view->created);
  CHECK(view->view.spec->labels.at("color") == "red");
  CHECK(view->view.spec->params == R"({"n":1})");
  CHECK(view->view.spec->client == "w");
  CHECK(view->view.instance.priority == 7);
  CHECK(view->view.instance.provenance->group == "g");
  CHECK(parted.Begun(home) == 1);
  CHECK(parted.Refusals().empty());
  SUBCASE("and a repeated report starts nothing again") {
    auto again = parted.Report({far, JobWith(parted.Named("near", 1)), JobWith(home)});
    REQUIRE(again);
    CHECK(again->repeated);
    CHECK(parted.Carry().empty());
  }
}

TEST_CASE("what cannot be started there is told in the history of the instance") {
  Reporting parted;
  parted.Start("job", parted.second);
  auto answer = parted.Report({JobWith(parted.second, R"({"n":2})")});
  REQUIRE(answer);
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of both") { parted.Crash(); }
  const auto went = parted.Carry();
  const auto refusals = parted.Refusals();
  REQUIRE(refusals.size() == 1);
  const std::string said = "instance '" + parted.second + "' of machine 'job' was not started";
  CHECK(refusals.front().find(said) != std::string::npos);
  CHECK(refusals.front().find("exists already") != std::string::npos);
  CHECK(parted.Must(parted.first).result == InstanceResult::kSuccess);
  for (const Parted::Letter& letter : went) parted.Deliver(letter);
  CHECK(parted.Refusals().size() == 1);
}

TEST_CASE("what is wrong wherever it would live refuses the report") {
  Reporting parted;
  StartArgs unknown = JobWith(parted.second);
  unknown.machine = "nothing";
  auto refused = parted.Report({unknown});
  CHECK_FALSE(refused);
  refused = parted.Report({JobWith(parted.second, R"({"n":"text"})")});
  CHECK_FALSE(refused);
  CHECK(parted.AllOffered().empty());
}

TEST_CASE("one id twice in a report is one start, also elsewhere") {
  Reporting parted;
  auto answer = parted.Report({JobWith(parted.second), JobWith(parted.second)});
  REQUIRE(answer);
  CHECK((*answer->started)[0].created);
  CHECK_FALSE((*answer->started)[1].created);
  CHECK(parted.Offered(1, 2).size() == 1);
}

TEST_CASE("what a full disk has no room for waits, and what comes behind it") {
  Reporting parted;
  REQUIRE(parted.Report({JobWith(parted.second)}));
  const auto letter = parted.Offered(1, 2).front();
  parted.at(2).engine().SetRoom(Room::kScarce);
  CHECK(parted.Deliver(letter) == 0);
  CHECK_FALSE(parted.at(2).Get(parted.second));
  parted.at(2).engine().SetRoom(Room::kAmple);
  CHECK(parted.Deliver(letter) == 1);
  CHECK(parted.Begun(parted.second) == 1);
}

TEST_CASE("a start whose machine is still to be adopted waits for that") {
  Parted parted(3);
  parted.at(kHome).Define(kErrand);
  const std::string id = parted.Named("new", 2);
  parted.DefineDocuments("schedule: s\nevery: 1m\noverlap: allow\nstart: {machine: job, id: " +
                         id + "}\n");
  parted.Elapse(1min);
  const auto letters = parted.Offered(0, 2);
  REQUIRE(letters.size() == 1);
  CHECK(parted.Deliver(letters.front()) == 0);
  parted.Adopt();
  parted.Carry();
  CHECK(parted.Begun(id) == 1);
}

TEST_CASE("a start that was asked of the wrong partition is refused") {
  Jobs parted;
  auto started = parted.at(0).TryStart(JobWith(parted.second));
  REQUIRE_FALSE(started);
  CHECK(started.error().message.find("lives in partition 2") != std::string::npos);
}

TEST_CASE("a report that was asked of the wrong partition is refused, and none denies its instance") {
  Jobs parted;
  parted.Start("job", parted.second);
  auto moved = parted.at(0).Move(parted.second, "ok");
  REQUIRE_FALSE(moved);
  CHECK(moved.error().code == Code::kInternal);
  CHECK(moved.error().message.find("lives in partition 2, and partition 0 was asked") !=
        std::string::npos);
  CHECK(parted.Must(parted.second).state == InstanceState::kRunning);
}

// Schedules and triggers ------------------------------------------------------------------------

std::vector<Occurrence> OccurrencesIn(Parted& parted, DocumentKind kind, std::string_view name) {
  std::vector<Occurrence> all;
  REQUIRE(rows::ScanOccurrences({parted.store(), 0}, {"ns", kind, name}, UINT64_MAX,
                                [&](Occurrence one) {
                                  all.insert(all.begin(), std::move(one));
                                  return true;
                                }));
  return all;
}
rows::ScheduleState ScheduleOf(Parted& parted, std::string_view name) {
  auto state = rows::GetScheduleState({parted.store(), 0}, "ns", name);
  REQUIRE(state);
  return **state;
}

// A schedule at home, whose instances have an id in partition 2.
struct Scheduled : Jobs {
  explicit Scheduled(const std::string& more = "") {
    DefineDocuments("schedule: s\nevery: 1m\noverlap: allow\n" + more +
                    "start: {machine: job, id: " + second +
                    ", params: {n: 1}}\n");
  }
  void Once() { Elapse(1min); }
  std::vector<Occurrence> Listed() {
    return OccurrencesIn(*this, DocumentKind::kSchedule, "s");
  }
};

TEST_CASE("a schedule starts an instance in another partition, once") {
  Scheduled parted;
  parted.Once();
  REQUIRE(parted.Listed().size() == 1);
  CHECK(parted.Listed()[0].outcome == OccurrenceOutcome::kStarted);
  CHECK(parted.Listed()[0].instance == parted.second);
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of its home") { parted.at(0).Crash(); }
  SUBCASE("after a crash of the other") { parted.at(2).Crash(); }
  const auto went = parted.Carry();
  CHECK(parted.Must(parted.second).provenance->cause == "schedule:s");
  CHECK(parted.Begun(parted.second) == 1);
  for (const Parted::Letter& letter : went) parted.Deliver(letter);
  CHECK(parted.Begun(parted.second) == 1);
  SUBCASE("and its end is told at home") {
    parted.Move(parted.second, "ok");
    parted.Carry();
    CHECK(ScheduleOf(parted, "s").last_success == parted.Listed()[0].time);
    CHECK(ScheduleOf(parted, "s").failures == 0);
  }
  SUBCASE("and its failure is counted at home") {
    parted.Move(parted.second, "bad");
    const auto told = parted.Carry();
    CHECK(ScheduleOf(parted, "s").failures == 1);
    parted.Crash();
    for (const Parted::Letter& letter : told) parted.Deliver(letter);
    CHECK(ScheduleOf(parted, "s").failures == 1);
  }
}

TEST_CASE("an occurrence has in the end what has become of it elsewhere") {
  Scheduled parted;
  SUBCASE("there was such an instance") {
    REQUIRE(parted.at(2).TryStart(JobWith(parted.second, R"({"n":1})")));
    parted.Once();
    parted.Carry();
    CHECK(parted.Listed()[0].outcome == OccurrenceOutcome::kExists);
    CHECK(ScheduleOf(parted, "s").failures == 0);
  }
  SUBCASE("there was another instance") {
    REQUIRE(parted.at(2).TryStart(JobWith(parted.second, R"({"n":2})")));
    parted.Once();
    CHECK(parted.Listed()[0].outcome == OccurrenceOutcome::kStarted);
    const auto went = parted.Carry();
    REQUIRE(went.size() == 2);
    CHECK(parted.Listed()[0].outcome == OccurrenceOutcome::kFailed);
    CHECK(parted.Listed()[0].error.find("other params") != std::string::npos);
    CHECK(parted.Listed()[0].instance == "");
    CHECK(ScheduleOf(parted, "s").failures == 1);
    for (const Parted::Letter& letter : went) parted.Deliver(letter);
    CHECK(ScheduleOf(parted, "s").failures == 1);
    SUBCASE("and is tried again as the same failure") {
      REQUIRE(parted.at(0).Do([&](Engine& e) {
        return e.schedules().Retry("ns", "s", parted.Listed()[0].id);
      }));
      CHECK(parted.Listed()[0].outcome == OccurrenceOutcome::kStarted);
      parted.Carry();
      CHECK(parted.Listed()[0].outcome == OccurrenceOutcome::kFailed);
      CHECK(parted.Listed()[0].tries == 2);
      CHECK(ScheduleOf(parted, "s").failures == 1);
    }
  }
}

TEST_CASE("a transition is sent to an instance of another partition, once") {
  Jobs parted;
  parted.Start("job", parted.second);
  parted.DefineDocuments("schedule: s\nevery: 1m\nsend: {instance: " + parted.second +
                         ", transition: again}\n");
  const auto moves = [&parted] {
    const auto kinds = parted.at(2).KindsOf(parted.second);
    return std::ranges::count(kinds, ChangeKind::kTransitioned);
  };
  parted.Elapse(1min);
  auto listed = OccurrencesIn(parted, DocumentKind::kSchedule, "s");
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].outcome == OccurrenceOutcome::kSent);
  CHECK(moves() == 0);
  const auto went = parted.Carry();
  CHECK(went.size() == 2);
  CHECK(moves() == 1);
  for (const Parted::Letter& letter : went) parted.Deliver(letter);
  CHECK(moves() == 1);
  SUBCASE("and what refuses it is a dead letter") {
    parted.Move(parted.second, "ok");
    for (uint32_t failures = 1; failures <= 3; ++failures) {
      parted.Elapse(1min);
      parted.Carry();
      listed = OccurrencesIn(parted, DocumentKind::kSchedule, "s");
      CHECK(listed.back().outcome == OccurrenceOutcome::kFailed);
      CHECK(listed.back().instance == "");
      CHECK(ScheduleOf(parted, "s").failures == failures);
    }
  }
}

TEST_CASE("a trigger starts an instance in another partition, and hears what became of it") {
  Jobs parted;
  parted.DefineDocuments(
      "trigger: t\non: {webhook: {path: t, open: true}}\nstop_on_fail: 2\n"
      "start: {machine: job, id: \"${item.id}\", params: {n: 1}}\n");
  const auto fire = [&](const std::string& id) {
    auto fired = parted.at(0).Do([&](Engine& e) {
      return e.triggers().Fire("ns", "t", "", R"({"id":")" + id + R"("})");
    });
    REQUIRE_MESSAGE(fired, (fired ? "" : fired.error().message));
    return *fired;
  };
  CHECK(fire(parted.second).outcome == OccurrenceOutcome::kStarted);
  parted.Carry();
  CHECK(parted.Begun(parted.second) == 1);
  CHECK(parted.Must(parted.second).provenance->cause == "trigger:t");
  REQUIRE(parted.at(1).TryStart(JobWith(parted.first)));
  fire(parted.first);
  parted.Carry();
  const auto listed = OccurrencesIn(parted, DocumentKind::kTrigger, "t");
  REQUIRE(listed.size() == 2);
  CHECK(listed[0].outcome == OccurrenceOutcome::kStarted);
  CHECK(listed[1].outcome == OccurrenceOutcome::kFailed);
  const auto view = parted.at(0).Do([](Engine& e) { return e.triggers().Get("ns", "t", 0); });
  REQUIRE(view);
  CHECK(view->row.failures == 1);
  CHECK(view->occurrences.failed == 1);
  parted.Move(parted.second, "bad");
  parted.Carry();
  const auto stopped = parted.at(0).Do([](Engine& e) { return e.triggers().Get("ns", "t", 0); });
  REQUIRE(stopped);
  CHECK(stopped->row.paused);
}

// Crashes ---------------------------------------------------------------------------------------

TEST_CASE("whatever commit is the last before a crash, each thing happens once") {
  // Crashes `who` before its n-th commit from then on; what it was to write is gone.
  for (PartitionId who = 0; who < 3; ++who) {
    for (int at = 1; at <= 6; ++at) {
      CAPTURE(who);
      CAPTURE(at);
      Scheduled parted;
      const std::string third = parted.Named("third", 1);
      parted.Elapse(1min);
      int commits = 0;
      for (int round = 0; round < 40; ++round) {
        for (const Parted::Letter& letter : parted.AllOffered()) {
          std::optional<Result<uint64_t>> up_to;
          parted.at(letter.to).Decide([&](Engine& e) {
            up_to = e.messages().Deliver(letter.from, letter.number, letter.text);
          });
          if (letter.to == who && ++commits == at) {
            parted.at(who).Crash();
            continue;
          }
          parted.at(letter.to).Commit();
          REQUIRE(*up_to);
          parted.Confirm(letter, **up_to);
        }
        if (round == 5) parted.Start("job", third, {{parted.second, true}});
        if (round == 10) parted.Move(parted.second, "ok");
      }
      CHECK(parted.Begun(parted.second) == 1);
      CHECK(parted.Begun(third) == 1);
      CHECK(ScheduleOf(parted, "s").last_success);
    }
  }
}

}  // namespace
}  // namespace dfsmr
