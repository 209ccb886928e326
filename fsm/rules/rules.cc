#include "fsm/rules/rules.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr {
namespace inside {

Error Refused(Reason reason, std::string message) {
  return {Code::kFailedPrecondition, std::move(reason), std::move(message)};
}

std::string Named(const Instance& instance) { return "instance " + Quoted(instance.id); }

std::string HeldBy(const std::string& key, const std::string& holder) {
  return "singleton " + Quoted(key) + " is held by instance " + Quoted(holder);
}

Event& Emit(Scene& scene, ChangeKind kind) {
  Event& event = scene.events.emplace_back();
  event.kind = kind;
  event.time = scene.now;
  event.ns = scene.instance.ns;
  event.machine = scene.instance.machine;
  event.version = scene.instance.version;
  event.instance = scene.instance.id;
  return event;
}

void SetState(Scene& scene, InstanceState state) {
  scene.instance.state = state;
  scene.entered.push_back(state);
}

// Where an instance stands, when that is one place.
static std::string Where(const Scene& scene) {
  const Tokens& tokens = scene.instance.tokens;
  if (tokens.size() != 1) return "";
  return std::string(NodeName(scene.machine, tokens.front().node));
}
static uint64_t VisitOf(const Scene& scene) {
  const Tokens& tokens = scene.instance.tokens;
  return tokens.size() == 1 ? tokens.front().visit : 0;
}

static InstanceResult ResultOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSuccess: return InstanceResult::kSuccess;
    case Outcome::kWarning: return InstanceResult::kWarning;
    case Outcome::kError: return InstanceResult::kError;
  }
  return InstanceResult::kNone;
}

// A stopped instance keeps one DONE token where it ended.
void Stop(Scene& scene, InstanceResult result, NodeIndex where, uint64_t visit,
          std::string error) {
  Instance& instance = scene.instance;
  SetState(scene, InstanceState::kStopped);
  instance.result = result;
  instance.end_time = scene.now;
  if (!error.empty()) instance.error = std::move(error);
  if (result == InstanceResult::kSuccess) instance.error.clear();  // overcome on the way
  instance.tokens.Clear();
  instance.entries.clear();
  const bool planned = IsPlanned(scene) && where < scene.machine.nodes.size();
  if (instance.plan) {
    instance.plan->key.clear();
    instance.plan->waits_for_key = false;
    if (planned) instance.plan->ended_at = scene.machine.nodes[where].id;
  }
  if (where != kNoNode) {
    Token token;
    token.node = planned ? kElsewhere : where;
    token.visit = visit;
    token.state = TokenState::kDone;
    instance.tokens.Add(std::move(token));
  }
  Event& event = Emit(scene, ChangeKind::kFinished);
  event.node = NodeName(scene.machine, where);
  event.visit = visit;
  event.note = Name(result);
  if (!instance.error.empty()) event.note += ": " + instance.error;
}

void StopCancelled(Scene& scene) {
  Event& event = Emit(scene, ChangeKind::kCancelled);
  event.prev_node = Where(scene);
  event.node = kCancelledNode;
  event.visit = VisitOf(scene);
  Stop(scene, InstanceResult::kCancelled, kCancelledIndex, scene.instance.last_visit);
}

// A cancel waits for claimed work; whatever ends the last claim ends the instance.
static void StopIfCancelled(Scene& scene) {
  const Instance& instance = scene.instance;
  /*mutant cancel-never-ends*/ if (instance.Stopped() || !instance.cancel_requested)
    return; /*end*/
  if (IsPlanned(scene) ? instance.tokens.empty() : !instance.HasLiveClaim()) StopCancelled(scene);
}

// Uniform in [0, 1) from the entropy handed in (SplitMix64's finaliser).
double Fraction(uint64_t random, uint64_t salt) {
  uint64_t z = random + salt * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

Duration DelayOf(const DelayPolicy& policy, uint32_t entry, double fraction) {
  if (policy.initial == Duration::zero()) return {};  // however often it is multiplied
  const double initial = static_cast<double>(policy.initial.count());
  double delay = initial * std::pow(policy.factor, entry - 1);
  delay = std::min(delay, static_cast<double>(policy.max.count()));
  delay *= 1 + policy.jitter * (2 * fraction - 1);
  return Duration(static_cast<int64_t>(std::min(delay, 9e18)));
}

}  // namespace inside

using namespace inside;  // NOLINT: these are its own rules

