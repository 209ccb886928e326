#include "dsrv/cluster/passing.h"

#include <algorithm>
#include <charconv>

#include "dsrv/access/door_key.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/metadata.h"

namespace dfsmr {
namespace {

using std::chrono::seconds;

constexpr LeaseTime kForOwner = seconds(2);
constexpr LeaseTime kForWay = seconds(1);  // to the owner, or to the lease
constexpr LeaseTime kBetweenTries = std::chrono::milliseconds(20);

NoAnswer Stops() { return {Reason::kNone, "the server stops"}; }

}  // namespace

NoAnswer WhyLost(bool reads_only, bool ending) {
  if (reads_only) {
    return {Reason::kNoOwner,
            "the server that owned the partition was lost while it answered: ask again"};
  }
  return {Reason::kOutcomeUnknown,
          ending ? "the server stops while the call is under way: it may be done"
                 : "the server that owned the partition was lost while the call was under way: it "
                   "may be done"};
}

// The call as it is asked of one owner. All its work is the Passing's.
class Passing::Try final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Try(std::shared_ptr<Passing> call, const Route& route) : call_(std::move(call)), route_(route) {}

  // The call lives until its last reaction.
  void OnReadInitialMetadataDone(bool ok) override { call_->TakeStart(this, ok); }
  void OnReadDone(bool ok) override { call_->TakeReply(this, ok); }
  void OnWriteDone(bool ok) override { call_->TakeWritten(this, ok); }
  void OnDone(const grpc::Status& status) override {
    const auto call = std::move(call_);
    const auto self = std::move(self_);
    call->TakeEnd(this, status);
  }

  // From now on nothing is begun but by what is under way.
  void Close() {
    if (closed) return;
    closed = true;
    RemoveHold();
  }

  grpc::ClientContext context;
  grpc::ByteBuffer in;
  grpc::ByteBuffer out;
  bool closed = false;
  bool writing = false;
  size_t sent = 0;         // messages, or on their way
  bool said_all = false;   // the end of the messages, too
  bool abandoned = false;  // nobody wants its answer
  bool lost = false;       // its owner is another one by now
  const Route& route() const { return route_; }

 private:
  friend class Passing;
  std::shared_ptr<Passing> call_;
  std::shared_ptr<Try> self_;
  const Route route_;
};

Passing::Passing(Front& front, grpc::GenericCallbackServerContext* context)
    : front_(front),
      context_(context),
      method_(context->method()),
      facts_(FactsOf(context->method())) {}

void Passing::Begin() {
  self_ = shared_from_this();
  front_.Enter(self_);
  const bool known = Identify();
  const Lock lock(mutex_);
  if (!known) {
    return Finish(grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                               "what came with the call does not prove that another server of "
                               "this store passed it on"));
  }
  const bool part = !origin_.partition.empty();  // of a call that was there before
  if (front_.closed() && !from_front_ && !part) return Finish(Stops());
  Read();
  if (!facts_.many_requests) return;
  FindPartition();
  Ask(LeaseTimeNow());
}

bool Passing::Identify() {
  const Metadata& metadata = context_->client_metadata();
  const std::string proof = ValueOf(metadata, kPassedOn);
  const bool by_door = ValueOf(metadata, door::kKey) == door::Key();
  if (by_door || !proof.empty()) {
    origin_.peer = ValueOf(metadata, door::kPeer);
    origin_.certificate = ValueOf(metadata, door::kCertificate);
    origin_.door = ValueOf(metadata, door::kName);
    origin_.request_id = ValueOf(metadata, door::kRequestId);
    page_ = metadata.contains({door::kPage.data(), door::kPage.size()});
  } else {
    origin_.peer = context_->peer();
    for (const auto& name : context_->auth_context()->FindPropertyValues("x509_common_name")) {
      origin_.certificate = Text(name);
    }
  }
  origin_.method = method_;
  if (/*mutant front-client-names-partition*/ by_door || !proof.empty() /*end*/) {
    origin_.partition = ValueOf(metadata, kForPartition);
    origin_.namespaces = ValueOf(metadata, door::kNamespaces);
  }
  from_front_ = !proof.empty();
  const bool proven =
      !from_front_ ||
      /*mutant front-proof-unchecked*/ Proven(front_.outside().secret, proof, &origin_) /*end*/;
  return proven && IdentifyPartition();
}

