// Groups whose members live in several partitions: home counts all of them, and has all of them
// follow its orders.
#include "dsrv/engine/backfills.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/namespaces.h"
#include "tests/dsrv/engine/limits_play.h"
#include "tests/dsrv/engine/parted.h"

namespace dfsmr {
namespace {

using Action = rows::GroupOrder::Action;
using Kind = MemberShare::Kind;

constexpr std::string_view kMemberJob = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done, bad: failed}}
  done: {final: true}
  failed: {final: true, result: error}
)";
constexpr char kGroupRows = '\x24';

struct Grouped : Parted {
  Grouped() : Parted(3) { Define(kMemberJob); }

  // Starts one, and carries no message.
  void Begin(const std::string& id, const std::string& group = "g") {
    StartArgs args{.machine = "job", .id = id};
    args.provenance = Provenance{.group = group};
    auto started = Of(id).TryStart(std::move(args));
    REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
  }
  void BeginAll() {
    for (const std::string& id : all) Begin(id);
    Carry();
  }
  void End(const std::string& id, const std::string& transition = "ok") {
    Move(id, transition);
    Carry();
  }
  Result<GroupView> TryGroup(const std::string& group = "g", PartitionId place = 0) {
    return at(place).Do([&](Engine& e) { return e.groups().Get("ns", group); });
  }
  GroupView Group(const std::string& group = "g") {
    auto view = TryGroup(group);
    REQUIRE_MESSAGE(view, (view ? "" : view.error().message));
    return *view;
  }
  uint64_t Count(Kind kind) { return Group().row.counts.Of(kind); }
  std::string GroupState() {
    const GroupView view = Group();
    const InstanceState state = view.row.counts.State(view.to_come);
    if (state != InstanceState::kStopped) return std::string(Name(state));
    return "STOPPED " + std::string(Name(view.row.counts.Result(view.to_come)));
  }
  void Control(Action action, bool members = false) {
    REQUIRE(at(0).Do([&](Engine& e) {
      return e.groups().Control("ns", "g", {.action = action, .members = members, .note = "why"});
    }));
    Carry();
  }
  void Set(GroupSettings settings) {
    REQUIRE(at(0).Do([&](Engine& e) { return e.groups().Set("ns", "g", settings); }));
    Carry();
  }
  // What has stopped is not kept any more.
  void Outlast() {
    for (PartitionId id = 0; id < size(); ++id) at(id).Advance(std::chrono::hours(24 * 400));
    for (int i = 0; i < 3; ++i) {
      Elapse(1min);
      Carry();
    }
  }
  std::string State(const std::string& id) { return StateOf(Of(id), id); }
  std::vector<std::string> Finished() {
    std::vector<std::string> notes;
    for (PartitionId id = 0; id < size(); ++id) {
      for (const Event& event : at(id).published()) {
        if (event.kind == ChangeKind::kGroupFinished) notes.push_back(event.note);
      }
    }
    return notes;
  }

  const std::vector<std::string> all{Named("a", 0), Named("b", 1), Named("c", 2), Named("d", 2)};
};

TEST_CASE("a group counts its members wherever they live") {
  Grouped grouped;
  grouped.BeginAll();
  CHECK(grouped.Count(Kind::kRunning) == 4);
  CHECK(grouped.GroupState() == "RUNNING");
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of home") { grouped.at(0).Crash(); }
  SUBCASE("after a crash of the others") {
    grouped.at(1).Crash();
    grouped.at(2).Crash();
  }
  SUBCASE("after a crash of all") { grouped.Crash(); }
  grouped.Carry();
  CHECK(grouped.Count(Kind::kRunning) == 4);
  for (size_t i = 0; i < 3; ++i) grouped.End(grouped.all[i]);
  CHECK(grouped.Count(Kind::kRunning) == 1);
  CHECK(grouped.Count(Kind::kSuccess) == 3);
  CHECK(grouped.Finished().empty());
  grouped.Crash();
  grouped.Carry();
  grouped.End(grouped.all[3], "bad");
  CHECK(grouped.GroupState() == "STOPPED ERROR");
  CHECK(grouped.Finished() == std::vector<std::string>{"ERROR"});
  CHECK(grouped.Group().row.counts.Progress(0) == doctest::Approx(1));
  CHECK(grouped.Group().row.end_time >= grouped.Must(grouped.all[3]).end_time);
}

