#include "dsrv/engine/reports.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/claims.h"
#include "dsrv/engine/inherit.h"
#include "dsrv/engine/kept_starts.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "storage/rows/feed.h"
#include "storage/rows/plan.h"

namespace dfsmr {
namespace {

// How far back a report that may be a repetition is looked for: further than all workers together
// could have reported since.
constexpr size_t kLookedBack = 100'000;

}  // namespace

Result<Answer> Reports::Report(const std::string& ns, const std::string& id, ReportArgs args,
                               const std::vector<rows::ChildStart>& children,
                               std::vector<StartArgs> starts) {
  if (!options_.Has(ns, id)) {
    return LivesNotHere(ns, id, options_, "take a report on it");
  }
  auto touched = changer_.Touch(ns, id);
  if (!touched) return touched.error();
  Resident& resident = **touched;
  if (auto full = turn_.NeedsRoom(children.empty() ? Room::kScarce : Room::kAmple)) {
    return *std::move(full);
  }
  if (auto possible = CheckSuspend(resident, args, children); !possible) {
    if (!args.claim.given()) return possible.error();
    args.fault = possible.error();
  }
  const ClaimId self = args.claim.id;
  const Token* token = std::as_const(resident.instance.tokens).Find(args.claim.visit);
  const Claim* claim = token ? token->FindClaim(self) : nullptr;
  std::optional<Timestamp> retried;  // when its worker took the claim
  if (claim && claim->retry) retried = claim->claim_time;
  Breaker& breaker = resident.version->machine->breaker;
  std::vector<Starter::Prepared> prepared;
  // Of a visit that is over: if it counts one day, it starts them then.
  const bool over = !token || resident.instance.Stopped();
  if (args.claim.given() && over) args.starts = KeepStarts(std::exchange(starts, {}));
  for (StartArgs& start : starts) {
    Deepen(resident.instance, &start);
    InheritTrace(residents_, resident, args.claim.visit, claim ? claim->attempt : 0, &start);
    if (args.claim.given()) Own(resident, &start);
  }
  if (!starts.empty()) {
    const bool worker = args.client.empty() && claim;
    prepared = Prepare(std::move(starts), worker ? claim->worker : args.client, &args);
  }
  auto answer = changer_.Apply(resident, self, [&](Scene& scene) {
    scene.born_after = claims_.BornAfter(resident, self);
    return rules::Report(scene, args);
  });
  if (answer) {
    if (answer->repeated) return answer;
    if (resident.instance.plan) Keep(resident, args, *answer, children);
    /*mutant breaker-hears-no-success*/ if (retried)
      breaker.RetrySucceeded(*retried); /*end*/
    /*mutant starts-lost*/ for (Starter::Prepared& one : prepared)
      starter_.Begin(std::move(one), {.ns = ns, .instance = id}); /*end*/
    return answer;
  }
  const bool late = answer.error().reason == Reason::kStaleClaim &&
                    rules::CheckClaim(resident.instance, args.claim).has_value();
  if (late) {
    const auto former = /*mutant former-answer-forgotten*/ FormerAnswer(resident, args) /*end*/;
    /*mutant repeated-report-starts-again*/ if (former)
      return *former;                                                               /*end*/
    if (KeepForResume(resident, args, children)) return answer;
    EndBesideLate(resident, args.claim);
    /*mutant late-report-not-learned*/ claims_.LateReport(resident.instance, self); /*end*/
  }
  return answer;
}

bool Reports::KeepForResume(Resident& resident, const ReportArgs& args,
                            const std::vector<rows::ChildStart>& children) {
  const Instance& instance = resident.instance;
  if (instance.Stopped() && (!instance.resumable || resident.version->LeftBehind())) return false;
  if (!instance.Stopped() && instance.tokens.left().empty()) return false;
  if (!residents_.LoadLeft(resident)) return false;
  const bool kept = changer_.Apply(resident, args.claim.id, [&](Scene& scene) {
    scene.born_after = claims_.BornAfter(resident, args.claim.id);
    return rules::KeepLate(scene, args);
  });
  if (!kept) return false;
  residents_.MarkDirty(resident);
  if (children.empty()) return true;
  const NodeIndex home = resident.instance.tokens.LeftOf(args.claim.visit)->home;
  rows::PutStarts(turn_.writer(), instance, home, children);
  return true;
}

// Of a visit the first late report counts. Who comes after it has said that it is done, too, and
// has nothing in hand any more when the instance is resumed.
void Reports::EndBesideLate(Resident& resident, const ClaimRef& claim) {
  Instance& instance = resident.instance;
  const Token* left = instance.Stopped() ? instance.tokens.LeftOf(claim.visit) : nullptr;
  if (left && left->late && left->late->claim != claim.id) {
    (void)claims_.End(instance.ns, instance.id, claim);
  }
}

void Reports::ReportLate(Resident& resident, const ReportArgs& args) {
  const Instance& instance = resident.instance;
  std::vector<rows::ChildStart> children;
  const Token* token = instance.tokens.Find(args.claim.visit);
  if (!token) return;
  if (args.children > 0) {
    auto starts = rows::GetStarts(turn_.reader(), instance, token->home);
    if (turn_.Trust(starts)) children = *std::move(starts);
  }
  auto starts = ReadStarts(args.starts, options_);
  turn_.Trust(starts);
  if (!starts) return;
  const std::string ns = instance.ns;
  const std::string id = instance.id;
  const bool once = resident.machine().nodes[token->node].AtMostOnce();
  if (/*mutant late-report-lost*/
      Report(ns, id, args, children, *std::move(starts)).has_value() /*end*/) return;
  // It is not possible any more: others do the work again, but not what runs at most once.
  if (once && claims_.End(ns, id, args.claim)) return;
  (void)claims_.Relinquish(ns, id, args.claim, {});
}

// What a worker names is its package's own, if that has it, and of the same version of it.
void Reports::Own(const Resident& resident, StartArgs* start) const {
  if (start->flow || start->version != 0) return;
  if (!start->package_version.empty()) {
    start->inside = catalog_.IsOwn(*resident.version, start->machine, start->package_version);
    return;
  }
  start->machine = catalog_.NameMeantBy(*resident.version, start->machine);
  start->version = catalog_.VersionMeantBy(*resident.version, start->machine);
  start->inside = start->version > 0;
}

std::vector<Starter::Prepared> Reports::Prepare(std::vector<StartArgs> starts,
                                                const std::string& client, ReportArgs* args) {
  if (args->fault) return {};
  for (StartArgs& start : starts) {
    start.spec.client = client;
    start.outside = true;
  }
  auto prepared = starter_.Prepare(std::move(starts));
  if (!prepared) {
    /*mutant refused-start-ignored*/ args->fault = prepared.error(); /*end*/
    return {};
  }
  std::vector<Begun> begun;
  begun.reserve(prepared->size());
  for (const Starter::Prepared& one : *prepared)
    begun.push_back({one.args.id, one.version != nullptr});
  args->started = std::move(begun);
  return *std::move(prepared);
}

Result<Ok> Reports::CheckSuspend(const Resident& resident, const ReportArgs& args,
                                 const std::vector<rows::ChildStart>& children) {
  if (!resident.instance.plan && (!children.empty() || args.wake_after)) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 "instance " + Quoted(resident.instance.id) +
                     " is of a plain machine: only steps "
                     "of a plan suspend, with 'wake_after' or 'children'"};
  }
  for (const rows::ChildStart& child : children) {
    if (!child.package_version.empty()) {
      StartArgs start;
      start.ns = resident.instance.ns;
      start.machine = child.machine;
      start.package_version = child.package_version;
      Own(resident, &start);
      if (auto version = starter_.VersionAt(start); !version) {
        Error error = version.error();
        error.message = "'children': " + error.message;
        return error;
      }
      continue;
    }
    const std::string machine = catalog_.NameMeantBy(*resident.version, child.machine);
    if (!child.spec.flow.empty() ||
        catalog_.VersionOf(resident.instance.ns, machine, child.version)) {
      continue;
    }
    const bool known = catalog_.VersionOf(resident.instance.ns, machine, 0);
    return Error{Code::kNotFound, Reason::kNoSuchMachine,
                 "'children': namespace " + Quoted(resident.instance.ns) + " has no " +
                     (known ? "version " + std::to_string(child.version) + " of " : "") +
                     "machine " + Quoted(child.machine)};
  }
  return Ok{};
}