namespace {

struct Arrival {
  NodeIndex node;
  std::string prev_node;
  std::string transition;
  std::string params;
  std::string client;
};

Event& EmitTransition(Scene& scene, const Arrival& arrival, uint64_t visit) {
  Event& event = Emit(scene, ChangeKind::kTransitioned);
  event.prev_node = arrival.prev_node;
  event.node = scene.machine.nodes[arrival.node].id;
  event.transition = arrival.transition;
  event.visit = visit;
  event.client = arrival.client;
  event.params = arrival.params;
  return event;
}

bool CountsEntries(const Node& node) {
  return node.settings->max_visits > 0 || node.kind == NodeKind::kDelay;
}

void Settle(Scene& scene, Token& token) {
  const Node& node = scene.machine.nodes[token.node];
  token.available_at = scene.now;
  switch (node.kind) {
    case NodeKind::kWork:
      token.state = TokenState::kReady;
      break;
    case NodeKind::kDelay: {
      const double fraction = Fraction(scene.random, token.visit);
      token.state = TokenState::kWaiting;
      token.available_at =
          After(scene.now,
                DelayOf(node.settings->delay, scene.instance.Entries(node.id), fraction));
      break;
    }
    case NodeKind::kHeld:
      token.state = TokenState::kHeld;
      token.available_at = kNever;
      break;
    case NodeKind::kManual:
    case NodeKind::kGate:
      token.state = TokenState::kWaiting;
      token.available_at = kNever;
      break;
    case NodeKind::kFinal:
      token.state = TokenState::kDone;
      break;
  }
}

// Puts the token at `slot` on a node, past those that have no visits left, and emits a TRANSITIONED
// for each step (`announce` false: the start node, which STARTED already names).
// Answers false when the instance stopped on the way.
bool Enter(Scene& scene, size_t slot, Arrival arrival, bool announce = true) {
  Instance& instance = scene.instance;
  const uint64_t visit = /*mutant visit-number-reused*/ ++instance.last_visit /*end*/;
  for (size_t hops = 0;; ++hops) {
    if (announce) EmitTransition(scene, arrival, visit);
    announce = true;
    const Node& node = scene.machine.nodes[arrival.node];
    const uint32_t most = node.settings->max_visits;
    if (/*mutant max-visits-ignored*/ most == 0 || instance.Entries(node.id) < most /*end*/) break;
    if (hops > scene.machine.nodes.size()) {
      if (instance.cancel_requested) return StopCancelled(scene), false;
      Stop(scene, InstanceResult::kError, arrival.node, visit,
           "no node left to go to: every node on the way had been visited as often as its "
           "max_visits allows");
      return false;
    }
    arrival = {.node = node.FindTransition(kExhausted)->targets.front(), .prev_node = node.id,
               .transition = std::string(kExhausted), .params = std::move(arrival.params),
               .client = {}};
  }
  const Node& node = scene.machine.nodes[arrival.node];
  if (CountsEntries(node)) ++instance.Entries(node.id);
  Token token;
  token.node = arrival.node;
  token.visit = visit;
  token.params = std::move(arrival.params);
  Settle(scene, token);
  if (slot < instance.tokens.size()) {
    instance.tokens.Replace(slot, std::move(token));
  } else {
    instance.tokens.Add(std::move(token));
  }
  if (node.kind != NodeKind::kFinal) return true;
  if (instance.cancel_requested) {
    StopCancelled(scene);
  } else {
    Stop(scene, ResultOf(node.result), arrival.node, visit);
  }
  return false;
}

// What the worker of a live claim had done so far is lost to another's report: it lasted at least
// this long. The moment does not depend on how long it would have taken, so it is fair to count.
void SampleAbandoned(Scene& scene, const Token& token, ClaimId winner, Event& event) {
  const Node& node = scene.machine.nodes[token.node];
  for (const Claim& claim : token.claims) {
    if (!claim.Live() || claim.id == winner) continue;
    event.samples.push_back(
        {node.id, scene.now - claim.claim_time, true, claim.sampled, claim.retry});
  }
}

// Leaves the visit of the token at `slot` along `edge`; answers the nodes entered.
std::vector<std::string> Follow(Scene& scene, size_t slot, const Edge& edge, Arrival arrival) {
  Instance& instance = scene.instance;
  std::vector<std::string> entered;
  for (size_t i = 0; i < edge.targets.size(); ++i) {
    if (i > 0) slot = instance.tokens.size();
    Arrival next = arrival;
    next.node = edge.targets[i];
    const bool goes_on = Enter(scene, slot, std::move(next));
    for (auto event = scene.events.rbegin(); event != scene.events.rend(); ++event) {
      if (event->kind != ChangeKind::kTransitioned) continue;
      entered.push_back(event->node);
      break;
    }
    if (!goes_on) break;
  }
  return entered;
}

// The engine plans it as soon as it is PLANNING.
void BeginPlanning(Scene& scene) {
  Instance& instance = scene.instance;
  PlanState& plan = *instance.plan;
  if (!scene.key_holder.empty()) {
    const std::string holder = HeldBy(scene.key, scene.key_holder);
    if (scene.on_conflict == OnConflict::kFail) {
      return Stop(scene, InstanceResult::kError, kNoNode, 0, holder);
    }
    if (std::exchange(plan.waits_for_key, true)) return;
    SetState(scene, InstanceState::kScheduled);
    Emit(scene, ChangeKind::kScheduled).note = holder + "; it waits its turn";
    return;
  }
  plan.waits_for_key = false;
  plan.key = scene.key;
  SetState(scene, InstanceState::kPlanning);
  // One that is not zero is of an earlier version.
  if (instance.start_time == Timestamp()) instance.start_time = scene.now;
  instance.hold = false;
  Emit(scene, ChangeKind::kStarted).node = "/start";
}

void Begin(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.plan) return BeginPlanning(scene);
  SetState(scene, InstanceState::kRunning);
  instance.start_time = scene.now;
  instance.hold = false;
  Event& event = Emit(scene, ChangeKind::kStarted);
  event.node = scene.machine.nodes[scene.machine.start].id;
  event.visit = instance.last_visit + 1;
  Enter(scene, 0, {.node = scene.machine.start, .prev_node = {}, .transition = {}, .params = {},
                   .client = {}}, /*announce=*/false);
}

