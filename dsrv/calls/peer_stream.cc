#include "dsrv/calls/peer_stream.h"

#include <utility>

#include "dsrv/calls/peers.h"

namespace dfsmr {

void PeerStream::OnReadDone(bool ok) {
  if (ok) {
    incoming_.Clear();
    incoming_.Swap(part_.mutable_work());
  }
  ReadDone(ok);
}

Result<std::function<void(Engine&)>> PeerStream::TakeRest() {
  const size_t allow = part_.allow();
  const bool look = part_.look();
  part_.Clear();
  if (allow == 0 && !look) return std::function<void(Engine&)>();
  return std::function<void(Engine&)>([this, allow, look](Engine& engine) {
    if (look) engine.Allow(session(), 0);
    if (allow > 0) engine.Allow(session(), allow);
  });
}

Result<SessionId> PeerStream::OpenIn(Engine& engine, const PollArgs& poll, int32_t capacity,
                                     SessionSink sink) {
  PollArgs on_credit = poll;
  on_credit.terms.on_credit = true;
  return WorkStream::OpenIn(engine, on_credit, capacity, std::move(sink));
}

void PeerStream::Heeded(const SessionUpdate& update) {
  if (update.levels) {
    next_.clear_levels();
    next_.set_looked(true);
    for (const Agenda::Level& level : *update.levels) ToProto(level, next_.add_levels());
  }
  if (update.in_hand) next_.set_in_hand(static_cast<uint32_t>(*update.in_hand));
  next_.set_spare(next_.spare() + static_cast<uint32_t>(update.spare));
  if (update.levels || update.in_hand || update.spare > 0) exchange_.Touch();
}

void PeerStream::WriteNext(const v1::WorkResponse& message) {
  reply_.Swap(&next_);
  next_.Clear();
  *reply_.mutable_work() = message;
  StartWrite(&reply_);
}

}  // namespace dfsmr