void Reports::Keep(Resident& resident, const ReportArgs& args, const Answer& answer,
                   const std::vector<rows::ChildStart>& children) {
  Instance& instance = resident.instance;
  // It may be what an instance that is being cancelled has waited for: a resume goes on with it.
  const bool wanted = instance.state != InstanceState::kStopped || instance.resumable;
  if (args.transition == "planned" && wanted) {
    const auto flow = json::Member(args.output, "flow");
    std::string text = flow ? std::string(*flow) : "[]";
    if (json::KindOf(text) == json::Kind::kString) text = json::Unquote(text);
    /*mutant planned-not-kept*/ rows::PutPlanned(turn_.writer(), instance, answer.prev_node,
                                                 text); /*end*/
    return;
  }
  if (children.empty() || args.transition != "suspend") return;
  const NodeIndex home = resident.machine().Find(answer.prev_node);
  const auto slot = instance.tokens.SlotOfHome(home);
  const Token* token = slot ? &std::as_const(instance.tokens)[*slot] : nullptr;
  // A cancel has taken it away: a resume starts them.
  /*mutant left-children-lost*/ if (!token)
    token = instance.tokens.LeftAt(home); /*end*/
  if (!token || !token->step->children) return;
  rows::PutStarts(turn_.writer(), instance, home, children);
  if (slot) CacheOf(resident).items[token->step->children->generation].starts = children;
}

std::optional<Answer> Reports::FormerAnswer(Resident& resident, const ReportArgs& args) {
  const ClaimRef& claim = args.claim;
  std::optional<Answer> answer;
  size_t looked = 0;
  auto consider = [&](const Event& event) {  // false: looked far enough
    // What stops an instance may tell of a visit that was over by then.
    const bool entry =
        event.visit == claim.visit &&
        (event.kind == ChangeKind::kStarted || event.kind == ChangeKind::kTransitioned ||
         event.kind == ChangeKind::kSuspended || event.kind == ChangeKind::kWoken);
    if (event.left_visit != claim.visit) return !entry && ++looked < kLookedBack;
    const bool same = event.answer && event.answer->claim == claim.id;
    if (same && event.transition == args.transition) {
      answer = event.answer;
      answer->repeated = true;
    }
    return false;
  };
  rows::FeedReader feed(turn_.reader());
  auto scanned = rows::HistoryBackwards(turn_.reader(), resident.instance, [&](uint64_t seq) {
    if (auto event = turn_.FindRecord(seq)) return consider(*event);
    auto event = feed.Get(seq);
    return turn_.Trust(event) ? consider(*event) : false;
  });
  turn_.Trust(scanned);
  return answer;
}

}  // namespace dfsmr
