#include "dsrv/calls/peer_stream.h"

#include <utility>

#include "dsrv/calls/peers.h"
#include "dsrv/wire/agents.h"

namespace dfsmr {

void PeerStream::OnReadDone(bool ok) {
  if (ok) {
    if (part_.has_agent()) {
      const std::string address = GrpcOrigin(context()).Peer();
      auto taken = attaching_.Register(part_.agent(), part_.mutable_work(), address);
      if (!taken) return EndWith(taken.error());
    }
    incoming_.Clear();
    incoming_.Swap(part_.mutable_work());
  }
  ReadDone(ok);
}

Result<std::function<void(Engine&)>> PeerStream::TakeRest() {
  auto part = std::make_shared<peer::WorkPart>();
  part->Swap(&part_);
  if (part->end() == peer::WorkPart::BROKEN) end_ = StreamEnd::kBroken;
  if (part->end() == peer::WorkPart::HALF_CLOSED) end_ = StreamEnd::kHalfClosed;
  auto told = part->has_agent() ? Attaching::Take(part->agent()) : Attaching::Told();
  if (!told) return told.error();
  const bool plain = part->allow() == 0 && !part->look() && part->held().empty() &&
                     part->unsent().empty() && part->doubtful().empty() &&
                     part->refuses().empty() && !*told;
  if (plain) return std::function<void(Engine&)>();
  return std::function<void(Engine&)>([this, part = std::move(part),
                                       told = *std::move(told)](Engine& engine) {
    const std::string& ns = space();
    engine.Undelivered(ToTasks(ns, part->unsent()), /*perhaps=*/false);
    engine.Undelivered(ToTasks(ns, part->doubtful()), /*perhaps=*/true);
    std::vector<HeldClaim> held;
    for (const peer::Claim& one : part->held()) held.push_back({one.instance(), one.claim()});
    engine.TakeUp(session(), held);
    for (const v1::RefusedWork& one : part->refuses()) engine.Refuse(session(), ToRefused(one));
    if (told) told(engine, session());
    if (part->look()) engine.Allow(session(), 0);
    if (part->allow() > 0) engine.Allow(session(), part->allow());
  });
}

// Of a worker whose credential is none any more the front says nothing: this server has ended it.
StreamEnd PeerStream::EndOf(bool) const {
  const StreamEnd said = end_;
  return said == StreamEnd::kUnknown && revoked_ ? StreamEnd::kHalfClosed : said;
}

Result<SessionId> PeerStream::OpenIn(Engine& engine, const PollArgs& poll, int32_t capacity,
                                     SessionSink sink) {
  PollArgs on_credit = poll;
  on_credit.terms.on_credit = true;
  if (!attaching_.registered()) {
    return WorkStream::OpenIn(engine, on_credit, capacity, std::move(sink));
  }
  {
    const Lock lock(mutex_);
    greets_ = true;
  }
  return attaching_.Open(
      engine, on_credit, capacity, std::move(sink),
      [self = shared_from_this(), this](const Agents::Attached& attached) { Welcome(attached); });
}

void PeerStream::Welcome(const Agents::Attached& attached) {
  const Lock lock(mutex_);
  *next_.mutable_order()->mutable_welcome() = ToWelcome(attached, backend());
  next_.mutable_order()->set_drained(attached.agent.row.drained);
  welcomed_ = true;
  exchange_.Touch();
  WriteOrFinish();
}

void PeerStream::Heeded(const SessionUpdate& update) {
  if (update.levels) {
    next_.clear_levels();
    next_.set_looked(true);
    for (const Agenda::Level& level : *update.levels) ToProto(level, next_.add_levels());
  }
  for (const std::string& claim : update.over) next_.add_over(claim);
  for (const RefusedWork& work : update.refused) ToProto(work, next_.add_refuses());
  for (const HeldClaim& one : update.again) {
    peer::Claim& again = *next_.add_again();
    again.set_instance(one.instance);
    again.set_claim(one.claim);
  }
  if (update.held && !update.end) {  // an evicted agent is not drained
    next_.mutable_order()->set_drained(*update.held);
    exchange_.Touch();
  }
  next_.set_spare(next_.spare() + static_cast<uint32_t>(update.spare));
  const bool claims =
      !update.over.empty() || !update.again.empty() || !update.refused.empty();
  if (update.levels || claims || update.spare > 0) exchange_.Touch();
}

void PeerStream::WriteNext(const v1::WorkResponse& message) {
  reply_.Swap(&next_);
  next_.Clear();
  *reply_.mutable_work() = message;
  StartWrite(&reply_);
}

}  // namespace dfsmr
