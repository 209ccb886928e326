// The built-in keys of limits count what lives in all partitions: what asks for them since they have
// a number, and what had begun before.
#include <deque>
#include <set>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/engine/triggers.h"
#include "tests/dsrv/engine/limits_play.h"
#include "tests/dsrv/engine/parted.h"

namespace dfsmr {
namespace {

constexpr char kCountedRows = '\x76';
constexpr std::string_view kPlain =
    "id: m\nnodes: {n: {start: true, transitions: {ok: z}}, z: {final: true}}\n---\n"
    "id: other\nnodes: {n: {start: true, transitions: {ok: z}}, z: {final: true}}\n";

struct Counting : Parted {
  Counting() : Parted(3) { Define(kPlain); }

  void Begin(const std::string& id, const std::string& machine = "m", const std::string& group = "") {
    StartArgs args{.machine = machine, .id = id};
    if (!group.empty()) args.provenance = Provenance{.group = group};
    auto started = Of(id).TryStart(std::move(args));
    REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
    CHECK(started->created);
    Carry();
    CHECK(Of(id).Get(id));
  }
  void End(const std::string& id) {
    Move(id, "ok");
    Carry();
  }
  void SetMax(const std::string& key, std::optional<uint32_t> max) {
    Set(at(0), key, {.max = max, .no_max = !max});
    Carry();
  }
  std::string State(const std::string& id) { return StateOf(Of(id), id); }
  size_t Running(const Ids& some) {
    size_t running = 0;
    for (const std::string& id : some) running += State(id) == "RUNNING";
    return running;
  }
  uint64_t Held(const std::string& key) { return LimitOf(at(0), key).held; }

