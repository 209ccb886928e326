#include "dsrv/engine/bulks.h"

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kTwo = R"(
id: two
nodes:
  a: {start: true, transitions: {ok: b}}
  b: {transitions: {ok: c}}
  c: {final: true}
)";

// All live instances, three at a time.
Result<BulkPortion> FindThree(const Reader& reader, const std::string& ns, const rows::BulkRow& row,
                              Timestamp) {
  BulkPortion portion;
  auto scanned =
      rows::ScanInstances({reader.store, reader.partition}, /*stopped=*/false, {ns, row.place},
                          reader.registry.resolve(), [&portion](const Instance& instance) {
                            if (portion.hits.size() == 3) {
                              portion.last = portion.hits.back().id;
                              return false;
                            }
                            portion.hits.push_back({instance.id, instance.history.back()});
                            ++portion.looked_at;
                            return true;
                          });
  if (!scanned) return scanned.error();
  return portion;
}

rows::BulkRow Moves() {
  rows::BulkRow row;
  row.filter = "machine:two";
  row.action = rows::BulkAction::kTransition;
  row.transition = "ok";
  row.reason = "a test";
  return row;
}

class Many {
 public:
  explicit Many(int count) {
    world.Define(kTwo);
    for (int i = 0; i < count; ++i) world.Start("two", "i" + std::to_string(10 + i));
  }
  BulkView Get() {
    auto view = world.engine().bulks().Get("ns", "bulk");
    REQUIRE(view);
    return *view;
  }
  void Start(rows::BulkRow row) {
    REQUIRE(world.Do([&](Engine& e) { return e.bulks().Start("ns", "bulk", row); }));
  }
  size_t At(const std::string& node) {
    size_t count = 0;
    for (int i = 0; i < 10; ++i) count += world.NodeOf("i" + std::to_string(10 + i)) == node;
    return count;
  }

  World world{{.find_for_bulk = FindThree}};
};

}  // namespace

TEST_CASE("a bulk changes all that is found, once, and notes who and why") {
  Many many(10);
  many.Start(Moves());
  many.world.Drain();
  const BulkView bulk = many.Get();
  CHECK(bulk.row.state == rows::BulkState::kDone);
  CHECK(bulk.row.matched == 10);
  CHECK(bulk.row.changed == 10);
  CHECK(many.At("b") == 10);
  const Event& moved = many.world.published().back();
  CHECK(moved.client == "bulk/bulk");
  CHECK(moved.note == "a test");
}

TEST_CASE("a bulk goes on after a crash where it was, and does nothing twice") {
  for (int turns = 0; turns < 24; ++turns) {
    CAPTURE(turns);
    Many many(10);
    many.Start(Moves());
    for (int i = 0; i < turns; ++i) many.world.Decide();
    many.world.Crash();  // what is in flight is lost
    many.world.Drain();
    CHECK(many.Get().row.state == rows::BulkState::kDone);
    CHECK(many.Get().row.changed == 10);
    CHECK(many.Get().row.refused == 0);
    CHECK(many.At("b") == 10);
  }
}

TEST_CASE("a bulk ends when it has changed as many as it may, or is stopped") {
  Many many(10);
  rows::BulkRow row = Moves();
  SUBCASE("at most") {
    row.at_most = 4;
    many.Start(row);
    many.world.Drain();
    CHECK(many.Get().row.state == rows::BulkState::kLimited);
    CHECK(many.Get().row.looked_at > 0);
    CHECK(many.At("b") == 4);
  }
  SUBCASE("stopped") {
    many.Start(row);
    REQUIRE(many.world.Do([](Engine& e) { return e.bulks().Stop("ns", "bulk"); }));
    many.world.Drain();
    CHECK(many.Get().row.state == rows::BulkState::kStopped);
    CHECK(many.At("b") == many.Get().row.changed);
  }
}

TEST_CASE("a bulk counts what it changes, what was so already, and what is refused and why") {
  Many many(10);
  REQUIRE(many.world.Do([](Engine& e) { return e.Pause("ns", "i10"); }));
  REQUIRE(many.world.Do([](Engine& e) { return e.Cancel("ns", "i19", CancelMode::kForce); }));
  rows::BulkRow row;
  row.filter = "machine:two";
  row.action = rows::BulkAction::kPause;
  many.Start(row);
  many.world.Drain();
  CHECK(many.Get().row.matched == 9);
  CHECK(many.Get().row.changed == 8);
  CHECK(many.Get().row.unchanged == 1);
  row.action = rows::BulkAction::kTransition;
  row.transition = "nowhere";
  REQUIRE(many.world.Do([&](Engine& e) { return e.bulks().Start("ns", "other", row); }));
  many.world.Drain();
  const auto other = many.world.engine().bulks().Get("ns", "other");
  REQUIRE(other);
  CHECK(other->row.refused == 9);
  CHECK(other->row.reasons == std::map<std::string, uint64_t>{{"ILLEGAL_TRANSITION", 9}});
  CHECK(other->row.sample.size() == 9);
}

TEST_CASE("so many bulks may run in a namespace") {
  Many many(1);
  many.world.KeepJobs(true);  // none of them gets on
  for (size_t i = 0; i < Bulks::kMostRunning; ++i) {
    REQUIRE(many.world.Do(
        [&](Engine& e) { return e.bulks().Start("ns", "b" + std::to_string(i), Moves()); }));
  }
  const auto more = many.world.Do([](Engine& e) { return e.bulks().Start("ns", "more", Moves()); });
  REQUIRE(!more);
  CHECK(more.error().reason == Reason::kTooMany);
}

}  // namespace dfsmr