// The front that it comes from, or who has scattered it, knows for which partition it is.
bool Passing::IdentifyPartition() {
  if (origin_.partition.empty()) return true;
  const char* const end = origin_.partition.data() + origin_.partition.size();
  const Lock lock(mutex_);
  const auto read = std::from_chars(origin_.partition.data(), end, partition_);
  return read.ec == std::errc() && read.ptr == end && partition_ < front_.outside().partitions;
}

// By its first message, if it has one.
void Passing::FindPartition() {
  const uint16_t partitions = front_.outside().partitions;
  if (partitions == 1 || from_front_ || !origin_.partition.empty()) return;
  grpc::Slice request;
  if (first_ && !first_->DumpToSingleSlice(&request).ok()) return;
  const std::string_view bytes(reinterpret_cast<const char*>(request.begin()), request.size());
  const Destination to = DestinationOf(ReachOf(method_), bytes, partitions);
  any_partition_ = to.kind == Destination::Kind::kAnyOne;
  partition_ = any_partition_ ? front_.AnyPartition() : to.partition;
}

// The client's side. -------------------------------------------------------------------------

void Passing::Read() {
  if (reading_) return;
  reading_ = true;
  StartRead(&incoming_);
}

void Passing::OnReadDone(bool ok) {
  const Lock lock(mutex_);
  reading_ = false;
  if (finished_) return;
  if (!ok) {
    asked_all_ = true;
    if (taken_ == 0 && !facts_.many_requests && !end_) {
      return Finish(grpc::Status(grpc::StatusCode::INTERNAL, "the call came without a request"));
    }
    return WriteOn();
  }
  if (++taken_ == 1) first_ = incoming_;
  if (taken_ == 2) first_.reset();
  unsent_.push_back(incoming_);
  incoming_.Clear();
  if (facts_.many_requests) return WriteOn();
  asked_all_ = true;
  FindPartition();
  Ask(LeaseTimeNow());
}

void Passing::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  telling_ = false;
  if (end_) return FinishNow();
  if (!try_ || try_->closed) return;
  if (ok) return try_->StartRead(&try_->in);
  try_->context.TryCancel();
  try_->Close();
}

void Passing::OnCancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  if (finished_) return;
  if (direct_) return direct_->Cancel();
  if (!try_) return Finish(grpc::Status::CANCELLED);
  try_->context.TryCancel();
  try_->Close();
}

// The owner's side. --------------------------------------------------------------------------

// Asks the owner, or waits for one.
void Passing::Ask(LeaseTime now) {
  if (end_ || finished_) return;
  if (cancelled_) return Finish(grpc::Status::CANCELLED);
  // Nothing was sent yet, or nothing done.
  if (/*mutant front-any-waits*/ any_partition_ &&
      RouteNow()->kind == Route::Kind::kNobody /*end*/) {
    partition_ = front_.AnyPartition();
  }
  const auto route = RouteNow();
  if (from_front_ &&
      /*mutant front-forwards-twice*/ (route->kind != Route::Kind::kHere ||
                                       origin_.receiver != front_.outside().self) /*end*/) {
    context_->AddTrailingMetadata(kNotMine, "1");
    return Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "another server is the owner"));
  }
  if (!asking_) asking_since_ = now;
  const bool begun = asking_;
  asking_ = true;
  if (auto why = Patience(*route, now)) {
    if (why->reason != Reason::kNone) return Finish(*std::move(why));
    if (!begun) front_.Wait(self_);
    return;
  }
  asking_ = false;
  Send(*route, begun);
  // The front may have gone over its calls for another route just before this one was sent.
  Compare();
}