  const Ids ids{Named("a", 1), Named("b", 2), Named("c", 0), Named("d", 1), Named("e", 2)};
};

TEST_CASE("only so many instances run in a namespace, over all partitions") {
  for (const std::string key : {"namespace:ns", "machine:m"}) {
    CAPTURE(key);
    Counting counting;
    counting.SetMax(key, 2);
    for (const std::string& id : counting.ids) counting.Begin(id);
    CHECK(counting.Running(counting.ids) == 2);
    CHECK(counting.State(counting.ids[0]) == "RUNNING");
    CHECK(counting.State(counting.ids[1]) == "RUNNING");
    CHECK(counting.Held(key) == 2);
    counting.Crash();
    counting.Carry();
    CHECK(counting.Running(counting.ids) == 2);
    counting.End(counting.ids[1]);
    CHECK(counting.State(counting.ids[2]) == "RUNNING");
    counting.End(counting.ids[2]);
    CHECK(counting.State(counting.ids[3]) == "RUNNING");
    CHECK(counting.Held(key) == 2);
    counting.SetMax(key, std::nullopt);
    CHECK(counting.Running(counting.ids) == 3);
    for (size_t i : {0, 3, 4}) counting.End(counting.ids[i]);
    counting.Elapse(1s);
    CHECK(counting.at(0).RowsOf(kCountedRows).empty());
  }
}

TEST_CASE("what had begun before a key has a number counts, wherever it lives") {
  Counting counting;
  for (size_t i = 0; i < 4; ++i) counting.Begin(counting.ids[i]);
  const std::string stranger = counting.Named("stranger", 1);
  counting.Begin(stranger, "other");
  counting.SetMax("machine:m", 3);
  CHECK(counting.Held("machine:m") == 4);
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of home") { counting.at(0).Crash(); }
  SUBCASE("after a crash of the others") {
    counting.at(1).Crash();
    counting.at(2).Crash();
  }
  SUBCASE("after a crash of all") { counting.Crash(); }
  counting.Carry();
  CHECK(counting.Held("machine:m") == 4);
  counting.Begin(counting.ids[4]);
  CHECK(counting.State(counting.ids[4]) == "SCHEDULED");
  counting.End(counting.ids[0]);
  CHECK(counting.State(counting.ids[4]) == "SCHEDULED");
  CHECK(counting.Held("machine:m") == 3);
  counting.End(counting.ids[1]);
  CHECK(counting.State(counting.ids[4]) == "RUNNING");
  CHECK(counting.Held("machine:m") == 3);
  counting.SetMax("machine:m", std::nullopt);
  counting.SetMax("machine:m", 1);
  CHECK(counting.Held("machine:m") == 3);
  for (const size_t i : {2, 3, 4}) counting.End(counting.ids[i]);
  CHECK(counting.Held("machine:m") == 0);
}

TEST_CASE("so many members of a group run at once, over all partitions") {
  Counting counting;
  REQUIRE(counting.at(0).Do(
      [](Engine& e) { return e.groups().Set("ns", "g", {.max_running = 2}); }));
  counting.Carry();
  for (const std::string& id : counting.ids) counting.Begin(id, "m", "g");
  CHECK(counting.Running(counting.ids) == 2);
  const auto group = counting.at(0).Do([](Engine& e) { return e.groups().Get("ns", "g"); });
  REQUIRE(group);
  CHECK(group->row.counts.Of(MemberShare::Kind::kScheduled) == 3);
  for (const std::string& id : counting.ids) {
    CHECK(counting.State(id) == "RUNNING");
    counting.End(id);
  }
  for (PartitionId id = 0; id < 3; ++id) counting.at(id).Advance(std::chrono::hours(24 * 400));
  for (int i = 0; i < 3; ++i) {
    counting.Elapse(1min);
    counting.Carry();
  }
  CHECK(counting.at(0).RowsOf(kCountedRows).empty());
}

TEST_CASE("a limit document of a built-in key counts all partitions, too") {
  Counting counting;
  DefineLimit(counting.at(0), "limit: few\non: {machine: m}\nmax: 1\n");
  counting.Carry();
  for (size_t i = 0; i < 3; ++i) counting.Begin(counting.ids[i]);
  CHECK(counting.Running({counting.ids[0], counting.ids[1], counting.ids[2]}) == 1);
  REQUIRE(counting.at(0).Do([](Engine& e) {
    return e.documents().Drop({"ns", DocumentKind::kLimit, "few"});
  }));
  counting.Carry();
  counting.Elapse(1s);
  counting.Carry();
  counting.Begin(counting.ids[3]);
  CHECK(counting.State(counting.ids[3]) == "RUNNING");
}

TEST_CASE("a deleted namespace leaves no key behind") {
  Counting counting;
  counting.Begin(counting.ids[0]);
  counting.SetMax("machine:m", 1);
  REQUIRE(counting.at(0).Do([](Engine& e) { return e.Delete("ns", 0s, "me"); }));
  counting.Adopt();
  for (int i = 0; i < 5; ++i) {
    counting.Elapse(1s);
    counting.Carry();
  }
  CHECK(counting.at(0).RowsOf(kCountedRows).empty());
  counting.Define(kPlain);
  for (size_t i = 0; i < 3; ++i) counting.Begin(counting.ids[i]);
  CHECK(counting.Running({counting.ids[0], counting.ids[1], counting.ids[2]}) == 3);
}

// Schedules and triggers -------------------------------------------------------------------------

// One source of instances, which says where the next one lives, and whether it may overlap.
struct Causing : Counting {
  using Source = std::pair<DocumentKind, std::string>;  // the other: what begins its document
  explicit Causing(Source of) : kind(of.first), head(std::move(of.second)) {}

