#include "dsrv/calls/attach_stream.h"

#include <algorithm>
#include <utility>

namespace dfsmr {
namespace {

constexpr auto kSign = std::chrono::seconds(4);  // a message at least every 5 s, with time to spare
constexpr auto kSilence = std::chrono::seconds(15);

}  // namespace

void AttachStream::OnReadDone(bool ok) {
  if (ok) {
    {
      const Lock lock(mutex_);
      heard_ = Clock::now();
    }
    auto taken = attaching_.Register(message_, message_.mutable_work(), context().peer());
    if (!taken) return EndWith(taken.error());
    incoming_.Clear();
    incoming_.Swap(message_.mutable_work());
  }
  ReadDone(ok);
}

Result<std::function<void(Engine&)>> AttachStream::TakeRest() {
  auto told = Attaching::Take(message_);
  message_.Clear();
  if (!told) return told.error();
  return std::function<void(Engine&)>(
      [this, told = *std::move(told)](Engine& engine) { told(engine, session()); });
}

Result<SessionId> AttachStream::OpenIn(Engine& engine, const PollArgs& poll, int32_t capacity,
                                       SessionSink sink) {
  return attaching_.Open(
      engine, poll, capacity, std::move(sink),
      [self = shared_from_this(), this](const Agents::Attached& attached) { Welcome(attached); });
}

void AttachStream::Welcome(const Agents::Attached& attached) {
  const Lock lock(mutex_);
  drained_ = attached.agent.row.drained;
  welcome_ = ToWelcome(attached, backend());
  welcomed_ = true;
  exchange_.Touch();
  WriteOrFinish();
  Arm();
}

void AttachStream::Heeded(const SessionUpdate& update) {
  if (!update.held || update.end) return;  // an evicted agent is not drained
  drained_ = *update.held;
  exchange_.Touch();
}

void AttachStream::WriteNext(const v1::WorkResponse& message) {
  order_.Clear();
  if (welcome_) order_.mutable_welcome()->Swap(&*welcome_);
  welcome_.reset();
  *order_.mutable_work() = message;
  order_.set_drained(drained_);
  StartWrite(&order_);
}

void AttachStream::Arm() {
  if (over_) return;
  const auto silent = std::max<Clock::duration>(heard_ + kSilence - Clock::now(), {});
  alarm_.Set(std::chrono::system_clock::now() + std::min<Clock::duration>(kSign, silent),
             [self = shared_from_this(), this](bool ok) {
               if (ok) Tick();
             });
}

void AttachStream::Tick() {
  Lock lock(mutex_);
  if (over_) return;
  if (Clock::now() - heard_ >= kSilence) {
    lock.Unlock();
    return EndWith({Code::kUnavailable, Reason::kPeerUnreachable,
                    "nothing has come from agent '" + attaching_.name() + "' for 15 s"});
  }
  exchange_.Touch();
  WriteOrFinish();
  Arm();
}

void AttachStream::OnDone() {
  {
    const Lock lock(mutex_);
    over_ = true;
  }
  alarm_.Cancel();
  Done();
}

}  // namespace dfsmr
