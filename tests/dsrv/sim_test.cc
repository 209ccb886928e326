// Random machines, lying workers, jumping clocks and crashes, all drawn from one number. What was
// acknowledged must be there afterwards, and what is there must make sense: audit.h says how.
//
//   DFSMR_SEED=7 dsrv_test -tc='*survives*'    replays one
//   DFSMR_SEEDS=5000 dsrv_test -tc='*survives*'  looks for more
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>

#include "fsm/limits.h"
#include "storage/rocks_store.h"
#include "tests/dsrv/audit.h"
#include "tests/dsrv/world.h"
#include "tests/storage/temporary_folder.h"

namespace dfsmr {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) { state_ = Next(); }  // no two seeds overlap
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  size_t Below(size_t n) { return static_cast<size_t>(Next() % n); }
  bool Chance(int percent) { return Below(100) < static_cast<size_t>(percent); }
  template <typename T>
  const T& Of(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

 private:
  uint64_t state_;
};

// "ok" always leads on towards the end, so that every instance can be driven there.
std::string RandomMachine(Random& random, const std::string& id, const std::string& strategy) {
  const size_t count = 1 + random.Below(5);
  auto name = [](size_t i) { return "n" + std::to_string(i); };
  std::string text = "id: " + id + "\nupgrade_strategy: " + strategy + "\nnodes:\n";
  bool breaks = false;
  for (size_t i = 0; i < count; ++i) {
    const std::string next = i + 1 < count ? name(i + 1) : "end";
    text += "  " + name(i) + ":\n";
    if (i == 0) text += "    start: true\n";
    std::string edges = "ok: " + next;
    const size_t kind = random.Below(10);
    const bool work = kind < 7;
    if (kind == 7) text += "    manual: true\n";
    if (kind == 8) text += "    delay: 2s\n";
    if (kind == 9) text += "    delay: {initial: 100ms, factor: 2, max: 10s, jitter: 0.5}\n";
    if (kind < 8) edges += ", back: " + name(random.Below(i + 1)) + ", fail: broken";
    breaks = breaks || kind < 8;
    if (work) {
      const size_t timeout = random.Below(4);
      if (timeout == 0) text += "    timeout: 0.0\n";
      if (timeout == 1) text += "    timeout_strategy: fixed\n    timeout: 3.0\n";
      if (timeout == 2) text += "    timeout_initial: 5s\n";
      if (timeout != 0 && random.Chance(30)) {
        edges += ", dfsmr.timeout: " + name(random.Below(count));
      }
      if (random.Chance(30)) text += "    priority: " + std::to_string(random.Below(3)) + "\n";
    }
    if (random.Chance(25)) {
      text += "    max_visits: " + std::to_string(1 + random.Below(3)) + "\n";
      edges += ", dfsmr.exhausted: " + next;
    }
    text += "    transitions: {" + edges + "}\n";
  }
  if (breaks) text += "  broken: {final: true, result: error}\n";
  return text + "  end: {final: true}\n";
}

class Sim {
 public:
  explicit Sim(uint64_t seed, Store* store = nullptr)
      : random_(seed),
        world_({.stats_every = 1s, .cached_instances = 1 + random_.Below(40)}, store) {
    for (int i = 0; i < 3; ++i) DefineRandom(i, "continue");
  }

  World& world() { return world_; }
  const std::string& problem() const { return problem_; }

  void Step() {
    world_.Decide([this](Engine& engine) {
      for (size_t n = random_.Below(5); n > 0; --n) Command(engine);
    });
    if (random_.Chance(50)) world_.Commit();
    PassTime();
    if (random_.Chance(2)) Crash();
  }

  // Settles everything and compares what was acknowledged with what is there.
  void Verify() {
    world_.Commit();
    // More than once: the turn that settles may hand out something more.
    for (int i = 0; i < 3; ++i) (void)world_.Do([](Engine& e) { return e.Settle("ns", ""); });
    Expect(world_.failed().empty(), "the store has failed: " + world_.failed());
    Audit audit(world_);
    audit.All();
    Expect(audit.problem().empty(), audit.problem());
    for (const auto& [id, machine] : started_) {
      const auto it = audit.instances().find(id);
      Expect(it != audit.instances().end() && it->second.machine == machine,
             "started and acknowledged, but not there: " + id);
    }
    std::map<std::pair<std::string, ClaimId>, int> reports;
    for (const Event& event : world_.Feed()) {
      if (event.answer) ++reports[{event.instance, event.answer->claim}];
    }
    for (const auto& [claim, accepted] : accepted_) {
      const auto times = reports[{accepted.instance, accepted.answer.claim}];
      Expect(times == 1, "report " + claim + " of " + accepted.instance + " is in the feed " +
                             std::to_string(times) + " times");
    }
  }