Error Stale(const Instance& instance, const std::string& why) {
  return Refused(Reason::kStaleClaim, "the claim of " + Named(instance) + " is stale: " + why);
}

Error Stopped(const Instance& instance) {
  return Refused(Reason::kInstanceStopped, Named(instance) + " has stopped with " +
                                               std::string(Name(instance.result)) +
                                               "; nothing moves it any more");
}

// Whether a claim of an earlier epoch that is not listed was handed out and lost in a crash before
// any fsync covered it, rather than voided.
bool LostInCrash(const Scene& scene, const Token& token, ClaimId id) {
  return /*mutant never-handed-out-accepted*/ id.epoch < scene.epoch &&
         id.epoch > token.forgotten_epoch /*end*/ && id > scene.born_after &&
         scene.machine.nodes[token.node].kind == NodeKind::kWork &&
         !scene.machine.nodes[token.node].AtMostOnce();
}

// The token that a worker's report is about.
Result<size_t> ClaimedSlot(Scene& scene, const ClaimRef& ref) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) {
    return Stale(instance, "the instance has stopped with " + std::string(Name(instance.result)));
  }
  const auto slot = instance.tokens.SlotOf(ref.visit);
  if (!slot) {
    return Stale(instance, "visit " + std::to_string(ref.visit) +
                               " is over, another report or an upgrade ended it; the instance "
                               "is at visit " + std::to_string(instance.last_visit) +
                               (Where(scene).empty() ? "" : ", " + Quoted(Where(scene))));
  }
  const Token& token = std::as_const(instance.tokens)[*slot];
  const Claim* claim = token.FindClaim(ref.id);
  if (/*mutant given-back-accepted*/ claim ? claim->given_back
                                           : !LostInCrash(scene, token, ref.id) /*end*/) {
    return Stale(instance, "it was given back; ask Ready for a new one");
  }
  return *slot;
}

// The token that a call from outside is about.
Result<size_t> OutsideSlot(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (IsPlanned(scene)) return StepSlot(scene, node);
  if (!node.empty()) {
    const NodeIndex index = scene.machine.Find(node);
    if (index == kNoNode) {
      return Error{Code::kNotFound, Reason::kNoSuchNode,
                   "machine " + Quoted(instance.machine) + " version " +
                       std::to_string(instance.version) + " has no node " + Quoted(node)};
    }
    auto it = std::ranges::find(instance.tokens, index, &Token::node);
    if (it == instance.tokens.end()) {
      return Refused(
          Reason::kIllegalTransition,
          Named(instance) + " does not stand at " + Quoted(node) +
              (instance.tokens.empty() ? ", it has not begun" : " but at " + Quoted(Where(scene))));
    }
    return static_cast<size_t>(it - instance.tokens.begin());
  }
  if (instance.tokens.empty()) {
    return Refused(Reason::kIllegalTransition,
                   Named(instance) + " has not begun; it is " + std::string(Name(instance.state)));
  }
  if (instance.tokens.size() > 1) {
    std::string nodes;
    for (const Token& token : instance.tokens) {
      nodes += (nodes.empty() ? "" : ", ") + std::string(NodeName(scene.machine, token.node));
    }
    return Refused(Reason::kAmbiguousNode, Named(instance) + " stands on several nodes (" + nodes +
                                               "): say which one with 'node'");
  }
  return size_t{0};
}

