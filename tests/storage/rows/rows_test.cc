#include <doctest/doctest.h>

#include <algorithm>

#include "storage/memory_store.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"
#include "storage/rows/machine.h"
#include "storage/rows/retention.h"
#include "storage/rows/stats.h"
#include "tests/storage/rows/two_nodes.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

constexpr PartitionId kPartition = 3;
constexpr Timestamp kNoon = FromMicros(1'700'000'000'000'000);

struct World {
  World() { epoch = *store.Acquire(kPartition); }
  void Write(const Batch& batch) { REQUIRE(store.Write(kPartition, epoch, batch)); }
  rows::Resolve resolve() {
    return [this](std::string_view, std::string_view id, uint32_t version) {
      return id == "m" && version == 1 ? &machine : nullptr;
    };
  }
  Instance Make(const std::string& id, const std::string& ns = "ns") {
    Instance instance;
    instance.ns = ns;
    instance.id = id;
    instance.machine = "m";
    instance.version = 1;
    instance.state = InstanceState::kRunning;
    return instance;
  }
  void Put(Instance* instance, const rows::Changed& changed = {}) {
    Batch batch;
    rows::Note(rows::PutInstance({batch, kPartition}, *instance, machine, changed), instance);
    Write(batch);
  }
  // In the values of all rows, as a damaged disk would.
  void Replace(std::string_view was, std::string_view is) {
    Batch batch;
    REQUIRE(store.Scan("", "", [&](std::string_view key, std::string_view value) {
      std::string changed(value);
      if (const size_t at = changed.find(was); at != std::string::npos) {
        batch.Put(std::string(key), changed.replace(at, was.size(), is));
      }
      return true;
    }));
    REQUIRE_FALSE(batch.empty());
    Write(batch);
  }
  Result<Instance> Get(const std::string& id, const std::string& ns = "ns") {
    return rows::GetInstance({store, kPartition}, {ns, id}, resolve());
  }
  void Feed(uint64_t first, uint64_t last, const std::string& instance) {
    std::vector<rows::FeedPage> pages;
    for (uint64_t seq = first; seq <= last; ++seq) {
      Event event;
      event.seq = seq;
      event.time = FromMicros(static_cast<int64_t>(seq));
      event.kind = ChangeKind::kTransitioned;
      event.ns = "ns";
      event.instance = instance;
      rows::AddEvent(&pages, event);
    }
    Batch batch;
    rows::PutPages({batch, kPartition}, pages);
    Write(batch);
  }
  std::vector<uint64_t> FeedSeqs(uint64_t first = 0) {
    std::vector<uint64_t> seqs;
    REQUIRE(rows::ScanFeed({store, kPartition}, first, [&](const Event& event) {
      seqs.push_back(event.seq);
      return true;
    }));
    return seqs;
  }
  std::vector<std::string> Ids(bool stopped, const std::string& ns = "ns",
                               const std::string& after = "", size_t limit = SIZE_MAX) {
    std::vector<std::string> ids;
    REQUIRE(rows::ScanInstances({store, kPartition}, stopped, {ns, after}, resolve(),
                                [&](const Instance& instance) {
                                  ids.push_back(instance.id);
                                  return ids.size() < limit;
                                }));
    return ids;
  }
  size_t Rows() {
    size_t rows = 0;
    REQUIRE(store.Scan("", "", [&](std::string_view, std::string_view) { return ++rows > 0; }));
    return rows;
  }

  MemoryStore store;
  Epoch epoch = 0;
  Machine machine = TwoNodes();
};

using Ids = std::vector<std::string>;

std::vector<uint64_t> Seqs(uint64_t first, uint64_t last) {
  std::vector<uint64_t> seqs;
  for (uint64_t seq = first; seq <= last; ++seq) seqs.push_back(seq);
  return seqs;
}

Claim FullClaim() {
  Claim claim;
  claim.id = {7, UINT64_MAX};
  claim.worker = "worker ü";
  claim.attempt = 3;
  claim.claim_time = kNoon;
  claim.deadline = kNoon + 1h;
  claim.timed_out = true;
  claim.given_back = true;
  claim.retry = true;
  claim.progress = 0.1;
  claim.sampled = 5s;
  return claim;
}

Instance FullInstance(World& world) {
  Instance instance = world.Make("i");
  instance.state = InstanceState::kPaused;
  instance.result = InstanceResult::kWarning;
  instance.priority = INT32_MIN;
  instance.start_time = kNoon;
  instance.end_time = kNoon + 1s;
  instance.start_at = kNoon - 1s;
  instance.start_before = kNoon + 2s;
  instance.waits = {Wait::kHold, Wait::kAfter, Wait::kPause};
  instance.after = {{"p", false}, {"q", true}};
  instance.cancel = CancelMode::kKill;
  instance.parent = "parent";
  instance.error = std::string("a\0b\n", 4);
  instance.last_visit = UINT64_MAX;
  Token token;
  token.node = 0;
  token.visit = 1'000'000'000'000;
  token.state = TokenState::kClaimed;
  token.attempt = 9;
  token.params = R"({"a": "ü"})";
  token.claims = {FullClaim(), Claim{.id = {1, 1}}};
  token.available_at = kNever;
  token.error = "e";
  token.forgotten_epoch = 12;
  token.failures = Failures{.tries = 2};
  token.late = LateReport{.claim = {3, 4},
                          .time = kNoon,
                          .transition = "error",
                          .error = "broke",
                          .error_kind = "exit",
                          .fatal = true,
                          .retry_after = Duration(0),
                          .starts = "s"};
  instance.tokens.Add(token);
  instance.tokens.Add(Token{.node = kAbortedIndex});
  instance.tokens.Add(Token{.node = kCancelledIndex});
  instance.tokens.Add(Token{.node = 1, .available_at = kNoon});
  instance.entries = {{"a", 3}};
  instance.last_answer = Answer{.claim = {2, 3},
                                .transition = "ok",
                                .prev_node = "a",
                                .nodes = {"end", "a"},
                                .visit = 4,
                                .state = InstanceState::kStopped,
                                .result = InstanceResult::kError};
  instance.history = {1, 5, UINT64_MAX};
  return instance;
}

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// Of instance "i" of namespace "ns".
std::string KeyOfRow(bool stopped) {
  World world;
  Instance instance = world.Make("i");
  if (stopped) instance.state = InstanceState::kStopped;
  world.Put(&instance);
  std::string found;
  REQUIRE(world.store.Scan("", "", [&](std::string_view key, std::string_view value) {
    if (!value.empty()) found = key;
    return true;
  }));
  return found;
}

// Round trips -------------------------------------------------------------------------------------

TEST_CASE("an instance comes back as it was written") {
  World world;
  Instance instance = world.Make("i");
  SUBCASE("bare") {}
  SUBCASE("with all there is") { instance = FullInstance(world); }
  SUBCASE("paused because its node is held") {
    instance.state = InstanceState::kPaused;
    instance.waits = {Wait::kStuck};
    instance.tokens.Add(Token{.node = 0, .visit = 1, .state = TokenState::kHeld});
  }
  SUBCASE("of a dry run") { instance.dry_run = DryRun(); }
  SUBCASE("of a dry run that has given answers") {
    instance.dry_run = DryRun{{{"a", 3}, {"b", UINT64_MAX}}};
  }
  SUBCASE("whose stream is not kept") {
    instance = FullInstance(world);
    Instance streamed = instance;
    streamed.tokens[0].claims[0].session = 77;
    world.Put(&streamed);
  }
  world.Put(&instance);
  auto read = world.Get("i");
  REQUIRE(read);
  CHECK(*read == instance);
}

// The bytes are what the encoder of the version before Waits wrote.
TEST_CASE("why an instance does not run is read from rows that earlier versions wrote") {
  struct Row {
    const char* what;
    const char* bytes;
    InstanceState state;
    Waits waits;
    CancelMode cancel;
    bool owns_graph;
  };
  using S = InstanceState;
  using C = CancelMode;
  for (const Row& row : {
           Row{"at rest until start_at",
               "0a016d100118012001408080f9c0c1c48203",
               S::kScheduled,
               {Wait::kStartAt},
               C::kNone,
               false},
           Row{"held, and after others",
               "0a016d100118012001408080f9c0c1c482035001a201030a0170a201050a01711001",
               S::kScheduled,
               {Wait::kHold, Wait::kStartAt, Wait::kAfter},
               C::kNone,
               false},
           Row{"begun before an upgrade, waits for a singleton",
               "0a016d100118012001308080f9c0c1c48203408080f9c0c1c48203aa010428017001",
               S::kScheduled,
               {Wait::kLimit},
               C::kNone,
               false},
           Row{"a plan that was paused by a call",
               "0a016d100118042001308080f9c0c1c48203aa010b0a036f776e100130016801",
               S::kPaused,
               {Wait::kPause},
               C::kNone,
               true},
           Row{"a plan whose steps failed",
               "0a016d100118042001308080f9c0c1c48203aa01090a056d40312e346801",
               S::kPaused,
               {Wait::kStuck},
               C::kNone,
               false},
           Row{"a paused machine that is being cancelled",
               "0a016d100118042001308080f9c0c1c482035801",
               S::kPaused,
               {Wait::kPause},
               C::kCancel,
               false},
           Row{"stopped with FORCE",
               "0a016d100118052005308080f9c0c1c48203388080f9c0c1c482035801b80101",
               S::kStopped,
               {},
               C::kForce,
               false},
           Row{"stopped with KILL",
               "0a016d100118052005308080f9c0c1c48203388080f9c0c1c4820358016001b80101",
               S::kStopped,
               {},
               C::kKill,
               false},
           Row{"stopped with KILL, before FORCE was noted",
               "0a016d100118052005308080f9c0c1c48203388080f9c0c1c4820358016001",
               S::kStopped,
               {},
               C::kKill,
               false},
       }) {
    CAPTURE(row.what);
    World world;
    const bool stopped = row.state == S::kStopped;
    const std::string value = FromHex(row.bytes);
    Batch batch;
    batch.Put(KeyOfRow(stopped), value);
    world.Write(batch);
    const auto read = world.Get("i");
    REQUIRE(read);
    CHECK(read->state == row.state);
    CHECK(read->waits == row.waits);
    CHECK(read->cancel == row.cancel);
    if (read->plan) CHECK(read->plan->OwnsGraph() == row.owns_graph);
    // Nor has the form of a row changed. Only KILL says FORCE, too, now, and a singleton is a
    // limit.
    Instance again = *read;
    world.Put(&again);
    auto written = world.store.Get(KeyOfRow(stopped));
    REQUIRE(written);
    const std::string_view what = row.what;
    if (!what.ends_with("was noted") && !what.ends_with("a singleton")) CHECK(*written == value);
  }
}

TEST_CASE("several counts of entries come back, in whatever order") {
  World world;
  Instance instance = world.Make("i");
  for (int i = 0; i < 40; ++i) instance.entries.emplace_back("n" + std::to_string(i), i);
  world.Put(&instance);
  auto read = world.Get("i");
  REQUIRE(read);
  std::ranges::sort(read->entries);
  std::ranges::sort(instance.entries);
  CHECK(read->entries == instance.entries);
}

TEST_CASE("an event comes back as it was written, but for the output that lies elsewhere") {
  World world;
  Event event;
  event.seq = 9;
  event.time = kNoon;
  event.kind = ChangeKind::kBreakerClosed;
  event.ns = "ns";
  event.machine = "m";
  event.version = UINT32_MAX;
  event.instance = "i";
  event.prev_node = "p";
  event.node = "n";
  event.transition = "t";
  event.visit = 11;
  event.attempt = 12;
  event.client = "c";
  event.params = "{}";
  event.note = "note";
  event.error_kind = "exit";
  event.left_visit = 10;
  event.answer = Answer{.claim = {1, 2},
                        .transition = "t",
                        .prev_node = "p",
                        .nodes = {"n"},
                        .visit = 11,
                        .state = InstanceState::kRunning,
                        .result = InstanceResult::kPending};
  event.samples = {{"p", 5s, true, 3s, true}, {"p", 1us, false, 0us, false}};
  SUBCASE("") {}
  SUBCASE("of a dry run") {
    event.about = Event::About{};
    event.about->dry_run = true;
  }
  std::vector<rows::FeedPage> pages;
  rows::AddEvent(&pages, event);
  Batch batch;
  rows::PutPages({batch, kPartition}, pages);
  world.Write(batch);
  rows::FeedReader feed(world.store, kPartition);
  auto read = feed.Get(9);
  REQUIRE(read);
  CHECK(*read == event);
  CHECK(feed.Get(8).error().code == Code::kNotFound);
  CHECK(feed.Get(10).error().code == Code::kNotFound);
}

TEST_CASE("specs and outputs come back byte for byte") {
  World world;
  Instance instance = world.Make("i");
  Instance other = world.Make("i2");
  Spec spec{R"({ "a" : [1,  2] })", {{"k", "v"}, {"k2", "ü x"}}, "client"};
  spec.dry_answers = {{"a", "ok"}, {"b", R"({"times": 2})"}};
  Batch batch;
  rows::PutInstance({batch, kPartition}, instance, world.machine,
                    {.spec = &spec, .has_outputs = true});
  rows::PutOutput({batch, kPartition}, instance, "a", R"({"x" :1})");
  rows::PutOutput({batch, kPartition}, instance, "a", R"({"x" :2})");
  rows::PutOutput({batch, kPartition}, instance, "b", "{}");
  rows::PutOutput({batch, kPartition}, other, "c", "{}");
  world.Write(batch);
  auto read = rows::GetSpec({world.store, kPartition}, {"ns", "i"});
  REQUIRE(read);
  CHECK(*read == spec);
  auto outputs = rows::GetOutputs({world.store, kPartition}, {"ns", "i"});
  REQUIRE(outputs);
  CHECK(*outputs == std::map<std::string, std::string>{{"a", R"({"x" :2})"}, {"b", "{}"}});
}

TEST_CASE("machines come back in order of version") {
  World world;
  Batch batch;
  for (uint32_t version : {300u, 2u, 1u, 256u}) {
    rows::PutMachine({batch, kPartition}, {"ns", "m", version, "source", kNoon});
  }
  rows::PutMachine({batch, kPartition}, {.ns = "ns",
                                         .id = "m.x",
                                         .version = 1,
                                         .source = "",
                                         .define_time = kNoon,
                                         .graph = "what it was compiled to"});
  world.Write(batch);
  std::vector<std::pair<std::string, uint32_t>> seen;
  REQUIRE(rows::ScanMachines({world.store, kPartition}, [&](const rows::MachineRow& row) {
    seen.emplace_back(row.id, row.version);
    CHECK(row.ns == "ns");
    CHECK(row.define_time == kNoon);
    CHECK(row.graph == (row.id == "m.x" ? "what it was compiled to" : ""));
  }));
  CHECK(seen == std::vector<std::pair<std::string, uint32_t>>{
                    {"m", 1}, {"m", 2}, {"m", 256}, {"m", 300}, {"m.x", 1}});
}

TEST_CASE("counters and latencies come back") {
  World world;
  Latency latency;
  for (int i = 1; i < 500; ++i) {
    latency.Learn({Duration(i * 1'000), i % 7 == 0, {}, i % 11 == 0}, kNoon + Duration(i));
  }
  rows::StatsRow row;
  row.ns = "ns";
  row.machine = "m";
  row.versions[1] = {{5, {0, 0, 3, 0, 2}}, {{"a", {7, 8}}}};
  row.versions[2] = {};
  row.latencies["a"] = latency.Save();
  Batch batch;
  rows::PutStats({batch, kPartition}, row);
  rows::PutStatsSeq({batch, kPartition}, 99);
  world.Write(batch);
  CHECK(*rows::GetStatsSeq({world.store, kPartition}) == 99);
  int seen = 0;
  REQUIRE(rows::ScanStats({world.store, kPartition}, [&](const rows::StatsRow& read) {
    ++seen;
    CHECK(read.machine == "m");
    REQUIRE(read.versions.size() == 2);
    CHECK(read.versions.at(1).stopped == rows::StoppedCounts{5, {0, 0, 3, 0, 2}});
    CHECK(read.versions.at(1).nodes.at("a").completed == 7);
    CHECK(read.versions.at(1).nodes.at("a").timed_out == 8);
    CHECK(read.latencies.at("a") == row.latencies.at("a"));
    const Latency restored = Latency::Restore(read.latencies.at("a"));
    CHECK(restored.Quantile(95) == latency.Quantile(95));
    CHECK(restored.Retries() == latency.Retries());
  }));
  CHECK(seen == 1);
}

TEST_CASE("what was dropped since the counters were written is told until they are again") {
  World world;
  using Told = std::map<std::string, rows::DroppedCounts>;
  auto told = [&] {
    Told all;
    REQUIRE(rows::ScanDropped(
        {world.store, kPartition},
        [&](const std::string& ns, const std::string& machine, const rows::DroppedCounts& dropped) {
          all[ns + "/" + machine] = dropped;
        }));
    return all;
  };
  Batch batch;
  rows::PutDropped({batch, kPartition}, "ns", "m", {{1, {5}}, {2, {7, {0, 0, 7}}}});
  rows::PutDropped({batch, kPartition}, "ns", "other", {{0, {1}}});
  world.Write(batch);
  CHECK(told() == Told{{"ns/m", {{1, {5}}, {2, {7, {0, 0, 7}}}}}, {"ns/other", {{0, {1}}}}});
  Batch stats;
  rows::PutStats({stats, kPartition}, {"ns", "m", {}, {}});
  world.Write(stats);
  CHECK(told() == Told{{"ns/other", {{0, {1}}}}});
}

TEST_CASE("what cannot be read is said to be damaged, with its key") {
  World world;
  Instance instance = world.Make("i");
  SUBCASE("bytes that are no record") {
    world.Put(&instance);
    std::string key;
    REQUIRE(world.store.Scan("", "", [&](std::string_view k, std::string_view) {
      key = k;
      return true;
    }));
    Batch batch;
    batch.Put(key, "\xff\xff\xff");
    world.Write(batch);
  }
  SUBCASE("a token of a state that is none") {
    instance.tokens.Add({.node = 0, .visit = 1, .state = TokenState::kReady});
    world.Put(&instance);
    SUBCASE("its number is too high") { world.Replace("\x18\x01", "\x18\x06"); }
    SUBCASE("its node is not there") { world.Replace("\x0a\x01\x61", "\x0a\x01\x78"); }
  }
  SUBCASE("an instance of a machine that is not there") {
    instance.version = 2;
    world.Put(&instance);
  }
  auto read = world.Get("i");
  REQUIRE_FALSE(read);
  CHECK(read.error().code == Code::kDataLoss);
  const auto scanned = rows::ScanInstances({world.store, kPartition}, false, {"ns", ""},
                                           world.resolve(), [](const Instance&) { return true; });
  REQUIRE_FALSE(scanned);
  CHECK(scanned.error().code == Code::kDataLoss);
}

// Keys --------------------------------------------------------------------------------------------

TEST_CASE("instances come in order of id, and one id is no prefix of another") {
  World world;
  for (const char* id : {"b", "a", "a!", "a/x/1", "aa", "~", "A"}) {
    Instance instance = world.Make(id);
    world.Put(&instance);
  }
  Instance other = world.Make("a", "ns2");
  world.Put(&other);
  CHECK(world.Ids(false) == Ids{"A", "a", "a!", "a/x/1", "aa", "b", "~"});
  CHECK(world.Ids(false, "ns", "a") == Ids{"a!", "a/x/1", "aa", "b", "~"});
  CHECK(world.Ids(false, "ns", "a0") == Ids{"aa", "b", "~"});
  CHECK(world.Ids(false, "ns", "", 2) == Ids{"A", "a"});
  CHECK(world.Ids(false, "ns2") == Ids{"a"});
  CHECK(world.Ids(false, "n").empty());
  CHECK(world.Ids(false, "").size() == 8);
  CHECK(world.Ids(true).empty());
}

TEST_CASE("partitions do not see each other") {
  World world;
  Instance instance = world.Make("i");
  world.Put(&instance);
  for (PartitionId partition : std::vector<PartitionId>{2, 4, 0x0300}) {
    CHECK_FALSE(rows::GetInstance({world.store, partition}, {"ns", "i"}, world.resolve()));
    CHECK(*rows::LastSeq({world.store, partition}) == 0);
  }
}

TEST_CASE("an instance that stops moves, and is found all the same") {
  World world;
  Instance instance = world.Make("i");
  world.Put(&instance);
  instance.state = InstanceState::kStopped;
  world.Put(&instance, {.expiry = kNoon});
  CHECK(world.Ids(false).empty());
  CHECK(world.Ids(true) == Ids{"i"});
  CHECK(world.Get("i")->Stopped());
}

TEST_CASE("indexes find by label, machine and parent, a page at a time") {
  World world;
  Batch batch;
  for (const char* id : {"c", "a", "b"}) {
    Instance instance = world.Make(id);
    instance.parent = "p";
    const Spec spec{"", {{"k", "v"}}, ""};
    rows::PutInstance({batch, kPartition}, instance, world.machine, {.spec = &spec});
  }
  const Instance orphan = world.Make("d");
  const Spec spec{"", {{"k", "v2"}, {"k2", "v"}}, ""};
  rows::PutInstance({batch, kPartition}, orphan, world.machine, {.spec = &spec});
  world.Write(batch);
  Ids ids;
  auto visit = [&ids](std::string_view id) {
    ids.emplace_back(id);
    return true;
  };
  REQUIRE(rows::ScanLabel({world.store, kPartition}, {"ns", ""}, "k", "v", visit));
  CHECK(ids == Ids{"a", "b", "c"});
  ids.clear();
  REQUIRE(rows::ScanLabel({world.store, kPartition}, {"ns", "a"}, "k", "v", visit));
  CHECK(ids == Ids{"b", "c"});
  ids.clear();
  REQUIRE(rows::ScanChildren({world.store, kPartition}, {"ns", "b"}, "p", visit));
  CHECK(ids == Ids{"c"});
  ids.clear();
  REQUIRE(rows::ScanMachine({world.store, kPartition}, {"ns", ""}, "m", visit));
  CHECK(ids == Ids{"a", "b", "c", "d"});
}

// The feed ----------------------------------------------------------------------------------------

TEST_CASE("the feed is in order of number, from where one asks") {
  World world;
  CHECK(*rows::LastSeq({world.store, kPartition}) == 0);
  CHECK(*rows::FirstSeq({world.store, kPartition}) == 1);
  world.Feed(250, 260, "i");
  world.Feed(1, 3, "i");
  CHECK(world.FeedSeqs(255) == std::vector<uint64_t>{255, 256, 257, 258, 259, 260});
  CHECK(world.FeedSeqs().front() == 1);
  CHECK(*rows::LastSeq({world.store, kPartition}) == 260);
}

TEST_CASE("a history is read in pages, forwards and backwards") {
  for (uint64_t count : {0, 1, 31, 32, 33, 64, 65, 400}) {
    CAPTURE(count);
    World world;
    Instance instance = world.Make("i");
    std::vector<uint64_t> all;
    for (uint64_t n = 1; n <= count; ++n) {
      instance.history.push_back(3 * n);
      all.push_back(3 * n);
      world.Put(&instance);
    }
    Instance other = world.Make("i!");  // its pages lie behind ours
    for (uint64_t n = 1; n <= 100; ++n) {
      other.history.push_back(n);
      world.Put(&other);
    }
    CHECK(instance.history.size() < 40);
    CHECK(*rows::History({world.store, kPartition}, instance, 0) == all);
    for (uint64_t after : {1u, 95u, 96u, 97u, 400u}) {
      std::vector<uint64_t> rest;
      std::ranges::copy_if(all, std::back_inserter(rest),
                           [after](uint64_t seq) { return seq > after; });
      CHECK(*rows::History({world.store, kPartition}, instance, after) == rest);
    }
    std::vector<uint64_t> back;
    REQUIRE(rows::HistoryBackwards({world.store, kPartition}, instance, [&](uint64_t seq) {
      back.push_back(seq);
      return true;
    }));
    std::ranges::reverse(back);
    CHECK(back == all);
    size_t visited = 0;
    REQUIRE(rows::HistoryBackwards({world.store, kPartition}, instance,
                                   [&](uint64_t) { return ++visited < 40; }));
    CHECK(visited == std::min<size_t>(count, 40));
  }
}

TEST_CASE("trimming drops the front of the feed, and keeps what a history needs") {
  World world;
  world.Feed(1, 5, "gone");
  world.Feed(6, 10, "kept");
  world.Feed(11, 15, "gone");
  auto trim = [&](int64_t horizon, size_t most = 100) {
    Batch batch;
    auto first = rows::TrimFeed({world.store, kPartition}, {batch, kPartition},
                                *rows::FirstSeq({world.store, kPartition}), FromMicros(horizon),
                                most, [](const Event& event) { return event.instance == "kept"; });
    REQUIRE(first);
    world.Write(batch);
    CHECK(*rows::FirstSeq({world.store, kPartition}) == *first);
    return *first;
  };
  CHECK(trim(4) == 1);  // a page goes as a whole
  CHECK(trim(9) == 6);
  CHECK(world.FeedSeqs() == Seqs(6, 15));
  rows::FeedReader feed(world.store, kPartition);
  CHECK_FALSE(feed.Get(5));
  CHECK(trim(15, 1) == 11);
  CHECK(trim(15, 1) == 16);
  CHECK(world.FeedSeqs().empty());
  CHECK(*rows::LastSeq({world.store, kPartition}) == 15);  // numbers are not used again
  CHECK(*rows::FirstSeq({world.store, kPartition}) == 16);
  rows::FeedReader trimmed(world.store, kPartition);
  CHECK(trimmed.Get(7)->instance == "kept");
  CHECK(trimmed.Get(10)->instance == "kept");
  CHECK_FALSE(trimmed.Get(11));
}

TEST_CASE("the feed is read from any record on, wherever its pages begin") {
  World world;
  CHECK(*rows::LastSeq({world.store, kPartition}) == 0);
  CHECK(world.FeedSeqs().empty());
  CHECK(*rows::PageStart({world.store, kPartition}, 1) == 1);
  world.Feed(1, 3, "i");
  world.Feed(4, 4, "i");
  world.Feed(5, 1'000, "i");  // more than one page
  CHECK(*rows::LastSeq({world.store, kPartition}) == 1'000);
  for (uint64_t first : {0, 1, 2, 3, 4, 5, 6, 260, 261, 262, 999, 1'000}) {
    CHECK(world.FeedSeqs(first) == Seqs(std::max<uint64_t>(first, 1), 1'000));
  }
  CHECK(world.FeedSeqs(1'001).empty());
  CHECK(*rows::PageStart({world.store, kPartition}, 3) == 1);
  CHECK(*rows::PageStart({world.store, kPartition}, 4) == 4);
  CHECK(*rows::PageStart({world.store, kPartition}, 260) == 5);
  CHECK(*rows::PageStart({world.store, kPartition}, 261) == 261);
  CHECK(*rows::PageStart({world.store, kPartition}, 1'001) == 1'001);
  rows::FeedReader feed(world.store, kPartition);
  for (uint64_t seq : {1, 1'000, 260, 261, 5, 4, 3}) CHECK(feed.Get(seq)->seq == seq);
}

TEST_CASE("a record that stands alone, as older stores have it, is a page") {
  World world;
  world.Feed(1, 2, "i");
  const auto page = world.store.Get(std::string("\0\3\x06\0\0\0\0\0\0\0\1", 11));
  REQUIRE(page);
  const std::string record((*page)->substr(2, static_cast<uint8_t>((*page)->at(1))));
  Batch batch;
  batch.Put(std::string("\0\3\x06\0\0\0\0\0\0\0\3", 11), record);
  world.Write(batch);
  CHECK(world.FeedSeqs() == Seqs(1, 3));
  CHECK(*rows::LastSeq({world.store, kPartition}) == 3);
}

TEST_CASE("a damaged page is an error, not fewer records") {
  World world;
  world.Feed(1, 9, "i");
  const std::string key("\0\3\x06\0\0\0\0\0\0\0\1", 11);
  const std::string page = **world.store.Get(key);
  for (size_t size = 2; size < page.size(); ++size) {
    std::string cut = page.substr(0, size);
    Batch batch;
    batch.Put(key, cut);
    world.Write(batch);
    uint64_t seen = 0;
    auto scanned = rows::ScanFeed({world.store, kPartition}, 1, [&](const Event& event) {
      seen = event.seq;
      return true;
    });
    if (scanned) CHECK(*rows::LastSeq({world.store, kPartition}) == seen);  // cut between records
    if (!scanned) CHECK(scanned.error().code == Code::kDataLoss);
  }
}

// Expiry ------------------------------------------------------------------------------------------

TEST_CASE("what has expired is found, the longest overdue first, up to a limit") {
  World world;
  for (int i = 0; i < 10; ++i) {
    Instance instance = world.Make("i" + std::to_string(i));
    instance.state = InstanceState::kStopped;
    world.Put(&instance, {.expiry = kNoon + Duration((i * 7 % 10) * 1s)});
  }
  auto expired = [&](Timestamp from, Timestamp now, size_t limit) {
    auto found = rows::ScanExpired({world.store, kPartition}, from, now, limit);
    REQUIRE(found);
    Ids ids;
    for (const rows::Expired& one : *found) ids.push_back(one.id);
    return ids;
  };
  CHECK(expired({}, kNoon, 100).empty());
  CHECK(expired({}, kNoon + 1us, 100) == Ids{"i0"});
  CHECK(expired({}, kNoon + 3s + 1us, 100) == Ids{"i0", "i3", "i6", "i9"});
  CHECK(expired({}, kNoon + 1h, 3) == Ids{"i0", "i3", "i6"});
  CHECK(expired(kNoon + 2s, kNoon + 1h, 2) == Ids{"i6", "i9"});
}

TEST_CASE("dropping an instance leaves nothing of it") {
  World world;
  const size_t empty = world.Rows();
  Instance kept = world.Make("i2");
  kept.history = {999};
  const Spec spec_of_kept{"", {{"k", "v"}}, ""};
  world.Put(&kept, {.spec = &spec_of_kept});
  const size_t before = world.Rows();

  Instance instance = world.Make("i");
  instance.parent = "p";
  const Spec spec{"{}", {{"k", "v"}, {"l", "w"}}, "c"};
  world.Put(&instance, {.spec = &spec, .has_outputs = true});
  Batch batch;
  rows::PutOutput({batch, kPartition}, instance, "a", "{}");
  rows::PutOutput({batch, kPartition}, instance, "b", "{}");
  world.Write(batch);
  for (uint64_t seq = 1; seq <= 100; ++seq) {
    instance.history.push_back(seq);
    world.Put(&instance);
  }
  world.Feed(1, 100, "i");
  Batch trim;
  REQUIRE(rows::TrimFeed({world.store, kPartition}, {trim, kPartition}, 1, kNoon, 100,
                         [](const Event&) { return true; }));
  world.Write(trim);
  instance.state = InstanceState::kStopped;
  world.Put(&instance, {.expiry = kNoon});

  Batch drop;
  REQUIRE(rows::DropInstance({world.store, kPartition}, {drop, kPartition}, instance, 101, kNoon));
  world.Write(drop);
  CHECK(world.Rows() == before + 1);  // where the feed starts
  CHECK_FALSE(world.Get("i"));
  CHECK(world.Get("i2"));
  CHECK(empty <= before);
}

TEST_CASE("a bare instance is dropped without being read, and nothing of it is left") {
  auto put = [](World& world, Instance instance, const Spec& spec, int records, bool output) {
    world.Put(&instance, {.spec = &spec, .has_outputs = output});
    Batch batch;
    if (output) rows::PutOutput({batch, kPartition}, instance, "a", "{}");
    world.Write(batch);
    for (int seq = 0; seq < records; ++seq) {
      instance.history.push_back(7 + static_cast<uint64_t>(seq));
      world.Put(&instance);
    }
    instance.state = InstanceState::kStopped;
    world.Put(&instance, {.expiry = kNoon});
    auto expired = rows::ScanExpired({world.store, kPartition}, {}, kNoon + 1s, 10);
    REQUIRE(expired);
    REQUIRE(expired->size() == 1);
    return expired->front();
  };
  World world;
  Instance instance = world.Make("i");
  CHECK(put(world, instance, {"{}", {{"k", "v"}}, ""}, 3, false).machine.empty());
  CHECK(put(world, instance, {"{}", {}, ""}, 3, true).machine.empty());
  CHECK(put(world, instance, {"{}", {}, ""}, 100, false).machine.empty());
  instance.parent = "p";
  CHECK(put(world, instance, {"{}", {}, ""}, 3, false).machine.empty());

  World other;
  const size_t before = other.Rows();
  instance = other.Make("i");
  const rows::Expired bare = put(other, instance, {"{}", {}, "c"}, 3, false);
  CHECK(bare.machine == instance.machine);
  CHECK(bare.version == instance.version);
  CHECK(bare.first_seq == 7);
  Batch drop;
  rows::DropBare({drop, kPartition}, bare);
  other.Write(drop);
  CHECK(other.Rows() == before);
  CHECK_FALSE(other.Get("i"));
}

}  // namespace
}  // namespace dfsmr