  // Prints the feed, to look into a failure.
  void Trace() {
    for (const Event& event : world_.Feed()) {
      std::printf("%5lu %9.3f %-6s v%u kind %2d  %s -%s-> %s  visit %lu attempt %u left %lu %s\n",
                  event.seq, static_cast<double>(Micros(event.time) % 1'000'000'000'000) / 1e6,
                  event.instance.c_str(), event.version, static_cast<int>(event.kind),
                  event.prev_node.c_str(), event.transition.c_str(), event.node.c_str(),
                  event.visit, event.attempt, event.left_visit, event.note.c_str());
    }
  }

  // Honest workers finish it all.
  void Finish() {
    world_.Restart();     // nobody of before polls any more
    world_.Elapse(3min);  // breakers close, claims time out
    for (int round = 0; round < 400; ++round) {
      bool live = false;
      std::vector<Instance> waiting;
      (void)world_.Do([](Engine& e) { return e.Settle("ns", ""); });
      const auto scanned = rows::ScanInstances(
          world_.store(), 0, false, "", "", world_.engine().resolve(), [&](Instance instance) {
            live = true;
            waiting.push_back(std::move(instance));
            return true;
          });
      REQUIRE(scanned);
      if (!live) return;
      for (const Instance& instance : waiting) Push(instance);
      for (const Task& task : world_.Ready()) (void)world_.Report(task, "ok");
      world_.Elapse(round % 20 == 19 ? Duration(2min) : Duration(11s));
    }
    std::string left;
    const auto scanned = rows::ScanInstances(
        world_.store(), 0, false, "", "", world_.engine().resolve(), [&](const Instance& instance) {
          left += " " + instance.id + "/" + std::to_string(static_cast<int>(instance.state));
          for (const Token& token : instance.tokens) {
            left += "@" + std::to_string(token.node) + ":" +
                    std::to_string(static_cast<int>(token.state));
            for (const Claim& claim : token.claims) {
              if (!claim.Live()) continue;
              left += " due in " + std::to_string(Seconds(claim.deadline - world_.now())) + " s";
            }
          }
          return true;
        });
    REQUIRE(scanned);
    Expect(false, "never got done:" + left);
  }

 private:
  struct Accepted {
    std::string instance;
    std::string transition;
    Answer answer;
  };
  void Expect(bool good, const std::string& what) {
    if (!good && problem_.empty()) problem_ = what;
  }

  void DefineRandom(size_t machine, const std::string& strategy) {
    auto machines = ParseMachines(RandomMachine(random_, "m" + std::to_string(machine), strategy));
    world_.Decide([&](Engine& e) { REQUIRE(TryDefine(e, std::move(machines))); });
  }

  std::string AnyId() { return "i" + std::to_string(random_.Below(30)); }

  void Command(Engine& engine) {
    const size_t dice = random_.Below(100);
    if (dice < 20) {
      StartOne(engine);
    } else if (dice < 45) {
      PollOne(engine);
    } else if (dice < 75) {
      UseTask(engine);
    } else if (dice < 82) {
      Outside(engine);
    } else if (dice < 90) {
      Control(engine);
    } else if (dice < 95) {
      Sessions(engine);
    } else if (dice < 97) {
      const std::string id = AnyId();
      (void)engine.Settle("ns", id);
    } else if (dice < 98) {
      const std::string strategy = random_.Of<std::string>({"continue", "upgrade", "abort"});
      auto machines = ParseMachines(
          RandomMachine(random_, "m" + std::to_string(random_.Below(3)), strategy));
      REQUIRE(TryDefine(engine, std::move(machines)));
    }
  }

