#include "dsrv/cluster/part_call.h"

#include "dsrv/access/door_key.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/passing.h"
#include "dsrv/cluster/proof.h"
#include "dsrv/cluster/reach.h"
#include "dsrv/cluster/run_after.h"

namespace dfsmr {
namespace {

using Reply = DirectServices::Reply;
using std::chrono::milliseconds;

constexpr milliseconds kLookAgain{5};  // from one look at the lease to the next

// As the front tells its services who asks.
void Describe(const DirectOrigin& origin, PartitionId partition, grpc::ClientContext* context) {
  const auto add = [context](std::string_view key, const std::string& value) {
    if (!value.empty()) context->AddMetadata(std::string(key), value);
  };
  const std::string bearer(origin.Bearer());
  if (!bearer.empty() && IsPrintable(bearer)) add("authorization", "Bearer " + bearer);
  if (IsPrintable(origin.traceparent())) add("traceparent", origin.traceparent());
  add(door::kKey, door::Key());
  add(door::kPeer, origin.Peer());
  add(door::kCertificate, origin.Certificate());
  add(door::kName, std::string(origin.Door()));
  add(door::kRequestId, origin.RequestId());
  add(door::kNamespaces, std::string(origin.Besides()));
  add(kForPartition, std::to_string(partition));
}

Reply Unanswered(const NoAnswer& why) {
  return {.status = {grpc::StatusCode::UNAVAILABLE, why.message},
          .trailers = {{"dfsmr-reason", std::string(Name(why.reason))}}};
}

}  // namespace

std::shared_ptr<const DirectOrigin> OriginOf(const grpc::GenericCallbackServerContext& outer,
                                             const std::string& namespaces) {
  const Metadata& metadata = outer.client_metadata();
  DirectOrigin::Told told;
  told.bearer = BearerOf(metadata);
  told.traceparent = ValueOf(metadata, "traceparent");
  told.besides = namespaces;
  if (ValueOf(metadata, door::kKey) == door::Key()) {
    told.peer = ValueOf(metadata, door::kPeer);
    told.certificate = ValueOf(metadata, door::kCertificate);
    told.door = ValueOf(metadata, door::kName);
    told.request_id = ValueOf(metadata, door::kRequestId);
  } else {
    told.peer = outer.peer();
    for (const auto& name : outer.auth_context()->FindPropertyValues("x509_common_name")) {
      told.certificate = Text(name);
    }
  }
  return std::make_shared<const DirectOrigin>(std::move(told));
}

// By the way of any call.
struct PartCall::ByGrpc {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer reply;
};

PartCall::PartCall(Front& front, std::shared_ptr<const DirectOrigin> origin, Ask ask, Done done)
    : front_(front),
      origin_(std::move(origin)),
      ask_(std::move(ask)),
      facts_(FactsOf(ask_.method)),
      done_(std::move(done)) {}

void PartCall::Begin() {
  if (!GivenUp() && !AskDirectly()) AskFront();
}

// It was cancelled before it began.
bool PartCall::GivenUp() {
  const Lock lock(mutex_);
  return cancelled_ || over_;
}

// False: it has to go the other way.
bool PartCall::AskDirectly() {
  const auto route = front_.route(ask_.partition);
  if (route->kind != Route::Kind::kHere || !route->direct || front_.ending()) return false;
  if (ReachOf(ask_.method).reach == Reach::kForAll) return false;  // all are to adopt it
  if (!front_.outside().may_answer() || !front_.outside().commits()) return false;
  {
    const Lock lock(mutex_);
    services_ = route->direct;
    asking_ = true;
  }
  const auto self = shared_from_this();
  front_.parts().Enter(self);
  if (GivenUp()) {  // meanwhile
    front_.parts().Leave(this);
    return true;
  }
  auto call = route->direct->Ask(ask_.method, ask_.request, origin_, ask_.deadline,
                                 [self](Reply reply) { self->Answered(std::move(reply)); });
  if (!call) {
    front_.parts().Leave(this);
    return false;
  }
  std::optional<Reply> early;
  bool cancel = false;
  {
    const Lock lock(mutex_);
    asking_ = false;
    early.swap(early_);
    cancel = over_ || cancelled_;
    if (!over_) direct_ = call;
  }
  if (early) {
    RunAfter(milliseconds(0), [self, reply = *std::move(early)] { self->Settle(reply); });
  } else if (cancel) {
    call->Cancel();
  }
  return true;
}

// Together with others --------------------------------------------------------------------------

std::shared_ptr<Peer> PartCall::Way() const {
  const auto route = front_.route(ask_.partition);
  const bool may = route->kind == Route::Kind::kThere && !ask_.waits && !front_.ending() &&
                   ReachOf(ask_.method).reach != Reach::kForAll;
  if (!may || !route->peer->answers || route->peer->silent) return nullptr;
  if (route->peer->channel->GetState(true) != GRPC_CHANNEL_READY) return nullptr;
  return route->peer;
}

void PartCall::Leaves(std::shared_ptr<Peer> peer) {
  const auto self = shared_from_this();
  front_.parts().Enter(self, /*away=*/true);
  bool over = false;
  {
    const Lock lock(mutex_);
    away_ = std::move(peer);
    left_ = LeaseTimeNow();
    over = over_;
  }
  if (over) return front_.parts().Leave(this);
  Compare();  // the front may have gone over its calls just before
}

bool PartCall::IsAway() {
  const Lock lock(mutex_);
  return !over_ && away_;
}

void PartCall::Returns(Reply reply) {
  if (!IsAway()) return;  // it was lost before
  if (/*mutant front-part-not-mine-told*/ !reply.let_in /*end*/) return AskFrontInstead();
  front_.meter().Forwarded(facts_.name, "answered");
  if (!facts_.waits) front_.meter().ForwardTook(LeaseTimeNow() - left_);
  EndAs(std::move(reply));
}

// A server of an earlier version does not know such calls, and has done nothing.
void PartCall::Fails(const grpc::Status& status) {
  const bool unknown = status.error_code() == grpc::StatusCode::UNIMPLEMENTED ||
                       status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
  unknown ? AskFrontInstead() : LoseAway();
}

// What only reads is asked again; of other parts nobody knows whether they were done.
void PartCall::LoseAway() {
  if (!IsAway()) return;
  if (/*mutant front-part-repeats-writes*/ facts_.reads_only /*end*/) return AskFrontInstead();
  front_.meter().Forwarded(facts_.name, "unknown");
  EndAs(Unanswered(WhyLost(facts_.reads_only, front_.ending())));
}

void PartCall::AskFrontInstead() {
  {
    const Lock lock(mutex_);
    if (over_ || !std::exchange(away_, nullptr)) return;
  }
  const auto self = shared_from_this();
  front_.parts().Leave(this);
  AskFront();
}

void PartCall::Compare() {
  std::shared_ptr<Peer> peer;
  {
    const Lock lock(mutex_);
    peer = away_;
  }
  const auto route = front_.route(ask_.partition);
  const bool same = route->kind == Route::Kind::kThere && route->peer == peer;
  if (!peer || (same && !peer->silent)) return;
  RunAfter(kLastWord, [self = shared_from_this()] { self->LoseAway(); });
}

// By the way of any call --------------------------------------------------------------------------

void PartCall::AskFront() {
  auto way = std::make_shared<ByGrpc>();
  Describe(*origin_, ask_.partition, &way->context);
  if (ask_.deadline != Deadline::max()) way->context.set_deadline(ask_.deadline);
  way->request = ToBuffer(ask_.request);
  {
    const Lock lock(mutex_);
    by_grpc_ = way;
    services_.reset();
    direct_.reset();
    if (cancelled_) way->context.TryCancel();
  }
  front_.own()->UnaryCall(
      &way->context, ask_.method, grpc::StubOptions(), &way->request, &way->reply,
      [self = shared_from_this(), way](const grpc::Status& status) {
        Reply reply{.status = status};
        for (const auto& [key, value] : way->context.GetServerTrailingMetadata()) {
          reply.trailers.emplace_back(Text(key), Text(value));
        }
        if (status.ok()) reply.bytes = ToBytes(way->reply);
        self->Finish(std::move(reply));
      });
}

void PartCall::Answered(Reply reply) {
  {
    const Lock lock(mutex_);
    if (over_) return;
    if (asking_) return (void)(early_ = std::move(reply));
  }
  Settle(std::move(reply));
}

// Nothing that this process has decided or read is told without the lease. What its services have
// not let in, since the partition is given to another server, goes there.
void PartCall::Settle(Reply reply) {
  {
    const Lock lock(mutex_);
    if (over_) return;
  }
  const bool closed = /*mutant front-part-closed-told*/
      reply.status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      front_.route(ask_.partition)->kind != Route::Kind::kHere /*end*/;
  if (closed && only_directly_) {
    reply.let_in = false;
    return EndAs(std::move(reply));
  }
  if (closed) {
    front_.parts().Leave(this);
    return AskFront();
  }
  if (/*mutant front-part-without-lease*/ front_.outside().may_answer() /*end*/) {
    return EndAs(std::move(reply));
  }
  RunAfter(kLookAgain,
           [self = shared_from_this(), reply = std::move(reply)] { self->Settle(reply); });
}

void PartCall::EndAs(Reply reply) {
  std::shared_ptr<DirectServices::Call> call;
  const auto self = shared_from_this();
  {
    const Lock lock(mutex_);
    if (over_ || by_grpc_) return;
    over_ = true;
    call.swap(direct_);
  }
  front_.parts().Leave(this);
  if (call) call->Cancel();  // does nothing where it has ended
  Finish(std::move(reply));
}

void PartCall::Finish(Reply reply) {
  const Done done = std::exchange(done_, nullptr);
  done(std::move(reply));
}

void PartCall::Cancel() {
  {
    const Lock lock(mutex_);
    if (over_ || std::exchange(cancelled_, true)) return;
    if (by_grpc_) return by_grpc_->context.TryCancel();
  }
  RunAfter(milliseconds(0), [self = shared_from_this()] {
    self->EndAs({.status = grpc::Status::CANCELLED});
  });
}

// Those under way ---------------------------------------------------------------------------------

PartCalls::PartCalls() : watcher_([this] { Watch(); }) {}

PartCalls::~PartCalls() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  watcher_.join();
}

