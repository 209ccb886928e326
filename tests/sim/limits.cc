#include "tests/sim/limits.h"

#include <algorithm>
#include <cstdio>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/limits.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

using One = LimitsAudit::One;

// A key has the same numbers whoever asks for it.
const std::map<std::string, LimitNumbers> kKeys = {
    {"a/1", {.max = 1, .rate = {}}},
    {"a/2", {.max = 2, .rate = {}}},
    {"b", {.max = 3, .rate = {}}},
    {"c", {.max = 1, .rate = {}}},
    {"r", {.max = {}, .rate = Rate{2, 4s, 2}}},
    {"q", {.max = 2, .rate = Rate{1, 1s, 1}}},
    {"s", {.max = 2, .rate = {}}},
};
const std::map<std::string, LimitNumbers> kNodeKeys = {
    {"w1", {.max = 1, .rate = {}}},
    {"w2", {.max = 2, .rate = {}}},
    {"wr", {.max = {}, .rate = Rate{1, 1s, 2}}},
};
const std::map<std::string, std::string> kDocuments = {
    {"a", "a"}, {"b", "b"}, {"s", "s"}, {"w1", "w1"}};

rows::DocumentName NameOf(const std::string& name) { return {"ns", DocumentKind::kLimit, name}; }

std::string TextOf(const LimitAsk& ask, bool node) {
  std::string text = "{key: " + ask.key;
  if (ask.numbers.max) text += ", max: " + std::to_string(*ask.numbers.max);
  if (const auto& rate = ask.numbers.rate) {
    text += ", rate: " + std::to_string(rate->count) + "/" +
            std::to_string(rate->per / Duration(1s)) + "s, burst: " + std::to_string(rate->burst);
  }
  if (!node) text += ", on_conflict: " + std::string(Name(ask.on_conflict));
  if (ask.waiting) text += ", waiting: " + std::to_string(*ask.waiting);
  return text + "}";
}

std::string TextOf(const LimitAsks& asks, bool node) {
  std::string text;
  for (const LimitAsk& ask : asks) text += (text.empty() ? "" : ", ") + TextOf(ask, node);
  return "limit: [" + text + "]\n";
}

std::set<std::string> KeysOf(const std::vector<LimitKey>& keys) {
  std::set<std::string> names;
  for (const LimitKey& key : keys) names.insert(key.key);
  return names;
}

std::string TextOf(const std::set<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += " " + key;
  return text;
}

}  // namespace

LimitSim::LimitSim(uint64_t seed, bool trace)
    : random_(seed * 11 + 5), trace_(trace), store_(memory_), world_({}, &store_) {
  DefineMachines();
  durable_ = decided_;
  written_ = world_.now();
}

void LimitSim::Expect(bool good, const std::string& what) {
  if (good || !problem_.empty()) return;
  problem_ = "limits: " + what;
  Note("WRONG: " + what);
}

void LimitSim::Note(const std::string& what) {
  if (!trace_) return;
  std::printf("%9.3f %s\n", static_cast<double>(Micros(world_.now()) % 1'000'000'000'000) / 1e6,
              what.c_str());
}

std::string LimitSim::Run() {
  for (size_t step = 30 + random_.Below(90); step > 0 && problem_.empty(); --step) Step();
  if (problem_.empty()) Verify();
  return problem_;
}

void LimitSim::Step() {
  const size_t dice = random_.Below(100);
  const auto turn = [this](void (LimitSim::*command)(Engine&)) {
    Turn([this, command](Engine& engine) { (this->*command)(engine); });
  };
  if (dice < 34) {
    turn(&LimitSim::Start);
  } else if (dice < 52) {
    Poll();
  } else if (dice < 69) {
    turn(&LimitSim::Finish);
  } else if (dice < 74) {
    turn(&LimitSim::Pause);
  } else if (dice < 81) {
    turn(&LimitSim::Resume);
  } else if (dice < 86) {
    turn(&LimitSim::Cancel);
  } else if (dice < 92) {
    turn(&LimitSim::Override);
  } else if (dice < 95) {
    turn(&LimitSim::Document);
  } else if (dice < 97) {
    Crash();
  } else {
    world_.Advance(100ms);
    Tick();  // what comes in its last turn it has heard of
    world_.Restart();
    Note("restart");
    AdoptRates();
    Tick();
  }
  if (random_.Chance(40)) PassTime();
  if (problem_.empty() && (random_.Chance(60))) Verify();
}