  void StartOne(Engine& engine) {
    StartArgs args{.ns = "ns", .machine = "m" + std::to_string(random_.Below(3)), .id = AnyId()};
    args.priority = static_cast<int32_t>(random_.Below(3));
    if (random_.Chance(20)) args.start_at = world_.now() + Duration(1'000 * random_.Below(5'000));
    if (random_.Chance(10)) args.hold = true;
    if (random_.Chance(10)) {
      args.start_before =
          std::max(world_.now(), args.start_at) + Duration(random_.Below(9'000'000));
    }
    if (random_.Chance(10)) args.after = {{AnyId(), random_.Chance(50)}};
    auto started = engine.Start(args);
    if (!started) return;
    engine.AfterCommit([this, id = args.id, machine = args.machine] {
      Expect(!started_.contains(id) || started_[id] == machine, id + " was started as another");
      started_[id] = machine;
    });
  }

  void Receive(std::vector<Task> tasks) {
    for (Task& task : tasks) {
      const auto* machine =
          world_.engine().registry().Resolve("ns", task.machine, task.version);
      const bool once = machine->nodes[machine->Find(task.node)].timeout.AtMostOnce();
      if (once) {
        Expect(++told_[{task.instance, task.visit}] <= 1 + frees_[task.instance],
               "an at-most-once visit was handed out twice: " + task.instance + " visit " +
                   std::to_string(task.visit));
      }
      Expect(claims_.insert(task.claim).second, "a claim was told twice: " + task.claim);
      hands_.push_back(std::move(task));
    }
    while (hands_.size() > 60) hands_.erase(hands_.begin() + static_cast<long>(random_.Below(30)));
  }

  void PollOne(Engine& engine) {
    PollArgs args{.filter = {.ns = "ns"}, .worker = "w"};
    if (random_.Chance(40)) args.filter.machine = "m" + std::to_string(random_.Below(3));
    if (random_.Chance(20)) args.filter.node = "n" + std::to_string(random_.Below(3));
    args.max_tasks = 1 + static_cast<int32_t>(random_.Below(5));
    if (random_.Chance(40)) args.until = world_.now() + 2s;
    const bool lost = random_.Chance(10);
    auto poll = engine.Poll(args, [this, lost](std::vector<Task> tasks) {
      if (lost) {
        undelivered_.insert(undelivered_.end(), tasks.begin(), tasks.end());
      } else {
        Receive(std::move(tasks));
      }
    });
    REQUIRE(poll);
    if (*poll != 0) polls_.push_back(*poll);
    if (!polls_.empty() && random_.Chance(20)) {
      (void)engine.CancelPoll(random_.Of(polls_));
    }
    if (!undelivered_.empty() && random_.Chance(50)) {
      engine.Undelivered(undelivered_);
      undelivered_.clear();
    }
  }

  void UseTask(Engine& engine) {
    if (hands_.empty()) return;
    const Task task = random_.Of(hands_);
    const size_t dice = random_.Below(100);
    if (dice < 65) {
      ReportTask(engine, task, random_.Of<std::string>({"ok", "ok", "ok", "ok", "back", "fail",
                                                            "none", "dfsmr.timeout"}));
    } else if (dice < 80) {
      const std::optional<Duration> by =
          random_.Chance(50) ? std::optional<Duration>(Duration(random_.Below(20'000'000)))
                             : std::nullopt;
      (void)engine.Extend("ns", task.instance, task.claim, by, 0.5);
    } else if (dice < 90) {
      auto outcome = engine.Relinquish("ns", task.instance, task.claim, "");
      if (!outcome) return;
      ++frees_[task.instance];
      engine.AfterCommit([this, claim = task.claim] { relinquished_.insert(claim); });
    } else {
      // Shown at another instance, or at its own from the wrong worker.
      (void)engine.Report("ns", AnyId(), {.transition = "ok", .claim = task.claim});
    }
  }

  void ReportTask(Engine& engine, const Task& task, const std::string& transition) {
    auto answer = engine.Report("ns", task.instance,
                                {.transition = transition, .claim = task.claim,
                                 .output = random_.Chance(20) ? "{}" : ""});
    if (!answer) {
      const auto before = accepted_.find(task.claim);
      const bool repeats = before != accepted_.end() && before->second.transition == transition;
      Expect(!repeats, "a repeated report was refused: " + task.instance + " " + transition + ": " +
                           answer.error().message);
      return;
    }
    Expect(!relinquished_.contains(task.claim) || answer->repeated,
           "a relinquished claim was accepted: " + task.claim);
    engine.AfterCommit([this, task, transition, answer = *answer]() mutable {
      const auto before = accepted_.find(task.claim);
      if (before == accepted_.end()) {
        answer.repeated = false;
        accepted_[task.claim] = {task.instance, transition, answer};
        return;
      }
      Expect(answer.repeated && before->second.transition == transition,
             "a claim was accepted twice: " + task.claim);
      answer.repeated = false;
      Expect(answer == before->second.answer,
             "a repeated report got another answer: " + task.claim);
    });
  }

  void Outside(Engine& engine) {
    const std::string id = AnyId();
    if (random_.Chance(70)) {
      const auto transition = random_.Of<std::string>({"ok", "back", "none"});
      (void)engine.Report("ns", id, {.transition = transition});
    } else if (auto outcome = engine.Relinquish("ns", id, "", "operator")) {
      ++frees_[id];
    }
  }

  void Control(Engine& engine) {
    const std::string id = AnyId();
    switch (random_.Below(8)) {
      case 0: case 1: (void)engine.Pause("ns", id); break;
      case 2: case 3: case 4: (void)engine.Resume("ns", id, "", false); break;
      case 5:
        if (engine.Resume("ns", id, "", true)) ++frees_[id];
        break;
      case 6: (void)engine.Cancel("ns", id, CancelMode::kCancel); break;
      default:
        if (random_.Chance(30)) (void)engine.Cancel("ns", id, CancelMode::kKill);
    }
  }

  void Sessions(Engine& engine) {
    if (sessions_.size() < 3 && random_.Chance(50)) {
      const auto capacity = 1 + static_cast<int32_t>(random_.Below(4));
      auto session = engine.OpenSession({.ns = "ns"}, "s", capacity, [this](SessionUpdate update) {
        Receive(std::move(update.tasks));
      });
      REQUIRE(session);
      sessions_.push_back(*session);
    } else if (!sessions_.empty()) {
      const size_t which = random_.Below(sessions_.size());
      if (random_.Chance(30)) {
        engine.DrainSession(sessions_[which]);
      } else {
        engine.CloseSession(sessions_[which]);
        sessions_.erase(sessions_.begin() + static_cast<long>(which));
      }
    }
  }

  void PassTime() {
    const size_t dice = random_.Below(100);
    if (dice < 60) world_.Advance(Duration(random_.Below(50'000)));
    else if (dice < 90) world_.Advance(Duration(random_.Below(2'000'000)));
    else if (dice < 97) world_.Advance(Duration(random_.Below(60'000'000)));
    else world_.Advance(-Duration(random_.Below(30'000'000)));
  }

  void Crash() {
    if (world_.InFlight() && random_.Chance(50)) REQUIRE(world_.Write());  // but not answered
    undelivered_.clear();
    polls_.clear();
    sessions_.clear();
    world_.Crash();
  }

  // What no worker's report moves.
  void Push(const Instance& instance) {
    auto& engine = world_.engine();
    if (instance.state == InstanceState::kPaused || instance.state == InstanceState::kScheduled) {
      (void)world_.Do([&](Engine& e) { return e.Resume("ns", instance.id, "", false); });
    }
    if (instance.tokens.empty()) return;
    const Machine* machine =
        engine.registry().Resolve("ns", instance.machine, instance.version);
    const Token& token = instance.tokens.front();
    if (machine->nodes[token.node].kind == NodeKind::kManual) (void)world_.Move(instance.id, "ok");
    if (token.state == TokenState::kClaimed) {  // at most once, or with a deadline that is far off
      (void)world_.Do([&](Engine& e) { return e.Resume("ns", instance.id, "", true); });
    }
  }

  Random random_;
  World world_;
  std::map<std::string, std::string> started_;  // acknowledged: id → machine
  std::map<std::string, Accepted> accepted_;    // acknowledged: claim → what
  std::set<std::string> relinquished_;
  std::set<std::string> claims_;
  // At-most-once visits may be told once, and once more each time that someone allowed it.
  std::map<std::pair<std::string, uint64_t>, int> told_;
  std::map<std::string, int> frees_;
  std::vector<Task> hands_;
  std::vector<Task> undelivered_;
  std::vector<WaiterId> polls_;
  std::vector<SessionId> sessions_;
  std::string problem_;
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST_CASE("what was acknowledged survives every crash, and makes sense") {
  const uint64_t first = FromEnvironment("DFSMR_SEED", 1);
  const uint64_t seeds = FromEnvironment("DFSMR_SEEDS", std::getenv("DFSMR_SEED") ? 1 : 300);
  int bad = 0;
  for (uint64_t seed = first; seed < first + seeds && bad < 5; ++seed) {
    CAPTURE(seed);
    Sim sim(seed);
    for (int step = 0; step < 400 && sim.problem().empty(); ++step) sim.Step();
    sim.Verify();
    if (sim.problem().empty()) sim.Finish();
    sim.Verify();
    CHECK(sim.problem() == "");
    if (std::getenv("DFSMR_TRACE")) sim.Trace();
    if (!sim.problem().empty()) ++bad;
  }
}

// The same commands, whatever lies below.
TEST_CASE("on either store the same seed tells the same story") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    auto story = [seed](Store* store) {
      Sim sim(seed, store);
      for (int step = 0; step < 120; ++step) sim.Step();
      sim.Verify();
      CHECK(sim.problem() == "");
      return sim.world().Feed();
    };
    const TemporaryFolder folder;
    auto rocks = RocksStore::Open({.path = folder / "store", .cache_mb = 8, .memtable_mb = 1});
    REQUIRE(rocks);
    const auto on_disk = story(rocks->get());
    const auto in_memory = story(nullptr);
    REQUIRE(on_disk.size() == in_memory.size());
    CHECK(on_disk == in_memory);
    CHECK(on_disk.size() > 50);
  }
}

}  // namespace
}  // namespace dfsmr