TEST_CASE("a group is made by its first member, and lasts as long as one of them can be read") {
  Grouped grouped;
  CHECK_FALSE(grouped.TryGroup());
  grouped.Begin(grouped.all[1]);
  grouped.Carry();
  CHECK(grouped.Group().row.counts.Total() == 1);
  grouped.End(grouped.all[1]);
  grouped.Begin(grouped.all[2]);
  grouped.End(grouped.all[2]);
  CHECK(grouped.Group().row.counts.Total() == 2);
  CHECK(grouped.at(0).RowsOf(kGroupRows).size() == 3);  // home's, and where there are members
  grouped.Outlast();
  CHECK_FALSE(grouped.TryGroup());
  CHECK(grouped.at(0).RowsOf(kGroupRows).empty());
}

TEST_CASE("the progress of members elsewhere is told within a second") {
  Grouped grouped;
  grouped.Begin(grouped.all[1]);
  grouped.Carry();
  const auto progress = [&] { return grouped.Group().row.counts.Progress(0); };
  CHECK(progress() == doctest::Approx(0));
  World& there = grouped.Of(grouped.all[1]);
  const Task task = there.ReadyOne();
  const auto extend = [&](double by) {
    there.Do([&](Engine& e) {
      ExtendArgs args;
      args.progress = by;
      return e.Extend("ns", task.instance, task.claim, std::nullopt, args).error.has_value();
    });
  };
  for (int i = 1; i <= 5; ++i) extend(0.1 * i);
  CHECK(grouped.Offered(1, 0).size() <= 1);
  grouped.Elapse(1100ms);
  grouped.Carry();
  CHECK(progress() == doctest::Approx(0.5));
}

TEST_CASE("a paused group holds back new members in all partitions, until it is resumed") {
  Grouped grouped;
  grouped.Begin(grouped.all[0]);
  grouped.Carry();
  grouped.Control(Action::kPause);
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of all") { grouped.Crash(); }
  for (size_t i = 1; i < 4; ++i) grouped.Begin(grouped.all[i]);
  grouped.Carry();
  CHECK(grouped.Count(Kind::kScheduled) == 3);
  CHECK(grouped.Count(Kind::kRunning) == 1);
  grouped.Control(Action::kResume);
  CHECK(grouped.Count(Kind::kRunning) == 4);
  for (const std::string& id : grouped.all) grouped.End(id);
  CHECK(grouped.GroupState() == "STOPPED SUCCESS");
}

TEST_CASE("of a paused group without members nothing is left elsewhere when it is resumed") {
  Grouped grouped;
  grouped.Begin(grouped.all[0]);
  grouped.Control(Action::kPause);
  CHECK(grouped.at(0).RowsOf(kGroupRows).size() == 3);
  SUBCASE("by hand") { grouped.Control(Action::kResume); }
  SUBCASE("since its last member is gone") {
    grouped.End(grouped.all[0]);
    grouped.Outlast();
    CHECK_FALSE(grouped.TryGroup());
  }
  grouped.Elapse(1s);
  const size_t left = grouped.TryGroup() ? 1 : 0;
  CHECK(grouped.at(0).RowsOf(kGroupRows).size() == left);
}