// Turns -----------------------------------------------------------------------------------------

// Without a command, and not lost: only the time has passed.
void LimitSim::Tick() {
  while (decided_.audit.AtTheEdge(world_.now(), 30ms)) world_.Advance(100ms);
  world_.Decide();
  world_.Commit();
  decided_.audit.Begin(world_.now());
  decided_.audit.End(world_.now());
  durable_ = decided_;
  written_ = world_.now();
}

void LimitSim::PassTime() {
  const size_t dice = random_.Below(10);
  world_.Advance(100ms *
                 static_cast<int64_t>(1 + (dice < 8 ? random_.Below(15) : random_.Below(100))));
  Tick();
}

void LimitSim::Turn(const std::function<void(Engine&)>& command,
                    const std::function<void()>& after) {
  const size_t dice = random_.Below(100);
  const Lost lost = dice < 3 ? Lost::kTorn : dice < 6 && !after ? Lost::kKept : Lost::kNothing;
  if (lost == Lost::kTorn) store_.FailNextWrite(FaultyStore::Outcome::kTorn);
  if (lost == Lost::kKept) store_.FailNextWrite(FaultyStore::Outcome::kKept);
  world_.Decide([&](Engine& engine) {
    decided_.audit.Begin(world_.now());
    command(engine);
  });
  world_.Commit();
  const bool failed = !world_.failed().empty();
  store_.Heal();
  if (after && !failed) after();
  decided_.audit.End(world_.now());
  if (failed && lost == Lost::kTorn) decided_ = durable_;
  durable_ = decided_;
  if (!failed) written_ = world_.now();
  if (failed) Crash();
  Expect(decided_.audit.TooMany().empty(),
         "more begin than the rate of " + decided_.audit.TooMany() + " allows");
}

void LimitSim::Crash() {
  Note("crash");
  world_.Advance(100ms);  // who came first is told by the clock
  world_.Crash();
  AdoptRates();
  Tick();
}

