#include "tests/sim/lockstep.h"

#include "storage/rows/graph.h"

namespace dfsmr::model {

// Turns ------------------------------------------------------------------------------------------

void Lockstep::Note(std::function<void(Model&)> step) { open_.steps.push_back(std::move(step)); }

void Lockstep::Note(const std::string& id, std::function<void(Model&)> step) {
  open_.asked.insert(id);
  Note(std::move(step));
}

void Lockstep::Began(Timestamp now) {
  latest_ = std::max(latest_, now);
  open_.clocks->push_back(now);
  Note([clocks = open_.clocks, pass = open_.clocks->size()](Model& model) {
    model.Clock((*clocks)[pass - 1], pass < clocks->size() ? (*clocks)[pass] : kNever);
  });
}

void Lockstep::Worked() {
  Note([](Model& model) { model.Work(); });
}

void Lockstep::Passed() {
  Note([served = std::exchange(served_, {}), late = open_.late](Model& model) {
    model.Serve(served, late.get());
    model.EndPass(/*served=*/late->empty());
  });
}

void Lockstep::Ended(uint64_t turn) {
  open_.number = turn;
  decided_.push_back(std::move(open_));
  open_ = {};
}

void Lockstep::Published(uint64_t turn, const std::vector<Event>& events) {
  answering_ = turn;
  for (OneTurn& one : decided_) {
    if (one.number != turn) continue;
    one.events = events;
  }
  if (!events.empty()) last_seq_ = events.back().seq;
}

void Lockstep::Answered() {
  const uint64_t turn = *std::exchange(answering_, std::nullopt);
  while (!decided_.empty() && decided_.front().number <= turn) {
    Replay(std::move(decided_.front()));
    decided_.pop_front();
  }
  // What the turn has changed is in the store now, and nothing of a later turn is.
  for (const std::string& id : model_.touched()) {
    auto row = rows::GetInstance({store_, world_.partition()}, {"ns", id},
                                 world_.engine().reader().registry.resolve());
    if (row && problem().empty()) model_.CompareOne({*row, SpecOf(id)}, /*exact=*/true);
  }
}

void Lockstep::Replay(OneTurn turn) {
  if (!problem().empty()) return;
  model_.BeginTurn(turn.events, turn.cancelled);
  for (const auto& step : turn.steps) {
    if (problem().empty()) step(model_);
  }
  if (problem().empty()) model_.EndTurn();
  for (const Model::Served& left : *turn.late) model_.EndPoll(left.waiter);
}

void Lockstep::Told(const std::vector<Task>& tasks, uint64_t waiter, bool stream, Reply* poll) {
  model_.Hold(tasks);
  if (poll && poll->at_once) {
    poll->tasks = tasks;
    return;
  }
  if (tasks.empty() && !stream) {  // its time is over
    if (!answering_) Note([waiter](Model& model) { model.EndPoll(waiter); });
    return;
  }
  std::vector<Model::Served>* served = &served_;
  for (OneTurn& one : decided_) {
    if (one.number == answering_) served = one.late.get();
  }
  for (const Task& task : tasks) served->push_back({task, waiter, &task == &tasks.back()});
}

void Lockstep::Opened() {
  std::set<std::string> unheard_of;  // nobody was told whether the calls for these were written
  for (const OneTurn& one : decided_) unheard_of.insert(one.asked.begin(), one.asked.end());
  open_ = {};
  served_.clear();
  decided_.clear();
  answering_.reset();
  std::vector<Event> unheard;
  const auto scanned =
      rows::ScanFeed({store_, world_.partition()}, last_seq_ + 1, [&](Event event) {
        last_seq_ = event.seq;
        unheard.push_back(std::move(event));
        return true;
      });
  if (!scanned) model_.Fail("the feed cannot be read");
  const auto views = world_.engine().ListMachines("ns", true, {"", 0}, 10'000);
  std::vector<const Machine*> defined;
  for (const MachineView& view : views) {
    if (view.definition->version > 0) defined.push_back(&view.definition->machine);
  }
  if (problem().empty())
    model_.Crashed(unheard, std::move(unheard_of), Rows(), defined, latest_, world_.now());
  latest_ = world_.now();
}

Model::Rows Lockstep::Rows() const {
  Model::Rows rows;
  for (bool stopped : {false, true}) {
    (void)rows::ScanInstances({store_, world_.partition()}, stopped, {"", ""},
                              world_.engine().reader().registry.resolve(), [&](Instance instance) {
                                if (instance.dry_run) return true;
                                Model::Row row{std::move(instance), {}};
                                row.spec = SpecOf(row.instance.id);
                                rows.emplace(row.instance.id, std::move(row));
                                return true;
                              });
  }
  return rows;
}

Spec Lockstep::SpecOf(const std::string& id) const {
  auto spec = rows::GetSpec({store_, world_.partition()}, {"ns", id});
  return spec ? *spec : Spec();
}

std::shared_ptr<const PlanGraph> Lockstep::GraphOf(const std::string& id) const {
  auto row = rows::GetInstance({store_, world_.partition()}, {"ns", id},
                               world_.engine().reader().registry.resolve());
  if (!row || !row->plan || row->plan->graph.empty()) return nullptr;
  auto graph = rows::GetGraph({store_, world_.partition()}, *row);
  if (!graph) return nullptr;
  return std::make_shared<const PlanGraph>(*std::move(graph));
}

void Lockstep::Compare() {
  while (!decided_.empty()) {  // nothing of these had to be written
    Replay(std::move(decided_.front()));
    decided_.pop_front();
  }
  if (!problem().empty()) return;
  model_.Compare(Rows());
  model_.CompareFeed(world_.Feed(), *rows::FirstSeq({store_, world_.partition()}));
  model_.CompareMachines(world_.engine().ListMachines("ns", true, {"", 0}, 10'000));
}

// Calls ------------------------------------------------------------------------------------------

Result<std::vector<Defined>> Asked::Define(std::vector<Machine> machines) {
  auto answer = TryDefine(engine_, machines);
  lockstep_.Note(
      [machines = std::move(machines), answer](Model& model) { model.Define(machines, answer); });
  return answer;
}

Result<Started> Asked::Start(const StartArgs& args) {
  auto answer = engine_.Start(args);
  lockstep_.Note([args, answer](Model& model) { model.Start(args, answer); });
  return answer;
}

Result<Answer> Asked::Report(const std::string& ns, const std::string& id, const ReportArgs& args,
                             const std::vector<rows::ChildStart>& children,
                             const std::vector<StartArgs>& starts) {
  auto answer = engine_.Report(ns, id, args, children, starts);
  const bool fresh = answer && !answer->repeated;
  const bool refused = !answer && answer.error().message.starts_with("starts[");
  const bool stale = !answer && answer.error().reason == Reason::kStaleClaim;
  ReportArgs told = args;
  if (refused) told.fault = answer.error();
  if (fresh) told.started = answer->started;
  lockstep_.Note(id, [=](Model& model) {
    if (refused) model.RefuseStarts(starts, answer.error());
    if (stale) model.KeepStarts(id, args, starts);
    model.Report(id, told, answer);
    if (fresh) model.StartAll(starts, *answer);
  });
  return answer;
}

bool Asked::IsOver(const Task& task) {
  // Only a claim whose visit is over is in every queue.
  return engine_.Concerns("ns", task.instance, task.claim, {}, {"nowhere"});
}

Result<std::string> Asked::Relinquish(const std::string& ns, const std::string& id,
                                      const std::string& claim, const std::string& client) {
  auto answer = engine_.Relinquish(ns, id, claim, {.client = client});
  lockstep_.Note(id, [id, claim, answer](Model& model) { model.Relinquish(id, claim, answer); });
  return answer;
}

Extended Asked::Extend(const std::string& ns, const std::string& id, const std::string& claim,
                       std::optional<Duration> by, double progress) {
  auto answer = engine_.Extend(ns, id, claim, by, {.progress = progress});
  lockstep_.Note(id,
                 [id, claim, by, answer](Model& model) { model.Extend(id, claim, by, answer); });
  return answer;
}

Result<Ok> Asked::Pause(const std::string& ns, const std::string& id) {
  auto answer = engine_.Pause(ns, id);
  lockstep_.Note(id, [id, answer](Model& model) { model.Pause(id, answer); });
  return answer;
}

Result<Ok> Asked::Resume(const std::string& ns, const std::string& id, const std::string& node,
                         bool force) {
  auto answer = engine_.Resume(ns, id, node, force);
  lockstep_.Note(
      id, [id, node, force, answer](Model& model) { model.Resume(id, node, force, answer); });
  return answer;
}

Result<Ok> Asked::Skip(const std::string& ns, const std::string& id, const std::string& node) {
  auto answer = engine_.Skip(ns, id, node);
  lockstep_.Note(id, [id, node, answer](Model& model) { model.Skip(id, node, answer); });
  return answer;
}

Result<Ok> Asked::Cancel(const std::string& ns, const std::string& id, CancelMode mode) {
  auto answer = engine_.Cancel(ns, id, mode);
  if (answer) lockstep_.Cancelled(id);
  lockstep_.Note(id, [id, mode, answer](Model& model) { model.Cancel(id, mode, answer); });
  return answer;
}

Result<Ok> Asked::Settle(const std::string& ns, const std::string& id) {
  auto answer = engine_.Settle(ns, id);
  lockstep_.Note(id, [id, answer](Model& model) { model.Settle(id, answer); });
  return answer;
}

// Waiters ----------------------------------------------------------------------------------------

Result<WaiterId> Asked::Poll(const PollArgs& args, PollSink sink) {
  const uint64_t waiter = lockstep_.NextWaiter();
  auto answered = std::make_shared<Lockstep::Reply>();
  auto poll = engine_.Poll(args, [lockstep = &lockstep_, waiter, answered,
                                  sink = std::move(sink)](std::vector<Task> tasks) {
    lockstep->Told(tasks, waiter, /*stream=*/false, answered.get());
    sink(std::move(tasks));
  });
  if (!poll) return poll;
  answered->at_once = *poll == 0;
  if (*poll != 0) lockstep_.Know(*poll, waiter);
  lockstep_.Note([args, waiter, answered](Model& model) {
    model.Poll(args, waiter, !answered->at_once, answered->tasks);
  });
  return poll;
}

bool Asked::CancelPoll(WaiterId poll) {
  const bool waited = engine_.CancelPoll(poll);
  const uint64_t waiter = lockstep_.Known(poll);
  if (waited) lockstep_.Note([waiter](Model& model) { model.EndPoll(waiter); });
  return waited;
}

void Asked::Undelivered(const std::vector<Task>& tasks, bool perhaps) {
  engine_.Undelivered(tasks, perhaps);
  for (const Task& task : tasks) lockstep_.Note(task.instance, [](Model&) {});
  lockstep_.Note([tasks, perhaps](Model& model) { model.Undelivered(tasks, perhaps); });
}

Result<SessionId> Asked::OpenSession(const Filter& filter, const std::string& worker,
                                     int32_t capacity, SessionSink sink) {
  const uint64_t waiter = lockstep_.NextWaiter();
  auto stream = engine_.OpenSession(
      filter, worker, capacity,
      [lockstep = &lockstep_, waiter, sink = std::move(sink)](SessionUpdate update) {
        lockstep->Told(update.tasks, waiter, /*stream=*/true, nullptr);
        sink(std::move(update));
      });
  if (!stream) return stream;
  lockstep_.Know(*stream, waiter);
  lockstep_.Note([filter, worker, waiter, capacity](Model& model) {
    model.Open(waiter, filter, worker, static_cast<size_t>(capacity));
  });
  return stream;
}

void Asked::DrainSession(SessionId session) {
  engine_.DrainSession(session);
  const uint64_t waiter = lockstep_.Known(session);
  lockstep_.Note([waiter](Model& model) { model.Drain(waiter); });
}

void Asked::CloseSession(SessionId session) {
  engine_.CloseSession(session);
  const uint64_t waiter = lockstep_.Known(session);
  lockstep_.Note([waiter](Model& model) { model.Close(waiter); });
}

void Asked::StopHandingOut() {
  engine_.StopHandingOut();
  lockstep_.Note([](Model& model) { model.StopHandingOut(); });
}

}  // namespace dfsmr::model
