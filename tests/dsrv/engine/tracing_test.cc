// Traces: what belongs to which, over crashes, and what it takes of those that have none.
#include <doctest/doctest.h>

#include "dsrv/trace/span.h"
#include "fsm/base/trace.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

const TraceContext kTrace{"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", true};
constexpr std::string_view kJob = R"(
id: job
nodes:
  a: {start: true, transitions: {ok: b}}
  b: {transitions: {ok: done}}
  done: {final: true}
)";

StartArgs Traced(const std::string& machine, const std::string& id) {
  StartArgs args{.ns = "ns", .machine = machine, .id = id};
  args.spec.trace = kTrace;
  return args;
}

std::optional<TraceContext> TraceOf(World& world, const std::string& id) {
  auto spec = rows::GetSpec({world.store(), world.partition()}, {"ns", id});
  REQUIRE(spec);
  return spec->trace ? std::optional(*spec->trace) : std::nullopt;
}

size_t BytesOf(World& world) {
  size_t bytes = 0;
  REQUIRE(world.store().Scan("", "", [&](std::string_view key, std::string_view value) {
    bytes += key.size() + value.size();
    return true;
  }));
  return bytes;
}

TEST_CASE("a task's parent is the span of its attempt, the same after a crash") {
  World world;
  world.Define(kJob);
  REQUIRE(world.TryStart(Traced("job", "i")));
  SUBCASE("") {}
  SUBCASE("crash") { world.Crash(); }
  SUBCASE("restart") { world.Restart(); }
  const Task task = world.ReadyOne();
  CHECK(task.traceparent == Traceparent(kTrace, SpanId({"ns", "i", 1, 1})));
  REQUIRE(world.Report(task, "ok"));
  world.Crash();
  CHECK(world.ReadyOne().traceparent == Traceparent(kTrace, SpanId({"ns", "i", 2, 1})));
}

TEST_CASE("spans of different things have different names") {
  std::set<std::string> ids = {SpanId({"ns", "i"}),       SpanId({"ns", "i", 1}),
                               SpanId({"ns", "i", 1, 1}), SpanId({"ns", "i", 11}),
                               SpanId({"ns", "i1", 1}),   SpanId({"n", "si", 1})};
  CHECK(ids.size() == 6);
  for (const std::string& id : ids) CHECK(id.size() == 16);
}

TEST_CASE("without a trace there is none, and no row grows") {
  World plain;
  World traced;
  for (World* world : {&plain, &traced}) world->Define(kJob);
  REQUIRE(plain.TryStart({.machine = "job", .id = "i"}));
  auto with = Traced("job", "i");
  REQUIRE(traced.TryStart(std::move(with)));
  CHECK(!TraceOf(plain, "i"));
  CHECK(plain.ReadyOne().traceparent.empty());
  CHECK(TraceOf(traced, "i") == kTrace);
  // 25 bytes and their tag in the spec, a flag in the instance.
  CHECK(BytesOf(traced) - BytesOf(plain) == 25 + 3 + 3);
}

TEST_CASE("what a report starts belongs to the trace of what it reports on") {
  World world;
  world.Define(kJob);
  REQUIRE(world.TryStart(Traced("job", "i")));
  const Task task = world.ReadyOne();
  auto own = Traced("job", "own");
  own.spec.trace->id[0] = 'f';
  std::vector<StartArgs> starts = {{.ns = "ns", .machine = "job", .id = "next"}, own};
  uint32_t attempt = 1;
  SUBCASE("") {}
  SUBCASE("restart") { world.Restart(); }
  SUBCASE("the crash has lost the claim, so that only its visit is known") {
    world.Crash();
    attempt = 0;
  }
  REQUIRE(world.Do([&](Engine& e) {
    return e.Report("ns", "i", {.transition = "ok", .claim = task.claim}, {}, starts);
  }));
  CHECK(TraceOf(world, "next") == TraceContext{kTrace.id, SpanId({"ns", "i", 1, attempt}), true});
  CHECK(TraceOf(world, "own") == *own.spec.trace);
}

TEST_CASE("children and hooks belong to the trace of their parent") {
  World world;
  world.Define(kJob);
  world.Define(R"(
plan: p
hooks: [{on: [running], action: mail}]
flow: [{step: s, spawn: {machine: job}}, {step: w, action: x}]
)");
  REQUIRE(world.TryStart(Traced("p", "i")));
  world.Drain();
  std::map<std::string, TraceContext> found;
  for (const Event& event : world.Feed()) {
    if (event.kind != ChangeKind::kStarted || event.instance == "i") continue;
    found[event.machine] = *TraceOf(world, event.instance);
  }
  REQUIRE(found.size() == 2);
  const Instance parent = world.Must("i");
  const Token* waits = nullptr;
  for (const Token& token : parent.tokens) {
    if (token.state == TokenState::kWaiting) waits = &token;
  }
  REQUIRE(waits);
  CHECK(found["job"] == TraceContext{kTrace.id, SpanId({"ns", "i", waits->visit}), true});
  CHECK(found["mail"] == TraceContext{kTrace.id, SpanId({"ns", "i"}), true});
}

TEST_CASE("children that a worker asked for keep a trace of their own, over a crash") {
  World world;
  world.Define(kJob);
  world.Define("plan: p\nflow: [{step: w, action: x}]\n");
  REQUIRE(world.TryStart(Traced("p", "i")));
  world.Drain();
  const Task task = world.ReadyOne();
  std::vector<rows::ChildStart> children(2, {.machine = "job"});
  children[1].spec.trace =
      TraceContext{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", false};
  REQUIRE(world.Do([&](Engine& e) {
    return e.Report("ns", "i", {.transition = "suspend", .claim = task.claim, .children = 2},
                    children);
  }));
  world.Crash();
  world.Drain();
  CHECK(TraceOf(world, "i/w/0")->id == kTrace.id);
  CHECK(TraceOf(world, "i/w/1") == *children[1].spec.trace);
}

TEST_CASE("a share of starts gets a trace of its own, and what they start goes with them") {
  EngineOptions options;
  SUBCASE("none") { options.trace_sample = 0; }
  SUBCASE("half") { options.trace_sample = 0.5; }
  SUBCASE("all") { options.trace_sample = 1; }
  const double share = options.trace_sample;
  World world(std::move(options));
  world.Define(kJob);
  world.Define("plan: p\nflow: [{step: s, spawn: {machine: job}}]\n");
  size_t sampled = 0;
  std::set<std::string> ids;
  for (int i = 0; i < 400; ++i) {
    const std::string id = std::to_string(i);
    REQUIRE(world.TryStart({.machine = "p", .id = id}));
    world.Drain();
    const auto own = TraceOf(world, id);
    const auto child = TraceOf(world, id + "/s/0");
    CHECK(own.has_value() == child.has_value());
    if (!own) continue;
    ++sampled;
    ids.insert(own->id);
    CHECK(own->parent.empty());
    CHECK(own->sampled);
    CHECK(own->id.size() == 32);
    CHECK(child->id == own->id);
  }
  CHECK(ids.size() == sampled);
  CHECK(static_cast<double>(sampled) >= share * 400 - 60);
  CHECK(static_cast<double>(sampled) <= share * 400 + 60);
}

}  // namespace
}  // namespace dfsmr