// Nothing: the way is free. Without a reason: it is not, but may yet be.
std::optional<NoAnswer> Passing::Patience(const Route& route, LeaseTime now) {
  if (now < not_before_) return NoAnswer{};
  const LeaseTime waited = now - asking_since_;
  const auto late = [&](LeaseTime most) { return waited >= most || front_.ending(); };
  switch (route.kind) {
    case Route::Kind::kHere:
      if (front_.outside().may_answer() &&
          /*mutant front-store-unheeded*/ front_.outside().commits() /*end*/) {
        return std::nullopt;
      }
      if (!late(kForWay)) return NoAnswer{};
      return NoAnswer{Reason::kStoreUnreachable,
                      "the store has not answered this server, which owns its partition, for a "
                      "second or longer"};
    case Route::Kind::kThere:
      // GetState begins to connect where there is no connection.
      if (route.peer->channel->GetState(true) == GRPC_CHANNEL_READY && route.peer->answers) {
        return std::nullopt;
      }
      if (route.peer->silent) break;  // it is not an owner any more, or will not be soon
      if (!late(kForWay)) return NoAnswer{};
      return NoAnswer{Reason::kPeerUnreachable, "server " + route.peer->id +
                                                    ", which owns the "
                                                    "partition, cannot be reached at " +
                                                    route.peer->address + " from the server asked"};
    case Route::Kind::kNobody:
      break;
  }
  if (!late(kForOwner)) return NoAnswer{};
  return NoAnswer{Reason::kNoOwner,
                  "no server owns the partition: one of them takes it within seconds"};
}

void Passing::Describe(grpc::ClientContext* context, const Route& route) {
  PassOn(context_->client_metadata(), context);
  const auto add = [context](std::string_view key, const std::string& value) {
    if (!value.empty()) context->AddMetadata(std::string(key), value);
  };
  add(door::kPeer, origin_.peer);
  add(door::kCertificate, origin_.certificate);
  add(door::kName, origin_.door);
  add(door::kRequestId, origin_.request_id);
  add(door::kPage, page_ ? "1" : "");
  const std::string partition = partition_ == kHome ? "" : std::to_string(partition_);
  add(kForPartition, partition);
  add(door::kNamespaces, origin_.namespaces);
  if (route.kind == Route::Kind::kHere) {
    add(door::kKey, door::Key());
  } else {
    PassedOn passed = origin_;
    passed.sender = front_.outside().self;
    passed.receiver = route.peer->id;
    passed.partition = partition;
    add(kPassedOn, Prove(front_.outside().secret, passed));
  }
  if (context_->deadline() != std::chrono::system_clock::time_point::max()) {
    context->set_deadline(context_->deadline());
  }
}

// One that has waited is sent by the thread that looks after all of these, which must not be held
// up by what the services do with it.
void Passing::Send(const Route& route, bool waited) {
  if (route.kind == Route::Kind::kHere && !waited && SendDirectly(route)) return;
  forwarded_ = forwarded_ || route.kind == Route::Kind::kThere;
  try_ = std::make_shared<Try>(self_, route);
  try_->self_ = try_;
  Describe(&try_->context, route);
  grpc::GenericStub& stub =
      route.kind == Route::Kind::kHere ? *try_->route().inside : try_->route().peer->stub;
  stub.PrepareBidiStreamingCall(&try_->context, method_, grpc::StubOptions(), try_.get());
  try_->AddHold();
  try_->StartCall();
  // Within the process a reply that comes together with the end of its call is lost, unless it is
  // waited for by then.
  if (!facts_.many_replies) try_->StartRead(&try_->in);
  WriteOn();
}

void Passing::WriteOn() {
  if (!try_ || try_->closed || try_->writing || try_->said_all) return;
  if (unsent_.empty()) {
    if (!asked_all_) return;
    try_->said_all = true;
    return try_->StartWritesDone();
  }
  try_->out = std::move(unsent_.front());
  unsent_.pop_front();
  try_->writing = true;
  ++try_->sent;
  if (facts_.many_requests) return try_->StartWrite(&try_->out);
  try_->said_all = true;
  try_->StartWriteLast(&try_->out, grpc::WriteOptions());
}

void Passing::Abandon() {
  if (direct_) direct_->Cancel();
  direct_.reset();
  if (!try_) return;
  try_->abandoned = true;
  try_->context.TryCancel();
  try_->Close();
  try_.reset();
}

void Passing::TakeStart(Try* from, bool ok) {
  const Lock lock(mutex_);
  if (!facts_.many_replies) return;  // it goes out with the reply
  if (from->abandoned || finished_ || end_ || !ok) return from->Close();
  if (!started_) {
    AddStart(from->context);
    started_ = true;
    StartSendInitialMetadata();
  }
  from->StartRead(&from->in);
}

