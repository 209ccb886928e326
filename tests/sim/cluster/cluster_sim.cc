#include "tests/sim/cluster/cluster_sim.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

#include "dsrv/engine/compile.h"
#include "storage/rows/instance.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr::cluster_sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr LeaseTime kHandOver = seconds(1);
constexpr size_t kWatchers = 3;  // of each partition
constexpr std::string_view kMachines = R"(
id: plain
nodes:
  a: {start: true, timeout_strategy: fixed, timeout: 4.0, transitions: {ok: b, back: a}}
  b: {timeout_strategy: fixed, timeout: 3.0, transitions: {ok: c, back: a}}
  c: {delay: 1s, transitions: {ok: done}}
  done: {final: true}
---
id: once
nodes:
  a: {start: true, timeout_strategy: fixed, timeout: 4.0, transitions: {ok: b, back: a}}
  b: {timeout: 0.0, transitions: {ok: done, back: a}}
  done: {final: true}
---
action: x
timeout_strategy: fixed
timeout: 3.0
---
plan: both
flow:
  - {step: s, action: x}
  - {step: t, action: x, after: [s]}
  - {step: u, spawn: {machine: plain, for_each: [1, 2], as: t, input: {v: 1}}, after: [s]}
)";

std::string ClaimOf(const Task& task) {
  return task.instance + " " + std::to_string(task.claim_id.epoch) + "." +
         std::to_string(task.claim_id.serial);
}

// Runs `then` in a turn, and answers when that is durable.
Reply Durable(const Owner& owner, Reply reply) {
  return [&engine = owner.engine, reply = std::move(reply)](std::function<void()> tell) {
    engine.AfterCommit([reply, tell] { reply(tell); });
  };
}

}  // namespace

// Half of the clusters have one.
uint16_t ClusterSim::DrawPartitions(uint64_t seed) {
  Random random(seed * 17 + 3);
  return random.Chance(50) ? uint16_t{1} : static_cast<uint16_t>(2 + random.Below(7));
}

EngineOptions ClusterSim::Options(uint16_t partitions) {
  EngineOptions options;
  options.partitions = partitions;
  options.stats_every = seconds(1);
  options.cached_instances = 50;
  options.compile = CompileOne;
  options.parse_document = [](std::string_view source) -> Result<Document> {
    Parsed parsed = ParseStored(source);
    if (parsed.ok() && parsed.documents.size() == 1) return std::move(parsed.documents.front());
    return Error{Code::kDataLoss, Reason::kBadMachine, "not one sound document"};
  };
  options.parse_flow = ToFlow;
  options.schema = [](std::string_view schema, std::string_view subject) {
    std::vector<SchemaProblem> problems;
    return CompileParamsSchema(schema, subject, &problems);
  };
  return options;
}

