#include "dsrv/calls/attach_stream.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/survey.h"
#include "dsrv/wire/agents.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

constexpr auto kSign = std::chrono::seconds(4);  // a message at least every 5 s, with time to spare
constexpr auto kSilence = std::chrono::seconds(15);

}  // namespace

Result<Ok> AttachStream::TakeRegister() {
  if (registered_) {
    if (!message_.has_register_()) return Ok{};
    return Bad("'register' belongs in the first message of an Attach stream only");
  }
  if (!message_.has_register_() || !message_.work().has_open()) {
    return Bad("the first message of an Attach stream must hold 'register' and 'work.open'");
  }
  v1::ReadyRequest* open = message_.mutable_work()->mutable_open();
  if (!open->worker().empty() || !open->session().empty()) {
    return Bad("'worker' and 'session' of work.open are the agent's: leave them empty, and say them "
               "in 'register'");
  }
  auto row = ToAgent(message_.register_(), *open, context().peer());
  if (!row) return row.error();
  row_ = *std::move(row);
  name_ = message_.register_().name();
  registered_ = true;
  open->set_worker(name_);
  open->set_session(row_.session);
  if (!open->has_begin_within()) open->mutable_begin_within()->set_seconds(30);
  if (!open->has_keep_for()) open->mutable_keep_for()->set_seconds(10);
  return Ok{};
}

void AttachStream::OnReadDone(bool ok) {
  if (ok) {
    {
      const Lock lock(mutex_);
      heard_ = Clock::now();
    }
    auto taken = TakeRegister();
    if (!taken) return EndWith(taken.error());
    incoming_.Clear();
    incoming_.Swap(message_.mutable_work());
  }
  ReadDone(ok);
}

Result<std::function<void(Engine&)>> AttachStream::TakeRest() {
  if (message_.stops_size() > static_cast<int>(limits::kStops)) {
    return TooLarge("stops", static_cast<size_t>(message_.stops_size()), limits::kStops);
  }
  struct Stop {
    std::string instance;
    ClaimRef claim;
    bool ended;
  };
  std::vector<Stop> stops;
  for (const v1::StopReport& stop : message_.stops()) {
    if (stop.stage() != v1::StopReport::SIGNALLED && stop.stage() != v1::StopReport::ENDED) {
      return Bad("the stage of a stop report must be SIGNALLED or ENDED, not " +
                 std::to_string(stop.stage()));
    }
    stops.push_back({stop.instance(), ClaimRef::Read(stop.claim()),
                     stop.stage() == v1::StopReport::ENDED});
  }
  const bool leave = message_.leave();
  message_.Clear();
  return std::function<void(Engine&)>([this, stops = std::move(stops), leave](Engine& engine) {
    Agents& agents = engine.agents();
    agents.Heard(session());
    for (const Stop& stop : stops) {
      agents.Stopping(session(), stop.instance, stop.claim, stop.ended);
    }
    if (leave) agents.Leave(session());
  });
}

Result<SessionId> AttachStream::OpenIn(Engine& engine, const PollArgs& poll, int32_t capacity,
                                       SessionSink sink) {
  AttachArgs args{poll.filter.ns, name_, row_, poll.filter, poll.terms};
  args.terms.agent = name_;
  args.row.slots = static_cast<uint32_t>(std::max(capacity, 1));
  auto attached = engine.agents().Attach(std::move(args), std::move(sink));
  if (!attached) return attached.error();
  WorkerTerms terms = poll.terms;
  terms.agent = name_;
  engine.survey().workers().Opened(attached->stream, poll.filter, name_, capacity, terms);
  engine.AfterCommit([self = shared_from_this(), this, attached = *attached] {
    Welcome(attached);
  });
  return attached->stream;
}

void AttachStream::Welcome(const Agents::Attached& attached) {
  const Lock lock(mutex_);
  v1::Welcome welcome;
  ToProto(attached.agent, welcome.mutable_agent());
  ToProto(attached.agent.row.connect_time, welcome.mutable_time());
  for (const std::string& claim : attached.lost_claims) welcome.add_lost_claims(claim);
  drained_ = attached.agent.row.drained;
  welcome.set_logs(backend().logs.keeps());
  welcome_ = std::move(welcome);
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
  alarm_.Set(std::chrono::system_clock::now() + kSign,
             [self = shared_from_this(), this](bool ok) {
               if (ok) Tick();
             });
}

void AttachStream::Tick() {
  Lock lock(mutex_);
  if (over_) return;
  if (Clock::now() - heard_ > kSilence) {
    lock.Unlock();
    return EndWith({Code::kUnavailable, Reason::kPeerUnreachable,
                    "nothing has come from agent '" + name_ + "' for 15 s"});
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