Result<const Edge*> LegalEdge(const Scene& scene, const Token& token,
                              const std::string& transition) {
  const Node& node = scene.machine.nodes[token.node];
  const bool reserved = transition.starts_with(kSystemPrefix);
  const Edge* edge = reserved ? nullptr : node.FindTransition(transition);
  if (edge) return edge;
  const std::string legal = node.LegalTransitions();
  return Refused(Reason::kIllegalTransition,
                 Named(scene.instance) + " stands at " + Quoted(node.id) +
                     ", which has no transition " + Quoted(transition) +
                     (reserved ? " that may be reported: 'dfsmr.' belongs to the server" : "") +
                     (legal.empty() ? "; nothing leads on from there" : "; it has: " + legal));
}

}  // namespace

void inside::SampleReport(Scene& scene, const Token& token, const Claim* claim, Event& event) {
  const Node& node = scene.machine.nodes[token.node];
  if (claim) {
    event.samples.push_back(
        {node.id, scene.now - claim->claim_time, false, claim->sampled, claim->retry});
  }
  SampleAbandoned(scene, token, claim ? claim->id : ClaimId{}, event);
}

namespace {

void TrimClaims(Token& token) {
  while (token.claims.size() > limits::kClaimsPerVisit) {
    auto oldest = std::ranges::find_if_not(token.claims, &Claim::Live);
    if (oldest == token.claims.end()) return;
    token.forgotten_epoch = std::max(token.forgotten_epoch, oldest->id.epoch);
    token.claims.erase(oldest);
  }
}

}  // namespace

void inside::GiveBack(Scene& scene, Token& token, Claim& claim, const std::string& client,
                      std::string note) {
  /*mutant given-back-stays-alive*/ claim.given_back = true; /*end*/
  Event& event = Emit(scene, ChangeKind::kRelinquished);
  event.node = NodeName(scene.machine, token.node);
  event.visit = token.visit;
  event.attempt = claim.attempt;
  event.client = client.empty() ? claim.worker : client;
  event.note = std::move(note);
}

namespace {

// A claim that a crash had lost, and whose worker is still there: it counts from now on.
std::vector<Claim>::iterator Recover(Scene& scene, Token& token, ClaimId id) {
  Claim claim;
  claim.id = id;
  claim.worker = "unknown";  // who it is was lost, too
  claim.attempt = ++token.attempt;
  claim.claim_time = scene.now;
  Event& event = Emit(scene, ChangeKind::kClaimed);
  event.node = NodeName(scene.machine, token.node);
  event.visit = token.visit;
  event.attempt = claim.attempt;
  event.client = claim.worker;
  event.note = "claimed before a crash, and heard of again";
  return token.claims.insert(token.claims.end(), std::move(claim));
}

// Those of its claims that a crash lost are void, as if they had been given back.
void ForgetLost(Scene& scene, Token& token) {
  token.forgotten_epoch = std::max(token.forgotten_epoch, scene.epoch - 1);
}

void FreeIfUnclaimed(Scene& scene, uint64_t visit) {
  Token& token = *scene.instance.tokens.FindMutable(visit);
  /*mutant timed-out-not-ready*/ if (token.state != TokenState::kClaimed || token.HasLiveClaim())
    return;                          /*end*/
  token.state = TokenState::kReady;  // as old as it was: available_at stays
  DropIfCancelled(scene, visit);
}

template <typename Predicate>
std::vector<uint64_t> VisitsWith(const Instance& instance, Predicate wanted) {
  std::vector<uint64_t> visits;
  for (const Token& token : instance.tokens) {
    if (wanted(token)) visits.push_back(token.visit);
  }
  return visits;
}

// The hash of an instance's name that a claim carries, so that a claim shown at another instance is
// refused (FNV-1a).
uint32_t Tag(const Instance& instance) {
  uint32_t hash = 2166136261u;
  auto mix = [&hash](std::string_view text) {
    for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
    hash = hash * 16777619u;
  };
  mix(instance.ns);
  mix(instance.id);
  return hash;
}

void AppendHex(std::string& text, uint64_t number) {
  char digits[17];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, 16).ptr;
  text.append(digits, end);
}

}  // namespace

std::string ClaimText(const Instance& instance, uint64_t visit, ClaimId id) {
  std::string text;
  text.reserve(32);
  for (uint64_t number : {visit, id.epoch, id.serial}) {
    AppendHex(text, number);
    text += '-';
  }
  AppendHex(text, Tag(instance));
  return text;
}

