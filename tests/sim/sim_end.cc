// What is checked of a run: on the way, after its memory was rebuilt, and when all work is done.
#include <algorithm>

#include "dsrv/wire/lists.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"
#include "tests/sim/definitions.h"
#include "tests/sim/plan_audit.h"
#include "tests/sim/sim.h"

namespace dfsmr {
namespace {

constexpr std::string_view kEndOutput = R"({"v":1,"list":[1,2]})";

// All rows of a store, to be owned under an epoch after `epoch`.
void Copy(const Store& from, Epoch last, MemoryStore* to) {
  Batch batch;
  REQUIRE(from.Scan("", "", [&batch](std::string_view key, std::string_view value) {
    batch.Put(std::string(key), std::string(value));
    return true;
  }));
  Epoch epoch = 0;
  while (epoch <= last) epoch = *to->Acquire(0);
  REQUIRE(to->Write(0, epoch, batch));
}

// What GetMachine tells, but for what is learned of how long things take.
std::string CountersOf(World& world) {
  auto views = world.Do([](Engine& engine) {
    return Result<std::vector<MachineView>>(engine.ListMachines("ns", true, {"", 0}, 1'000));
  });
  std::string text;
  for (const MachineView& view : *views) {
    text += view.definition->machine.id + " v" + std::to_string(view.definition->version);
    for (uint64_t n : {view.stats.scheduled, view.stats.running, view.stats.paused,
                       view.stats.stopped}) {
      text += " " + std::to_string(n);
    }
    for (const NodeStats& node : view.nodes) {
      text += ",";
      for (uint64_t n : {node.ready, node.claimed, node.waiting, node.held, node.completed,
                         node.timed_out}) {
        text += " " + std::to_string(n);
      }
    }
    text += "\n";
  }
  return text + GroupsOf(world.engine());
}

// Ids that the server makes are drawn: of such a one what its children's ids add.
std::string GivenId(const std::string& id) {
  const bool drawn = id.size() >= 20 && id.starts_with('0');
  return drawn ? id.substr(20) : id;
}

// Where everybody stands.
std::string StandsOf(World& world) {
  (void)world.Do([](Engine& engine) { return engine.Settle("ns", ""); });
  std::multiset<std::string> stands;
  for (bool stopped : {false, true}) {
    REQUIRE(rows::ScanInstances(
        {world.store(), world.partition()}, stopped, {"", ""},
        world.engine().reader().registry.resolve(), [&stands](const Instance& instance) {
          std::string text = GivenId(instance.id) + " " + std::string(Name(instance.state)) + " " +
                             std::string(Name(instance.result));
          std::set<std::string> tokens;
          for (const Token& token : instance.tokens) {
            tokens.insert(" " + std::to_string(token.node) + "#" + std::to_string(token.visit) +
                          ":" + std::to_string(static_cast<int>(token.state)));
          }
          for (const std::string& token : tokens) text += token;
          stands.insert(text + "\n");
          return true;
        }));
  }
  std::string all;
  for (const std::string& one : stands) all += one;
  return all;
}

bool HoldsBack(World& world) {
  auto views = world.engine().ListMachines("ns", false, {"", 0}, 1'000);
  return std::ranges::any_of(
      views, [](const MachineView& view) { return view.stats.breaker != "closed"; });
}

// All that is ready, for workers that have everything.
template <typename Does>
std::vector<Task> TakeAll(const Does& does) {
  std::vector<Task> tasks;
  Filter filter{.ns = "ns"};
  filter.capabilities = {"c1", "c2"};
  for (const char* worker : {"w", "w1", "w2", "op"}) {  // a person's report names a worker, too
    auto polled = does([&](auto& engine) {
      return engine.Poll({.filter = filter, .worker = worker, .max_tasks = 1'000},
                         [&tasks](std::vector<Task> given) {
                           std::ranges::move(given, std::back_inserter(tasks));
                         });
    });
    REQUIRE(polled);
  }
  return tasks;
}

// All that has been handed out so far.
std::string Offered(const std::vector<Task>& tasks, std::set<std::string>* all) {
  for (const Task& task : tasks) {
    all->insert(GivenId(task.instance) + " " + task.node + "#" + std::to_string(task.visit) +
                " attempt " + std::to_string(task.attempt));
  }
  std::string text;
  for (const std::string& one : *all) text += one + "\n";
  return text;
}

std::string FirstDifference(const std::string& a, const std::string& b) {
  size_t begin = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '\n') begin = i + 1;
  }
  return "'" + a.substr(begin, a.find('\n', begin) - begin) + "' and '" +
         b.substr(begin, b.find('\n', begin) - begin) + "'";
}

}  // namespace

// Settles everything and compares what was acknowledged with what is there.
void Sim::Verify() {
  store_.Heal();
  world_.Commit();
  world_.Drain();
  // More than once: the turn that settles may hand out something more.
  // What is done in portions goes on for as many turns as it takes.
  for (int i = 0; i < 3 || (world_.engine().WorkLeft() && i < 10'000); ++i) {
    (void)Do([](Asked& engine) { return engine.Settle("ns", ""); });
  }
  Expect(world_.failed().empty(), "the engine gave up on a sound store: " + world_.failed());
  if (!problem_.empty()) return;
  lockstep_.Compare();
  Expect(lockstep_.problem().empty(), lockstep_.problem());
  PlanAudit audit(world_, ledger_);
  audit.All();
  Expect(audit.problem().empty(), audit.problem());
  for (const auto& [id, args] : started_) {
    const auto it = audit.instances().find(id);
    const bool gone = it == audit.instances().end() && On(Fault::kRetention) && Finished(id);
    Expect(gone || (it != audit.instances().end() && it->second.machine == args.machine),
           "started and acknowledged, but not there: " + id);
  }
  std::map<std::pair<std::string, ClaimId>, int> reports;
  for (const auto& [seq, event] : ledger_) {
    if (event.answer) ++reports[{event.instance, event.answer->claim}];
  }
  for (const auto& [claim, times] : reports) {
    Expect(times == 1, "a claim of " + claim.first + " was accepted " + std::to_string(times) +
                           " times");
  }
  for (const auto& [claim, accepted] : accepted_) {
    Expect(reports.contains({accepted.instance, accepted.answer.claim}),
           "report " + claim + " of " + accepted.instance + " was answered and is not in the feed");
  }
  CheckStarts();
  CheckStartsOfReports();
  CheckGroups(audit.instances());
  CheckOrdered(audit.instances());
  CheckLateReports();
  CheckTallies(audit.instances());
  CheckPlans(audit.instances());
  CheckTakenBack();
  CheckEvents();
  CheckNobodyUnasked(audit.instances());
  CheckDryRuns(audit.instances());
  if (On(Fault::kPages)) CheckLists(audit.instances());
  if (On(Fault::kPages)) CheckHistories(audit.instances());
  if (On(Fault::kPages)) CheckMachines();
}

// Nothing begins before it may: not while it is held, nor before its time or those it waits for. A
// time that has come has come: an instance that then waits for a limit may begin after the clock has
// gone back behind it.
void Sim::CheckStarts() {
  std::set<std::string> resumed, finished, begun;
  std::map<std::string, Timestamp> latest;  // of an instance's records so far
  for (const auto& [seq, event] : ledger_) {
    Timestamp& reached = latest[event.instance];
    reached = std::max(reached, event.time);
    if (event.kind == ChangeKind::kResumed) resumed.insert(event.instance);
    if (event.kind == ChangeKind::kFinished) finished.insert(event.instance);
    if (event.kind != ChangeKind::kStarted || !begun.insert(event.instance).second) continue;
    const auto created = created_.find(event.instance);
    if (created == created_.end()) continue;
    const StartArgs& args = created->second;
    if (finished.contains(args.id)) continue;  // it was cancelled, and resumed at once
    Expect(reached >= args.start_at, args.id + " began before its time");
    Expect(!args.hold || resumed.contains(args.id), args.id + " began while it was held");
    for (const Instance::Prerequisite& one : args.after) {
      Expect(finished.contains(one.instance), args.id + " began before " + one.instance);
    }
  }
}

// A report and what it starts are there together.
void Sim::CheckStartsOfReports() {
  std::map<std::string, uint64_t> told;  // the last record of each instance
  for (const auto& [seq, event] : ledger_) told[event.instance] = seq;
  for (const auto& [seq, event] : ledger_) {
    if (!event.answer || !event.answer->started) continue;
    for (const Begun& one : *event.answer->started) {
      const auto last = told.find(one.id);
      Expect(last != told.end() && (!one.created || last->second > seq),
             "a report of " + event.instance + " has started " + one.id + ", which is not there");
    }
  }
}

InstanceQuery Sim::AnyList(const std::map<std::string, Instance>& instances) {
  InstanceQuery query;
  query.ns = "ns";
  query.limit = 1 + random_.Below(5);
  if (random_.Chance(40)) query.machine = AnyMachine();
  if (random_.Chance(40)) {
    query.state = random_.Of<InstanceState>(
        {InstanceState::kRunning, InstanceState::kPaused, InstanceState::kStopped});
  }
  if (random_.Chance(20)) query.result = InstanceResult::kSuccess;
  query.dry_run = dry_ && of_dry_.Chance(50);
  if (random_.Chance(40)) query.labels["kind"] = random_.Chance(50) ? "a" : "b";
  if (!plans_ && random_.Chance(30)) query.node = "n" + std::to_string(random_.Below(3));
  if (plans_ && random_.Chance(50) && !instances.empty()) {  // of one that may have children
    auto which = instances.begin();
    std::advance(which, random_.Below(instances.size()));
    query.parent = which->second.parent.empty() ? which->first : which->second.parent;
  }
  if (!plans_ && of_more_.Chance(10)) query.node = "n";  // nobody's, but what names begin with
  if (machines_ && names_ && of_names_.Chance(60)) {
    query.machine = of_names_.Chance(70) ? LongName('x') : "";
    query.node = of_names_.Chance(70) && !plans_ ? LongName('n') : "";
  }
  if (groups_ && of_more_.Chance(30)) query.group = "g" + std::to_string(of_more_.Below(3));
  if (of_more_.Chance(40)) {
    query.order = of_more_.Of<ListOrder>({ListOrder::kChanged, ListOrder::kStarted});
    query.backwards = of_more_.Chance(50);
  }
  return query;
}

std::vector<std::string> Sim::InList(const InstanceQuery& query,
                                     const std::map<std::string, Instance>& instances) {
  std::vector<std::string> ids;
  for (const auto& [id, instance] : instances) {
    if (instance.dry_run && !query.dry_run) continue;
    auto spec = rows::GetSpec({store_, world_.partition()}, {"ns", id});
    REQUIRE(spec);
    const bool labelled = std::ranges::all_of(query.labels, [&](const auto& label) {
      const auto it = spec->labels.find(label.first);
      return it != spec->labels.end() && it->second == label.second;
    });
    const bool there =
        query.node.empty() ||
        std::ranges::any_of(instance.tokens, [&, &instance = instance](const Token& token) {
          const Machine* machine =
              world_.engine().reader().registry.Resolve("ns", instance.machine, instance.version);
          return NodeName(*machine, token.node) == query.node;
        });
    const bool member = instance.provenance && instance.provenance->group == query.group;
    if (labelled && there && (query.group.empty() || member) &&
        (query.parent.empty() || query.parent == instance.parent) &&
        (query.machine.empty() || query.machine == instance.machine) &&
        (query.state == InstanceState::kNone || query.state == instance.state) &&
        (query.result == InstanceResult::kNone || query.result == instance.result)) {
      ids.push_back(id);
    }
  }
  if (query.order == ListOrder::kId) return ids;
  std::map<std::string, uint64_t> places;  // the record that began it, or changed it last
  for (const auto& [seq, event] : ledger_) {
    if (query.order == ListOrder::kChanged) places[event.instance] = seq;
    places.emplace(event.instance, seq);
  }
  std::ranges::sort(ids, {}, [&](const std::string& id) { return places[id]; });
  if (query.backwards) std::ranges::reverse(ids);
  return ids;
}

// Page by page there is what is there: all of it, once, in order.
void Sim::CheckLists(const std::map<std::string, Instance>& instances) {
  Hit(Fault::kPages);
  InstanceQuery query = AnyList(instances);
  std::string listed, expected;
  for (bool more = true; more;) {
    auto page = ReadInstances(Moment(world_.engine().reader()), query);
    REQUIRE(page);
    for (const InstanceView& view : page->instances) {
      listed += view.instance.id + " ";
      const auto known = instances.find(view.instance.id);
      Expect(known != instances.end() && known->second.state == view.instance.state &&
                 known->second.result == view.instance.result &&
                 view.nodes.size() == view.instance.tokens.size(),
             "a list shows another " + view.instance.id + ", " +
                 std::string(Name(view.instance.state)) + " at " +
                 std::to_string(view.nodes.size()) + " nodes, than the store: " +
                 (known == instances.end() ? "none" : std::string(Name(known->second.state))));
    }
    more = !page->last.empty();
    query.after = page->last;
  }
  for (const std::string& id : InList(query, instances)) expected += id + " ";
  Expect(listed == expected, "listed were " + listed + "instead of " + expected);
}

void Sim::CheckMachines() {
  const bool all = of_more_.Chance(50);
  const auto list = [&](const std::pair<std::string, uint32_t>& after, size_t limit) {
    std::vector<std::pair<std::string, uint32_t>> page;
    for (const MachineView& view : world_.engine().ListMachines("ns", all, after, limit)) {
      page.emplace_back(view.definition->machine.id, view.definition->version);
    }
    return page;
  };
  const auto expected = list({"", 0}, 1'000);
  std::vector<std::pair<std::string, uint32_t>> listed;
  const size_t limit = 1 + of_more_.Below(4);
  for (auto page = list({"", 0}, limit); !page.empty(); page = list(listed.back(), limit)) {
    listed.insert(listed.end(), page.begin(), page.end());
    if (listed.size() > expected.size()) break;
  }
  Expect(listed == expected, "the pages of machines hold " + std::to_string(listed.size()) +
                                 " of them instead of " + std::to_string(expected.size()));
  Expect(std::ranges::is_sorted(expected), "machines are listed out of order");
}

void Sim::CheckHistories(const std::map<std::string, Instance>& instances) {
  if (instances.empty()) return;
  auto which = instances.begin();
  std::advance(which, random_.Below(instances.size()));
  std::string listed, expected;
  HistoryQuery query{.ns = "ns", .id = which->first, .limit = 1 + random_.Below(4)};
  query.newest_first = of_more_.Chance(40);
  if (of_more_.Chance(40)) query.kinds = of_more_.Next() | 2;
  for (bool more = true; more;) {
    auto page = ReadHistory(Moment(world_.engine().reader()), query);
    REQUIRE(page);
    for (const Event& event : page->events) listed += std::to_string(event.seq) + " ";
    more = page->last != 0;
    query.after = page->last;
  }
  for (const auto& [seq, event] : ledger_) {
    const bool wanted = (query.kinds >> static_cast<unsigned>(event.kind) & 1) != 0;
    if (event.instance != which->first || (query.kinds != 0 && !wanted)) continue;
    const std::string number = std::to_string(seq) + " ";
    expected = query.newest_first ? number + expected : expected + number;
  }
  Expect(listed == expected,
         "the history of " + which->first + " is " + listed + "instead of " + expected);
}

void Sim::Tidy() {
  (void)Do([this](Asked& engine) {
    for (SessionId stream : streams_) engine.CloseSession(stream);
    for (WaiterId poll : polls_) (void)engine.CancelPoll(poll);
    engine.Flush();
    return 0;
  });
  streams_.clear();
  polls_.clear();
  world_.Drain();
  (void)Do([](Asked& engine) { return engine.Flush(), 0; });
}

// What is derived from the store must come out as it was: an engine that starts on a copy of the
// store counts the same, hands out the same, and lets the same time out.
void Sim::Rebuilt() {
  if (!On(Fault::kRebuilt)) return;
  // An engine whose clock was set back stands still until the clock has caught up.
  world_.Advance(std::max(latest_, world_.now()) + 1s - world_.now());
  Tidy();
  MemoryStore copy;
  Copy(store_, world_.engine().epoch(), &copy);
  World twin(options_, &copy);
  twin.Advance(world_.now() - twin.now());
  twin.Crash();
  Hit(Fault::kRebuilt);
  const std::string counted = CountersOf(world_);
  const std::string recounted = CountersOf(twin);
  Expect(counted == recounted, "after a restart the counters differ: " +
                                   FirstDifference(counted, recounted));
  // What a breaker has seen is not kept, and who waits for a singleton is a matter of order.
  if (singletons_ || HoldsBack(world_)) return;
  // Their clocks may be some changes apart, and what is due just then comes a moment later.
  std::string here, there;
  std::set<std::string> offered_here, offered_there;
  const auto twin_ready = [&twin] {
    return TakeAll(
        [&](auto poll) { return twin.Do([&](Engine& engine) { return poll(engine); }); });
  };
  for (int i = 0; i < 3 && (i == 0 || here != there); ++i) {
    const std::vector<Task> tasks = Ready();
    here = Offered(tasks, &offered_here);
    there = Offered(twin_ready(), &offered_there);
    Receive(tasks);
    if (HoldsBack(world_) || HoldsBack(twin)) return;
    if (here == there) break;
    world_.Elapse(1s);
    twin.Elapse(1s);
  }
  Expect(here == there, "after a restart other work is handed out: " +
                            FirstDifference(here, there));
  std::string stand, restand;
  for (int i = 0; i < 3 && (i == 0 || stand != restand); ++i) {
    const Duration some = Duration(random_.Below(60'000'000));
    world_.Elapse(some);
    twin.Elapse(some);
    stand = StandsOf(world_);
    restand = StandsOf(twin);
  }
  Expect(stand == restand,
         "after a restart time does something else: " + FirstDifference(stand, restand));
}

std::vector<Task> Sim::Ready() {
  return TakeAll([this](auto poll) { return Do([&](Asked& engine) { return poll(engine); }); });
}

std::vector<Instance> Sim::Live() {
  (void)Do([](Asked& engine) { return engine.Settle("ns", ""); });
  std::vector<Instance> live;
  REQUIRE(rows::ScanInstances({store_, world_.partition()}, false, {"", ""},
                              world_.engine().reader().registry.resolve(),
                              [&live](Instance instance) {
                                live.push_back(std::move(instance));
                                return true;
                              }));
  return live;
}

void Sim::DoWell(const Task& task) {
  const bool plans = task.phase == "plan";
  const bool step = !task.phase.empty();
  (void)Do([&](Asked& engine) {
    return engine.Report("ns", task.instance,
                         {.transition = plans ? "planned" : "ok",
                          .claim = task.claim,
                          .output = plans  ? R"({"flow":"[{step: t, action: y}]"})"
                                    : step ? std::string(kEndOutput)
                                           : ""});
  });
}

// Honest workers and operators finish it all: whatever has no end had no next step.
void Sim::Finish() {
  world_.Restart();     // nobody of before polls any more
  on_.erase(Fault::kClockBackRestart);
  on_.erase(Fault::kFailedStart);
  StartAgain();
  world_.Advance(std::max(latest_, world_.now()) - world_.now());  // where the clock was before
  OpenGroups();
  OpenLimits();
  world_.Elapse(3min);  // breakers close, claims time out
  for (int round = 0; round < 400; ++round) {
    const std::vector<Instance> live = Live();
    if (live.empty()) return;
    for (const Instance& instance : live) {
      instance.dry_run ? EndDryRun(instance.id) : Push(instance, round);
    }
    for (int part = 0; part < 6; ++part) {  // before any ready_timeout is over
      for (const Task& task : Ready()) DoWell(task);
      world_.Elapse(2s);
    }
    if (round % 20 == 19) world_.Elapse(2min);
  }
  std::string left;
  for (const Instance& instance : Live()) {
    left += " " + instance.id + " " + std::string(Name(instance.state));
    for (const Token& token : instance.tokens) {
      left += "@" + std::to_string(token.node) + ":" +
              std::to_string(static_cast<int>(token.state));
    }
  }
  Expect(false, "never got done:" + left);
}

// Work that is in hand may have nobody who does it, and a cancel waits for it.
void Sim::Force(const Instance& instance) {
  (void)Do([&](Asked& e) { return e.Cancel("ns", instance.id, CancelMode::kForce); });
}

// What no worker's report moves.
void Sim::Push(const Instance& instance, int round) {
  if (instance.Cancelling() && instance.tokens.Count(TokenState::kClaimed) > 0) {
    return Force(instance);
  }
  if (instance.plan) return PushPlan(instance, round);
  auto& engine = world_.engine();
  if (instance.state == InstanceState::kPaused || instance.state == InstanceState::kScheduled) {
    (void)Do([&](Asked& e) { return e.Resume("ns", instance.id, "", false); });
  }
  if (instance.tokens.empty()) return;
  const Machine* machine =
      engine.reader().registry.Resolve("ns", instance.machine, instance.version);
  const Token& token = instance.tokens.front();
  if (machine->nodes[token.node].kind == NodeKind::kManual)
    (void)Do([&](Asked& e) { return e.Report("ns", instance.id, {.transition = "ok"}); });
  if (token.state == TokenState::kClaimed) {  // at most once, or with a deadline that is far off
    (void)Do([&](Asked& e) { return e.Resume("ns", instance.id, "", true); });
  }
}

void Sim::PushPlan(const Instance& instance, int round) {
  auto resume = [&](const std::string& node, bool force) {
    (void)Do([&](Asked& e) { return e.Resume("ns", instance.id, node, force); });
  };
  const bool skips = round % 4 == 3 && !instance.waits.Has(Wait::kPause) &&
                     instance.tokens.Count(TokenState::kHeld) > 0;
  if (!skips && (instance.state == InstanceState::kPaused ||
                 instance.state == InstanceState::kScheduled)) {
    resume("", false);
  }
  if (instance.tokens.empty() || instance.plan->graph.empty()) return;
  auto graph = rows::GetGraph({store_, world_.partition()}, instance);
  REQUIRE(graph);
  Machine machine = Assemble(std::make_shared<const PlanGraph>(*std::move(graph)), Machine());
  for (const Token& token : instance.tokens) {
    const Node& node = machine.nodes[token.node];
    const std::string& step = machine.nodes[token.home].id;
    if (token.state == TokenState::kClaimed) resume(step, true);
    const bool held = token.state == TokenState::kHeld;
    if (held && !skips) resume(step, false);
    // Of its children some cannot be resumed any more, or its input is not there.
    if (held && skips) {
      (void)Do([&](Asked& e) { return e.Skip("ns", instance.id, step); });
    }
    // Children may wait for a singleton that the step holds.
    const bool stuck = token.step->children && round % 8 == 7;
    if (node.role == Role::kSuspended && (stuck || !token.step->children)) {
      (void)Do([&](Asked& e) {
        return e.Report("ns", instance.id, {.transition = stuck ? "ok" : "go", .node = step});
      });
    }
  }
}

}  // namespace dfsmr
