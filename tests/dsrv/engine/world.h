// An engine without threads, clock or disk: turns are made as loop.cc makes them, time is a number,
// and a crash is an engine dropped with all that was not written. A store that fails (`failed`)
// leaves the world as a server that has stopped: nothing more is answered, and only Crash goes on.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/compile.h"
#include "dsrv/engine/engine.h"
#include "fsm/schema/schema.h"
#include "fsm/yaml/definitions.h"
#include "storage/memory_store.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"

namespace dfsmr {

using namespace std::chrono_literals;  // NOLINT: tests only

inline std::vector<Machine> ParseMachines(std::string_view text) {
  Parsed parsed = ParseDefinitions(text, "test");
  std::string problems;
  for (const Diagnostic& diagnostic : parsed.diagnostics) problems += Format(diagnostic) + "\n";
  REQUIRE_MESSAGE(parsed.ok(), problems);
  std::vector<Machine> machines;
  for (Machine& one : parsed.definitions) machines.push_back(std::move(one));
  return machines;
}

// Every start asks for the same ones again, so they are remembered.
inline Result<Machine> CompileOne(std::string_view source) {
  static std::map<std::string, Machine, std::less<>> known;
  if (const auto it = known.find(source); it != known.end()) return it->second;
  Parsed parsed = ParseStored(source);
  if (parsed.ok() && parsed.definitions.size() == 1) {
    if (known.size() > 1'000) known.clear();
    return known[std::string(source)] = std::move(parsed.definitions.front());
  }
  return Error{Code::kDataLoss, Reason::kBadMachine, "not one sound machine"};
}

inline Result<std::vector<Defined>> TryDefine(Engine& engine, std::vector<Machine> machines,
                                              bool validate_only = false) {
  std::vector<DefineProblem> problems;
  return DefineAtOnce(engine, "ns", {std::move(machines), {}}, validate_only, &problems);
}

// A store of its own, or the one it is given.
class StoreOf {
 public:
  explicit StoreOf(Store* given)
      : own_(given ? nullptr : new MemoryStore), store_(given ? given : own_.get()) {}
  Store& operator*() const { return *store_; }
  Store* operator->() const { return store_; }

 private:
  std::unique_ptr<Store> own_;
  Store* store_;
};

class World {
 public:
  // Each change takes a microsecond of an engine's time, which so runs ahead of the clock a little.
  static constexpr Duration kSlack = 10ms;

  explicit World(EngineOptions options = {}, Store* store = nullptr)
      : options_(std::move(options)), store_(store) {
    options_.compile = CompileOne;
    options_.parse_document = [](std::string_view source) -> Result<Document> {
      Parsed parsed = ParseStored(source);
      if (parsed.ok() && parsed.documents.size() == 1) return std::move(parsed.documents.front());
      return Error{Code::kDataLoss, Reason::kBadMachine, "not one sound document"};
    };
    options_.parse_flow = ToFlow;
    options_.schema = [](std::string_view schema, std::string_view subject) {
      std::vector<SchemaProblem> problems;
      return CompileParamsSchema(schema, subject, &problems);
    };
    options_.offload = [this](const EngineOptions::Job& job) {
      if (keep_jobs_) return jobs_.push_back(job);
      if (auto then = job()) then();
    };
    Crash();
  }

  // Told of each turn as it goes, by whoever drives the world; all of it happens in this order.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void Began(Timestamp now) = 0;  // a turn, or a further pass of it
    virtual void Worked() = 0;              // the pass is decided
    virtual void Passed() = 0;              // and its first answers are out
    virtual void Ended(uint64_t turn) = 0;
    virtual void Published(uint64_t turn, const std::vector<Event>& events) = 0;  // it is written
    virtual void Answered() = 0;  // and all of its answers are out
    virtual void Opened() = 0;    // another engine has taken over
  };
  void Watch(Watcher* watcher) { watcher_ = watcher; }

  Engine& engine() { return *engine_; }
  Store& store() { return *store_; }
  Timestamp now() const { return now_; }
  void Advance(Duration by) { now_ += by; }  // the clock only
  PartitionId partition() const { return options_.partition; }
  const std::string& failed() const { return failed_; }
  // Called with each turn that has been written, and its records, before any answer that rests on
  // it.
  using CommitTold = std::function<void(const Turn&, const std::vector<Event>&)>;
  void OnCommit(CommitTold tell) { on_commit_ = std::move(tell); }

  // One turn. It is not written before the next one has been decided, or Commit is called.
  template <typename Commands>
  void Decide(Commands commands) {
    engine_->BeginTurn(now_, entropy_ += 0x9e3779b97f4a7c15ull);
    if (watcher_) watcher_->Began(now_);
    commands(*engine_);
    if (!FinishPass()) return;
    Turn turn = engine_->EndTurn();
    if (watcher_) watcher_->Ended(turn.number);
    if (turn.batch->empty() && turn.after.empty()) {
      if (!in_flight_) engine_->Committed(turn.number);
      return;
    }
    Commit();
    if (failed_.empty()) in_flight_ = std::move(turn);
  }
  void Decide() {
    Decide([](Engine&) {});
  }
  // Among the commands of a turn: those that follow came later, and join it. False: it is broken.
  bool NextPass() {
    if (!FinishPass()) return false;
    engine_->ResumeTurn(now_, entropy_ += 0x9e3779b97f4a7c15ull);
    if (watcher_) watcher_->Began(now_);
    return true;
  }
  // Writes the turn in flight, if there is one, and lets its answers out.
  void Commit() {
    if (!in_flight_) return;
    if (Write()) Answer();
  }
  // The two halves of Commit.
  bool Write() {
    if (!in_flight_->batch->empty()) {
      auto written =
          store_->Write(engine_->reader().partition, engine_->epoch(), *in_flight_->batch);
      if (!written) failed_ = written.error().message;
      if (!written) return false;
    }
    return true;
  }
  void Answer() {
    engine_->Committed(in_flight_->number);
    std::vector<Event> events;
    for (const rows::FeedPage& page : *in_flight_->feed) {
      REQUIRE(rows::ReadPage(page, page.first, [&events](Event event) {
        events.push_back(std::move(event));
        return true;
      }));
    }
    if (on_commit_) on_commit_(*in_flight_, events);
    if (watcher_) watcher_->Published(in_flight_->number, events);
    std::ranges::move(events, std::back_inserter(feed_));
    Turn turn = *std::move(in_flight_);
    in_flight_.reset();
    for (auto& tell : turn.after) tell();
    if (watcher_) watcher_->Answered();
  }
  bool InFlight() const { return in_flight_.has_value(); }

  // A command in a turn of its own, answered when it is durable.
  template <typename Command>
  auto Do(Command command) {
    std::optional<decltype(command(*engine_))> outcome;
    Decide([&](Engine& engine) { outcome = command(engine); });
    Commit();
    return *std::move(outcome);
  }

  // Lets time pass, with a turn wherever the engine asks for one.
  void Elapse(Duration by) {
    const Timestamp end = now_ + by + kSlack;
    for (Timestamp next = engine_->NextDeadline(); next <= end; next = engine_->NextDeadline()) {
      now_ = std::max(now_, next);
      Decide();
      Commit();
    }
    now_ = end;
    Decide();
    Commit();
  }
  // Turns until the engine has nothing to do at once; how many.
  size_t Drain(size_t at_most = 1'000) {
    size_t turns = 0;
    while (turns < at_most && engine_->NextDeadline() <= now_ + kSlack) {
      now_ = std::max(now_, engine_->NextDeadline());
      Decide();
      Commit();
      ++turns;
    }
    return turns;
  }

  // What the engine offloads waits from now on, until FinishJob; or it is done at once.
  void KeepJobs(bool keep) {
    keep_jobs_ = keep;
    while (!keep && !jobs_.empty()) {
      Decide([this](Engine&) { FinishJob(); });
      Commit();
    }
  }
  size_t jobs() const { return jobs_.size(); }
  // Does the oldest job. Among the commands of a turn.
  void FinishJob() {
    const EngineOptions::Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (auto then = job()) then();
  }

  // What was not written is gone, with all answers that waited for it.
  void Crash() {
    REQUIRE_MESSAGE(TryCrash(), failed_);
  }
  // False: the start failed, too (`failed` says why).
  bool TryCrash() {
    in_flight_.reset();
    engine_.reset();
    jobs_.clear();
    failed_.clear();
    auto opened = Engine::Open(*store_, options_, now_);
    if (!opened) failed_ = opened.error().message;
    if (opened) engine_ = *std::move(opened);
    if (opened && watcher_) watcher_->Opened();
    return opened.has_value();
  }
  // Another engine takes the store over; what is left of the former one, with what it was writing.
  struct Former {
    std::unique_ptr<Engine> engine;
    std::optional<Turn> in_flight;
  };
  Former TakeOver() {
    Former former{std::move(engine_), std::move(in_flight_)};
    Crash();
    return former;
  }
  // As a server stops and starts: all in memory is written.
  void Restart() {
    Decide([](Engine& engine) { engine.Flush(); });
    Commit();
    Crash();
  }

  // Shorthands, in namespace "ns".
  std::vector<Defined> Define(std::string_view yaml) {
    auto defined = Do([&](Engine& e) { return TryDefine(e, ParseMachines(yaml)); });
    REQUIRE_MESSAGE(defined, (defined ? "" : defined.error().message));
    return *defined;
  }
  Result<Started> TryStart(StartArgs args) {
    args.ns = "ns";
    return Do([&](Engine& e) { return e.Start(std::move(args)); });
  }
  Instance Start(const std::string& machine, const std::string& id = "i") {
    auto started = TryStart({.machine = machine, .id = id});
    REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
    return started->view.instance;
  }
  std::vector<Task> Ready(Filter filter = {}, int32_t max = 1'000) {
    filter.ns = "ns";
    std::vector<Task> tasks;
    auto polled = Do([&](Engine& e) {
      return e.Poll({.filter = filter, .worker = "w", .max_tasks = max},
                    [&tasks](std::vector<Task> given) { tasks = std::move(given); });
    });
    REQUIRE(polled);
    return tasks;
  }
  Task ReadyOne() {
    auto tasks = Ready({}, 1);
    REQUIRE(tasks.size() == 1);
    return tasks.front();
  }
  Result<dfsmr::Answer> Report(const Task& task, const std::string& transition) {
    return Do([&](Engine& e) {
      return e.Report("ns", task.instance, {.transition = transition, .claim = task.claim});
    });
  }
  Result<dfsmr::Answer> Move(const std::string& instance, const std::string& transition) {
    return Do([&](Engine& e) { return e.Report("ns", instance, {.transition = transition}); });
  }
  Result<std::string> Relinquish(const Task& task) {
    return Do([&](Engine& e) { return e.Relinquish("ns", task.instance, task.claim, {}); });
  }
  MachineView Machine(const std::string& id, uint32_t version = 0) {
    auto view = Do([&](Engine& e) { return e.GetMachine("ns", id, version); });
    REQUIRE(view);
    return *view;
  }
  NodeStats Node(const std::string& machine, const std::string& node, uint32_t version = 0) {
    MachineView view = Machine(machine, version);
    const NodeIndex index = view.definition->machine.Find(node);
    REQUIRE(index != kNoNode);
    return view.nodes[index];
  }

  // As a read behind Settle sees it.
  Result<Instance> Get(const std::string& id) {
    auto settled = Do([&](Engine& e) { return e.Settle("ns", id); });
    if (!settled) return settled.error();
    return rows::GetInstance({*store_, options_.partition}, {"ns", id},
                             engine_->reader().registry.resolve());
  }
  Instance Must(const std::string& id) {
    auto instance = Get(id);
    REQUIRE_MESSAGE(instance, (instance ? "" : instance.error().message));
    return *instance;
  }
  std::string NodeOf(const std::string& id) {
    const Instance instance = Must(id);
    if (instance.tokens.empty()) return "";
    const auto* machine =
        engine_->reader().registry.Resolve("ns", instance.machine, instance.version);
    return std::string(NodeName(*machine, instance.tokens.front().node));
  }
  // The feed as the store has it.
  std::vector<Event> Feed(uint64_t first = 1) {
    std::vector<Event> events;
    REQUIRE(rows::ScanFeed({*store_, options_.partition}, first, [&](Event event) {
      events.push_back(std::move(event));
      return true;
    }));
    return events;
  }
  // Of the store, by the kind that their keys begin with after the partition.
  std::vector<std::pair<std::string, std::string>> RowsOf(char kind) {
    std::vector<std::pair<std::string, std::string>> rows;
    REQUIRE(store_->Scan("", "", [&](std::string_view key, std::string_view value) {
      if (key.size() > 2 && key[2] == kind) rows.emplace_back(key, value);
      return true;
    }));
    return rows;
  }
  std::vector<Event> HistoryOf(const Instance& instance) {
    auto seqs = rows::History({*store_, options_.partition}, instance, 0);
    REQUIRE(seqs);
    std::vector<Event> events;
    rows::FeedReader feed(*store_, options_.partition);
    for (uint64_t seq : *seqs) {
      auto event = feed.Get(seq);
      REQUIRE_MESSAGE(event, "record ", seq, " of the history of ", instance.id, " is gone");
      events.push_back(*std::move(event));
    }
    return events;
  }
  std::vector<ChangeKind> KindsOf(const std::string& id) {
    std::vector<ChangeKind> kinds;
    for (const Event& event : HistoryOf(Must(id))) kinds.push_back(event.kind);
    return kinds;
  }
  // Keys of limits whose number was lowered: more may hold them.
  std::set<std::string>& lowered() { return lowered_; }
  // All that has been published since the world began, over crashes.
  const std::vector<Event>& published() const { return feed_; }

 private:
  bool FinishPass() {
    engine_->Work();
    if (engine_->broken()) failed_ = engine_->broken()->message;
    if (!failed_.empty()) return false;
    if (watcher_) watcher_->Worked();
    for (auto& tell : engine_->TakeAnswers()) tell();
    if (watcher_) watcher_->Passed();
    return true;
  }

  EngineOptions options_;
  StoreOf store_;
  Timestamp now_ = FromMicros(1'700'000'000'000'000);
  uint64_t entropy_ = 1;
  bool keep_jobs_ = false;
  std::deque<EngineOptions::Job> jobs_;
  std::unique_ptr<Engine> engine_;  // which gives away a job as it ends
  std::optional<Turn> in_flight_;
  std::vector<Event> feed_;
  std::string failed_;
  std::set<std::string> lowered_;
  CommitTold on_commit_;
  Watcher* watcher_ = nullptr;
};

}  // namespace dfsmr