Result<ClaimRef> ParseClaim(const Instance& instance, std::string_view text) {
  uint64_t numbers[4];
  const char* at = text.data();
  const char* const end = at + text.size();
  bool good = true;
  for (int i = 0; i < 4 && good; ++i) {
    const auto [next, error] = std::from_chars(at, end, numbers[i], 16);
    good = error == std::errc() && (i == 3 ? next == end : next != end && *next == '-');
    at = next + 1;
  }
  if (!good) return Stale(instance, Quoted(text.substr(0, 64)) + " is no claim that Ready gave");
  if (/*mutant claim-of-another-instance*/ numbers[3] != Tag(instance) /*end*/)
    return Stale(instance, "it belongs to another instance");
  return ClaimRef{numbers[0], {numbers[1], numbers[2]}};
}

// It began on an earlier version, was moved to one that is a plan, and has not been planned since.
static bool BegunBefore(const Instance& instance) {
  return instance.plan && instance.plan->upgraded;
}

// It must have begun by then. What has begun once may wait for its singleton again.
static Timestamp LatestStart(const Instance& instance) {
  return BegunBefore(instance) ? kNever : instance.start_before;
}

// Planning began, though it stands nowhere now.
static bool Begun(const Instance& instance) {
  return instance.start_time != Timestamp() && instance.state != InstanceState::kScheduled;
}

Timestamp NextStart(const Instance& instance) {
  if (instance.Stopped() || !instance.tokens.empty() || Begun(instance)) return kNever;
  const bool waits = instance.hold || !instance.after.empty() ||
                     (instance.plan && instance.plan->waits_for_key) ||
                     instance.state != InstanceState::kScheduled;
  if (waits) return LatestStart(instance);
  return std::min(instance.start_at, LatestStart(instance));
}

void Start(Scene& scene) {
  Instance& instance = scene.instance;
  instance.state = InstanceState::kScheduled;
  instance.result = InstanceResult::kPending;
  if (/*mutant begins-before-prerequisites*/ !instance.hold && instance.after.empty() &&
      instance.start_at <= scene.now /*end*/) {
    Begin(scene);
    return;
  }
  SetState(scene, InstanceState::kScheduled);
  Event& event = Emit(scene, ChangeKind::kScheduled);
  if (instance.hold) event.note = "held until it is resumed";
}

void PrerequisiteStopped(Scene& scene, const std::string& id, InstanceResult result) {
  Instance& instance = scene.instance;
  auto it = std::ranges::find(instance.after, id, &Instance::Prerequisite::instance);
  if (it == instance.after.end() || instance.Stopped()) return;
  if (!it->any_result && result != InstanceResult::kSuccess) {
    Stop(scene, InstanceResult::kError, kNoNode, 0,
         "it was to start after instance " + Quoted(id) + ", which ended with " +
             std::string(Name(result)) + " instead of SUCCESS");
    return;
  }
  instance.after.erase(it);
  if (instance.after.empty()) StartDue(scene);
}

void KeyFreed(Scene& scene) {
  Instance& instance = scene.instance;
  // A new version may be a machine, which waits for nothing.
  if (!instance.plan || !instance.plan->waits_for_key || !scene.key_holder.empty()) return;
  // When its time has not come (a clock may go back over a restart) it asks again then.
  if (instance.state == InstanceState::kScheduled) instance.plan->waits_for_key = false;
  StartDue(scene);
}

void StartDue(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.Stopped() || !instance.tokens.empty() || Begun(instance)) return;
  const bool waits = instance.plan && instance.plan->waits_for_key && !scene.key_holder.empty();
  const bool due = instance.state == InstanceState::kScheduled && !instance.hold && !waits &&
                   instance.after.empty() && instance.start_at <= scene.now;
  const Timestamp latest = LatestStart(instance);
  if (scene.now > latest || (!due && scene.now >= latest)) {
    Stop(scene, InstanceResult::kError, kNoNode, 0, "it could not start before its start_before");
  } else if (due) {
    Begin(scene);
  }
}

const Claim& TakeClaim(Scene& scene, Token& token, ClaimArgs args) {
  Claim claim;
  claim.id = args.id;
  claim.worker = std::move(args.worker);
  claim.attempt = ++token.attempt;
  claim.claim_time = scene.now;
  claim.deadline = args.deadline;
  claim.session = args.session;
  claim.retry = token.TimedOutBefore();
  token.state = TokenState::kClaimed;
  if (token.step) {
    if (token.step->start_time == Timestamp()) token.step->start_time = scene.now;
    if (!args.key.empty()) token.step->key = std::move(args.key);
  }
  Event& event = Emit(scene, ChangeKind::kClaimed);
  event.node = NodeName(scene.machine, token.node);
  event.visit = token.visit;
  event.attempt = claim.attempt;
  event.client = claim.worker;
  token.claims.push_back(std::move(claim));
  TrimClaims(token);
  return token.claims.back();
}

