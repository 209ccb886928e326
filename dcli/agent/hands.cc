#include "dcli/agent/hands.h"

#include <algorithm>

#include "dcli/agent/operation.h"
#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kSoonest{25};
constexpr milliseconds kLatest{3'600'000};
constexpr milliseconds kTell{1'000};
constexpr milliseconds kTryAgain{500};
constexpr milliseconds kKillOrder{5'000};
constexpr milliseconds kBetweenNotes{20};  // each is a write, and wakes whoever reads
// How long claims beyond a worker's `jobs` wait here until they go back: others may be idle. When
// nobody else takes them they come again, so the time is doubled.
constexpr milliseconds kFirstWaitForRoom{2'000};
constexpr milliseconds kLongestWaitForRoom{30'000};

milliseconds InMillis(Duration duration) {
  return std::chrono::duration_cast<milliseconds>(duration);
}

}  // namespace

Hands::Hands(Context& context, AgentPlan plan) : context_(context), plan_(std::move(plan)) {}

Hands::~Hands() {
  asker_.reset();
  hands_.clear();
  pools_.clear();
  packages_.reset();
  for (std::thread& aside : asides_) aside.join();
}

void Hands::Note(std::string line) {
  if (!printer_.Full()) notes_.push_back(std::move(line));  // else nobody reads it: work goes on
}

void Hands::TellNotes() {
  if (notes_.empty() || tell_notes_.set()) return;
  const auto next = notes_printed_ + kBetweenNotes;
  if (next <= steady_clock::now()) return PrintNotes();
  tell_notes_.Set(next, [this] { PrintNotes(); });
}

void Hands::PrintNotes() {
  if (notes_.empty()) return;
  size_t bytes = 0;
  for (const std::string& note : notes_) bytes += note.size();
  printer_.Add(bytes, [this, notes = std::exchange(notes_, {})] { context_.Note(notes); });
  notes_printed_ = steady_clock::now();
}

Hands::Hand* Hands::Find(const std::string& claim) {
  const auto found = hands_.find(claim);
  return found == hands_.end() ? nullptr : found->second.get();
}

void Hands::Aside(std::function<void()> work) { asides_.emplace_back(std::move(work)); }

void Hands::Take(const v1::Task& task) {
  if (hands_.contains(task.claim())) return;
  const Worker* worker = Serving(plan_.workers, task.action());
  if (worker == nullptr && task.has_package() && packages_ != nullptr &&
      plan_.packages.Serves(task.package().name())) {
    return TakeOfPackage(task);
  }
  if (worker == nullptr) {
    return Refuse(task, "no worker of this agent serves " + task.action());
  }
  if (const auto why = Unfit(*worker, task)) return Refuse(task, *why);
  Add(task)->worker = worker;
  waiting_.push_back(task.claim());
}

Hands::Hand* Hands::Add(const v1::Task& task) {
  auto hand = std::make_unique<Hand>(loop_);
  hand->task = task;
  Hand* const taken = hand.get();
  hands_[task.claim()] = std::move(hand);
  if (task.has_begin_by()) ScheduleExtend(taken, task.begin_by());
  return taken;
}

std::optional<std::string> Hands::Unfit(const Worker& worker, const v1::Task& task) const {
  if (task.dry_run() && !worker.dry_run) {
    return "the worker " + worker.name + " is not for dry runs (dry_run: true)";
  }
  return std::nullopt;
}

void Hands::Refuse(const v1::Task& task, const std::string& reason) {
  v1::RelinquishRequest* request = out_.mutable_work()->add_relinquishes();
  request->set_namespace_(task.namespace_());
  request->set_instance(task.instance());
  request->set_claim(task.claim());
  request->set_reason(reason);
  request->set_refused(true);
  Note(task.instance() + " at " + task.machine() + "/" + task.node() + ": refused: " + reason);
}

// Those that wait for room, also under `jobs`, in their order.
void Hands::BeginWaiting() {
  if (waiting_.empty()) return;
  int all = 0;
  std::map<const Worker*, uint32_t> of_worker;
  for (const auto& [claim, hand] : hands_) {
    if (hand->stage == Hand::Stage::kFetching || hand->stage == Hand::Stage::kWaiting ||
        hand->stage == Hand::Stage::kReporting) {
      continue;
    }
    ++all;
    ++of_worker[hand->worker];
  }
  std::deque<std::string> still;
  while (!waiting_.empty() && all < plan_.open.max_tasks()) {
    const std::string claim = std::move(waiting_.front());
    waiting_.pop_front();
    Hand* hand = Find(claim);
    if (hand == nullptr || hand->stage != Hand::Stage::kWaiting) continue;
    uint32_t& same = of_worker[hand->worker];
    if (hand->worker->jobs > 0 && same >= hand->worker->jobs) {
      still.push_back(claim);
      AwaitRoom(hand->worker);
      continue;
    }
    ++all;
    ++same;
    AskForSecrets(hand);
  }
  waiting_.insert(waiting_.begin(), still.begin(), still.end());
}

void Hands::AwaitRoom(const Worker* worker) {
  auto& crowd = crowds_[worker];
  if (crowd == nullptr) crowd = std::make_unique<Crowd>(loop_);
  if (crowd->give_back.set()) return;
  if (steady_clock::now() - crowd->given_back > 2 * crowd->pause) crowd->pause = kFirstWaitForRoom;
  crowd->give_back.SetIn(crowd->pause, [this, worker] { GiveBackSurplus(worker); });
}

// It is not refused: then this session would not be offered the node for a minute, though the
// worker may have room in a moment.
void Hands::GiveBackSurplus(const Worker* worker) {
  Crowd& crowd = *crowds_.at(worker);
  if (!connected_) {
    crowd.give_back.SetIn(crowd.pause, [this, worker] { GiveBackSurplus(worker); });
    return;
  }
  crowd.given_back = steady_clock::now();
  crowd.pause = std::min(2 * crowd.pause, kLongestWaitForRoom);
  std::vector<std::string> surplus;
  for (const std::string& claim : waiting_) {
    const Hand* hand = Find(claim);
    if (hand != nullptr && hand->worker == worker) surplus.push_back(claim);
  }
  if (surplus.empty()) return;
  const std::string why =
      "the worker " + worker->name + " has its jobs (" + std::to_string(worker->jobs) + ") in hand";
  Note(why + ": " + std::to_string(surplus.size()) + " given back that had not begun");
  for (const std::string& claim : surplus) std::erase(waiting_, claim);
  for (const std::string& claim : surplus) {
    Hand* hand = Find(claim);
    if (hand == nullptr) continue;
    SendBack(*hand, why, false);
    Finish(hand, "");
  }
}

void Hands::Prepared(Hand* hand) {
  if (hand->task.has_begin_by()) return AskToBegin(hand);
  v1::ExtendResponse::Item answer;  // it has begun when it was handed out
  if (hand->task.has_deadline()) *answer.mutable_deadline() = hand->task.deadline();
  Begun(hand, answer);
}

void Hands::AskToBegin(Hand* hand) {
  hand->stage = Hand::Stage::kBeginning;
  Extend(hand);
}

// One item for the server: it begins the claim, moves its deadline, and tells what is new. Each has
// its answer on this stream: without one nothing is asked.
void Hands::Extend(Hand* hand) {
  if (!open_) return;  // Repeat will
  v1::ExtendRequest::Item* item = out_.mutable_work()->add_extends();
  item->set_instance(hand->task.instance());
  item->set_claim(hand->task.claim());
  item->set_begin(hand->stage == Hand::Stage::kBeginning);
  item->set_progress(hand->progress);
  item->set_note(hand->note);
  item->set_checkpoint(hand->checkpoint);
  hand->sent_checkpoint = hand->checkpoint;
  extends_.push_back(hand->task.claim());
  hand->told_at = steady_clock::now();
  hand->extend.Clear();
}

// At a third of the time that is left, so that two may fail.
void Hands::ScheduleExtend(Hand* hand, const google::protobuf::Timestamp& until) {
  const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  const Duration left = FromProto(until) - (now + clock_ahead_);
  hand->extend.SetIn(std::clamp(InMillis(left / 3), kSoonest, kLatest),
                     [this, hand] { Extend(hand); });
}

void Hands::Extended(const std::string& claim, const v1::ExtendResponse::Item& answer) {
  Hand* hand = Find(claim);
  if (hand == nullptr) return;
  if (answer.has_error()) return ExtendFailed(hand, FromProto(answer.error()));
  if (hand->checkpoint == hand->sent_checkpoint) hand->checkpoint.clear();
  if (answer.has_deadline()) ScheduleExtend(hand, answer.deadline());
  if (hand->stage == Hand::Stage::kBeginning) Begun(hand, answer);
  hand = Find(claim);
  if (hand == nullptr) return;
  if (answer.kill_requested() && hand->order < Order::kKill) {
    Obey(claim, Order::kKill);
  } else if (answer.cancel_requested() && hand->order == Order::kNone) {
    Obey(claim, Order::kCancel);
  }
}

void Hands::ExtendFailed(Hand* hand, const Error& error) {
  if (Passing(error)) {
    hand->extend.SetIn(kTryAgain, [this, hand] { Extend(hand); });
    return;
  }
  switch (hand->stage) {
    case Hand::Stage::kFetching:
    case Hand::Stage::kWaiting:
    case Hand::Stage::kPreparing:
    case Hand::Stage::kBeginning:
      if (hand->order != Order::kNone) {
        AddStop(hand->task.instance(), hand->task.claim(), v1::StopReport::ENDED);
      }
      return Finish(hand, "not begun: " + error.message);
    case Hand::Stage::kRunning:
      if (error.reason != Reason::kStaleClaim) {  // what it was told, not the claim, is refused
        hand->note.clear();
        hand->checkpoint.clear();
        Log(*hand, LogStream::kAgent, "its progress was refused: " + error.message);
        hand->extend.SetIn(kTell, [this, hand] { Extend(hand); });
        return;
      }
      if (hand->lost) return;
      hand->lost = true;
      Note(hand->Name() + ": not ours any more, its processes are stopped: " + error.message);
      Log(*hand, LogStream::kAgent, "not this agent's any more: it is stopped");
      return StopRun(hand);
    case Hand::Stage::kReporting:
      return;
  }
}

void Hands::Begun(Hand* hand, const v1::ExtendResponse::Item& answer) {
  hand->begun = true;
  hand->at_most_once = !answer.has_deadline();
  if (hand->order != Order::kNone || hand->given_back) {
    hand->stage = Hand::Stage::kRunning;
    return Stopped(hand, {.how = RunEnd::How::kGivenBack, .status = "before it was run"});
  }
  Start(hand);
}

void Hands::Start(Hand* hand) {
  hand->stage = Hand::Stage::kRunning;
  const v1::Task& task = hand->task;
  Note(hand->Name() + ": begun (attempt " + std::to_string(task.attempt()) + ")");
  std::optional<Duration> most = hand->worker->timeout;
  if (task.has_run_timeout()) {
    const Duration node = FromProto(task.run_timeout());
    most = most ? std::min(*most, node) : node;
  }
  if (most) hand->timeout.SetIn(InMillis(*most), [this, hand] { TimeOut(hand); });
  hand->run = RunOf(hand);
  TaskBegun();
}

RunEvents Hands::EventsOf(const std::string& claim) {
  return {.line =
              [this, claim](LogStream stream, std::string line) {
                if (const Hand* hand = Find(claim)) Log(*hand, stream, std::move(line));
              },
          .progressed =
              [this, claim] {
                if (Hand* hand = Find(claim)) Tell(hand);
              },
          .ended =
              [this, claim](const RunEnd& end) {
                if (Hand* hand = Find(claim)) Ended(hand, end);
              }};
}

void Hands::Log(const Hand& hand, LogStream stream, std::string line) {
  if (plan_.print && stream != LogStream::kAgent && !printer_.Full()) {
    PrintNotes();
    std::ostream& to = stream == LogStream::kErr ? context_.err : context_.out;
    printer_.Add(line.size(), [&to, line] { to << line << '\n' << std::flush; });
  }
  const auto kind = stream == LogStream::kOut   ? v1::LogLine::OUT
                    : stream == LogStream::kErr ? v1::LogLine::ERR
                                                : v1::LogLine::AGENT;
  logs_->Add(hand.task.instance(), hand.task.claim(), kind, std::move(line));
}

// At most once a second.
void Hands::Tell(Hand* hand) {
  const auto next = hand->told_at + kTell;
  if (hand->tell.set() || hand->stage != Hand::Stage::kRunning) return;
  const auto tell = [this, hand] {
    const auto said = hand->run == nullptr ? std::nullopt : hand->run->TakeProgress();
    if (!said) return;
    if (said->progress) hand->progress = *said->progress;
    if (said->note) hand->note = *said->note;
    if (said->checkpoint) hand->checkpoint = *said->checkpoint;
    Extend(hand);
  };
  if (next <= steady_clock::now()) return tell();
  hand->tell.Set(next, tell);
}

void Hands::TimeOut(Hand* hand) {
  if (hand->run == nullptr || hand->order >= Order::kForce) return;
  hand->timed_out = true;
  Log(*hand, LogStream::kAgent, "its time is over: it is stopped");
  StopRun(hand);
}

void Hands::StopRun(Hand* hand) {
  if (hand->run == nullptr) return;
  const bool kill = hand->order == Order::kKill;
  milliseconds patience = InMillis(hand->worker->kill_after);
  if (kill) patience = std::min(patience, kKillOrder);
  hand->run->Stop(patience, kill);
}

// Orders ----------------------------------------------------------------------------------------

void Hands::Orders(const v1::WorkResponse& work) {
  const auto& finishable = work.finishable_claims();
  const auto& killed = work.killed_claims();
  for (const std::string& claim : work.cancelled_claims()) {
    if (std::ranges::find(killed, claim) != killed.end()) continue;
    const bool may_finish = std::ranges::find(finishable, claim) != finishable.end();
    Obey(claim, may_finish ? Order::kCancel : Order::kForce);
  }
  for (const std::string& claim : killed) Obey(claim, Order::kKill);
}

void Hands::Obey(const std::string& claim, Order order) {
  Hand* hand = Find(claim);
  if (hand == nullptr) {  // it has ended here, and nothing of it lives
    const auto known = ended_.find(claim);
    AddStop(known == ended_.end() ? "" : known->second, claim, v1::StopReport::ENDED);
    return;
  }
  AddStop(hand->task.instance(), claim, v1::StopReport::SIGNALLED);
  if (order <= hand->order) return;
  hand->order = order;
  const char* what = order == Order::kKill ? "kill" : order == Order::kForce ? "stop" : "cancel";
  if (hand->stage == Hand::Stage::kWaiting || hand->stage == Hand::Stage::kFetching ||
      hand->stage == Hand::Stage::kPreparing) {
    AddStop(hand->task.instance(), claim, v1::StopReport::ENDED);
    return Finish(hand, "taken back before it had begun");
  }
  if (hand->stage != Hand::Stage::kRunning) return;  // the answer that is awaited decides
  Note(hand->Name() + ": ordered to " + what);
  const bool finishes = order == Order::kCancel && hand->worker->finish;
  Log(*hand, LogStream::kAgent,
      std::string("order: ") + what + (finishes ? "; it may end in peace" : ""));
  if (!finishes) StopRun(hand);
}

}  // namespace dfsmr::cli