// What is kept of a rate may be a second old.
void LimitSim::AdoptRates() {
  LimitsAudit& audit = decided_.audit;
  for (const std::string& key : audit.RateKeys()) {
    const auto rate = audit.NumbersOf(key).rate;
    if (!rate) continue;
    if (!world_.engine().limits().NumbersOf("ns", key).rate) {  // nobody asks any more
      const Timestamp full = audit.FullAt(key);  // from then on it matters to nobody what is kept
      if (full > world_.now()) world_.Advance(full - world_.now() + 100ms);
      continue;
    }
    const Duration ahead = rate->Spacing() * (rate->burst - 1);
    const Timestamp next = world_.engine().limits().reader().Standing("ns", key).next_token;
    const Timestamp most = audit.FullAt(key) - ahead;
    // What began by force past an empty bucket is not waited for after a start.
    const Timestamp empty = world_.now() + rate->Spacing();
    const Timestamp least =
        std::min(audit.FullAtWithout(key, written_ - 1'100ms) - ahead, empty);
    const bool idle = next <= world_.now() && least <= world_.now();
    Expect(idle || (next >= least - 30ms && next <= most + 30ms),
           "after a start the next may begin under the rate of " + key + " in " +
               std::to_string((next - world_.now()).count()) + " us, and should between " +
               std::to_string((least - world_.now()).count()) + " and " +
               std::to_string((most - world_.now()).count()));
    audit.SetFullAt(key, next + ahead);
  }
}

// Commands --------------------------------------------------------------------------------------

LimitAsk LimitSim::DrawAsk(bool node) {
  const auto& keys = node ? kNodeKeys : kKeys;
  auto which = keys.begin();
  std::advance(which, random_.Below(keys.size()));
  LimitAsk ask{.key = which->first, .numbers = which->second};
  if (node) return ask;
  using enum OnConflict;
  ask.on_conflict =
      random_.Of<OnConflict>({kWait, kWait, kSkip, kFail, kLatest, kCancel, kReplace});
  const bool bounded = ask.on_conflict == kWait || ask.on_conflict == kLatest;
  if (bounded && random_.Chance(30)) ask.waiting = static_cast<uint32_t>(random_.Below(3));
  return ask;
}

LimitAsks LimitSim::DrawAsks(bool node) {
  LimitAsks asks;
  if (random_.Chance(90)) asks.push_back(DrawAsk(node));
  return asks;
}

void LimitSim::DefineMachines() {
  for (int i = 0; i < 4; ++i) {
    const std::string id = "m" + std::to_string(i);
    // Who is looked at first where several keys become free at once, is not the account's to say:
    // so one asks as a whole or for its task, for one key.
    Drawn drawn;
    const bool node = random_.Chance(40);
    (node ? drawn.node : drawn.asks) = DrawAsks(node);
    std::string text = "id: " + id + "\n";
    if (!drawn.asks.empty()) text += TextOf(drawn.asks, false);
    text += "nodes:\n  work:\n    start: true\n    timeout: 0.0\n";
    if (!drawn.node.empty()) text += "    " + TextOf(drawn.node, true);
    text += "    transitions: {ok: done}\n  done: {final: true}\n";
    if (trace_) std::printf("%s", text.c_str());
    world_.Define(text);
    machines_[id] = drawn;
  }
}

void LimitSim::Start(Engine& engine) {
  One one;
  one.id = "i" + std::to_string(decided_.started++);
  one.machine = "m" + std::to_string(random_.Below(4));
  one.queue = "default";
  one.asks = machines_[one.machine].asks;
  one.node = machines_[one.machine].node;
  one.priority = static_cast<int32_t>(random_.Below(3)) - 1;
  one.force = random_.Chance(5);
  one.hold = random_.Chance(8);
  using enum OnConflict;
  if (random_.Chance(20)) {
    one.word = random_.Of<OnConflict>({kWait, kSkip, kFail, kLatest, kCancel, kReplace});
  }
  const bool rate = std::ranges::any_of(
      one.asks, [](const LimitAsk& ask) { return ask.numbers.rate.has_value(); });
  if (!rate && one.node.empty() && random_.Chance(10))
    one.start_at = world_.now() + 1s * (1 + random_.Below(5)) + 50ms;
  if (random_.Chance(30)) one.group = "g";
  // A schedule's overlap.
  if (one.asks.empty() && one.node.empty() && random_.Chance(60)) {
    one.cause = "schedule:d";
    one.given = {
        {.key = one.cause,
         .on_conflict = random_.Of<OnConflict>({kWait, kSkip, kLatest, kCancel, kReplace})}};
  }
  StartArgs args{.ns = "ns", .machine = one.machine, .id = one.id};
  args.priority = one.priority;
  args.start_at = one.start_at;
  args.hold = one.hold;
  if (!one.group.empty() || !one.cause.empty()) {
    args.provenance = Provenance{.group = one.group, .cause = one.cause};
  }
  args.asks = one.given;
  args.on_conflict = one.word;
  args.force = one.force;
  Note("start " + one.id + " of " + one.machine + " priority " + std::to_string(one.priority) +
       (one.force ? " force" : "") + (one.hold ? " hold" : "") +
       (one.start_at > world_.now() ? " later" : "") + (one.group.empty() ? "" : " g") +
       (one.cause.empty() ? "" : " " + TextOf(one.given, false)) +
       (one.word ? " word " + std::string(Name(*one.word)) : ""));
  const std::string id = one.id;
  const auto answer = decided_.audit.Start(std::move(one));
  const auto started = engine.Start(std::move(args));
  const bool left_out = answer == LimitsAudit::Answer::kLeftOut;
  Expect(started.has_value() != left_out,
         id + (left_out ? " is not left out"
                        : " is refused: " + (started ? "" : started.error().message)));
  if (!started) {
    Note("refused: " + started.error().message);
    Expect(started.error().reason == Reason::kLimitReached, "a start is refused otherwise");
  } else {
    decided_.ids.push_back(id);
  }
}

void LimitSim::Poll() {
  std::vector<Task> tasks;
  const auto most = static_cast<int32_t>(1 + random_.Below(4));
  Turn(
      [&](Engine& engine) {
        Note("poll " + std::to_string(most));
        auto poll = engine.Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = most},
                                [&tasks](std::vector<Task> given) { tasks = std::move(given); });
        REQUIRE(poll);
      },
      [&] {
        for (const Task& task : tasks) {
          Note("task " + task.instance);
          const std::string wrong = decided_.audit.Claim(task.instance);
          Expect(wrong.empty(), wrong);
          decided_.claims[task.instance] = task.claim;
        }
        if (tasks.size() == static_cast<size_t>(most)) return;
        const std::string left = decided_.audit.Overlooked();
        Expect(left.empty(), left + " is not handed out");
      });
}

