#include "dsrv/wire/limits.h"

#include "dsrv/engine/limit_views.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/duration.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

static_assert(static_cast<int>(LimitOrigin::kOverride) == v1::Limit::OVERRIDE);
static_assert(static_cast<int>(LimitOrigin::kNone) == v1::Limit::NONE);

using dfsmr::ToProto;  // beside those below

void ToProto(const Rate& rate, v1::Rate* out) {
  out->set_count(rate.count);
  ToProto(rate.per, out->mutable_per());
  out->set_burst(rate.burst);
}

void ToProto(const LimitHolderView& holder, v1::LimitHolder* out) {
  out->set_instance(holder.instance);
  out->set_node(holder.node);
  ToProto(holder.since, out->mutable_since());
  out->set_forced(holder.forced);
  out->set_cancelling(holder.cancelling);
}

void ToProto(const LimitWaiterView& waiter, v1::LimitWaiter* out) {
  out->set_instance(waiter.instance);
  out->set_node(waiter.node);
  ToProto(waiter.since, out->mutable_since());
  out->set_priority(waiter.priority);
  for (const std::string& key : waiter.lacks) out->add_lacks(key);
  out->set_paused(waiter.paused);
}

}  // namespace

void ToProto(const LimitView& view, v1::Limit* out) {
  out->set_namespace_(view.ns);
  out->set_key(view.key);
  const LimitNumbers& numbers = view.standing.numbers;
  if (numbers.max) out->set_max(*numbers.max);
  out->set_max_from(static_cast<v1::Limit::Origin>(view.standing.max_from));
  if (numbers.rate) {
    ToProto(*numbers.rate, out->mutable_rate());
    out->set_tokens(view.tokens);
    if (view.tokens < 1 && view.next_token != Timestamp()) {
      ToProto(view.next_token, out->mutable_next_token());
    }
  }
  out->set_rate_from(static_cast<v1::Limit::Origin>(view.standing.rate_from));
  out->set_document(view.standing.document);
  out->set_held(view.held);
  out->set_waiting(view.waiting);
  out->set_note(view.override.note);
  out->set_set_by(view.override.set_by);
  if (view.override.set_time != Timestamp()) {
    ToProto(view.override.set_time, out->mutable_set_time());
  }
  for (const LimitHolderView& holder : view.holders) ToProto(holder, out->add_holders());
  for (const LimitWaiterView& waiter : view.waiters) ToProto(waiter, out->add_waiters());
}

Result<Ok> CheckLimitKey(const std::string& key) {
  if (auto problem = LimitKeyProblem(key)) return Bad(*problem);
  return Ok{};
}

Result<LimitChange> ToLimitChange(const v1::SetLimitRequest& request) {
  auto key = CheckLimitKey(request.key());
  if (!key) return key.error();
  const bool fresh = !request.reset();
  if (fresh && ReservedName(request.key())) return Bad(*WrittenKeyProblem(request.key()));
  LimitChange change;
  if (request.has_max()) change.max = request.max();
  change.no_max = request.no_max();
  change.reset = request.reset();
  if (request.has_note()) change.note = request.note();
  if (request.has_rate()) {
    const v1::Rate& rate = request.rate();
    if (rate.count() == 0) {
      change.no_rate = true;
    } else {
      auto per = ToDuration("rate.per", rate.per(), kDurationMax);
      if (!per) return per.error();
      if (*per == Duration::zero()) return Bad("rate.per must be above zero");
      if (rate.count() > kLimitMax || rate.burst() > kLimitMax) {
        return Bad("the numbers of a rate are at most " + std::to_string(kLimitMax));
      }
      change.rate = Rate{rate.count(), *per, rate.burst() == 0 ? 1 : rate.burst()};
    }
  }
  if (!change.max && !change.no_max && !change.rate && !change.no_rate && !change.reset &&
      !change.note) {
    return Bad("nothing is set: give max, no_max, rate, note or reset");
  }
  return change;
}

std::string FiltersOf(const v1::ListLimitsRequest& request) {
  return "limits\n" + (request.namespace_().empty() ? "default" : request.namespace_()) + '\n' +
         request.prefix() + '\n' + (request.waited_for() ? "1" : "0");
}

std::string FiltersOf(const v1::GetLimitRequest& request) {
  return "limit\n" + (request.namespace_().empty() ? "default" : request.namespace_()) + '\n' +
         request.key();
}

}  // namespace dfsmr
