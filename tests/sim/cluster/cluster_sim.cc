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

EngineOptions ClusterSim::Options() {
  EngineOptions options;
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
      network_(seed * 13 + 7),
      database_(FromMicros(1'700'000'000'000'000)),
      cluster_{.network = network_,
               .database = database_,
               .options = Options(),
               .store_time = [this] { return StoreTime(); },
               .servers = {},
               .wrong = [this](const std::string& what) { Wrong(what); },
               .note = [this](const std::string& what) { Note(what); },
               .hits = {},
               .commits = 0} {
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
  for (auto& server : cluster_.servers) server->Start();
  for (int i = 0; i < 40 && version_ == 0 && Good(); ++i) {
    Define(std::string(kMachines));
    Let(milliseconds(500));
  }
  if (Good() && version_ == 0) Wrong("nobody takes the partition");
  watchers_.resize(3);
  Clients();
  Faults();
  Let(seconds(30 + random_.Below(60)));
  if (Good()) Heal();
  if (Good()) Finish();
  if (Good()) CheckAll();
  return problem_;
}

// What goes wrong --------------------------------------------------------------------------------

void ClusterSim::Plan() {
  size_ = 2 + random_.Below(4);
  for (size_t i = 0; i < size_; ++i) {
    cluster_.servers.push_back(std::make_unique<Server>(cluster_, static_cast<int>(i)));
  }
  const auto weight = [this](int percent, int most) {
    return random_.Chance(percent) ? 1 + static_cast<int>(random_.Below(most)) : 0;
  };
  kills_ = weight(50, 4);
  pauses_ = weight(50, 4);
  cuts_ = weight(50, 4);
  outages_ = weight(30, 1);
  ends_ = weight(50, 3);
  leaps_ = weight(30, 1);
  cluster_.lost_commits = weight(60, 8);
  cluster_.lost_renewals = weight(40, 6);
  cluster_.late_acts = weight(40, 40);
  cluster_.stale_reads = weight(50, 40);
  cluster_.pace = weight(50, 40);
  if (cluster_.stale_reads > 0) database_.KeepPasts(1 + random_.Below(8));
}

void ClusterSim::Faults() {
  if (finishing_) return;
  network_.In(milliseconds(300 + random_.Below(4'000)), [this] {
    if (finishing_) return;
    Fault();
    Faults();
  });
}

Server* ClusterSim::AnyRunning() {
  std::vector<Server*> running;
  for (auto& server : cluster_.servers) {
    if (server->runs() && !server->paused()) running.push_back(server.get());
    if (server->serves()) running.insert(running.end(), 2, server.get());  // most is to see there
  }
  return running.empty() ? nullptr : random_.Of(running);
}

void ClusterSim::Fault() {
  for (auto& server : cluster_.servers) {  // what has ended comes back, sooner or later
    if (!server->runs() && random_.Chance(40)) {
      Note("server " + std::to_string(server->number()) + " starts");
      ++cluster_.hits["a server starts"];
      server->Start();
    }
  }
  Server* const one = AnyRunning();
  const int all = kills_ + pauses_ + cuts_ + outages_ + ends_ + leaps_;
  if (!one || all == 0) return;
  int dice = static_cast<int>(random_.Below(static_cast<size_t>(all)));
  const int number = one->number();
  const LeaseTime some = random_.Chance(60) ? LeaseTime(milliseconds(random_.Below(3'000)))
                                         : LeaseTime(milliseconds(random_.Below(30'000)));
  if ((dice -= kills_) < 0) {
    Note(one->id() + " is killed");
    ++cluster_.hits["a server is killed"];
    one->Kill();
  } else if ((dice -= pauses_) < 0) {
    Note(one->id() + " is paused");
    ++cluster_.hits["a server is paused"];
    const LeaseTime longer = milliseconds(11'000 + random_.Below(15'000));
    const Server::InAnswer befalls{random_.Chance(70) ? longer : some, random_.Chance(40),
                                   random_.Chance(40)};
    if (random_.Chance(50)) return one->Befalls(befalls);
    one->Pause(network_.now() + some);
  } else if ((dice -= ends_) < 0) {
    Note(one->id() + " is to end");
    one->Terminate();
  } else if ((dice -= leaps_) < 0) {
    const auto by = static_cast<int64_t>(random_.Below(7'200'000'000)) - 3'600'000'000;
    ++cluster_.hits["the database's clock leaps"];
    Note("the database's clock leaps");
    leapt_ += Duration(by);
    furthest_ = std::max(furthest_, leapt_);
    database_.roster().SetClock(StoreTime());
  } else if ((dice -= outages_) < 0) {
    ++cluster_.hits["the database is away"];
    Note("the database is away");
    for (int i = 0; i < static_cast<int>(size_); ++i) {
      network_.Cut(i, -1);
      network_.In(some, [this, i] { network_.Mend(i, -1); });
    }
  } else {
    const int to = static_cast<int>(random_.Below(size_ + 2)) - 2;
    const int from = to == number ? -1 : to;
    ++cluster_.hits[from < 0 ? "a server is cut from the database" : "two servers are cut apart"];
    Note(one->id() + " is cut from " + std::to_string(from));
    const auto cut = [&](int a, int b) {
      network_.Cut(a, b);
      network_.In(some, [this, a, b] { network_.Mend(a, b); });
    };
    if (from < 0) return cut(number, -1);
    cut(number, from);
    if (random_.Chance(70)) cut(from, number);
  }
}

// From now on nothing goes wrong any more; an owner is there soon.
void ClusterSim::Heal() {
  Note("all is well");
  finishing_ = true;
  network_.MendAll();
  LeaseTime awake = network_.now();
  cluster_.lost_commits = cluster_.lost_renewals = 0;
  cluster_.late_acts = cluster_.stale_reads = 0;
  for (auto& server : cluster_.servers) {
    server->Befalls(std::nullopt);
    awake = std::max(awake, server->paused_until());
  }
  Let(awake + seconds(11) - network_.now());  // those that were to end have ended
  // Those that have ended come back only then: somebody else has what they had.
  if (!AnyRunning()) cluster_.servers.front()->Start();
  // What was due by a clock that has gone back since is due when it has come there again.
  const bool leaps = leapt_ != furthest_;
  leapt_ = furthest_;
  Let(seconds(leaps ? 26 : 16));
  size_t serving = 0;
  for (auto& server : cluster_.servers) serving += server->serves() ? 1 : 0;
  if (Good() && serving != 1) {
    Wrong(std::to_string(serving) + " servers serve the partition 16 s after all was well");
  }
  for (auto& server : cluster_.servers) {
    if (!server->runs()) server->Start();
  }
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
      Poll();
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
      Define("id: plain\ndescription: number " + std::to_string(random_.Below(1'000)) +
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
  auto asked = std::make_shared<const Call>(std::move(call));
  Server* const server = random_.Of(cluster_.servers).get();
  network_.In(network_.Delay(), [server, asked] {
    if (server->paused()) return asked->done(End::kNotDone, nullptr);  // the client gives up
    server->Take(asked);
  });
}

void ClusterSim::Define(const std::string& source) {
  Ask({.run =
           [this, source](const Owner& owner, const Reply& reply) {
             const auto defined = TryDefine(owner.engine, ParseMachines(source));
             Durable(owner, reply)([this, defined] {
               if (!defined) return Wrong("a definition was refused: " + defined.error().message);
               for (const Defined& one : *defined) {
                 if (one.id == "plain") version_ = std::max(version_, one.version);
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
  Ask({.run =
           [this, id, machine, least = machine == "plain" ? version_ : 0](const Owner& owner,
                                                                          const Reply& reply) {
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

void ClusterSim::Poll() {
  Ask({.run =
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
  Ask({.run =
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
  Ask({.reads_only = true,
       .run =
           [this, id, least](const Owner& owner, const Reply& reply) {
             (void)owner.engine.Settle("ns", id);
             owner.engine.AfterCommit(
                 [this, id, least, reply, &store = owner.store, reader = owner.engine.reader()] {
                   const auto instance =
                       rows::GetInstance({store, 0}, {"ns", id}, reader.registry.resolve());
                   uint64_t last = 0;
                   if (instance) {
                     const auto history = rows::History({store, 0}, *instance, 0);
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
  Ask({.reads_only = true,
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
               uint64_t next = after;
               for (const auto& change : portion->changes) {
                 ++next;
                 if (*change != std::to_string(next) || !database_.ledger().contains(next)) {
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
  Ask({.run =
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
      Poll();
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
  for (const auto& [seq, event] : database_.ledger()) {
    if (event.instance != *live.begin()) continue;
    Note(std::to_string(seq) + " " + std::to_string(static_cast<int>(event.kind)) + " " +
         event.prev_node + " -" + event.transition + "-> " + event.node + " visit " +
         std::to_string(event.visit) + " " + event.note);
  }
  Wrong("never got done:" + left);
}

void ClusterSim::CheckAll() {
  for (size_t i = 0; i < watchers_.size(); ++i) {
    for (int tries = 0; tries < 50 && Good() && watchers_[i].seq < database_.head(); ++tries) {
      Watch(i);
      Let(milliseconds(200));
    }
    if (Good() && watchers_[i].seq != database_.head()) {
      Wrong("a watcher has come to record " + std::to_string(watchers_[i].seq) + " of " +
            std::to_string(database_.head()));
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
  // The rows are those of the ledger.
  uint64_t next = 0;
  const auto scanned = rows::ScanFeed({database_.rows(), 0}, 1, [&](const Event& event) {
    const auto known = database_.ledger().find(++next);
    if (event.seq != next || known == database_.ledger().end() || !(known->second == event)) {
      Wrong("record " + std::to_string(next) + " of the feed is not as it was committed");
    }
    return true;
  });
  if (!scanned || next != database_.head()) Wrong("the rows lack a part of the feed");
}

}  // namespace dfsmr::cluster_sim