void LimitSim::Finish(Engine& engine) {
  if (decided_.claims.empty()) return;
  auto which = decided_.claims.begin();
  std::advance(which, random_.Below(decided_.claims.size()));
  const auto [id, claim] = *which;
  decided_.claims.erase(which);
  Note("finish " + id);
  const bool stopped = decided_.audit.ones().at(id).stopped;
  const auto answer = engine.Report("ns", id, {.transition = "ok", .claim = claim}, {});
  Expect(answer.has_value() != stopped, "the report of " + id + " is refused, or not");
  if (answer) decided_.audit.Finish(id);
  if (!answer) decided_.audit.FinishLate(id);
}

std::string LimitSim::AnyId() {
  // Newer ones rather than older ones.
  const size_t count = decided_.ids.size();
  return decided_.ids[count - 1 - random_.Below(std::min<size_t>(count, 12))];
}

void LimitSim::Pause(Engine& engine) {
  if (decided_.ids.empty()) return;
  const std::string id = AnyId();
  Note("pause " + id);
  const bool paused = engine.Pause("ns", id).has_value();
  Expect(paused != decided_.audit.ones().at(id).stopped, id + " is paused, or not");
  decided_.audit.Pause(id);
}

void LimitSim::Resume(Engine& engine) {
  if (decided_.ids.empty()) return;
  const std::string id = AnyId();
  Note("resume " + id);
  const auto resumed = engine.Resume("ns", id, "", false);
  const bool refused = decided_.audit.Resume(id) != LimitsAudit::Answer::kDone;
  Expect(resumed.has_value() != refused,
         "resuming " + id + (refused ? " is not refused" : " is refused"));
}

void LimitSim::Cancel(Engine& engine) {
  if (decided_.ids.empty()) return;
  const std::string id = AnyId();
  const bool force = random_.Chance(40);
  Note("cancel " + id + (force ? " with force" : ""));
  (void)engine.Cancel("ns", id, force ? CancelMode::kForce : CancelMode::kCancel);
  decided_.audit.Cancel(id, force);
}

void LimitSim::Override(Engine& engine) {
  std::vector<std::string> keys = {"queue:default"};
  for (const auto& [key, numbers] : kKeys) keys.push_back(key);
  for (const auto& [key, numbers] : kNodeKeys) keys.push_back(key);
  const std::string key = random_.Of(keys);
  LimitChange change{.client = "sim"};
  LimitsAudit::Override& known = decided_.audit.overrides[key];
  switch (random_.Below(5)) {
    case 0:
      change.reset = true;
      decided_.audit.overrides.erase(key);
      break;
    case 1:
      change.no_max = known.no_max = true;
      known.numbers.max.reset();
      break;
    default:
      change.max = random_.Chance(10) ? 0 : 1 + static_cast<uint32_t>(random_.Below(4));
      known.numbers.max = change.max;
      known.no_max = false;
  }
  Note("limit " + key +
       (change.max     ? " " + std::to_string(*change.max)
        : change.reset ? " reset"
                       : " none"));
  (void)engine.limits().Override("ns", key, change);
}

void LimitSim::Document(Engine& engine) {
  auto which = kDocuments.begin();
  std::advance(which, random_.Below(kDocuments.size()));
  const auto& [name, root] = *which;
  if (random_.Chance(30)) {
    Note("delete " + name);
    (void)engine.documents().Delete(NameOf(name), "sim");
    decided_.audit.documents.erase(name);
    return;
  }
  const auto max = static_cast<uint32_t>(1 + random_.Below(3));
  LimitsAudit::Document document{.root = root, .numbers = {.max = max, .rate = {}}, .keys = {}};
  std::string text = "limit: " + name + "\n";
  text += "max: " + std::to_string(max) + "\n";
  if (name == "a") {
    const auto own = static_cast<uint32_t>(random_.Below(4));
    document.keys["a/1"] = {.max = own, .rate = {}};
    text += "keys: {a/1: {max: " + std::to_string(own) + "}}\n";
  }
  Note("define " + text);
  Parsed parsed = ParseDefinitions(text, "sim");
  REQUIRE(parsed.ok());
  std::vector<DefineProblem> problems;
  auto defined = DefineAtOnce(engine, "ns", {{}, std::move(parsed.documents)}, false, &problems);
  Expect(defined.has_value(), "a limit was refused: " + text);
  decided_.audit.documents[name] = document;
}