TEST_CASE("members follow orders in all partitions") {
  Grouped grouped;
  grouped.BeginAll();
  SUBCASE("to cancel") {
    grouped.Control(Action::kCancel);
    CHECK(grouped.GroupState() == "STOPPED CANCELLED");
    CHECK(grouped.Count(Kind::kCancelled) == 4);
    CHECK(grouped.Finished().size() == 1);
  }
  SUBCASE("to pause, and to go on") {
    grouped.Control(Action::kPause, true);
    CHECK(grouped.Count(Kind::kPaused) == 4);
    CHECK(grouped.GroupState() == "PAUSED");
    grouped.Control(Action::kResume, true);
    CHECK(grouped.Count(Kind::kRunning) == 4);
  }
}

TEST_CASE("so many failures pause a group, wherever its members fail") {
  Grouped grouped;
  grouped.Set({.stop_on_fail = 2});
  grouped.BeginAll();
  grouped.End(grouped.all[1], "bad");
  CHECK_FALSE(grouped.Group().row.paused);
  grouped.End(grouped.all[2], "bad");
  CHECK(grouped.Group().row.paused);
  CHECK(grouped.Group().row.note.find(grouped.all[2]) != std::string::npos);
  CHECK(grouped.Group().row.note.starts_with("2 members failed"));
  const std::string late = grouped.Named("late", 1);
  grouped.Begin(late);
  grouped.Carry();
  CHECK(grouped.State(late) == "SCHEDULED");
  grouped.Control(Action::kResume);
  CHECK(grouped.Group().row.failures == 0);
  CHECK(grouped.State(late) == "RUNNING");
  grouped.End(late, "bad");
  CHECK(grouped.Group().row.failures == 1);
  CHECK_FALSE(grouped.Group().row.paused);
}

TEST_CASE("a backfill makes as many at a time as may run, and ends with the last of them") {
  Grouped grouped;
  grouped.DefineDocuments(
      "schedule: daily\ncron: \"0 0 * * *\"\nstart: {machine: job}\n");
  BackfillArgs args;
  args.ns = "ns";
  args.name = "daily";
  args.version = 1;
  args.from = FromMicros(1'690'000'000'000'000);
  args.to = args.from + std::chrono::hours(24 * 8);
  args.max_running = 2;
  args.group = "g";
  args.total = 8;
  REQUIRE(grouped.at(0).Do([&](Engine& e) { return e.backfills().Begin(args); }));
  size_t done = 0;
  for (; done < 8; ++done) {
    grouped.Carry();
    const GroupView group = grouped.Group();
    CAPTURE(done);
    CHECK(group.row.counts.Live() == std::min<size_t>(2, 8 - done));
    CHECK(group.row.counts.Total() + group.to_come == 8);
    CHECK(grouped.Finished().empty());
    if (done == 3) grouped.at(0).Crash();
    std::string next;
    for (PartitionId id = 0; id < 3 && next.empty(); ++id) {
      const auto tasks = grouped.at(id).Ready();
      for (const Task& task : tasks) {
        if (next.empty()) {
          next = task.instance;
          REQUIRE(grouped.at(id).Report(task, "ok"));
        } else {
          REQUIRE(grouped.at(id).Relinquish(task));
        }
      }
    }
    REQUIRE_FALSE(next.empty());
  }
  grouped.Carry();
  CHECK(grouped.GroupState() == "STOPPED SUCCESS");
  CHECK(grouped.Finished() == std::vector<std::string>{"SUCCESS"});
  CHECK(grouped.Group().row.awaited == 0);
}

TEST_CASE("a deleted namespace leaves no group behind, and the next one begins with none") {
  Grouped grouped;
  grouped.BeginAll();
  grouped.Control(Action::kPause);
  REQUIRE(grouped.at(0).Do([](Engine& e) { return e.Delete("ns", 0s, "me"); }));
  grouped.Adopt();
  for (int i = 0; i < 5; ++i) {
    grouped.Elapse(1s);
    grouped.Carry();
  }
  CHECK(grouped.at(0).RowsOf(kGroupRows).empty());
  grouped.Define(kMemberJob);
  grouped.BeginAll();
  CHECK(grouped.Count(Kind::kRunning) == 4);
}

}  // namespace
}  // namespace dfsmr
