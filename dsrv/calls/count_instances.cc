#include "dsrv/calls/count_instances.h"

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "dsrv/calls/counters.h"
#include "dsrv/calls/method.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/search.h"
#include "dsrv/wire/views.h"

namespace dfsmr {
namespace {

using By = v1::CountInstancesRequest::By;

constexpr size_t kCountedAtOnce = 20'000;  // that match, in one reply

// The groups that an instance counts in.
std::set<std::string> GroupsOf(const InstanceView& view, By by) {
  switch (by) {
    case v1::CountInstancesRequest::STATE:
      return {std::string(Name(view.instance.state))};
    case v1::CountInstancesRequest::RESULT:
      return {std::string(Name(view.instance.result))};
    case v1::CountInstancesRequest::MACHINE:
      return {view.instance.machine};
    case v1::CountInstancesRequest::NODE:
      return {view.nodes.begin(), view.nodes.end()};
    default:
      return {};
  }
}

class CountCall : public std::enable_shared_from_this<CountCall> {
 public:
  CountCall(Call& call, InstanceQuery query, By by, std::string filters, std::string counted,
            v1::CountInstancesResponse* reply)
      : call_(call),
        query_(std::move(query)),
        by_(by),
        filters_(std::move(filters)),
        counted_(std::move(counted)),
        reply_(reply) {}

  void Begin(size_t bytes) {
    PostFor(call_, bytes, [self = shared_from_this()](Engine& engine) {
      if (self->counted_.empty()) {
        auto counted =
            CountByCounters(engine.survey(), self->query_.ns, self->query_.filter, self->by_);
        if (counted) {
          engine.AfterCommit([self, counted = *std::move(counted)] {
            *self->reply_ = counted;
            self->call_.Succeed();
          });
          return;
        }
      }
      if (const std::string* after = self->query_.filter.Exact(FilterKey::kAfter)) {
        self->query_.followers = engine.survey().FollowersOf(self->query_.ns, *after);
      }
      NoteMachines(engine.survey(), &self->query_);
      auto settled = engine.Settle(self->query_.ns, "");
      engine.AfterCommit([self, settled = std::move(settled)] {
        if (!settled) return self->call_.Fail(settled.error());
        self->call_.backend().pool.Post([self] { self->Search(); });
      });
    });
  }

 private:
  // The token says what was counted before, and the last id of that.
  void Search() {
    if (!counted_.empty()) {
      const size_t zero = counted_.find('\0');
      query_.after = counted_.substr(0, zero);
      (void)reply_->ParseFromString(counted_.substr(zero + 1));
    }
    auto page = SearchById(Moment(call_.backend().reader), query_, kCountedAtOnce);
    if (!page) return call_.Fail(page.error());
    reply_->set_total(reply_->total() + page->hits.size());
    reply_->set_looked_at(reply_->looked_at() + page->looked_at);
    for (const SearchHit& hit : page->hits) {
      for (const std::string& group : GroupsOf(hit.view, by_)) AddToGroup(group, 1, reply_);
    }
    if (!page->last.empty()) {
      const std::string so_far = reply_->SerializeAsString();
      reply_->set_next_page_token(PageToken(filters_, page->last + '\0' + so_far));
    }
    call_.Succeed();
  }

  Call& call_;
  InstanceQuery query_;
  const By by_;
  const std::string filters_;
  const std::string counted_;
  v1::CountInstancesResponse* const reply_;
};

}  // namespace

void ServeCountInstances(Call& call, const v1::CountInstancesRequest& request,
                         v1::CountInstancesResponse* reply) {
  if (!v1::CountInstancesRequest::By_IsValid(request.by())) {
    return call.Refuse(
        Bad("by " + std::to_string(request.by()) + " is not what can be counted by"));
  }
  v1::ListInstancesRequest list;
  list.set_namespace_(request.namespace_());
  list.set_filter(request.filter());
  auto query = ToQuery(list, call.backend().loop.Now());
  if (!query) return call.Refuse(query.error());
  query->patience = kSearchPatience;
  const std::string filters = FiltersOf(request);
  auto counted = ParsePageToken(filters, request.page_token());
  if (!counted) return call.Refuse(counted.error());
  if (!call.Enter()) return;
  if (call.backend().pool.Behind(limits::kMailboxWait)) return call.Fail(Overloaded());
  std::make_shared<CountCall>(call, *std::move(query), request.by(), filters, *std::move(counted),
                              reply)
      ->Begin(request.ByteSizeLong());
}

}  // namespace dfsmr