void Passing::AddStart(const grpc::ClientContext& from) {
  for (const auto& [key, value] : from.GetServerInitialMetadata()) {
    const std::string name = Text(key);
    if (IsPassedBack(name)) context_->AddInitialMetadata(name, Text(value));
  }
}

void Passing::TakeWritten(Try* from, bool ok) {
  const Lock lock(mutex_);
  from->writing = false;
  if (from->abandoned || from->closed || !ok) return;
  if (finished_ || end_ || !facts_.many_requests) return;
  if (!asked_all_ && unsent_.empty()) Read();
  WriteOn();
}

void Passing::TakeReply(Try* from, bool ok) {
  const Lock lock(mutex_);
  if (from->abandoned || finished_ || end_ || !ok) return from->Close();
  reply_.Swap(&from->in);
  have_reply_ = true;
  // The end of the call follows, and the reply goes out with it.
  if (!facts_.many_replies) return from->Close();
  Tell();
}

void Passing::TakeEnd(Try* from, const grpc::Status& status) {
  const Lock lock(mutex_);
  if (from->abandoned || try_.get() != from) return;
  const Metadata& trailers = from->context.GetServerTrailingMetadata();
  const bool not_mine = trailers.contains(kNotMine);
  const bool nothing_done =
      /*mutant front-moved-is-lost*/ not_mine || Closed(*from, status) /*end*/;
  if (!cancelled_ && (nothing_done || OwnerLost(*from, status))) {
    const bool repeats = nothing_done || from->sent == 0 ||
                         /*mutant front-repeats-writes*/ facts_.reads_only /*end*/;
    return repeats && !told_ && (from->sent == 0 || first_) ? AskAgain() : Lost();
  }
  PassTrailersBack(from->context, context_);
  if (have_reply_ && !facts_.many_replies) AddStart(from->context);
  IsForAll(*from, status) ? Spread(status) : Finish(status);
}

bool Passing::IsForAll(const Try& from, const grpc::Status& status) const {
  return status.ok() && from.route().kind == Route::Kind::kHere &&
         front_.outside().partitions > 1 && ReachOf(method_).reach == Reach::kForAll;
}

// What home has changed all adopt before the caller hears of it.
void Passing::Spread(const grpc::Status& status) {
  const MethodReach method = ReachOf(method_);
  grpc::Slice request;
  std::string ns;
  if (first_ && method.ns != 0 && first_->DumpToSingleSlice(&request).ok()) {
    const std::string_view bytes(reinterpret_cast<const char*>(request.begin()), request.size());
    ns = TextOfField(bytes, method.ns).value_or("");
    if (ns.empty()) ns = "default";
  }
  front_.outside().spread(ns, [self = self_, status] {
    const Lock lock(self->mutex_);
    self->Finish(status);
  });
}

// The services of this process have not let the call in, since they are being closed: the partition
// is given to another server.
bool Passing::Closed(const Try& from, const grpc::Status& status) {
  return from.route().kind == Route::Kind::kHere && !told_ &&
         status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         RouteNow()->kind != Route::Kind::kHere;
}

// The owner's word has its mark; without it, it is gRPC that says that the connection is gone.
bool Passing::OwnerLost(const Try& from, const grpc::Status& status) {
  if (from.route().kind != Route::Kind::kThere) return false;
  const Metadata& trailers = from.context.GetServerTrailingMetadata();
  if (/*mutant front-dead-owner-known*/ trailers.contains(kBy) /*end*/) return false;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return true;
    default:
      return false;
  }
}

// Nothing was done, or nothing that could not be done again.
void Passing::AskAgain() {
  const LeaseTime now = LeaseTimeNow();
  if (!lost_since_) lost_since_ = now;
  if (now - *lost_since_ > 2 * kForOwner) return Lost();
  if (!try_ || try_->sent > 0) unsent_.push_front(*first_);
  try_.reset();
  have_reply_ = false;
  asking_ = true;
  asking_since_ = now;
  not_before_ = now + kBetweenTries;
  front_.Wait(self_);
}

// What is told. ------------------------------------------------------------------------------

// Nothing that this process has decided or read is told without the lease.
bool Passing::MayTell() {
  if (!try_ || try_->route().kind != Route::Kind::kHere) return true;
  return /*mutant front-tells-without-lease*/ front_.outside().may_answer() /*end*/;
}

