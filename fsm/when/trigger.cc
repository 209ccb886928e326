#include "fsm/when/trigger.h"

#include <algorithm>
#include <array>

#include "fsm/base/duration.h"

namespace dfsmr {
namespace {

constexpr std::array<std::pair<std::string_view, ChangeKind>, 37> kKinds = {{
    {"defined", ChangeKind::kDefined},
    {"started", ChangeKind::kStarted},
    {"claimed", ChangeKind::kClaimed},
    {"transitioned", ChangeKind::kTransitioned},
    {"relinquished", ChangeKind::kRelinquished},
    {"timed_out", ChangeKind::kTimedOut},
    {"upgraded", ChangeKind::kUpgraded},
    {"aborted", ChangeKind::kAborted},
    {"finished", ChangeKind::kFinished},
    {"scheduled", ChangeKind::kScheduled},
    {"paused", ChangeKind::kPaused},
    {"resumed", ChangeKind::kResumed},
    {"skipped", ChangeKind::kSkipped},
    {"cancelled", ChangeKind::kCancelled},
    {"suspended", ChangeKind::kSuspended},
    {"woken", ChangeKind::kWoken},
    {"breaker_opened", ChangeKind::kBreakerOpened},
    {"breaker_closed", ChangeKind::kBreakerClosed},
    {"refused", ChangeKind::kRefused},
    {"abandoned", ChangeKind::kAbandoned},
    {"late", ChangeKind::kLate},
    {"agent_connected", ChangeKind::kAgentConnected},
    {"agent_lost", ChangeKind::kAgentLost},
    {"agent_left", ChangeKind::kAgentLeft},
    {"occurred", ChangeKind::kOccurred},
    {"deleted", ChangeKind::kDeleted},
    {"limit_set", ChangeKind::kLimitSet},
    {"group_finished", ChangeKind::kGroupFinished},
    {"start_refused", ChangeKind::kStartRefused},
    {"package_pushed", ChangeKind::kPackagePushed},
    {"package_activated", ChangeKind::kPackageActivated},
    {"package_deactivated", ChangeKind::kPackageDeactivated},
    {"package_removed", ChangeKind::kPackageRemoved},
    {"retired", ChangeKind::kRetired},
    {"namespace_changed", ChangeKind::kNamespaceChanged},
    {"namespace_deleted", ChangeKind::kNamespaceDeleted},
    {"imported", ChangeKind::kImported},
}};

template <typename Value, typename One>
bool Among(const std::vector<Value>& filter, const One& one) {
  return filter.empty() || std::ranges::find(filter, one) != filter.end();
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return text;
}

std::string InWords(const ChangeSource& source) {
  std::vector<std::string> kinds;
  for (ChangeKind kind : source.kinds) kinds.emplace_back(Name(kind));
  std::string text = kinds.empty() ? "any change" : Joined(kinds);
  if (!source.machines.empty()) text += " of " + Joined(source.machines);
  if (!source.nodes.empty()) text += " at " + Joined(source.nodes);
  if (!source.transitions.empty()) text += " by " + Joined(source.transitions);
  if (!source.groups.empty()) text += " in group " + Joined(source.groups);
  if (!source.causes.empty()) text += " from " + Joined(source.causes);
  std::vector<std::string> results;
  for (InstanceResult result : source.results) results.emplace_back(Name(result));
  if (!results.empty()) text += " with " + Joined(results);
  for (const auto& [name, value] : source.labels) text.append(" ").append(name + "=" + value);
  return text;
}

std::string InWords(const PollSource& source) {
  return "poll of " + source.action + " every " + FormatDuration(source.every);
}

std::string InWords(const WebhookSource& source) {
  constexpr std::array<std::string_view, 3> kProofs = {"open", "hmac", "token"};
  return "webhook " + source.path + " (" + std::string(kProofs[static_cast<size_t>(source.proof)]) +
         ")";
}

}  // namespace

const ItemSource* TriggerSource::SourceNamed(std::string_view name) const {
  if (name.empty()) return on.size() == 1 ? &on.front() : nullptr;
  auto found = std::ranges::find(on, name, &ItemSource::name);
  return found == on.end() ? nullptr : &*found;
}

bool TriggerSource::Has(SourceKind kind) const {
  return std::ranges::any_of(on, [kind](const ItemSource& one) { return one.kind() == kind; });
}

std::string_view Name(ChangeKind kind) {
  auto found = std::ranges::find(kKinds, kind, &std::pair<std::string_view, ChangeKind>::second);
  return found == kKinds.end() ? "" : found->first;
}

std::span<const std::pair<std::string_view, ChangeKind>> ChangeKindNames() { return kKinds; }

bool TellsResult(ChangeKind kind) {
  return kind == ChangeKind::kFinished || kind == ChangeKind::kGroupFinished;
}

InstanceResult ResultTold(const Event& change) {
  if (!TellsResult(change.kind)) return InstanceResult::kNone;
  const std::string_view note = change.note;  // "SUCCESS: …"
  const std::string_view word = note.substr(0, note.find(':'));
  for (const InstanceResult result :
       {InstanceResult::kSuccess, InstanceResult::kWarning, InstanceResult::kError,
        InstanceResult::kCancelled, InstanceResult::kAborted}) {
    if (word == Name(result)) return result;
  }
  return InstanceResult::kNone;
}

bool Passes(const ChangeSource& source, const Event& change) {
  static const Event::About kNothing;
  const Event::About& about = change.about ? *change.about : kNothing;
  if (!Among(source.kinds, change.kind) || !Among(source.machines, change.machine)) return false;
  if (!Among(source.nodes, change.node) || !Among(source.transitions, change.transition)) {
    return false;
  }
  if (!Among(source.groups, about.group) || !Among(source.causes, about.cause)) return false;
  return !TellsResult(change.kind) || Among(source.results, ResultTold(change));
}

bool Passes(const ChangeSource& source, const Event& change, InstanceResult result,
            const std::map<std::string, std::string>& labels) {
  if (!TellsResult(change.kind) && !Among(source.results, result)) return false;
  return std::ranges::all_of(source.labels, [&labels](const auto& wanted) {
    auto label = labels.find(wanted.first);
    return label != labels.end() && label->second == wanted.second;
  });
}

std::string Summary(const TriggerSource& source) {
  std::string text;
  for (const ItemSource& one : source.on) {
    if (!text.empty()) text += "; ";
    if (!one.name.empty()) text += one.name + ": ";
    text += std::visit([](const auto& from) { return InWords(from); }, one.from);
  }
  return text;
}

}  // namespace dfsmr