Result<Answer> Report(Scene& scene, const ReportArgs& args) {
  Instance& instance = scene.instance;
  Result<size_t> slot = size_t{0};
  ClaimRef ref;
  if (args.claim.empty()) {
    slot = OutsideSlot(scene, args.node);
  } else {
    auto parsed = ParseClaim(instance, args.claim);
    if (!parsed) return parsed.error();
    ref = *parsed;
    const auto& last = instance.last_answer;
    if (last && last->claim == ref.id && last->transition == args.transition) {
      Answer again = *last;
      again.repeated = true;
      return again;
    }
    slot = ClaimedSlot(scene, ref);
  }
  if (!slot) return slot.error();
  if (args.fault) return *args.fault;
  if (IsPlanned(scene)) return ReportStep(scene, *slot, ref.id, args);
  const Token left = std::as_const(instance.tokens)[*slot];
  auto edge = LegalEdge(scene, left, args.transition);
  if (!edge) return edge.error();

  const Claim* claim = ref.id ? left.FindClaim(ref.id) : nullptr;
  Arrival arrival{.node = kNoNode, .prev_node = scene.machine.nodes[left.node].id,
                  .transition = args.transition, .params = args.params, .client = args.client};
  if (arrival.client.empty() && claim) arrival.client = claim->worker;
  if (!args.error.empty()) instance.error = args.error;
  const size_t first = scene.events.size();
  Answer answer;
  answer.claim = ref.id;
  answer.transition = args.transition;
  answer.prev_node = arrival.prev_node;
  answer.nodes = Follow(scene, *slot, **edge, std::move(arrival));
  answer.visit = scene.events[first].visit;
  StopIfCancelled(scene);
  answer.state = instance.state;
  answer.result = instance.result;

  Event& event = scene.events[first];
  event.attempt = claim ? claim->attempt : 0;
  event.note = args.error;
  /*mutant report-ends-no-visit*/ event.left_visit = left.visit; /*end*/
  event.output = args.output;
  SampleReport(scene, left, claim, event);
  if (ref.id) {
    event.answer = answer;
    instance.last_answer = answer;
  }
  return answer;
}

Result<std::string> Relinquish(Scene& scene, std::string_view text, const std::string& client) {
  Instance& instance = scene.instance;
  if (text.empty()) {
    if (instance.Stopped()) return Stopped(instance);
    const std::string node = Where(scene);
    for (uint64_t visit : VisitsWith(instance, [](const Token& token) {
           return token.state == TokenState::kReady || token.state == TokenState::kClaimed;
         })) {
      Token& token = *instance.tokens.FindMutable(visit);
      ForgetLost(scene, token);
      for (Claim& claim : token.claims) {
        if (!claim.given_back) GiveBack(scene, token, claim, client);
      }
      FreeIfUnclaimed(scene, visit);
    }
    StopIfCancelled(scene);
    return node;
  }
  auto ref = ParseClaim(instance, text);
  if (!ref) return ref.error();
  auto slot = ClaimedSlot(scene, *ref);
  if (!slot) return slot.error();
  Token& token = instance.tokens[*slot];
  std::string node(NodeName(scene.machine, token.node));
  auto claim = std::ranges::find(token.claims, ref->id, &Claim::id);
  if (claim == token.claims.end()) claim = Recover(scene, token, ref->id);
  GiveBack(scene, token, *claim, client);
  FreeIfUnclaimed(scene, ref->visit);
  StopIfCancelled(scene);
  return node;
}

void Unclaim(Scene& scene, uint64_t visit, ClaimId id, bool told) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token) return;
  auto claim = std::ranges::find(token->claims, id, &Claim::id);
  if (claim == token->claims.end() || claim->given_back) return;
  --token->attempt;
  if (token->attempt == 0 && token->step && token->step->event.empty()) token->step->key.clear();
  if (told) {
    GiveBack(scene, *token, *claim, "", "its worker never saw it");
  } else {
    token->claims.erase(claim);
  }
  FreeIfUnclaimed(scene, visit);
  StopIfCancelled(scene);
}

Result<Extension> Extend(Scene& scene, std::string_view text, Timestamp deadline, double progress) {
  auto ref = ParseClaim(scene.instance, text);
  if (!ref) return ref.error();
  auto slot = ClaimedSlot(scene, *ref);
  if (!slot) return slot.error();
  Token& token = scene.instance.tokens[*slot];
  auto claim = std::ranges::find(token.claims, ref->id, &Claim::id);
  if (claim == token.claims.end()) {
    claim = Recover(scene, token, ref->id);
    claim->deadline = deadline;
  }
  if (claim->timed_out) {
    claim->timed_out = false;
    claim->deadline = deadline;
  }
  if (claim->deadline != kNever) claim->deadline = std::max(claim->deadline, deadline);
  if (progress > 0) claim->progress = progress;
  if (token.step && progress > 0) {
    const double weight = WeightOf(scene, scene.machine.nodes[token.home]);
    scene.instance.plan->partial += (progress - token.step->progress) * weight;
    token.step->progress = progress;
  }
  token.state = TokenState::kClaimed;
  return Extension{claim->deadline, scene.instance.cancel_requested};
}

