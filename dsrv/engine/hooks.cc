#include "dsrv/engine/hooks.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/inherit.h"
#include "dsrv/engine/starter.h"
#include "dsrv/engine/values.h"
#include "fsm/base/json.h"

namespace dfsmr {
namespace {

// The words of `on` for the states that an instance has entered, and for how it ended.
std::vector<std::string_view> WordsFor(const std::vector<InstanceState>& entered,
                                       InstanceResult result) {
  std::vector<std::string_view> words;
  for (InstanceState state : entered) {
    switch (state) {
      case InstanceState::kScheduled:
        words.push_back("scheduled");
        break;
      case InstanceState::kPlanning:
        words.push_back("planning");
        break;
      case InstanceState::kRunning:
        words.push_back("running");
        break;
      case InstanceState::kPaused:
        words.push_back("paused");
        break;
      case InstanceState::kStopped:
        words.push_back("stopped");
        break;
      case InstanceState::kNone:
        break;
    }
    if (state != InstanceState::kStopped) continue;
    switch (result) {
      case InstanceResult::kSuccess:
        words.push_back("success");
        break;
      case InstanceResult::kWarning:
        words.push_back("warning");
        break;
      case InstanceResult::kCancelled:
        words.push_back(/*mutant cancelled-fires-failure*/ "cancelled" /*end*/);
        break;
      default:
        words.push_back("failure");
        break;
    }
  }
  return words;
}

}  // namespace

void Hooks::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.plan || change.entered.empty() || instance.dry_run) return;
  auto source = values_.SourceOf(change.resident);
  if (!source || (*source)->hooks.empty()) return;
  for (std::string_view word : WordsFor(change.entered, instance.result)) {
    for (const HookSource& hook : (*source)->hooks) {
      if (std::ranges::find(hook.on, word) != hook.on.end()) Fire(change.resident, hook, word);
    }
  }
}

void Hooks::Fire(Resident& resident, const HookSource& hook, std::string_view word) {
  const uint32_t own = catalog_.VersionMeantBy(*resident.version, hook.action);
  const VersionState* defined = catalog_.VersionOf(resident.instance.ns, hook.action, own);
  if (defined && !defined->definition->machine.action()) return;  // a hook starts no plan
  StartArgs args;
  args.ns = resident.instance.ns;
  args.machine = hook.action;
  args.version = own;
  args.inside = own > 0;
  args.implicit = true;
  Deepen(resident.instance, &args);
  InheritTrace(residents_, resident, 0, 0, &args);
  args.spec.client = "hook of " + resident.instance.id + " on " + std::string(word);
  auto params = values_.Fill(resident, hook.input);
  // A hook whose input is not there runs all the same: that something happened is what matters.
  const bool fits = params && json::KindOf(*params) == json::Kind::kObject;
  args.spec.params = fits ? *params : "{}";
  fired_.push_back(std::move(args));
}

bool Hooks::Work() {
  if (fired_.empty()) return false;
  StartArgs args = std::move(fired_.front());
  fired_.pop_front();
  (void)starter_.Start(std::move(args));
  return true;
}

}  // namespace dfsmr