// What must be true -----------------------------------------------------------------------------

void LimitSim::Verify() {
  (void)world_.Do([](Engine& engine) { return engine.Settle("ns", ""); });
  std::map<std::string, Instance> rows;
  for (bool stopped : {false, true}) {
    REQUIRE(rows::ScanInstances({memory_, world_.partition()}, stopped, {"", ""},
                                world_.engine().reader().registry.resolve(),
                                [&rows](Instance instance) {
                                  rows[instance.id] = std::move(instance);
                                  return true;
                                }));
  }
  Expect(rows.size() == decided_.audit.ones().size(),
         "there are other instances than were started");
  for (const auto& [id, one] : decided_.audit.ones()) {
    if (!rows.contains(id))
      Expect(false, id + " is not there");
    else
      VerifyOne(one, rows[id]);
  }
}

void LimitSim::VerifyOne(const One& one, const Instance& instance) {
  Expect(one.stopped == instance.Stopped(),
         one.id + (one.stopped ? " has not stopped, result " +
                                     std::to_string(static_cast<int>(one.outcome)) + GaveWay(one.id)
                               : " has stopped: " + instance.error));
  if (one.stopped) {
    const InstanceResult result =
        one.outcome == LimitsAudit::Outcome::kSuccess     ? InstanceResult::kSuccess
        : one.outcome == LimitsAudit::Outcome::kCancelled ? InstanceResult::kCancelled
                                                          : InstanceResult::kError;
    return Expect(instance.result == result,
                  one.id + " ended with " + std::string(Name(instance.result)));
  }
  const auto& limits = instance.limits;
  Waits reasons = instance.waits;
  if (one.may_begin) reasons.Remove(Wait::kStartAt);  // a row does not say that it has come
  const bool waits = reasons.ForTurn();
  Expect(one.InLine() == waits, one.id + (waits ? " waits for its turn" : " does not wait") +
                                    ", it is " + std::string(Name(instance.state)) + " with" +
                                    Standings(limits ? KeysOf(limits->keys) : one.keys));
  Expect(one.begun == instance.Begun(), one.id + (one.begun ? " has not begun" : " has begun"));
  Expect(one.Runs() == (instance.state == InstanceState::kRunning),
         one.id + (one.Runs() ? " does not run" : " runs"));
  const std::set<std::string> keys = limits ? KeysOf(limits->keys) : std::set<std::string>();
  if (one.InLine() || (one.Runs() && one.holds)) {
    Expect(keys == one.keys,
           one.id + " has keys" + TextOf(keys) + " instead of" + TextOf(one.keys));
  }
  Expect((one.cancel > 0) == instance.Cancelling(), one.id + " is being cancelled, or not");
  if (one.Runs()) VerifyTask(one, instance);
}

std::string LimitSim::GaveWay(const std::string& id) const {
  const auto way = decided_.audit.gave_way().find(id);
  if (way == decided_.audit.gave_way().end()) return "";
  return ", in favour of " + way->second.first + " under limit " + way->second.second;
}

// Keys with how many hold them, as the server says and as the account does.
std::string LimitSim::Standings(const std::set<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) {
    const LimitView view = world_.engine().limits().reader().Standing("ns", key);
    const auto max = view.standing.numbers.max;
    text += " " + key + " (" + std::to_string(view.held) + " of " +
            (max ? std::to_string(*max) : "any") + ", should be" +
            TextOf(decided_.audit.HoldersOf(key)) + ")";
  }
  return text;
}

void LimitSim::VerifyTask(const One& one, const Instance& instance) {
  using At = LimitsAudit::Task;
  if (instance.tokens.empty()) return Expect(false, one.id + " stands nowhere");
  const Token& token = instance.tokens.front();
  const bool called = token.limits && token.limits->state == TokenLimits::State::kCalled;
  const At task = token.state == TokenState::kClaimed   ? At::kClaimed
                  : token.state == TokenState::kWaiting ? At::kWaits
                  : called                              ? At::kCalled
                                                        : At::kReady;
  const auto name = [](At which) {
    static const std::vector<std::string> kNames = {"none", "ready", "waits", "called", "claimed"};
    return kNames[static_cast<size_t>(which)];
  };
  Expect(task == one.task, "the task of " + one.id + " is " + name(task) + " instead of " +
                               name(one.task) + Standings(one.task_keys));
}

}  // namespace dfsmr
