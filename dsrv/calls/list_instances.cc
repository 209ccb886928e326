#include "dsrv/calls/list_instances.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/calls/counters.h"
#include "dsrv/calls/explaining.h"
#include "dsrv/calls/method.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/survey.h"
#include "dsrv/wire/lists.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/requests.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

constexpr size_t kExplainedAtOnce = 50;  // instances, in one turn of the engine

// One list, from the engine to the store, and with those that wait back to the engine.
class Listing : public std::enable_shared_from_this<Listing> {
 public:
  Listing(Call& call, InstanceQuery query, std::string filters, v1::ListInstancesResponse* reply)
      : call_(call), query_(std::move(query)), filters_(std::move(filters)), reply_(reply) {}

  void Begin(size_t bytes) {
    PostFor(call_, bytes, [self = shared_from_this()](Engine& engine) {
      auto settled = engine.Settle(self->query_.ns, "");
      if (const std::string* after = self->query_.filter.Exact(FilterKey::kAfter)) {
        self->query_.followers = engine.survey().FollowersOf(self->query_.ns, *after);
      }
      NoteMachines(engine.survey(), &self->query_);
      self->tasks_limited_ = engine.limits().TasksLimited();
      engine.AfterCommit([self, settled = std::move(settled)] {
        if (!settled) return self->call_.Fail(settled.error());
        self->call_.backend().pool.Post([self] { self->Read(); });
      });
    });
  }

 private:
  void Read() {
    auto page = ReadInstances(Moment(call_.backend().reader), query_);
    if (!page) return call_.Fail(page.error());
    page_ = *std::move(page);
    SkipPlain();
    next_ < page_.instances.size() ? Ask() : Reply();
  }

  // The next that waits, of which the engine knows more.
  void SkipPlain() {
    while (next_ < page_.instances.size() &&
           !LimitReader::Concern(page_.instances[next_].instance, tasks_limited_)) {
      ++next_;
    }
  }

  void Ask() {
    Mailbox::Mail mail{
        .run = [self = shared_from_this()](Engine& engine) { self->Explain(engine); },
        .drop = [self = shared_from_this()] { self->call_.Fail(DeadlinePassed()); }};
    mail.deadline = call_.Deadline();
    mail.owed = true;
    if (!call_.backend().loop.Post(std::move(mail))) call_.Fail(Stopping());
  }

  // In the engine's loop. What it knows now may be newer than what was read.
  void Explain(Engine& engine) {
    for (size_t left = kExplainedAtOnce; left > 0 && next_ < page_.instances.size(); --left) {
      InstanceView& view = page_.instances[next_];
      auto waits = std::make_shared<InstanceWaits>(engine.limits().reader().WaitsOf(view.instance));
      explained_.push_back({view.instance.id, waits.get()});
      view.waits = std::move(waits);
      ++next_;
      SkipPlain();
    }
    if (next_ < page_.instances.size()) return Ask();
    engine.AfterCommit([self = shared_from_this()] {
      ExplainWaits(self->call_.backend(), self->query_.ns, self->explained_, [self] {
        self->call_.backend().pool.Post([self] { self->Reply(); });
      });
    });
  }

  void Reply() {
    for (const InstanceView& view : page_.instances) {
      query_.brief ? ToProtoBrief(view, reply_->add_instances())
                   : ToProto(view, reply_->add_instances());
    }
    reply_->set_looked_at(page_.looked_at);
    if (page_.back_to != Timestamp()) ToProto(page_.back_to, reply_->mutable_back_to());
    if (query_.tells_places) {
      const PlacesOfPage places{std::move(page_.places), std::move(page_.last)};
      reply_->set_next_page_token(PageToken(filters_, TextOf(places)));
    } else if (!page_.last.empty()) {
      reply_->set_next_page_token(PageToken(filters_, page_.last));
    }
    call_.Succeed();
  }

  Call& call_;
  InstanceQuery query_;
  const std::string filters_;  // that the page token is valid for
  v1::ListInstancesResponse* const reply_;
  bool tasks_limited_ = false;
  InstancePage page_;
  size_t next_ = 0;  // that is to be explained
  std::vector<WaitsRef> explained_;
};

}  // namespace

void ServeListInstances(Call& call, const v1::ListInstancesRequest& request,
                        v1::ListInstancesResponse* reply) {
  auto query = ToQuery(request, call.backend().loop.Now());
  if (!query) return call.Refuse(query.error());
  if (!call.Enter()) return;
  if (call.backend().pool.Behind(limits::kMailboxWait)) return call.Fail(Overloaded());
  std::make_shared<Listing>(call, *std::move(query), FiltersOf(request), reply)
      ->Begin(request.ByteSizeLong());
}

}  // namespace dfsmr
