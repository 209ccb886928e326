#include "dsrv/wire/facts.h"

#include <algorithm>

#include "dsrv/engine/package_version.h"
#include "dsrv/engine/resident.h"
#include "fsm/rules/group.h"
#include "fsm/rules/rules.h"

namespace dfsmr {
namespace {

constexpr std::string_view kSuspendedNode = "/suspended";

// What stands behind "schedule:" in the cause "schedule:NAME"; nullopt: something else caused it.
std::optional<std::string_view> NameIn(const Instance& instance, std::string_view kind) {
  if (!instance.provenance) return std::nullopt;
  const std::string_view cause = instance.provenance->cause;
  if (!cause.starts_with(kind)) return std::nullopt;
  return cause.substr(kind.size());
}

bool MayReport(const Claim& claim) { return !claim.given_back && !claim.ended; }

// Whether a token that lives stands so.
bool Stands(const Token& token, std::string_view node, std::string_view property, Timestamp now) {
  switch (token.state) {
    case TokenState::kReady:
      if (property == "ready") return true;
      break;
    case TokenState::kClaimed:
      if (property == "claimed") return true;
      break;
    case TokenState::kWaiting:
      if (property == "waiting") return true;
      if (property == "suspended" && node.ends_with(kSuspendedNode)) return true;
      break;
    case TokenState::kHeld:
      if (property == "held") return true;
      break;
    case TokenState::kNone:
    case TokenState::kDone:
      return false;
  }
  if (property == "retried") return token.attempt >= 2;
  return property == "late" && std::ranges::any_of(token.claims, [now](const Claim& claim) {
           return MayReport(claim) && (claim.timed_out || claim.deadline < now);
         });
}

constexpr std::string_view kOfTokens[] = {"ready", "claimed",   "waiting", "held",
                                          "late",  "suspended", "retried"};

}  // namespace

bool InstanceFacts::AnyText(FilterKey key, const std::string& label, const Visit& visit) const {
  const Instance& instance = view_.instance;
  switch (key) {
    case FilterKey::kWord:
    case FilterKey::kId:
      return visit(instance.id);
    case FilterKey::kMachine:
      return visit(instance.machine);
    case FilterKey::kNode:
      return AnyNode(visit);
    case FilterKey::kParent:
      return AnyParent(visit);
    case FilterKey::kWorker:
      return AnyWorker(visit);
    case FilterKey::kGroup:
      return instance.provenance && !instance.provenance->group.empty() &&
             visit(instance.provenance->group);
    case FilterKey::kPackage:
      return view_.package && (visit(view_.package->package) ||
                               visit(view_.package->package + "@" + view_.package->version));
    case FilterKey::kSchedule:
    case FilterKey::kTrigger: {
      const auto name = NameIn(instance, key == FilterKey::kSchedule ? "schedule:" : "trigger:");
      return name && visit(*name);
    }
    case FilterKey::kState:
      return visit(Name(instance.state));
    case FilterKey::kResult:
      return visit(Name(instance.result));
    case FilterKey::kIs:
      return AnyProperty(visit);
    case FilterKey::kLabel: {
      auto filled = Fill(moment_, &view_);
      if (!filled) failed_ = filled.error();
      if (failed_) return false;
      const auto found = view_.spec->labels.find(label);
      return found != view_.spec->labels.end() && visit(found->second);
    }
    case FilterKey::kError:
      return AnyError(visit);
    case FilterKey::kAfter:
      return std::ranges::any_of(instance.after,
                                 [&](const auto& one) { return visit(one.instance); });
    default:
      return false;
  }
}

double InstanceFacts::Number(FilterKey key) const {
  if (key == FilterKey::kVersion) return view_.instance.version;
  if (key == FilterKey::kPriority) return view_.instance.priority;
  return ProgressOf(view_.instance);
}

std::optional<Timestamp> InstanceFacts::Time(FilterKey key) const {
  Timestamp time = key == FilterKey::kStarted ? view_.instance.start_time : view_.instance.end_time;
  if (key == FilterKey::kChanged) {
    auto changed = ChangeTimeOf(moment_, view_.instance);
    if (!changed) failed_ = changed.error();
    if (failed_) return std::nullopt;
    time = view_.instance.change_time = *changed;
  }
  return time == Timestamp() ? std::nullopt : std::optional(time);
}

// Of a plan's node also the step that it belongs to: "a.b/error" stands at "a.b", too.
bool InstanceFacts::AnyNode(const Visit& visit) const {
  return std::ranges::any_of(view_.nodes, [&](const std::string& node) {
    for (size_t slash = node.rfind('/'); slash != std::string::npos && slash > 0;
         slash = node.rfind('/', slash - 1)) {
      if (visit(std::string_view(node).substr(0, slash))) return true;
    }
    return visit(node);
  });
}

bool InstanceFacts::AnyParent(const Visit& visit) const {
  if (view_.instance.parent.empty()) return false;
  if (visit(view_.instance.parent)) return true;
  auto step = steps_.Of(view_.instance);
  if (!step) failed_ = step.error();
  if (failed_ || step->empty()) return false;
  return visit(view_.instance.parent + "/" + *step);
}

bool InstanceFacts::AnyWorker(const Visit& visit) const {
  for (const Token& token : view_.instance.tokens) {
    if (token.state == TokenState::kDone) continue;
    for (const Claim& claim : token.claims) {
      if (MayReport(claim) && visit(claim.worker)) return true;
    }
  }
  return false;
}

bool InstanceFacts::AnyProperty(const Visit& visit) const {
  const Instance& instance = view_.instance;
  if (instance.parent.empty() && visit("root")) return true;
  if (instance.Stopped()) return false;
  for (std::string_view property : kOfTokens) {
    if (!visit(property)) continue;
    // Nobody is handed what a paused instance has ready, which is not counted as such, either.
    if (property == "ready" && !Runs(instance.state)) continue;
    for (size_t i = 0; i < instance.tokens.size(); ++i) {
      if (Stands(instance.tokens[i], view_.nodes[i], property, now_)) return true;
    }
  }
  return false;
}

bool InstanceFacts::AnyError(const Visit& visit) const {
  if (!view_.instance.error.empty() && visit(view_.instance.error)) return true;
  return std::ranges::any_of(view_.instance.tokens, [&](const Token& token) {
    return !token.error.empty() && visit(token.error);
  });
}

}  // namespace dfsmr
