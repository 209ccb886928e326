// Who holds a built-in key of limits, and which tasks wait for it, over all partitions. Home knows
// the numbers, and all that have asked for the key.
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

#include "dsrv/cluster/fields.h"
#include "dsrv/cluster/sums.h"
#include "dsrv/wire/pages.h"

namespace dfsmr {
namespace {

constexpr int kHoldersShown = 1'000;

void AddHolders(const v1::Limit& part, v1::Limit* sum) {
  AddRows(
      part.holders(),
      [](const v1::LimitHolder& one) { return std::pair(one.instance(), one.node()); },
      [](const v1::LimitHolder& one, v1::LimitHolder* known) {
        known->set_cancelling(known->cancelling() || one.cancelling());
      },
      sum->mutable_holders());
}

}  // namespace

v1::Limit JoinParts(const v1::GetLimitRequest& request, std::vector<v1::Limit> parts) {
  v1::Limit sum = std::move(parts.front());
  bool more = false;  // tasks wait elsewhere, which no token of home's leads to
  for (size_t i = 1; i < parts.size(); ++i) {
    AddHolders(parts[i], &sum);
    AddNumbers(parts[i], {"waiting"}, &sum);
    more = more || parts[i].waiters_size() > 0;
    sum.mutable_waiters()->MergeFrom(parts[i].waiters());
  }
  std::ranges::stable_sort(
      *sum.mutable_holders(),
      [](const v1::LimitHolder& a, const v1::LimitHolder& b) { return a.since() < b.since(); });
  while (sum.holders_size() > kHoldersShown) sum.mutable_holders()->RemoveLast();
  if (!more) return sum;
  std::ranges::stable_sort(
      *sum.mutable_waiters(), [](const v1::LimitWaiter& a, const v1::LimitWaiter& b) {
        return a.priority() != b.priority() ? a.priority() > b.priority() : a.since() < b.since();
      });
  const auto page = ToPageSize(request.page_size());
  while (page && std::cmp_greater(sum.waiters_size(), *page)) sum.mutable_waiters()->RemoveLast();
  sum.clear_next_page_token();
  return sum;
}

}  // namespace dfsmr
