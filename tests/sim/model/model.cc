// Calls and their answers.
#include "tests/sim/model/model.h"

#include <algorithm>

#include "fsm/base/json.h"

namespace dfsmr::model {
namespace {

std::string Place(const Answer& answer) {
  return (answer.nodes.empty() ? "nowhere" : answer.nodes.front()) + " in visit " +
         std::to_string(answer.visit);
}

std::string Said(Reason reason) {
  return reason == Reason::kNone ? "OK" : std::string(Name(reason));
}

// A report that starts it does not show it.
bool Shows(const Result<Started>& answer, const Life& life) {
  const InstanceState shown = answer ? answer->view.instance.state : InstanceState::kNone;
  return life.opaque || shown == InstanceState::kNone || shown == life.state;
}

}  // namespace

void Model::Fail(const std::string& what) {
  if (problem_.empty()) problem_ = "model: " + what;
}

// Definitions ------------------------------------------------------------------------------------

const Machine& Model::MachineOf(const Life& life) const {
  return machines_.at(life.machine)[life.version - 1];
}

const Node& Model::NodeAt(const Life& life, const Stand& stand) const {
  return *std::ranges::find(MachineOf(life).nodes, stand.node, &Node::id);
}

// A stopped instance and its history stay for its machine's retention, else the server's.
bool Model::Expired(const Life& life, Duration since) const {
  const auto known = machines_.find(life.machine);
  const bool defined = known != machines_.end() && life.version > 0 &&
                       life.version <= known->second.size();
  const auto own = defined ? known->second[life.version - 1].retention : std::nullopt;
  return life.Stopped() && After(life.ended_at, own.value_or(retention_) + since) <= now_;
}

MachineRules Model::RulesOf(Life& life) { return {MachineOf(life), life, now_}; }

std::optional<Model::Move> Model::LeftBehind(const std::string& machine, uint32_t version) const {
  std::optional<Move> move;
  const auto known = machines_.find(machine);
  if (known == machines_.end() || version == 0) return move;
  for (uint32_t later = version + 1; later <= known->second.size(); ++later) {
    const UpgradeStrategy strategy = known->second[later - 1].upgrade_strategy;
    if (strategy == UpgradeStrategy::kAbort) return Move{later, true};
    if (strategy == UpgradeStrategy::kUpgrade) move = Move{later, false};
  }
  return move;
}

// Other content under the same id makes version n + 1.
void Model::Define(const std::vector<Machine>& machines,
                   const Result<std::vector<Defined>>& answer) {
  if (!answer) return;  // the generator's are sound, and the simulator says so
  for (size_t i = 0; i < machines.size(); ++i) {
    const Machine& machine = machines[i];
    std::vector<Machine>& versions = machines_[machine.id];
    const bool same = !versions.empty() && versions.back().fingerprint == machine.fingerprint;
    if (!same) versions.push_back(machine);
    if (!same) feed_.Defines(machine.id, static_cast<uint32_t>(versions.size()));
    const Defined& told = (*answer)[i];
    Expect(told.id == machine.id && told.version == versions.size() && told.changed == !same,
           "Define answers version " + std::to_string(told.version) + " of " + machine.id +
               " instead of " + std::to_string(versions.size()));
    const bool moves = !same && machine.upgrade_strategy != UpgradeStrategy::kContinue;
    const auto lives = std::ranges::count_if(lives_, [&](const auto& named) {
      return moves && named.second.machine == machine.id && !named.second.Stopped();
    });
    Expect(told.affected == static_cast<uint64_t>(lives) || !Followed(machine.id),
           "Define says that it moves " + std::to_string(told.affected) + " instances of " +
               machine.id + " instead of " + std::to_string(lives));
  }
}

// Instances --------------------------------------------------------------------------------------

// Before a call: the instance that it names, moved when a new version has left it behind. Null:
// there is none, and the answer must say so; or there is nothing to predict.
Life* Model::Find(const std::string& id, const std::string& call, Reason reason) {
  const auto it = lives_.find(id);
  const bool missing = reason == Reason::kNoSuchInstance;
  if (it == lives_.end()) {
    Expect(missing, call + " of " + id + ", which is not there, is answered with " + Said(reason));
    return nullptr;
  }
  Life& life = it->second;
  if (life.opaque) return nullptr;
  if (missing) {
    Expect(Expired(life), id + " is not found, and its retention has not ended");
    lives_.erase(it);
    return nullptr;
  }
  MoveOn(life);
  return &life;
}

void Model::MoveOn(Life& life) {
  Match(life);
  auto move = LeftBehind(life.machine, life.version);
  if (!move || life.Stopped()) return;
  const auto& queue = queues_[life.id];
  if (!queue.empty() && queue.front().kind == ChangeKind::kUpgraded) {
    // It was moved before the last of several versions that this turn has defined.
    const uint32_t to = queue.front().version;
    const auto& versions = machines_.at(life.machine);
    const bool may = to > life.version && to <= versions.size() &&
                     versions[to - 1].upgrade_strategy == UpgradeStrategy::kUpgrade;
    if (may) move = Move{to, false};
  }
  const Machine& next = machines_.at(life.machine)[move->to - 1];
  move->abort ? RulesOf(life).Abort() : RulesOf(life).Upgrade(next, move->to);
  Match(life);
}

Shown Model::ShownBy(const Life& life, const ClaimRef& claim) const {
  if (!claim.given()) return {};
  const bool known = claim.read && std::ranges::any_of(handed_, [&](const auto& named) {
    const Handed& one = named.second;
    return one.instance == life.id && one.id == claim.id && one.visit == claim.visit;
  });
  return known ? Shown{true, true, claim.visit, claim.id} : Shown{true, false, 0, {}};
}

void Model::Same(Life& life, const std::string& call, Reason predicted, Reason told) {
  Expect(predicted == told, call + " of " + life.id + " is answered with " + Said(told) +
                                " instead of " + Said(predicted));
  Match(life);
}

void Model::Start(const StartArgs& args, const Result<Started>& answer) {
  const auto known = lives_.find(args.id);
  const bool there = known != lives_.end();
  const bool gone = there && answer && answer->created && Expired(known->second);
  if (there && !gone) return StartAgain(known->second, args, answer);
  if (gone) lives_.erase(known);
  if (args.start_before != kNever && args.start_before <= now_) {
    return Expect(ReasonOf(answer) == Reason::kBadRequest, args.id + " is started too late");
  }
  if (!answer && answer.error().reason == Reason::kBadRequest) {  // it passed a moment ago
    return Expect(args.start_before <= now_ + kSlack,
                  "the start of " + args.id + " is refused: " + answer.error().message);
  }
  for (const Instance::Prerequisite& one : args.after) {
    if (!lives_.contains(one.instance)) {
      return Expect(ReasonOf(answer) == Reason::kNoSuchInstance, args.id + " waits for nobody");
    }
    if (!answer && answer.error().reason == Reason::kNoSuchInstance) return;  // retention's
    Life& other = lives_.at(one.instance);
    if (!other.opaque) MoveOn(other);
  }
  if (only_follows_ && !answer && answer.error().reason == Reason::kLimitReached) return;
  Expect(answer && answer->created, "the start of " + args.id + " is refused");
  if (!answer) return;
  Life& life = lives_[args.id];
  clients_.insert(args.id);
  life.id = args.id;
  life.machine = args.machine;
  life.version = static_cast<uint32_t>(machines_[args.machine].size());
  // Groups are the simulator's to check (groups_audit.h): what they hold back and order.
  life.opaque = only_follows_ || !machines_[args.machine].back().IsPlain() ||
                static_cast<bool>(args.provenance);
  life.priority = args.priority;
  life.params = args.spec.params;
  life.start_at = args.start_at;
  life.start_before = args.start_before;
  life.hold = args.hold;
  life.after = args.after;
  if (life.opaque) return Follow(life);
  life.state = InstanceState::kScheduled;
  Match(life);
  const bool waits = args.hold || !args.after.empty();
  if (NextOf(life.id) == ChangeKind::kStarted) {
    Expect(!waits && args.start_at <= now_ + kSlack, args.id + " begins before it may");
    RulesOf(life).Begin();
  } else {
    Expect(waits || args.start_at > now_, args.id + " is due and does not begin");
    RulesOf(life).Schedule();
  }
  Match(life);
  Prerequisites(life);
  Expect(Shows(answer, life), "Start shows another state of " + args.id);
}

void Model::StartAgain(Life& life, const StartArgs& args, const Result<Started>& answer) {
  if (!life.opaque) MoveOn(life);
  const bool same = life.machine == args.machine && json::Same(life.params, args.spec.params);
  Expect(same ? answer && !answer->created : ReasonOf(answer) == Reason::kInstanceExists,
         "a second start of " + args.id + " of " + args.machine + " " + args.spec.params +
             ", which is of " + life.machine + " " + life.params + ", is answered with " +
             (!answer ? answer.error().message : answer->created ? "a new one" : "that"));
  Expect(Shows(answer, life), "a second start shows another state of " + args.id);
}

// Those that have stopped are waited for no longer; one that ended otherwise than it had to stops
// this one.
void Model::Prerequisites(Life& life) {
  if (life.opaque) return;
  for (const Instance::Prerequisite& one : std::vector(life.after)) {
    const auto other = lives_.find(one.instance);
    if (life.Stopped() || other == lives_.end()) continue;
    // A plan may have been resumed in the turn in which it had stopped.
    const auto& [turn, result] = other->second.ended;
    const ChangeKind next = NextOf(life.id);
    const bool now = next == ChangeKind::kStarted || next == ChangeKind::kFinished;
    const bool stopped = other->second.Stopped();
    if (!stopped && (turn != turn_ || !now)) continue;
    const InstanceResult ended = stopped ? other->second.result : result;
    if (!one.any_result && ended != InstanceResult::kSuccess) {
      RulesOf(life).Stop(InstanceResult::kError, "", 0);
      return Match(life);
    }
    std::erase(life.after, one);
    if (life.after.empty()) StartDue(life);
  }
}

// Begins what may begin, as the feed tells; Overdue finds what should have.
void Model::StartDue(Life& life) {
  Match(life);
  if (life.Stopped() || !life.stands.empty()) return;
  const ChangeKind next = NextOf(life.id);
  const Timestamp soon = now_ + kSlack;
  const bool due = life.state == InstanceState::kScheduled && !life.hold && life.after.empty() &&
                   life.start_at <= soon;
  if (due && next == ChangeKind::kStarted) RulesOf(life).Begin();
  if (life.start_before <= soon && next == ChangeKind::kFinished) {
    RulesOf(life).Stop(InstanceResult::kError, "", 0);
  }
  Match(life);
}

void Model::Report(const std::string& id, const ReportArgs& args, const Result<Answer>& answer) {
  Life* life = Find(id, "Report", ReasonOf(answer));
  const auto plan = lives_.find(id);
  if (answer && !answer->repeated && args.transition == "patch" && plan != lives_.end()) {
    Patched(plan->second, answer->prev_node, args.params);
  }
  if (!life) return;
  Answer predicted;
  life->keeps_late = !LeftBehind(life->machine, life->version);
  const Reason reason = RulesOf(*life).Report(ShownBy(*life, args.claim), args, &predicted);
  Same(*life, "Report '" + args.transition + "'", reason, ReasonOf(answer));
  if (reason == Reason::kStaleClaim) ReportedLate(*life, args.claim.id);
  Expect(!answer || predicted == *answer,
         "a report of " + id + " leads to " + (answer ? Place(*answer) : "") + " instead of " +
             Place(predicted));
}

// It does not count any more, but tells how long its work took.
void Model::ReportedLate(const Life& life, ClaimId claim) {
  const auto cut = cut_short_.find(claim);
  const auto made = life.claimed_at.find(claim);
  if (cut == cut_short_.end() || made == life.claimed_at.end()) return;
  Event::Sample late = cut->second.second;
  late.replaces = std::exchange(late.took, now_ - made->second);
  late.censored = false;
  durations_.Perhaps(cut->second.first, late);
}

// Why a start of a report is refused, after those before it.
Reason Model::WhyNot(const StartArgs& start,
                     const std::map<std::string, const StartArgs*>& earlier) const {
  const auto taken = [&](const std::string& machine, const std::string& params) {
    const bool same = machine == start.machine && json::Same(params, start.spec.params);
    return same ? Reason::kNone : Reason::kInstanceExists;
  };
  if (const auto before = earlier.find(start.id); before != earlier.end()) {
    return taken(before->second->machine, before->second->spec.params);
  }
  const auto known = lives_.find(start.id);
  if (known != lives_.end()) return taken(known->second.machine, known->second.params);
  return machines_.contains(start.machine) ? Reason::kNone : Reason::kNoSuchMachine;
}

void Model::RefuseStarts(const std::vector<StartArgs>& starts, const Error& error) {
  if (only_follows_ && error.reason == Reason::kLimitReached) return;
  std::map<std::string, const StartArgs*> earlier;
  for (const StartArgs& start : starts) {
    const Reason reason = WhyNot(start, earlier);
    if (reason == error.reason) return;
    Expect(reason == Reason::kNone,
           "a report is refused for another reason than the first: " + error.message);
    if (!start.id.empty()) earlier.emplace(start.id, &start);
  }
  Fail("a report is refused although all can be started: " + error.message);
}

void Model::StartAll(const std::vector<StartArgs>& starts, const Answer& answer) {
  const std::vector<Begun> begun = answer.started ? *answer.started : std::vector<Begun>();
  Expect(begun.size() == starts.size(), "a report tells of " + std::to_string(begun.size()) +
                                            " of its " + std::to_string(starts.size()) + " starts");
  for (size_t i = 0; i < begun.size() && problem_.empty(); ++i) {
    StartArgs args = starts[i];
    Expect(args.id.empty() ? begun[i].created : args.id == begun[i].id,
           "a report starts " + begun[i].id + " instead of " + args.id);
    args.id = begun[i].id;
    Expect(lives_.contains(args.id) || machines_.contains(args.machine),
           "a report starts an instance of nothing: " + args.machine);
    if (!problem_.empty()) return;
    Start(args, Started{{}, begun[i].created});
  }
}

void Model::KeepStarts(const std::string& id, const ReportArgs& args,
                       const std::vector<StartArgs>& starts) {
  for (const Event& event : queues_[id]) {
    const bool kept = event.kind == ChangeKind::kLate && event.visit == args.claim.visit &&
                      event.transition == args.transition;
    if (kept) kept_starts_.try_emplace({id, args.claim.id}, starts);
  }
}

void Model::StartKept(const std::string& id, const Answer& answer) {
  const auto kept = kept_starts_.find({id, answer.claim});
  if (kept == kept_starts_.end()) return;
  const std::vector<StartArgs> starts = std::move(kept->second);
  kept_starts_.erase(kept);
  StartAll(starts, answer);
}

void Model::Relinquish(const std::string& id, const std::string& claim,
                       const Result<std::string>& answer) {
  Life* life = Find(id, "Relinquish", ReasonOf(answer));
  if (!life) return;
  std::string node;
  const Shown shown = ShownBy(*life, claim);
  if (claim.empty() && answer) VoidLost(*life);
  Same(*life, "Relinquish", RulesOf(*life).Relinquish(shown, &node), ReasonOf(answer));
  Expect(!answer || *answer == node, "a relinquish of " + id + " answers another node");
}

void Model::Extend(const std::string& id, const std::string& claim, std::optional<Duration> by,
                   const Extended& answer) {
  const Result<Ok> told = answer.error ? Result<Ok>(*answer.error) : Ok{};
  Life* life = Find(id, "Extend", ReasonOf(told));
  if (!life) return;
  Timestamp deadline = by ? After(now_, *by) : kNever;
  const Timestamp asked = deadline;
  const Shown shown = ShownBy(*life, claim);
  Same(*life, "Extend",
       RulesOf(*life).Extend(shown, &deadline, by.has_value(), answer.deadline), ReasonOf(told));
  if (answer.error) return;
  Expect(answer.cancel_requested == life->cancel_requested,
         "an extend of " + id + " does not tell whether it is being cancelled");
  Expect(answer.deadline == deadline || (deadline == asked && answer.deadline >= asked &&
                                         answer.deadline <= asked + kSlack),
         "an extend of " + id + " answers a deadline that was not asked for");
  for (auto& [visit, stand] : life->stands) {
    if (Claimed* const one = stand.Find(shown.id)) one->deadline = answer.deadline;
  }
}

void Model::Pause(const std::string& id, const Result<Ok>& answer) {
  Life* life = Find(id, "Pause", ReasonOf(answer));
  if (life) Same(*life, "Pause", RulesOf(*life).Pause(), ReasonOf(answer));
}

void Model::Resume(const std::string& id, const std::string& node, bool force,
                   const Result<Ok>& answer) {
  if (force && answer) std::erase_if(kept_starts_, [&](auto& of) { return of.first.first == id; });
  if (const auto known = lives_.find(id); answer && known != lives_.end()) {
    if (known->second.opaque) known->second.cancel_requested = false;
    resumed_ |= known->second.opaque;
  }
  Life* life = Find(id, "Resume", ReasonOf(answer));
  if (!life) return;
  if (life->Stopped()) return Continue(*life, node, force, answer);
  bool begins = false;
  if (force && answer) VoidLost(*life);
  Same(*life, "Resume", RulesOf(*life).Resume(node, force, &begins), ReasonOf(answer));
  if (begins) StartDue(*life);
}

// Of what has stopped; then what was reported meanwhile counts.
void Model::Continue(Life& life, const std::string& node, bool force, const Result<Ok>& answer) {
  if (life.resumable && LeftBehind(life.machine, life.version)) {
    return Same(life, "Resume", Reason::kSupersededVersion, ReasonOf(answer));
  }
  for (auto& [id, other] : lives_) Prerequisites(other);  // it may have been waited for
  std::vector<ReportArgs> late;
  Same(life, "Resume", RulesOf(life).Continue(node, force, &late), ReasonOf(answer));
  if (force && answer) VoidLost(life);
  for (ReportArgs& report : late) {
    const auto& queue = queues_[life.id];
    if (!queue.empty() && queue.front().answer) report.started = queue.front().answer->started;
    Answer given;
    const Reason reason = RulesOf(life).Report(ShownBy(life, report.claim), report, &given);
    Expect(reason == Reason::kNone, "a report that was kept for " + life.id + " is impossible");
    Match(life);
    StartKept(life.id, given);
  }
}

void Model::Skip(const std::string& id, const std::string& node, const Result<Ok>& answer) {
  Life* life = Find(id, "Skip", ReasonOf(answer));
  if (life) Same(*life, "Skip", RulesOf(*life).Skip(node), ReasonOf(answer));
}

void Model::Cancel(const std::string& id, CancelMode mode, const Result<Ok>& answer) {
  Life* life = Find(id, "Cancel", ReasonOf(answer));
  const auto plan = lives_.find(id);
  if (answer && plan != lives_.end() && plan->second.opaque && !plan->second.Stopped()) {
    plan->second.cancel_requested = true;
  }
  if (life) Same(*life, "Cancel", RulesOf(*life).Cancel(mode), ReasonOf(answer));
}

void Model::Settle(const std::string& id, const Result<Ok>& answer) {
  if (!id.empty()) (void)Find(id, "Settle", ReasonOf(answer));
}

// Who takes a whole visit back takes it also from those whom a crash has made forget.
void Model::VoidLost(const Life& life) {
  for (const auto& [text, handed] : handed_) {
    if (handed.instance == life.id && life.stands.contains(handed.visit)) voided_.insert(text);
  }
}

}  // namespace dfsmr::model
