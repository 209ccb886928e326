#include "dcli/commands/wait.h"

#include <optional>

#include "dcli/commands/follow.h"
#include "dcli/view/describe.h"
#include "dcli/view/progress.h"

namespace dfsmr::cli {

Result<Ok> EndOfInstances::Begin(const std::string& machine) {
  machine_ = machine;
  v1::ChangesRequest request;
  request.set_namespace_(context_.name_space);
  return context_.client->Changes(request, nullptr, [this](const v1::ChangesResponse& response) {
    cursor_ = response.cursor();
    return true;
  });
}

Result<Ok> EndOfInstances::FollowFeed(std::set<std::string> open, bool alone, Canceller* cancel) {
  v1::ChangesRequest request;
  request.set_namespace_(context_.name_space);
  request.set_after(cursor_);
  request.set_follow(true);
  if (alone) {
    request.set_instance(*open.begin());
  } else {
    request.set_machine(machine_);
    request.add_kinds(v1::Change::FINISHED);
  }
  std::optional<PlanWatch> watch;
  if (alone && progress_) watch.emplace(context_, *open.begin());
  const auto visit = [&](const v1::ChangesResponse& response) {
    for (const v1::Change& change : response.changes()) {
      if (watch) watch->Heard(change);
      if (alone && !watch) PrintChange(context_.err, change, context_.err_look);
      if (change.kind() == v1::Change::FINISHED) open.erase(change.instance());
    }
    return !open.empty();
  };
  return Follow(context_, request, cancel, &cursor_, visit);
}

Result<v1::Instance> EndOfInstances::PollToEnd(const std::string& id, Canceller* cancel) {
  v1::GetInstanceRequest request;
  request.set_namespace_(context_.name_space);
  request.set_id(id);
  for (Backoff backoff;;) {
    auto instance = context_.client->GetInstance(request);
    if (!instance && !Passing(instance.error())) return instance;
    if (instance && instance->state() == v1::Instance::STOPPED) return instance;
    if (cancel->SleepFor(backoff.Next()))
      return Error{Code::kCancelled, Reason::kNone, "interrupted"};
  }
}

Result<std::vector<v1::Instance>> EndOfInstances::Await(
    const std::vector<v1::StartResponse>& started, Canceller* cancel) {
  // The feed only says when to look at the instance. So a feed that cannot be read makes this
  // slower, not wrong. An instance that has stopped already is not in the feed any more.
  std::set<std::string> open;
  for (const v1::StartResponse& one : started) {
    if (one.instance().state() != v1::Instance::STOPPED) open.insert(one.instance().id());
  }
  if (!cursor_.empty() && !open.empty()) {
    const auto followed = FollowFeed(std::move(open), started.size() == 1, cancel);
    if (!followed && followed.error().code == Code::kCancelled) return followed.error();
  }
  std::vector<v1::Instance> ended;
  for (const v1::StartResponse& one : started) {
    auto instance = PollToEnd(one.instance().id(), cancel);
    if (!instance) return instance.error();
    ended.push_back(*std::move(instance));
  }
  return ended;
}

}  // namespace dfsmr::cli
