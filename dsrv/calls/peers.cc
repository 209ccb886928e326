#include "dsrv/calls/peers.h"

#include <atomic>
#include <memory>
#include <utility>

#include "dsrv/calls/tasks.h"
#include "dsrv/feed/cursor.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {
namespace {

// One Peek, which waits in the engine until there is something, or its time is up.
class PeekCall final : public Call::Follower,
                       public Revocable,
                       public std::enable_shared_from_this<PeekCall> {
 public:
  PeekCall(Call& call, PollArgs poll, peer::PeekResponse* reply)
      : call_(call), loop_(call.backend().loop), poll_(std::move(poll)), reply_(reply) {}

  void Begin() {
    call_.Follow(shared_from_this());
    call_.backend().access.Watch(call_.caller(), weak_from_this());
    Mailbox::Mail mail;
    mail.deadline = call_.Deadline();
    mail.bytes = 256;
    mail.run = [self = shared_from_this()](Engine& engine) { self->Run(engine); };
    mail.drop = [self = shared_from_this()] { self->call_.Fail(DeadlinePassed()); };
    if (!loop_.Post(std::move(mail))) call_.Fail(Overloaded());
  }

  void OnCancel() override {
    cancelled_ = true;
    End(std::nullopt);
  }
  void OnDone(bool) override {}
  void Revoke(const Error& why) override { End(why); }

 private:
  void Run(Engine& engine) {
    auto self = shared_from_this();
    if (cancelled_) return engine.AfterCommit([self] { self->call_.Succeed(); });
    auto parked = engine.Peek(std::move(poll_), [self](const std::vector<Agenda::Level>& levels) {
      for (const Agenda::Level& level : levels) ToProto(level, self->reply_->add_levels());
      self->call_.Succeed();
    });
    if (!parked) {
      return engine.AfterCommit([self, why = parked.error()] { self->call_.Fail(why); });
    }
    waiter_ = *parked;
    if (waiter_ != 0) call_.Waits();
  }

  void End(std::optional<Error> why) {
    (void)loop_.Post({.run =
                          [self = shared_from_this(), why](Engine& engine) {
                            if (self->waiter_ == 0 || !engine.CancelPoll(self->waiter_)) return;
                            engine.AfterCommit([self, why] {
                              why ? self->call_.Fail(*why) : self->call_.Succeed();
                            });
                          },
                      .drop = [] {},
                      .owed = true});
  }

  Call& call_;  // not used after it has ended
  Loop& loop_;
  PollArgs poll_;
  peer::PeekResponse* const reply_;
  std::atomic<bool> cancelled_{false};
  WaiterId waiter_ = 0;  // in the loop only
};

}  // namespace

void ToProto(const Agenda::Level& level, peer::PeekResponse::Level* out) {
  out->set_priority(level.priority);
  out->set_tasks(static_cast<uint32_t>(level.entries));
  ToProto(level.since.front(), out->mutable_since());
  for (size_t i = 1; i < level.since.size(); ++i) {
    out->add_later(static_cast<uint64_t>(Micros(level.since[i]) - Micros(level.since.front())));
  }
}

void ServePeek(Call& call, const v1::ReadyRequest& request, peer::PeekResponse* reply) {
  auto poll = ToAllowedPoll(request, call);
  if (!poll) return call.Refuse(poll.error());
  if (!call.Enter()) return;
  std::make_shared<PeekCall>(call, *std::move(poll), reply)->Begin();
}

void ServeReadFeed(Call& call, const peer::ReadFeedRequest& request,
                   peer::ReadFeedResponse* reply) {
  auto filter = ToChangeFilter(request.changes());
  if (!filter) return call.Refuse(filter.error());
  if (!call.Enter()) return;
  const PartitionId partition = static_cast<PartitionId>(request.partition());
  call.backend().pool.Post([&call, partition, after = request.after(), filter = *std::move(filter),
                            reply] {
    Changes& changes = call.backend().changes;
    const auto read = changes.ReadOther(partition, after, filter);
    if (!read) return call.Fail(read.error());
    v1::ChangesResponse& told = *reply->mutable_changes();
    for (const auto& change : (*read)->changes) (void)told.add_changes()->ParseFromString(*change);
    told.set_cursor(CursorText(changes.CursorAt((*read)->up_to)));
    reply->set_whole((*read)->at_head);
    call.Succeed();
  });
}

std::vector<Task> ToTasks(const std::string& ns,
                          const google::protobuf::RepeatedPtrField<peer::Claim>& claims) {
  std::vector<Task> tasks;
  for (const peer::Claim& one : claims) {
    const auto claim = ClaimRef::Read(one.claim());
    Task& task = tasks.emplace_back();
    task.ns = ns;
    task.instance = one.instance();
    task.visit = claim.visit;
    task.claim_id = claim.id;
  }
  return tasks;
}

Result<GiveBackCommand> ParseGiveBack(const peer::GiveBackRequest& request, const Call&) {
  const std::string& ns = request.namespace_();
  return GiveBackCommand{ToTasks(ns.empty() ? "default" : ns, request.tasks()), request.perhaps()};
}

Result<Ok> RunGiveBack(Engine& engine, const Caller&, GiveBackCommand& command) {
  engine.Undelivered(command.tasks, command.perhaps);
  return Ok{};
}

void ReplyGiveBack(const Ok&, const GiveBackCommand&, peer::GiveBackResponse*) {}

}  // namespace dfsmr
