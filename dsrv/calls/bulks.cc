#include "dsrv/calls/bulks.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/method.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"

namespace dfsmr {
namespace {

// A preview reads the store; a bulk that is to run is given to the engine.
class StartBulkCall : public std::enable_shared_from_this<StartBulkCall> {
 public:
  StartBulkCall(Call& call, BulkCommand command, v1::Bulk* reply)
      : call_(call), command_(std::move(command)), reply_(reply) {}

  void Start(size_t bytes) {
    PostFor(call_, bytes, [self = shared_from_this()](Engine& engine) {
      auto may = engine.MayChange(self->command_.ns);
      auto view =
          may ? engine.bulks().Start(self->command_.ns, self->command_.id, self->command_.row)
              : Result<BulkView>(may.error());
      engine.AfterCommit([self, view = std::move(view)] {
        if (!view) return self->call_.Fail(view.error());
        ToProto(*view, self->reply_);
        self->call_.Succeed();
      });
    });
  }

  void Preview(size_t bytes) {
    PostFor(call_, bytes, [self = shared_from_this()](Engine& engine) {
      auto settled = engine.Settle(self->command_.ns, "");
      self->now_ = engine.now();
      engine.AfterCommit([self, settled = std::move(settled)] {
        if (!settled) return self->call_.Fail(settled.error());
        self->call_.backend().pool.Post([self] { self->Look(); });
      });
    });
  }

 private:
  void Look() {
    auto whole = Foresee(call_.backend().reader, command_.ns, now_, &command_.row);
    if (!whole) return call_.Fail(whole.error());
    ToProto({command_.ns, command_.id, command_.row}, reply_);
    reply_->mutable_request()->set_validate_only(true);
    reply_->set_at_least(!*whole);
    call_.Succeed();
  }

  Call& call_;
  BulkCommand command_;
  v1::Bulk* const reply_;
  Timestamp now_;
};

}  // namespace

void ServeStartBulk(Call& call, const v1::StartBulkRequest& request, v1::Bulk* reply) {
  call.caller().On(request.id(), v1::StartBulkRequest::Action_IsValid(request.action())
                                     ? v1::StartBulkRequest::Action_Name(request.action()) + " " +
                                           request.filter() +
                                           (request.reason().empty() ? "" : ": " + request.reason())
                                     : "");
  auto command = ToBulk(request, call.backend().loop.Now());
  if (!command) return call.Refuse(command.error());
  if (!call.Enter()) return;
  if (call.caller().principal()) command->row.created_by = call.caller().principal()->row.id;
  const auto start = std::make_shared<StartBulkCall>(call, *std::move(command), reply);
  if (!request.validate_only()) return start->Start(request.ByteSizeLong());
  if (call.backend().pool.Behind(limits::kMailboxWait)) return call.Fail(Overloaded());
  start->Preview(request.ByteSizeLong());
}

namespace {

template <typename Request>
Result<BulkId> ToId(const Request& request) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = CheckInstanceId(request.id());
  if (!checked) return checked.error();
  return BulkId{*std::move(ns), request.id()};
}

}  // namespace

Result<BulkId> ParseGetBulk(const v1::GetBulkRequest& request, const Call&) {
  return ToId(request);
}

Result<BulkView> RunGetBulk(Engine& engine, const Caller&, BulkId& id) {
  return engine.bulks().Get(id.ns, id.id);
}

void ReplyBulk(const BulkView& view, const BulkId&, v1::Bulk* reply) { ToProto(view, reply); }

Result<BulkId> ParseStopBulk(const v1::StopBulkRequest& request, const Call& call) {
  call.caller().On(request.id());
  return ToId(request);
}

Result<BulkView> RunStopBulk(Engine& engine, const Caller&, BulkId& id) {
  return engine.bulks().Stop(id.ns, id.id);
}

Result<ListBulksCommand> ParseListBulks(const v1::ListBulksRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  ListBulksCommand command{*ns, *ns + "\nbulks", "", *limit};
  auto after = ParsePageToken(command.filters, request.page_token());
  if (!after) return after.error();
  command.after = *std::move(after);
  return command;
}

Result<std::vector<BulkView>> RunListBulks(Engine& engine, const Caller&,
                                           ListBulksCommand& command) {
  return engine.bulks().List(command.ns);
}

void ReplyListBulks(const std::vector<BulkView>& views, const ListBulksCommand& command,
                    v1::ListBulksResponse* reply) {
  auto at = views.begin();
  if (!command.after.empty()) {
    at = std::ranges::find(views, command.after, &BulkView::id);
    if (at != views.end()) ++at;
  }
  size_t bytes = 0;
  for (; at != views.end(); ++at) {
    const auto shown = static_cast<size_t>(reply->bulks_size());
    if (shown == command.limit || bytes > limits::kMessage * 3 / 4) {
      reply->set_next_page_token(
          PageToken(command.filters, reply->bulks(static_cast<int>(shown) - 1).request().id()));
      return;
    }
    ToProto(*at, reply->add_bulks());
    bytes += reply->bulks(static_cast<int>(shown)).ByteSizeLong();
  }
}

}  // namespace dfsmr