void TimeOut(Scene& scene, uint64_t visit, ClaimId id) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot || scene.instance.Stopped()) return;
  Token* token = &scene.instance.tokens.Mutable(*slot);
  auto claim = std::ranges::find(token->claims, id, &Claim::id);
  if (claim == token->claims.end() || !claim->Live() || claim->deadline > scene.now) return;
  claim->timed_out = true;
  const Node& node = scene.machine.nodes[token->node];
  {
    Event& event = Emit(scene, ChangeKind::kTimedOut);
    event.prev_node = node.id;
    event.node = kTimeoutNode;
    event.visit = visit;
    event.attempt = claim->attempt;
    event.client = claim->worker;
    const Duration lasted = claim->deadline - claim->claim_time;
    event.samples.push_back({node.id, lasted, true, claim->sampled, claim->retry});
    claim->sampled = lasted;
  }
  if (const Edge* edge = node.FindTransition(kTimeoutNode)) {
    SampleAbandoned(scene, *token, id, scene.events.back());
    Follow(scene, *slot, *edge,
           {.node = kNoNode, .prev_node = std::string(kTimeoutNode),
            .transition = std::string(kTimeoutNode), .params = token->params, .client = {}});
  } else {
    FreeIfUnclaimed(scene, visit);
  }
  StopIfCancelled(scene);
}

void EndWait(Scene& scene, uint64_t visit) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot) return;
  const Token& token = std::as_const(scene.instance.tokens)[*slot];
  if (token.state != TokenState::kWaiting || token.available_at > scene.now) return;
  if (IsPlanned(scene)) return EndWaitOfStep(scene, *slot);
  const Node& node = scene.machine.nodes[token.node];
  const Edge* edge = node.FindTransition("ok");
  const size_t first = scene.events.size();
  Follow(scene, *slot, *edge,
         {.node = kNoNode, .prev_node = node.id, .transition = "ok", .params = token.params,
          .client = {}});
  scene.events[first].left_visit = visit;
}

Result<Ok> Pause(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (instance.state == InstanceState::kPaused) return Ok{};
  // What is left of a plan that is to be cancelled is to hear of it.
  if (instance.plan && instance.cancel_requested) return Ok{};
  if (instance.plan) {
    instance.plan->pause_requested = true;
    instance.plan->key.clear();
  }
  SetState(scene, InstanceState::kPaused);
  Event& event = Emit(scene, ChangeKind::kPaused);
  event.node = Where(scene);
  event.visit = VisitOf(scene);
  return Ok{};
}

namespace {

// Which tokens Resume and Skip mean: those at `node`, or all. Their visits.
Result<std::vector<uint64_t>> Chosen(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  if (node.empty()) return VisitsWith(instance, [](const Token&) { return true; });
  const NodeIndex index = scene.machine.Find(node);
  if (index == kNoNode) {
    return Error{Code::kNotFound, Reason::kNoSuchNode,
                 "machine " + Quoted(instance.machine) + " has no node " + Quoted(node)};
  }
  return VisitsWith(instance, [index](const Token& token) { return token.node == index; });
}

}  // namespace

// Runs a claimed visit again: its claims are void, whatever became of their workers.
void inside::Rerun(Scene& scene, uint64_t visit) {
  Token& token = *scene.instance.tokens.FindMutable(visit);
  for (Claim& claim : token.claims) {
    if (!claim.given_back) GiveBack(scene, token, claim, "", "resumed with force");
  }
  ForgetLost(scene, token);
  FreeIfUnclaimed(scene, visit);
}

Result<Ok> Resume(Scene& scene, const std::string& node, bool force) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (IsPlanned(scene)) return ResumeSteps(scene, node, force);
  auto chosen = Chosen(scene, node);
  if (!chosen) return chosen.error();
  std::erase_if(*chosen, [&](uint64_t visit) {
    return !force || std::as_const(instance.tokens).Find(visit)->state != TokenState::kClaimed;
  });
  if (!node.empty() && chosen->empty()) {
    return Refused(Reason::kNotHeld, "nothing of " + Named(instance) + " is held at " +
                                         Quoted(node) +
                                         (force ? "" : "; 'force' runs claimed work again"));
  }
  const bool held = instance.hold;
  const bool paused = instance.state == InstanceState::kPaused && node.empty();
  if (!held && !paused && chosen->empty()) return Ok{};
  if (paused) {
    if (instance.plan) instance.plan->pause_requested = false;
    SetState(scene, !instance.tokens.empty() ? InstanceState::kRunning
                    : BegunBefore(instance) && !instance.plan->waits_for_key
                        ? InstanceState::kPlanning
                        : InstanceState::kScheduled);
  }
  instance.hold = false;
  Event& event = Emit(scene, ChangeKind::kResumed);
  event.node = node.empty() ? Where(scene) : node;
  event.visit = VisitOf(scene);
  for (uint64_t visit : *chosen) Rerun(scene, visit);
  if (instance.state == InstanceState::kScheduled) StartDue(scene);
  StopIfCancelled(scene);
  return Ok{};
}