void Passing::Tell() {
  if (!have_reply_ || telling_ || finished_) return;
  if (!MayTell()) return front_.Wait(self_);
  have_reply_ = false;
  told_ = true;
  started_ = true;
  telling_ = true;
  StartWrite(&reply_);
}

void Passing::Lost() { Finish(WhyLost(facts_.reads_only, front_.ending())); }

void Passing::Finish(NoAnswer why) {
  if (auto cluster = method_ == "/dfsmr.v1.ClusterService/GetCluster" && !from_front_
                         ? front_.outside().cluster(BearerOf(context_->client_metadata()))
                         : std::nullopt) {
    reply_.Swap(&*cluster);
    have_reply_ = true;
    Abandon();
    return Finish(grpc::Status::OK);
  }
  forwarded_ = forwarded_ || why.reason == Reason::kPeerUnreachable;
  outcome_ = why.reason == Reason::kPeerUnreachable  ? "unreachable"
             : why.reason == Reason::kOutcomeUnknown ? "unknown"
                                                     : "unavailable";
  if (why.reason != Reason::kNone) {
    context_->AddTrailingMetadata("dfsmr-reason", std::string(Name(why.reason)));
  }
  have_reply_ = false;
  Abandon();
  Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, why.message));
}

void Passing::Finish(grpc::Status status) {
  if (end_ || finished_) return;
  end_ = std::move(status);
  if (!telling_) FinishNow();
}

void Passing::FinishNow() {
  if (finished_) return;
  if (!MayTell()) return front_.Wait(self_);
  if (have_reply_ && facts_.many_replies) return Tell();  // and then comes here again
  finished_ = true;
  Count();
  if (from_front_) context_->AddTrailingMetadata(kBy, front_.outside().self);
  if (have_reply_ && end_->ok()) {
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), *end_);
  } else {
    grpc::ServerGenericBidiReactor::Finish(*end_);
  }
  Abandon();
  unsent_.clear();
  front_.Leave(this);
}

void Passing::Count() {
  if (!forwarded_) return;
  front_.meter().Forwarded(facts_.name, cancelled_ ? "cancelled" : outcome_);
  if (Brief() && !cancelled_) front_.meter().ForwardTook(LeaseTimeNow() - began_);
}

// From the front. ----------------------------------------------------------------------------

bool Passing::Tick(LeaseTime now) {
  const Lock lock(mutex_);
  if (finished_) return false;
  if (asking_) {
    Ask(now);
    return asking_ && !finished_ && !end_;
  }
  const bool dying = try_ && try_->lost;
  if (dying && now >= give_up_) try_->context.TryCancel();
  if (!have_reply_ && !end_) return dying && now < give_up_;
  if (!MayTell()) return true;
  if (end_ && !telling_) {
    FinishNow();
  } else {
    Tell();
  }
  return dying && now < give_up_;
}

void Passing::Rerouted() {
  const Lock lock(mutex_);
  Compare();
}

void Passing::Compare() {
  if (!try_ || try_->route().kind != Route::Kind::kThere) return;
  const auto route = RouteNow();
  const bool same =
      route->kind == Route::Kind::kThere && route->peer->id == try_->route().peer->id;
  // Nothing comes from a server that hangs or was cut off, and nobody says so.
  const bool cut_off = same && !route->peer->answers && (OfFeed() || route->peer->silent);
  if ((same && !cut_off) || try_->lost) return;
  try_->lost = true;
  give_up_ = LeaseTimeNow() + kLastWord;
  front_.Wait(self_);
}

void Passing::LoseInside(std::optional<PartitionId> of) {
  const Lock lock(mutex_);
  if (of && *of != partition_) return;
  if (!try_ || try_->route().kind != Route::Kind::kHere || finished_) return;
  end_.reset();
  Abandon();
  Lost();
}

void Passing::End() {
  const Lock lock(mutex_);
  if (finished_ || end_) return;
  const bool sent = direct_ || (try_ && try_->sent > 0);
  Abandon();
  sent && !facts_.reads_only ? Lost() : Finish(Stops());
}

bool Passing::IsInside(const Front::Inside& which) {
  const Lock lock(mutex_);
  if (which.single && facts_.many_requests) return false;
  if (which.of && *which.of != partition_) return false;
  return try_ && try_->route().kind == Route::Kind::kHere;
}

}  // namespace dfsmr
