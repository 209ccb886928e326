// Claims: handed out, given back, extended, timed out, and refused when they are late.
#include <algorithm>
#include <charconv>

#include "fsm/base/epoch.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr {

ClaimRef ClaimRef::Read(std::string_view text) {
  uint64_t numbers[4];
  const char* at = text.data();
  const char* const end = at + text.size();
  bool good = true;
  for (int i = 0; i < 4 && good; ++i) {
    const auto [next, error] = std::from_chars(at, end, numbers[i], 16);
    good = error == std::errc() && (i == 3 ? next == end : next != end && *next == '-');
    at = next + 1;
  }
  ClaimRef claim;
  claim.read = good;
  if (good) {
    claim.visit = numbers[0];
    claim.id = {numbers[1], numbers[2]};
    claim.tag = numbers[3];
  } else {
    claim.unreadable = Head(text, 64);
  }
  return claim;
}

}  // namespace dfsmr

namespace dfsmr::rules {
namespace {

// A hash of the instance's name (FNV-1a). Claims carry it, so that a claim is refused at another
// instance.
uint32_t Tag(std::string_view ns, std::string_view id) {
  uint32_t hash = 2166136261u;
  auto mix = [&hash](std::string_view text) {
    for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
    hash = hash * 16777619u;
  };
  mix(ns);
  mix(id);
  return hash;
}

uint32_t Tag(const Instance& instance) { return Tag(instance.ns, instance.id); }

void AppendHex(std::string& text, uint64_t number) {
  char digits[17];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, 16).ptr;
  text.append(digits, end);
}

}  // namespace

ClaimRef ClaimOf(const Instance& instance, uint64_t visit, ClaimId id) {
  ClaimRef claim;
  claim.visit = visit;
  claim.id = id;
  claim.tag = Tag(instance);
  claim.read = true;
  return claim;
}

std::string ClaimText(const Instance& instance, uint64_t visit, ClaimId id) {
  return ClaimText(instance.ns, instance.id, visit, id);
}

std::string ClaimText(std::string_view ns, std::string_view instance, uint64_t visit, ClaimId id) {
  std::string text;
  text.reserve(32);
  for (uint64_t number : {visit, id.epoch, id.serial}) {
    AppendHex(text, number);
    text += '-';
  }
  AppendHex(text, Tag(ns, instance));
  return text;
}

Result<Ok> CheckClaim(const Instance& instance, const ClaimRef& claim) {
  if (!claim.read) {
    return Stale(instance, Quoted(claim.unreadable) + " is no claim that Ready gave");
  }
  if (/*mutant claim-of-another-instance*/ claim.tag != Tag(instance) /*end*/)
    return Stale(instance, "it belongs to another instance");
  return Ok{};
}
namespace {

// Whether a claim that is not listed was lost in a crash, before any fsync covered it. Otherwise it
// is void: one of another life was handed out after the backup that this store was made of.
bool LostInCrash(const Scene& scene, const Token& token, ClaimId id) {
  return /*mutant never-handed-out-accepted*/ id.epoch < scene.epoch &&
         id.epoch > token.forgotten_epoch /*end*/ && id > scene.born_after &&
         LifeOfEpoch(id.epoch) == LifeOfEpoch(scene.epoch) &&
         scene.machine.nodes[token.node].kind == NodeKind::kWork &&
         !scene.machine.nodes[token.node].AtMostOnce();
}

}  // namespace

bool MayStillReport(const Scene& scene, const Token& token, ClaimId id) {
  const Claim* listed = token.FindClaim(id);
  return /*mutant given-back-accepted*/ listed ? !listed->given_back
                                               : LostInCrash(scene, token, id) /*end*/;
}

Result<size_t> ClaimedSlot(Scene& scene, const ClaimRef& claim) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) {
    return Stale(instance, "the instance has stopped with " + std::string(Name(instance.result)));
  }
  const auto slot = instance.tokens.SlotOf(claim.visit);
  if (!slot) {
    return Stale(instance, "visit " + std::to_string(claim.visit) +
                               " is over, another report or an upgrade ended it; the instance "
                               "is at visit " +
                               std::to_string(instance.last_visit) +
                               (Where(scene).empty() ? "" : ", " + Quoted(Where(scene))));
  }
  const Token& token = std::as_const(instance.tokens)[*slot];
  if (!MayStillReport(scene, token, claim.id)) {
    return Stale(instance, "it was given back; ask Ready for a new one");
  }
  return *slot;
}