Result<Ok> Skip(Scene& scene, const std::string& node) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  if (IsPlanned(scene)) return SkipStep(scene, node);
  auto chosen = Chosen(scene, node);
  if (!chosen) return chosen.error();
  return Refused(Reason::kNotHeld, "nothing of " + Named(instance) + " is held" +
                                       (node.empty() ? "" : " at " + Quoted(node)) +
                                       "; only a held step of a plan can be skipped");
}

Result<Ok> Cancel(Scene& scene, CancelMode mode) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) {
    if (instance.result == InstanceResult::kCancelled) return Ok{};
    return Stopped(instance);
  }
  instance.cancel_requested = true;
  if (mode == CancelMode::kKill) instance.killed = true;
  if (mode == CancelMode::kForce || mode == CancelMode::kKill) {
    instance.forced = true;
    StopCancelled(scene);
    return Ok{};
  }
  if (IsPlanned(scene)) {
    CancelSteps(scene);
    // What is left is to hear of it, also when somebody had paused it.
    if (!instance.tokens.empty() && instance.state == InstanceState::kPaused) {
      instance.plan->pause_requested = false;
      SetState(scene, scene.machine.graph->planning ? InstanceState::kPlanning
                                                    : InstanceState::kRunning);
      Emit(scene, ChangeKind::kResumed).note = "to be cancelled";
    }
  }
  StopIfCancelled(scene);
  return Ok{};
}

void Upgrade(Scene& scene, const Machine& next, uint32_t next_version) {
  Instance& instance = scene.instance;
  const std::string from = Where(scene);
  instance.version = next_version;
  instance.entries.clear();
  const bool begun = !instance.tokens.empty() || instance.state == InstanceState::kPlanning ||
                     BegunBefore(instance);
  Event& event = Emit(scene, ChangeKind::kUpgraded);
  event.prev_node = from;
  event.node = kUpgradedNode;
  event.visit = VisitOf(scene);
  for (const Token& token : instance.tokens) SampleAbandoned(scene, token, {}, event);
  if (instance.tokens.size() != 1) instance.tokens.Clear();
  if (next.Kind() != "machine") {
    // Planned anew, whatever it was; the singleton stays its own meanwhile. One that waited for a
    // singleton asks again, since the new version may want another or none.
    PlanState plan;
    if (instance.plan) {
      plan.key = instance.plan->key;
      plan.pause_requested = instance.plan->pause_requested;
      plan.children = plan.first_child = instance.plan->children;
    }
    plan.upgraded = begun;
    instance.plan = std::move(plan);
    instance.tokens.Clear();
    instance.tokens.ForgetRows();  // they go with the graph that they were of
    const bool paused = instance.state == InstanceState::kPaused;
    if (begun && !paused) SetState(scene, InstanceState::kPlanning);
    if (paused) instance.plan->pause_requested = true;
    if (instance.cancel_requested) StopCancelled(scene);  // nobody works on it any more
    return;
  }
  instance.plan.reset();
  if (!begun) return;  // it will start on the new version
  // It may have waited for the singleton of the version that it leaves.
  if (instance.state != InstanceState::kPaused) SetState(scene, InstanceState::kRunning);
  Scene on_next{next, instance, scene.now, scene.epoch, scene.random, scene.events, {}, {}};
  Enter(on_next, 0, {.node = next.start, .prev_node = std::string(kUpgradedNode),
                     .transition = std::string(kUpgradedNode), .params = {}, .client = {}});
  StopIfCancelled(on_next);
}

void Abort(Scene& scene, uint32_t by_version) {
  Instance& instance = scene.instance;
  if (instance.cancel_requested) return StopCancelled(scene);  // nobody works on it any more
  Event& event = Emit(scene, ChangeKind::kAborted);
  event.prev_node = Where(scene);
  event.node = kAbortedNode;
  event.visit = VisitOf(scene);
  for (const Token& token : instance.tokens) SampleAbandoned(scene, token, {}, event);
  Stop(scene, InstanceResult::kAborted, kAbortedIndex, instance.last_visit,
       "version " + std::to_string(by_version) + " of machine '" + instance.machine +
           "' aborts what earlier versions started");
}

}  // namespace dfsmr
