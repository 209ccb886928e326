// A namespace is deleted in all partitions before its name is free again.
#include "dsrv/engine/deletions.h"

#include "dsrv/engine/namespaces.h"
#include "tests/dsrv/engine/parted.h"

namespace dfsmr {
namespace {

constexpr std::string_view kPlainJob =
    "id: job\nnodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}\n";
constexpr char kLiveRows = '\x02';
constexpr char kStoppedRows = '\x03';
constexpr char kEmptiedRows = '\x75';

struct Everywhere : Parted {
  Everywhere() : Parted(3) {
    Define(kPlainJob);
    for (const std::string& id : ids) Start("job", id);
    Move(ids[1], "ok");
  }
  bool There(PartitionId id) {
    return at(id).engine().namespaces().StateOf("ns") != rows::SpaceState::kNone;
  }
  // In all partitions: their rows are in one store.
  size_t Instances() { return at(0).RowsOf(kLiveRows).size() + at(0).RowsOf(kStoppedRows).size(); }
  void Delete() {
    REQUIRE(at(0).Do([](Engine& e) { return e.Delete("ns", 0s, "me"); }));
  }
  void Pass() {
    for (int i = 0; i < 5; ++i) {
      Elapse(1s);
      Carry();
    }
  }

  const std::vector<std::string> ids{Named("a", 0), Named("b", 1), Named("c", 2), Named("d", 2)};
};

TEST_CASE("a namespace is deleted in all partitions, and then its name is free") {
  Everywhere all;
  CHECK(all.Instances() == 4);
  all.Delete();
  SUBCASE("as all goes on") { all.Adopt(); }
  SUBCASE("though the others crash before they hear of it") {
    for (const PartitionId id : {PartitionId{1}, PartitionId{2}}) all.at(id).Crash();
  }
  SUBCASE("though all crash in the middle") {
    all.Adopt();
    for (int i = 0; i < 3; ++i) {
      all.Elapse(100ms);
      all.Crash();
    }
  }
  all.Pass();
  CHECK(all.Instances() == 0);
  for (PartitionId id = 0; id < 3; ++id) CHECK_FALSE(all.There(id));
  CHECK(all.at(0).RowsOf(kEmptiedRows).empty());
  all.Define(kPlainJob);
  for (const std::string& id : all.ids) CHECK(all.Start("job", id).created);
  CHECK(all.Instances() == 4);
}

TEST_CASE("instances of other partitions are drained though home has none") {
  Everywhere all;
  all.Move(all.ids[0], "ok");
  const Task task = all.at(2).ReadyOne();
  REQUIRE(all.at(0).Do([](Engine& e) { return e.Delete("ns", 30s, "me"); }));
  all.at(0).Elapse(1s);
  all.Adopt();
  all.Carry();
  all.Elapse(5s);
  CHECK(all.Of(task.instance).Get(task.instance));  // its worker is waited for
  SUBCASE("to the end") { REQUIRE(all.Of(task.instance).Report(task, "ok")); }
  SUBCASE("as long as that may last") { all.Elapse(30s); }
  all.Pass();
  CHECK(all.Instances() == 0);
  for (const std::string& id : all.ids) {
    CHECK_FALSE(all.Of(id).engine().StandingOf("ns", id));
  }
  all.Define(kPlainJob);
  for (const std::string& id : all.ids) CHECK(all.Start("job", id).created);
  CHECK(all.Instances() == 4);
}

TEST_CASE("home is not done before all others are") {
  Everywhere all;
  all.Delete();
  all.Adopt();
  all.Elapse(5s);  // nobody carries messages
  CHECK(all.Instances() == 0);
  CHECK(all.There(0));
  for (const std::string& id : all.ids) {
    CHECK_FALSE(all.Of(id).TryStart({.machine = "job", .id = id, .outside = true}));
  }
  all.at(0).Crash();
  all.Pass();
  for (PartitionId id = 0; id < 3; ++id) CHECK_FALSE(all.There(id));
}

}  // namespace
}  // namespace dfsmr