  void Launches(const std::string& id, const std::string& overlap) {
    DefineDocuments(head + "\noverlap: " + overlap + "\nstart: {machine: m, id: " + id + "}\n");
    Adopt();
    Carry();
  }
  // Whether it begins; else it is left out.
  bool Once() {
    const auto ran = at(0).Do([&](Engine& e) {
      return kind == DocumentKind::kSchedule ? e.schedules().Run({.ns = "ns", .name = "s"})
                                             : e.triggers().Fire("ns", "s", "", "{}");
    });
    Carry();
    if (ran && ran->outcome == OccurrenceOutcome::kStarted) return true;
    CAPTURE((ran ? ran->error : ran.error().message));
    CHECK((ran ? ran->outcome == OccurrenceOutcome::kSkipped
               : ran.error().reason == Reason::kLimitReached));
    return false;
  }
  std::string Key() const { return CauseOf(kind, "s"); }

  const DocumentKind kind;
  const std::string head;
};

const Causing::Source kSources[] = {
    {DocumentKind::kSchedule, "schedule: s\nevery: 1h"},
    {DocumentKind::kTrigger, "trigger: s\non: {change: {kind: finished, machine: other}}"}};

TEST_CASE("what begins apart counts those elsewhere that had begun while they might overlap") {
  size_t source = 0;
  SUBCASE("of a schedule") {}
  SUBCASE("of a trigger") { source = 1; }
  Causing causing(kSources[source]);
  const auto& [a, b, c, d, e] = std::tie(causing.ids[0], causing.ids[1], causing.ids[2],
                                         causing.ids[3], causing.ids[4]);
  for (const std::string& id : {a, b}) {
    causing.Launches(id, "allow");
    CHECK(causing.Once());
  }
  causing.Launches(d, "skip");
  CHECK(causing.Held(causing.Key()) == 2);
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of home") { causing.at(0).Crash(); }
  SUBCASE("after a crash of all") { causing.Crash(); }
  causing.Carry();
  CHECK_FALSE(causing.Once());
  causing.End(a);
  CHECK_FALSE(causing.Once());
  causing.End(b);
  CHECK(causing.Once());
  CHECK(causing.State(d) == "RUNNING");
  causing.Launches(e, "skip");
  CHECK_FALSE(causing.Once());
  causing.Launches(e, "allow");
  CHECK(causing.Once());
  causing.End(d);
  causing.End(e);
  causing.Launches(c, "skip");
  CHECK(causing.Once());
  causing.End(c);
  REQUIRE(causing.at(0).Do([&](Engine& engine) {
    return engine.documents().Drop({"ns", causing.kind, "s"});
  }));
  causing.Adopt();
  causing.Elapse(1s);
  causing.Carry();
  for (PartitionId id = 0; id < 3; ++id) CHECK(causing.at(id).RowsOf(kCountedRows).empty());
}

TEST_CASE("one that may overlap by way of exception does not wait for those that may not") {
  Causing causing(kSources[0]);
  causing.Launches(causing.ids[0], "skip");
  CHECK(causing.Once());
  causing.Launches(causing.ids[1], "skip");
  const auto ran = causing.at(0).Do([&](Engine& e) {
    return e.schedules().Run({.ns = "ns", .name = "s", .overlap = Overlap::kAllow});
  });
  REQUIRE(ran);
  causing.Carry();
  CHECK(causing.State(causing.ids[1]) == "RUNNING");
  CHECK(causing.Held(causing.Key()) == 2);
  causing.End(causing.ids[0]);
  causing.Launches(causing.ids[3], "skip");
  CHECK_FALSE(causing.Once());
  causing.SetMax(causing.Key(), 2);
  CHECK(causing.Once());
  causing.SetMax(causing.Key(), std::nullopt);
  CHECK(causing.Held(causing.Key()) == 2);
}

// Tasks -------------------------------------------------------------------------------------------

struct Tasks : Parted {
  Tasks() : Parted(3) {
    Define("id: m\nnodes: {n: {start: true, queue: mail, timeout: 0.0, transitions: {ok: z}},"
           " z: {final: true}}\n");
    for (int i = 0; i < 12; ++i) {
      ids.push_back(Named("i" + std::to_string(i) + "-", static_cast<PartitionId>(i % 3)));
      Start("m", ids.back());
    }
    Carry();
  }
  void SetMax(std::optional<uint32_t> max) {
    Set(at(0), "queue:mail", {.max = max, .no_max = !max});
    Carry();
  }
  // What workers that ask all the time, and only in some partitions, get within a second.
  size_t Take(const std::set<PartitionId>& from = {0, 1, 2}, size_t most = 100) {
    size_t taken = 0;
    for (int i = 0; i < 50 && taken < most; ++i) {
      for (const PartitionId id : from) {
        for (Task& task : at(id).Ready({}, 1)) {
          in_hand.push_back({id, std::move(task)});
          ++taken;
        }
      }
      Elapse(20ms);
      Carry();
    }
    return taken;
  }
  void ReportOne() {
    auto [id, task] = std::move(in_hand.front());
    in_hand.pop_front();
    REQUIRE(at(id).Report(task, "ok"));
    Carry();
  }