void SampleAbandoned(Scene& scene, const Token& token, ClaimId winner, Event& event) {
  const Node& node = scene.machine.nodes[token.node];
  for (const Claim& claim : token.claims) {
    if (!claim.Live() || claim.id == winner || !claim.Begun()) continue;
    event.samples.push_back({node.id, scene.now - claim.BeginTime(),
                             /*mutant planted-07*/ true /*end*/, claim.sampled, claim.retry});
  }
}

void SampleReport(Scene& scene, const Token& token, const Claim* claim, Event& event) {
  const Node& node = scene.machine.nodes[token.node];
  if (claim && claim->Begun()) {
    event.samples.push_back(
        {node.id, scene.now - claim->BeginTime(), false, claim->sampled, claim->retry});
    event.begin_time = claim->BeginTime();
  } else if (claim) {
    event.begin_time = scene.now;  // the report begins and ends it
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

void HoldLimits(Token& token, Timestamp now) {
  token.limits->state = TokenLimits::State::kHolds;
  token.limits->since = now;
}

// Lists a claim that a crash had lost and whose worker still has it. It counts from now on, and its
// token holds what it asks for, though another may have got the place meanwhile. `agent`: its worker,
// where that is one.
std::vector<Claim>::iterator Recover(Scene& scene, Token& token, ClaimId id,
                                     const std::string& agent = "") {
  Claim claim;
  claim.id = id;
  claim.worker = agent.empty() ? "unknown" : agent;  // of others the name was lost, too
  claim.attempt = ++token.attempt;
  claim.claim_time = scene.now;
  if (token.limits) HoldLimits(token, scene.now);
  Event& event = Emit(scene, ChangeKind::kClaimed);
  event.node = NodeName(scene.machine, token.node);
  event.visit = token.visit;
  event.attempt = claim.attempt;
  event.client = claim.worker;
  event.note = "claimed before a crash, and heard of again";
  return token.claims.insert(token.claims.end(), std::move(claim));
}

// Makes the claims of the token that a crash lost void, as if they had been given back.
void ForgetLost(Scene& scene, Token& token) {
  token.forgotten_epoch = std::max(token.forgotten_epoch, scene.epoch - 1);
}

void FreeIfUnclaimed(Scene& scene, uint64_t visit) {
  Token& token = *scene.instance.tokens.FindMutable(visit);
  /*mutant timed-out-not-ready*/ if (token.state != TokenState::kClaimed || token.HasLiveClaim())
    return;                          /*end*/
  token.state = TokenState::kReady;  // its place in line stays: available_at
  DropIfCancelled(scene, visit);
}

}  // namespace

void GiveBack(Scene& scene, Token& token, Claim& claim, const std::string& client,
              std::string note) {
  /*mutant given-back-stays-alive*/ claim.given_back = true; /*end*/
  Event& event = Emit(scene, ChangeKind::kRelinquished);
  event.node = NodeName(scene.machine, token.node);
  event.visit = token.visit;
  event.attempt = claim.attempt;
  event.client = client.empty() ? claim.worker : client;
  event.note = std::move(note);
  if (claim.Begun()) event.begin_time = claim.BeginTime();
}

void KeepCheckpoint(Token& token, const std::string& checkpoint) {
  if (checkpoint.empty()) return;
  if (!token.handling) token.handling = Handling();
  /*mutant checkpoint-lost*/ token.handling->checkpoint = checkpoint; /*end*/
}
namespace {

// The claim was no attempt: its number is given again.
void NoAttempt(Token& token, const Claim& claim) {
  if (claim.attempt != token.attempt) return;
  /*mutant planted-01*/ --token.attempt; /*end*/
  const bool new_run = !token.step || token.step->event.empty();
  if (token.attempt == 0 && new_run) token.limits.reset();
  // As if it had not been handed out; an earlier visit may have begun.
  if (token.step && token.step->start_time == claim.claim_time) token.step->start_time = {};
}

// Takes back a claim that has not begun.
void WithdrawClaim(Scene& scene, Token& token, Claim& claim) {
  /*mutant unbegun-is-attempt*/ NoAttempt(token, claim); /*end*/
  GiveBack(scene, token, claim, "", "not begun");
}

void NoteRefusal(Token& token, Handling::Refusal refusal) {
  constexpr size_t kKept = 10;
  if (!token.handling) token.handling = Handling();
  auto& refusals = token.handling->refusals;
  refusals.push_back(std::move(refusal));
  if (refusals.size() > kKept) refusals.erase(refusals.begin());
}

// The attempt was lost with its worker. As one that has timed out it may still win.
void Abandon(Scene& scene, Token& token, Claim& claim) {
  claim.timed_out = claim.operation->abandoned = true;
  if (!token.handling) token.handling = Handling();
  ++token.handling->abandoned;
  Event& event = Emit(scene, ChangeKind::kAbandoned);
  event.node = NodeName(scene.machine, token.node);
  event.visit = token.visit;
  event.attempt = claim.attempt;
  event.client = claim.worker;
  event.begin_time = claim.BeginTime();
  event.note = "its worker is gone";
}

}  // namespace

const Claim& TakeClaim(Scene& scene, Token& token, ClaimArgs args) {
  Check(token.state == TokenState::kReady, "only a ready token is handed out");
  Claim claim;
  claim.id = args.id;
  claim.worker = std::move(args.worker);
  claim.attempt = ++token.attempt;
  claim.claim_time = scene.now;
  claim.deadline = args.deadline;
  claim.session = args.session;
  claim.operation = std::move(args.operation);
  claim.retry = !scene.instance.dry_run && token.TimedOutBefore();
  token.state = TokenState::kClaimed;
  if (!args.limits.empty()) {
    if (!token.limits) token.limits = TokenLimits();
    token.limits->keys = std::move(args.limits);
  }
  if (token.limits) HoldLimits(token, scene.now);
  if (token.step) {
    if (token.step->start_time == Timestamp()) token.step->start_time = scene.now;
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

namespace {

Result<std::string> RelinquishAll(Scene& scene, const std::string& client) {
  Instance& instance = scene.instance;
  if (instance.Stopped()) return Stopped(instance);
  const std::string node = Where(scene);
  for (uint64_t visit : VisitsWith(instance, [](const Token& token) {
         return token.state == TokenState::kReady || token.state == TokenState::kClaimed;
       })) {
    Token& token = *instance.tokens.FindMutable(visit);
    /*mutant relinquish-spares-lost*/ ForgetLost(scene, token); /*end*/
    for (Claim& claim : token.claims) {
      if (claim.given_back) continue;
      if (!claim.Begun()) NoAttempt(token, claim);
      GiveBack(scene, token, claim, client);
    }
    FreeIfUnclaimed(scene, visit);
  }
  StopIfCancelled(scene);
  return node;
}

}  // namespace

Result<std::string> Relinquish(Scene& scene, const ClaimRef& claim, const GiveBackArgs& args) {
  if (!claim.given()) return RelinquishAll(scene, args.client);
  auto ours = CheckClaim(scene.instance, claim);
  if (!ours) return ours.error();
  auto slot = ClaimedSlot(scene, claim);
  if (!slot) return slot.error();
  Token& token = scene.instance.tokens[*slot];
  std::string node(NodeName(scene.machine, token.node));
  const bool waits = token.WaitsForLimits();
  const auto limits = token.limits;
  auto listed = std::ranges::find(token.claims, claim.id, &Claim::id);
  if (listed == token.claims.end()) listed = Recover(scene, token, claim.id);
  GiveBack(scene, token, *listed, args.client, args.reason);
  if (args.refused) {
    scene.events.back().kind = ChangeKind::kRefused;
    NoteRefusal(token, {listed->worker, scene.now, args.reason});
  }
  if (args.refused || !listed->Begun()) NoAttempt(token, *listed);
  // It has lost nothing but a claim that nobody knew of.
  /*mutant lost-claim-takes-place*/ if (waits)
    token.limits = limits; /*end*/
  FreeIfUnclaimed(scene, claim.visit);
  StopIfCancelled(scene);
  return node;
}

void Unclaim(Scene& scene, uint64_t visit, ClaimId id, bool told) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token) return;
  auto claim = std::ranges::find(token->claims, id, &Claim::id);
  if (claim == token->claims.end() || claim->given_back) return;
  NoAttempt(*token, *claim);
  if (told) {
    GiveBack(scene, *token, *claim, "", "its worker never saw it");
  } else {
    token->claims.erase(claim);
  }
  FreeIfUnclaimed(scene, visit);
  StopIfCancelled(scene);
}

namespace {

void NoteProgress(Scene& scene, Token& token, Claim& claim, double progress) {
  if (progress <= 0) return;
  claim.progress = progress;
  if (!token.step) return;
  const double weight = WeightOf(scene, scene.machine.nodes[token.home]);
  scene.instance.plan->partial += (progress - token.step->progress) * weight;
  token.step->progress = progress;
}

// The worker is there: a claim that had timed out, or was lost with its session, is live again.
void Revive(Claim& claim, Timestamp deadline, const ExtendArgs& args) {
  if (claim.timed_out) {
    claim.timed_out = false;
    claim.deadline = deadline;
  }
  const bool kept = claim.operation && !claim.operation->session.empty();
  if (args.session != 0 && (kept || args.takes_up)) claim.session = args.session;
  if (claim.operation) claim.operation->lost = claim.operation->abandoned = false;
}

// What a deadline is moved to at the latest: 30 s after the end of run_timeout.
Timestamp LastDeadline(const Scene& scene, const Token& token, const Claim& claim) {
  const Duration run = scene.machine.nodes[token.node].settings->bounds.run_timeout;
  if (run == Duration::zero()) return kNever;
  const Timestamp began = claim.Begun() ? claim.BeginTime() : scene.now;
  return /*mutant run-timeout-ignored*/ After(After(began, run), kRunGrace) /*end*/;
}

}  // namespace

bool IsToldToStop(const Instance& instance, const Token& token) {
  return instance.Cancelling() && (!token.step || token.step->event != "cancel");
}

Result<Extension> Extend(Scene& scene, const ClaimRef& of, Timestamp deadline,
                         const ExtendArgs& args) {
  auto ours = CheckClaim(scene.instance, of);
  if (!ours) return ours.error();
  auto slot = ClaimedSlot(scene, of);
  if (!slot) return slot.error();
  Token& token = scene.instance.tokens[*slot];
  auto claim = std::ranges::find(token.claims, of.id, &Claim::id);
  const bool unlisted = claim == token.claims.end();
  if (unlisted) {
    claim = Recover(scene, token, of.id, args.operation ? args.operation->agent : "");
    claim->session = args.session;
    claim->operation = args.operation;
    if (claim->operation) claim->operation->begin_time = scene.now;
  }
  const Timestamp last = LastDeadline(scene, token, *claim);
  deadline = std::min(deadline, last);
  if (unlisted) claim->deadline = deadline;
  if (claim->timed_out && last <= scene.now) {  // its run_timeout is over for good
    return Extension{claim->deadline, IsToldToStop(scene.instance, token)};
  }
  Revive(*claim, deadline, args);
  if (!claim->Begun()) {
    if (args.begin) claim->operation->begin_time = scene.now;
    claim->deadline =
        /*mutant deadline-not-of-begin*/ args.begin /*end*/ ? deadline : args.begin_by;
  } else if (!args.begin || !claim->operation) {  // a begin that is repeated is answered as before
    /*mutant planted-15*/ if (claim->deadline != kNever)
      claim->deadline = std::max(claim->deadline, deadline); /*end*/
  }
  if (!args.note.empty()) {
    if (!claim->operation) claim->operation = Operation{.begin_time = claim->claim_time};
    claim->operation->note = args.note;
  }
  NoteProgress(scene, token, *claim, args.progress);
  KeepCheckpoint(token, args.checkpoint);
  token.state = TokenState::kClaimed;
  return Extension{claim->deadline, IsToldToStop(scene.instance, token)};
}

namespace {

bool Unbegun(const Claim& claim) { return claim.Live() && !claim.Begun(); }

}  // namespace

void TakeBackUnbegun(Scene& scene) {
  Instance& instance = scene.instance;
  if (instance.tokens.Count(TokenState::kClaimed) == 0) return;
  for (uint64_t visit : VisitsWith(instance, [](const Token& token) {
         return token.state == TokenState::kClaimed && std::ranges::any_of(token.claims, Unbegun);
       })) {
    TakeBackUnbegunOf(scene, visit);
    DropIfCancelled(scene, visit);
  }
}

void TakeBackUnbegunOf(Scene& scene, uint64_t visit) {
  Token& token = *scene.instance.tokens.FindMutable(visit);
  if (token.state != TokenState::kClaimed) return;
  for (Claim& claim : token.claims) {
    if (Unbegun(claim)) WithdrawClaim(scene, token, claim);
  }
  if (!token.HasLiveClaim()) token.state = TokenState::kReady;  // its place in line stays
}

void LoseClaim(Scene& scene, uint64_t visit, ClaimId id, bool for_good) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || scene.instance.Stopped()) return;
  auto claim = std::ranges::find(token->claims, id, &Claim::id);
  if (claim == token->claims.end() || !claim->Live()) return;
  if (/*mutant unbegun-kept*/ !claim->Begun() /*end*/) {
    WithdrawClaim(scene, *token, *claim);
  } else {
    if (!claim->operation) claim->operation = Operation{.begin_time = claim->claim_time};
    claim->operation->lost = true;
    if (!for_good ||
        /*mutant lost-at-most-once-freed*/ scene.machine.nodes[token->node].AtMostOnce() /*end*/) {
      return;
    }
    Abandon(scene, *token, *claim);
    if (FailIfAbandoned(scene, visit)) return;
  }
  FreeIfUnclaimed(scene, visit);
  StopIfCancelled(scene);
}