void PartCalls::Enter(const std::shared_ptr<PartCall>& call, bool away) {
  const Lock lock(mutex_);
  Entry& entry = calls_[call.get()];
  entry.call = call;
  entry.away = away;
  if (call->ask_.deadline == Time::max()) return;
  entry.due = due_.emplace(call->ask_.deadline, call.get());
  if (*entry.due == due_.begin()) changed_.NotifyAll();
}

void PartCalls::Leave(PartCall* call) {
  Entry entry;  // it may be the last that keeps the call
  const Lock lock(mutex_);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  entry = std::move(found->second);
  if (entry.due) due_.erase(*entry.due);
  calls_.erase(found);
}

bool PartCalls::Any(std::optional<PartitionId> of, bool brief) const {
  const Lock lock(mutex_);
  for (const auto& [call, entry] : calls_) {
    const bool counts = !of || (call->ask_.partition == *of && !entry.away);
    if (counts && !(brief && call->facts_.waits)) return true;
  }
  return false;
}

void PartCalls::Lose(std::optional<PartitionId> of, bool ending) {
  std::vector<std::shared_ptr<PartCall>> lost;
  {
    const Lock lock(mutex_);
    for (const auto& [call, entry] : calls_) {
      const bool meant = !of || call->ask_.partition == *of;
      if (ending || (meant && !entry.away)) lost.push_back(entry.call);
    }
  }
  for (const auto& call : lost) {
    const bool stops = ending && call->facts_.reads_only;
    call->EndAs(stops ? Reply{.status = {grpc::StatusCode::UNAVAILABLE, "the server stops"}}
                      : Unanswered(WhyLost(call->facts_.reads_only, ending)));
  }
}

void PartCalls::Rerouted() {
  std::vector<std::shared_ptr<PartCall>> away;
  {
    const Lock lock(mutex_);
    for (const auto& [call, entry] : calls_) {
      if (entry.away) away.push_back(entry.call);
    }
  }
  for (const auto& call : away) call->Compare();
}

// Ends what is not answered in time.
void PartCalls::Watch() {
  Lock lock(mutex_);
  while (!ended_) {
    const Time now = std::chrono::system_clock::now();
    if (due_.empty()) {
      changed_.Wait(lock, [this]() REQUIRES(mutex_) { return ended_ || !due_.empty(); });
    } else if (due_.begin()->first > now) {
      const auto next = due_.begin();
      changed_.WaitFor(lock, next->first - now, [this, next]() REQUIRES(mutex_) {
        return ended_ || due_.empty() || due_.begin() != next;
      });
    } else {
      const auto late = calls_.at(due_.begin()->second).call;
      lock.Unlock();
      late->EndAs({.status = {grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"}});
      lock.Relock();
    }
  }
}

}  // namespace dfsmr