ClusterSim::ClusterSim(uint64_t seed, bool trace)
    : random_(seed * 11 + 5),
      trace_(trace),
      partitions_(DrawPartitions(seed)),
      network_(seed * 13 + 7),
      database_(FromMicros(1'700'000'000'000'000), partitions_),
      cluster_{.network = network_,
               .database = database_,
               .options = Options(partitions_),
               .store_time = [this] { return StoreTime(); },
               .servers = {},
               .wrong = [this](const std::string& what) { Wrong(what); },
               .note = [this](const std::string& what) { Note(what); },
               .hits = {},
               .commits = 0},
      versions_(partitions_) {
  for (PartitionId id = 0; id < partitions_; ++id) {
    watchers_.insert(watchers_.end(), kWatchers, {.partition = id});
  }
  Plan();
}

Timestamp ClusterSim::StoreTime() const {
  return FromMicros(1'700'000'000'000'000) + leapt_ +
         std::chrono::duration_cast<Duration>(network_.now());
}

void ClusterSim::Wrong(const std::string& what) {
  if (!problem_.empty()) return;
  problem_ = what;
  Note("WRONG: " + what);
}

void ClusterSim::Note(const std::string& what) {
  if (!trace_) return;
  std::printf("%10.4f %s\n", std::chrono::duration<double>(network_.now()).count(), what.c_str());
}

void ClusterSim::Let(LeaseTime pass) {
  const LeaseTime end = network_.now() + pass;
  const auto tick = [this] { database_.roster().SetClock(StoreTime()); };
  while (Good() && network_.Step(end, tick)) {
    if (!database_.problem().empty()) Wrong(database_.problem());
  }
}

std::string ClusterSim::Run() {
  Note(std::to_string(size_) + " servers, " + std::to_string(partitions_) + " partitions");
  for (auto& server : cluster_.servers) server->Start();
  for (int i = 0; i < 80 && !AllDefined() && Good(); ++i) {
    for (PartitionId id = 0; id < partitions_; ++id) {
      if (versions_[id] == 0) Define(id, std::string(kMachines));
    }
    Let(milliseconds(500));
  }
  if (Good() && !AllDefined()) Wrong("nobody takes a partition");
  Clients();
  Faults();
  Let(seconds(30 + random_.Below(60)));
  if (Good()) Heal();
  if (Good()) Calm();
  if (Good()) Finish();
  if (Good()) CheckAll();
  return problem_;
}

// Who asks ---------------------------------------------------------------------------------------

void ClusterSim::Clients() {
  if (finishing_) return;
  network_.In(milliseconds(random_.Below(120)), [this] {
    Clients();
    if (finishing_) return;
    const size_t dice = random_.Below(100);
    if (dice < 14) {
      const std::string id = "i" + std::to_string(starts_++);
      Start(id, random_.Of<std::string>({"plain", "plain", "once", "both"}), 8);
    } else if (dice < 45) {
      Poll(AnyPartition());
    } else if (dice < 75 && !hands_.empty()) {
      const size_t which = random_.Below(hands_.size());
      const Task task = hands_[which];
      if (random_.Chance(80)) hands_.erase(hands_.begin() + static_cast<long>(which));
      const bool back = task.machine != "both" && task.phase.empty() && random_.Chance(15);
      Report(task, back ? "back" : "ok", 6);
    } else if (dice < 87 && !wanted_.empty()) {
      auto which = wanted_.begin();
      std::advance(which, random_.Below(wanted_.size()));
      Read(which->first);
    } else if (dice < 98) {
      Watch(random_.Below(watchers_.size()));
    } else {
      Define(AnyPartition(),
             "id: plain\ndescription: number " + std::to_string(random_.Below(1'000)) +
             std::string(kMachines.substr(10, kMachines.find("---") - 10)));
    }
  });
}

// What is not only read is run once, whoever gets to hear of it.
void ClusterSim::Ask(Call call) {
  if (!call.reads_only) {
    call.run = [this, run = std::move(call.run), ran = std::make_shared<bool>(false)](
                   const Owner& owner, const Reply& reply) {
      if (std::exchange(*ran, true)) Wrong("a call that may be done is done again");
      run(owner, reply);
    };
  }
  if (calm_) {
    call.done = [this, waits = call.waits, since = network_.now(),
                 done = std::move(call.done)](End end, std::function<void()> tell) {
      if (end != End::kAnswered) Wrong("a call fails, and partitions only move");
      if (!waits && network_.now() > since + kHandOver) {
        Wrong("a call waits for longer than a partition may take to move");
      }
      done(end, std::move(tell));
    };
  }
  Send(std::make_shared<const Call>(std::move(call)));
}

void ClusterSim::Send(const CallPtr& call) {
  Server* const server = random_.Of(cluster_.servers).get();
  network_.In(network_.Delay(), [this, server, call] {
    if (calm_ && (!server->runs() || server->leaving())) return Send(call);  // to the next
    if (server->process().paused()) return call->done(End::kNotDone, nullptr);  // it is given up
    server->Take(call);
  });
}

PartitionId ClusterSim::PlaceOf(const std::string& id) const {
  return PartitionOf("ns", id, partitions_);
}

PartitionId ClusterSim::AnyPartition() {
  return partitions_ == 1 ? PartitionId{0} : static_cast<PartitionId>(random_.Below(partitions_));
}

bool ClusterSim::AllDefined() const { return std::ranges::count(versions_, 0u) == 0; }

void ClusterSim::Define(PartitionId partition, const std::string& source) {
  Ask({.partition = partition,
       .run =
           [this, partition, source](const Owner& owner, const Reply& reply) {
             const auto defined = TryDefine(owner.engine, ParseMachines(source));
             Durable(owner, reply)([this, partition, defined] {
               if (!defined) return Wrong("a definition was refused: " + defined.error().message);
               for (const Defined& one : *defined) {
                 uint32_t& version = versions_[partition];
                 if (one.id == "plain") version = std::max(version, one.version);
               }
             });
           },
       .done =
           [](End end, const std::function<void()>& tell) {
             if (end == End::kAnswered) tell();
           }});
}

void ClusterSim::Start(const std::string& id, const std::string& machine, int tries) {
  wanted_.emplace(id, machine);
  const PartitionId partition = PlaceOf(id);
  const uint32_t least = machine == "plain" ? versions_[partition] : 0;
  Ask({.partition = partition,
       .run =
           [this, id, machine, least](const Owner& owner, const Reply& reply) {
             auto started = owner.engine.Start({.ns = "ns", .machine = machine, .id = id});
             Durable(owner, reply)([this, id, least, started] {
               if (!started) return Wrong("a start was refused: " + started.error().message);
               if (started->created && started->view.instance.version < least) {
                 Wrong(id + " began by a version that was no longer the latest");
               }
               started_.insert(id);
               if (database_.LastOf(id) == 0) Wrong("an acknowledged start is not there: " + id);
             });
           },
       .done =
           [this, id, machine, tries](End end, const std::function<void()>& tell) {
             if (end == End::kAnswered) return tell();
             if (tries == 0 || finishing_) return;
             network_.In(milliseconds(random_.Below(2'000)),
                         [this, id, machine, tries] { Start(id, machine, tries - 1); });
           }});
}

void ClusterSim::Poll(PartitionId partition) {
  Ask({.partition = partition,
       .waits = true,
       .run =
           [this, wait = random_.Below(2'000)](const Owner& owner, const Reply& reply) {
             const PollArgs args{.filter = {.ns = "ns"},
                                 .worker = "w" + std::to_string(random_.Below(3)),
                                 .max_tasks = 1 + static_cast<int32_t>(random_.Below(3)),
                                 .until = owner.engine.now() + milliseconds(wait)};
             (void)owner.engine.Poll(args, [this, reply](std::vector<Task> tasks) {
               reply([this, tasks = std::move(tasks)] { Receive(tasks); });
             });
           },
       .done =
           [this](End end, const std::function<void()>& tell) {
             if (end == End::kAnswered && !random_.Chance(finishing_ ? 0 : 5)) tell();
           }});
}

void ClusterSim::Receive(const std::vector<Task>& tasks) {
  for (const Task& task : tasks) {
    if (task.machine == "once" && task.node == "b" && !finishing_ &&
        !told_.emplace(task.instance, task.visit).second) {
      Wrong("visit " + std::to_string(task.visit) + " of " + task.instance +
            ", which runs at most once, was handed out twice");
    }
    hands_.push_back(task);
    Note("handed out: " + task.instance + " at " + task.node + ", claim " + ClaimOf(task));
  }
}

void ClusterSim::Report(const Task& task, const std::string& transition, int tries) {
  Ask({.partition = PlaceOf(task.instance),
       .run =
           [this, task, transition](const Owner& owner, const Reply& reply) {
             auto answer = owner.engine.Report("ns", task.instance,
                                               {.transition = transition, .claim = task.claim});
             Durable(owner, reply)([this, task, transition, answer] {
               if (!answer) return Note("a report was refused: " + answer.error().message);
               const std::string claim = ClaimOf(task);
               const auto known = accepted_.emplace(claim, transition);
               if (known.first->second != transition) {
                 Wrong("two reports of one claim were accepted: " + claim);
               }
               if (database_.AcceptedBy(claim) != transition) {
                 Wrong("an acknowledged report is not there: " + claim);
               }
             });
           },
       .done =
           [this, task, transition, tries](End end, const std::function<void()>& tell) {
             if (end == End::kAnswered) return tell();
             if (tries == 0 || finishing_) return;
             network_.In(milliseconds(random_.Below(1'000)),
                         [this, task, transition, tries] { Report(task, transition, tries - 1); });
           }});
}

// What a read tells is at least what was durable when it was asked for.
void ClusterSim::Read(const std::string& id) {
  const uint64_t least = database_.LastOf(id);
  Ask({.partition = PlaceOf(id),
       .reads_only = true,
       .run =
           [this, id, least](const Owner& owner, const Reply& reply) {
             (void)owner.engine.Settle("ns", id);
             owner.engine.AfterCommit(
                 [this, id, least, reply, &store = owner.store, partition = owner.partition,
                  reader = owner.engine.reader()] {
                   const auto instance =
                       rows::GetInstance({store, partition}, {"ns", id}, reader.registry.resolve());
                   uint64_t last = 0;
                   if (instance) {
                     const auto history = rows::History({store, partition}, *instance, 0);
                     if (history && !history->empty()) last = history->back();
                   }
                   reply([this, id, least, last] {
                     if (last >= least) return;
                     Wrong("a read of " + id + " shows record " + std::to_string(last) +
                           ", but it was asked for after " + std::to_string(least));
                   });
                 });
           },
       .done =
           [](End end, const std::function<void()>& tell) {
             if (end == End::kAnswered) tell();
           }});
}

// Each watcher has one cursor, which it takes to any server.
void ClusterSim::Watch(size_t which) {
  Watcher& watcher = watchers_[which];
  if (watcher.reads) return;
  watcher.reads = true;
  const uint64_t after = watcher.seq;
  Ask({.partition = watcher.partition,
       .reads_only = true,
       .run =
           [this, which, after](const Owner& owner, const Reply& reply) {
             Changes& changes = owner.changes;
             if (after > changes.head()) {
               Wrong("a watcher has read up to " + std::to_string(after) +
                     ", but the owner's feed ends at " + std::to_string(changes.head()));
               return;
             }
             Changes::PortionPtr portion = changes.Read(after, changes.head(), {});
             if (!portion) {
               auto stored = changes.ReadStore(after, changes.head(), {});
               if (!stored) return Wrong("the feed cannot be read: " + stored.error().message);
               portion = *stored;
             }
             reply([this, which, after, portion] {
               const auto& ledger = database_.ledger(watchers_[which].partition);
               uint64_t next = after;
               for (const auto& change : portion->changes) {
                 ++next;
                 if (*change != std::to_string(next) || !ledger.contains(next)) {
                   Wrong("a watcher was told of record " + *change + " after " +
                         std::to_string(next - 1));
                 }
               }
               if (portion->up_to < next) Wrong("a watcher is led back");
               if (portion->up_to > next) Wrong("a watcher is led past a record");
               watchers_[which].seq = portion->up_to;
             });
           },
       .done =
           [this, which](End end, const std::function<void()>& tell) {
             watchers_[which].reads = false;
             if (end == End::kAnswered) tell();
           }});
}

// What runs at most once, and whose task was lost, goes on when somebody says so.
void ClusterSim::Release(const std::string& id) {
  Ask({.partition = PlaceOf(id),
       .run =
           [id](const Owner& owner, const Reply& reply) {
             (void)owner.engine.Resume("ns", id, "", true);
             Durable(owner, reply)([] {});
           },
       .done =
           [](End end, const std::function<void()>& tell) {
             if (end == End::kAnswered) tell();
           }});
}

// In the end -------------------------------------------------------------------------------------

void ClusterSim::Finish() {
  hands_.clear();
  std::set<std::string> live;
  for (int round = 0; round < 120 && Good(); ++round) {
    live = database_.live();
    if (live.empty() && round > 3) return;
    for (int i = 0; i < 12 && Good(); ++i) {
      for (PartitionId id = 0; id < partitions_; ++id) Poll(id);
      Let(milliseconds(400));
      for (const Task& task : std::exchange(hands_, {})) Report(task, "ok", 0);
      Let(milliseconds(100));
    }
    if (round % 10 == 9) {
      for (const std::string& id : live) Release(id);
    }
  }
  if (!Good()) return;
  std::string left;
  for (const std::string& id : live) left += " " + id;
  for (const auto& [seq, event] : database_.ledger(PlaceOf(*live.begin()))) {
    if (event.instance != *live.begin()) continue;
    Note(std::to_string(seq) + " " + std::to_string(static_cast<int>(event.kind)) + " " +
         event.prev_node + " -" + event.transition + "-> " + event.node + " visit " +
         std::to_string(event.visit) + " " + event.note);
  }
  Wrong("never got done:" + left);
}

void ClusterSim::CheckAll() {
  for (size_t i = 0; i < watchers_.size(); ++i) {
    const uint64_t head = database_.head(watchers_[i].partition);
    for (int tries = 0; tries < 50 && Good() && watchers_[i].seq < head; ++tries) {
      Watch(i);
      Let(milliseconds(200));
    }
    if (Good() && watchers_[i].seq < head) {
      Wrong("a watcher has come to record " + std::to_string(watchers_[i].seq) + " of " +
            std::to_string(head));
    }
  }
  for (const std::string& id : started_) {
    if (database_.LastOf(id) == 0) Wrong("an acknowledged start is gone: " + id);
  }
  for (const auto& [claim, transition] : accepted_) {
    if (database_.AcceptedBy(claim) != transition) {
      Wrong("an acknowledged report is gone: " + claim);
    }
  }
  for (PartitionId id = 0; id < partitions_; ++id) CheckRows(id);
}

// The rows are those of the ledger.
void ClusterSim::CheckRows(PartitionId partition) {
  const auto& ledger = database_.ledger(partition);
  uint64_t next = 0;
  const auto scanned = rows::ScanFeed({database_.rows(), partition}, 1, [&](const Event& event) {
    const auto known = ledger.find(++next);
    if (event.seq != next || known == ledger.end() || !(known->second == event)) {
      Wrong("record " + std::to_string(next) + " of the feed is not as it was committed");
    }
    return true;
  });
  if (!scanned || next != database_.head(partition)) Wrong("the rows lack a part of the feed");
}

}  // namespace dfsmr::cluster_sim
