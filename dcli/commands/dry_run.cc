#include "dcli/commands/dry_run.h"

#include <algorithm>
#include <chrono>

#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

constexpr auto kBetween = std::chrono::milliseconds(200);
constexpr int kLooks = 3;            // that see the same: it stands still
constexpr int kLooksForWorker = 25;  // the same while no worker fits: one may poll now and then

bool Held(const v1::Instance& instance) {
  return std::ranges::any_of(instance.waits_for(), [](const v1::Wait& wait) {
    return wait.kind() == v1::Wait::HOLD || wait.kind() == v1::Wait::GROUP_PAUSED;
  });
}

// Ready for workers, of which none fits.
bool AwaitsWorker(const v1::Token& token) {
  return token.state() == v1::Token::READY && !token.why().empty();
}

// Whether nothing of its own goes on by itself. What the server reports has a moment only.
bool StandsStill(const v1::Instance& instance) {
  switch (instance.state()) {
    case v1::Instance::STOPPED:
    case v1::Instance::PAUSED:
      return true;
    case v1::Instance::SCHEDULED:
      return Held(instance);
    case v1::Instance::RUNNING:
      return std::ranges::none_of(instance.tokens(), [](const v1::Token& token) {
        if (AwaitsWorker(token)) return false;
        return token.state() == v1::Token::READY || token.state() == v1::Token::CLAIMED;
      });
    default:
      return false;
  }
}

}  // namespace

Result<Ok> EndOfDryRun::Begin() {
  v1::ChangesRequest request;
  request.set_namespace_(context_.name_space);
  return context_.client->Changes(request, nullptr, [this](const v1::ChangesResponse& response) {
    cursor_ = response.cursor();
    return true;
  });
}

Result<Ok> EndOfDryRun::PrintChanges(const std::string& id, Canceller* cancel) {
  if (cursor_.empty()) return Ok{};
  v1::ChangesRequest request;
  request.set_namespace_(context_.name_space);
  request.set_instance(id);
  request.set_dry_run(true);
  request.set_after(cursor_);
  return context_.client->Changes(request, cancel, [this](const v1::ChangesResponse& response) {
    for (const v1::Change& change : response.changes()) {
      PrintChange(context_.err, change, context_.err_look);
    }
    if (!response.cursor().empty()) cursor_ = response.cursor();
    return true;
  });
}

Result<std::string> EndOfDryRun::Look(const v1::Instance& instance, Standing* to) {
  std::string seen = instance.id() + " " + v1::Instance::State_Name(instance.state());
  for (const v1::Token& token : instance.tokens()) seen += " " + std::to_string(token.visit());
  if (!StandsStill(instance)) to->still = false;
  if (std::ranges::any_of(instance.tokens(), AwaitsWorker)) to->for_worker = true;
  if (instance.state() == v1::Instance::STOPPED) return seen;
  v1::ListInstancesRequest request;
  request.set_namespace_(context_.name_space);
  request.set_parent(instance.id());
  request.set_dry_run(true);
  request.set_page_size(1'000);
  const auto children = context_.client->ListInstances(request);
  if (!children) return children.error();
  for (const v1::Instance& child : children->instances()) {
    v1::GetInstanceRequest whole;  // a list does not tell why something waits
    whole.set_namespace_(context_.name_space);
    whole.set_id(child.id());
    const bool runs = child.state() == v1::Instance::RUNNING;
    const auto known = runs ? context_.client->GetInstance(whole) : Result<v1::Instance>(child);
    if (!known) return known.error();
    auto below = Look(*known, to);
    if (!below) return below;
    seen += "\n" + *below;
  }
  return seen;
}

Result<v1::Instance> EndOfDryRun::Await(const std::string& id, Canceller* cancel) {
  v1::GetInstanceRequest request;
  request.set_namespace_(context_.name_space);
  request.set_id(id);
  std::string last;
  int same = 0;
  while (true) {
    auto instance = context_.client->GetInstance(request);
    if (!instance && !Passing(instance.error())) return instance;
    Standing standing;
    const auto seen = instance ? Look(*instance, &standing) : Result<std::string>(instance.error());
    if (!seen && !Passing(seen.error())) return seen.error();
    const auto printed = PrintChanges(id, cancel);
    if (!printed && cancel->cancelled()) return printed.error();
    if (seen && instance->state() == v1::Instance::STOPPED) return instance;
    same = seen && standing.still && *seen == last ? same + 1 : 0;
    if (same >= (standing.for_worker ? kLooksForWorker : kLooks)) return instance;
    if (seen) last = *seen;
    if (cancel->SleepFor(kBetween)) return Error{Code::kCancelled, Reason::kNone, "interrupted"};
  }
}

}  // namespace dfsmr::cli