  Ids ids;
  std::deque<std::pair<PartitionId, Task>> in_hand;
};

TEST_CASE("only so many tasks of a queue are in hand, over all partitions, and all have their turn") {
  Tasks tasks;
  tasks.SetMax(2);
  CHECK(tasks.Take() == 2);
  SUBCASE("as all goes on") {}
  SUBCASE("though home crashes") { tasks.at(0).Restart(); }
  SUBCASE("though the others crash") {
    tasks.at(1).Restart();
    tasks.at(2).Restart();
  }
  for (size_t left = 12; left > 0; --left) {
    CAPTURE(left);
    tasks.ReportOne();
    (void)tasks.Take();
    CHECK(tasks.in_hand.size() == std::min<size_t>(2, left - 1));
    CHECK(LimitOf(tasks.at(0), "queue:mail").held == tasks.in_hand.size());
  }
}

TEST_CASE("a queue that is stopped hands out nothing in any partition") {
  Tasks tasks;
  tasks.SetMax(0);
  CHECK(tasks.Take() == 0);
  tasks.SetMax(3);
  CHECK(tasks.Take() == 3);
  tasks.SetMax(std::nullopt);
  CHECK(tasks.Take() == 9);
  while (!tasks.in_hand.empty()) tasks.ReportOne();
  tasks.Elapse(1s);
  tasks.Carry();
  CHECK(tasks.at(0).RowsOf(kCountedRows).empty());
}

TEST_CASE("tasks that were in hand before their queue had a number count, wherever they are") {
  Tasks tasks;
  CHECK(tasks.Take({0, 1, 2}, 6) >= 6);
  const size_t before = tasks.in_hand.size();
  tasks.SetMax(4);
  CHECK(LimitOf(tasks.at(0), "queue:mail").held == before);
  CHECK(tasks.Take() == 0);
  for (size_t held = before; held > 4; --held) {
    tasks.ReportOne();
    CHECK(tasks.Take() == 0);
  }
  while (tasks.in_hand.size() > 3) tasks.ReportOne();
  CHECK(tasks.Take() == 1);
}

TEST_CASE("a place that nobody takes in one partition goes to another one") {
  Tasks tasks;
  tasks.SetMax(1);
  for (const PartitionId only : {PartitionId{2}, PartitionId{0}, PartitionId{1}}) {
    CAPTURE(only);
    for (int i = 0; i < 8 && tasks.in_hand.empty(); ++i) (void)tasks.Take({only}, 1);
    REQUIRE(tasks.in_hand.size() == 1);
    tasks.ReportOne();
  }
}

TEST_CASE("a rate of a queue lets so many be handed out, over all partitions") {
  Tasks tasks;
  Set(tasks.at(0), "queue:mail", {.rate = Rate{1, 1s}});
  tasks.Carry();
  size_t taken = 0;
  for (int i = 0; i < 5; ++i) taken += tasks.Take();
  CHECK(taken >= 5);
  CHECK(taken <= 9);
}

}  // namespace
}  // namespace dfsmr