void AwaitBegin(Scene& scene, uint64_t visit, ClaimId id, Timestamp begin_by) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token || scene.instance.Stopped()) return;
  auto claim = std::ranges::find(token->claims, id, &Claim::id);
  if (claim != token->claims.end() && claim->Live() && !claim->Begun()) claim->deadline = begin_by;
}

void NoteSignal(Scene& scene, uint64_t visit, ClaimId id) {
  Token* token = scene.instance.tokens.FindMutable(visit);
  if (!token) return;
  auto claim = std::ranges::find(token->claims, id, &Claim::id);
  if (claim != token->claims.end() && claim->operation) claim->operation->signal_time = scene.now;
}

void TimeOut(Scene& scene, uint64_t visit, ClaimId id) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot || scene.instance.Stopped()) return;
  Token* token = &scene.instance.tokens.Mutable(*slot);
  auto claim = std::ranges::find(token->claims, id, &Claim::id);
  if (claim == token->claims.end() || /*mutant unbegun-never-void*/ !claim->Live() /*end*/ ||
      claim->deadline > scene.now) {
    return;
  }
  if (!claim->Begun()) {
    WithdrawClaim(scene, *token, *claim);
    FreeIfUnclaimed(scene, visit);
    return StopIfCancelled(scene);
  }
  claim->timed_out = true;
  const Node& node = scene.machine.nodes[token->node];
  {
    Event& event = Emit(scene, ChangeKind::kTimedOut);
    event.prev_node = node.id;
    event.node = kTimeoutNode;
    event.visit = visit;
    event.attempt = /*mutant timeout-of-latest-attempt*/ claim->attempt /*end*/;
    event.client = claim->worker;
    event.begin_time = claim->BeginTime();
    const Duration lasted = claim->deadline - claim->BeginTime();
    event.samples.push_back({node.id, lasted, true, claim->sampled, claim->retry});
    claim->sampled = lasted;
  }
  if (const Edge* edge = node.FindTransition(kTimeoutNode)) {
    SampleAbandoned(scene, *token, id, scene.events.back());
    Arrival arrival{.node = kNoNode,
                    .prev_node = std::string(kTimeoutNode),
                    .transition = std::string(kTimeoutNode),
                    .params = token->params,
                    .client = {}};
    const Edge& chosen = Choose(scene, node, *edge, &arrival);
    Follow(scene, *slot, chosen, std::move(arrival));
  } else {
    FreeIfUnclaimed(scene, visit);
  }
  StopIfCancelled(scene);
}

bool EndUntold(Scene& scene, uint64_t visit, ClaimId id) {
  Token& token = *scene.instance.tokens.FindMutable(visit);
  auto claim = std::ranges::find(token.claims, id, &Claim::id);
  if (claim == token.claims.end() || claim->given_back) return false;
  if (scene.machine.nodes[token.node].AtMostOnce()) {
    if (std::exchange(claim->ended, true)) return false;
    if (!token.HasLiveClaim()) HoldForUnsaid(scene, visit);
    return true;
  }
  GiveBack(scene, token, *claim, "", "it has ended without a report");
  FreeIfUnclaimed(scene, visit);
  return true;
}

void Rerun(Scene& scene, uint64_t visit) {
  Token& token = *scene.instance.tokens.FindMutable(visit);
  for (Claim& claim : token.claims) {
    if (!claim.given_back) GiveBack(scene, token, claim, "", "resumed with force");
  }
  ForgetLost(scene, token);
  if (std::exchange(token.unsaid, false) && token.state == TokenState::kHeld) {
    token.state = TokenState::kReady;
    token.available_at = scene.now;
  }
  FreeIfUnclaimed(scene, visit);
}

}  // namespace dfsmr::rules
