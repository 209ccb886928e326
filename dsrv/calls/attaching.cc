#include "dsrv/calls/attaching.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/survey.h"
#include "dsrv/engine/workers.h"
#include "dsrv/wire/agents.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"

namespace dfsmr {

Result<Ok> Attaching::Register(const v1::AgentMessage& message, v1::WorkRequest* work,
                               const std::string& address) {
  if (registered()) {
    if (!message.has_register_()) return Ok{};
    return Bad("'register' belongs in the first message of an Attach stream only");
  }
  if (!message.has_register_() || !work->has_open()) {
    return Bad("the first message of an Attach stream must hold 'register' and 'work.open'");
  }
  v1::ReadyRequest* const open = work->mutable_open();
  if (!open->worker().empty() || !open->session().empty()) {
    return Bad("'worker' and 'session' of work.open are the agent's: leave them empty, and say them "
               "in 'register'");
  }
  auto row = ToAgent(message.register_(), *open, address);
  if (!row) return row.error();
  row_ = *std::move(row);
  name_ = message.register_().name();
  open->set_worker(name_);
  open->set_session(row_.session);
  if (!open->has_begin_within()) open->mutable_begin_within()->set_seconds(30);
  if (!open->has_keep_for()) open->mutable_keep_for()->set_seconds(10);
  return Ok{};
}

Result<Attaching::Told> Attaching::Take(const v1::AgentMessage& message) {
  if (message.stops_size() > static_cast<int>(limits::kStops)) {
    return TooLarge("stops", static_cast<size_t>(message.stops_size()), limits::kStops);
  }
  struct Stop {
    std::string instance;
    ClaimRef claim;
    bool ended;
  };
  std::vector<Stop> stops;
  for (const v1::StopReport& stop : message.stops()) {
    if (stop.stage() != v1::StopReport::SIGNALLED && stop.stage() != v1::StopReport::ENDED) {
      return Bad("the stage of a stop report must be SIGNALLED or ENDED, not " +
                 std::to_string(stop.stage()));
    }
    stops.push_back({stop.instance(), ClaimRef::Read(stop.claim()),
                     stop.stage() == v1::StopReport::ENDED});
  }
  return Told([stops = std::move(stops), leave = message.leave()](Engine& engine,
                                                                  SessionId stream) {
    Agents& agents = engine.agents();
    agents.Heard(stream);
    for (const Stop& stop : stops) agents.Stopping(stream, stop.instance, stop.claim, stop.ended);
    if (leave) agents.Leave(stream);
  });
}

Result<SessionId> Attaching::Open(
    Engine& engine, const PollArgs& poll, int32_t capacity, SessionSink sink,
    std::function<void(const Agents::Attached& attached)> welcome) const {
  AttachArgs args{poll.filter.ns, name_, row_, poll.filter, poll.terms};
  args.terms.agent = name_;
  args.row.slots = static_cast<uint32_t>(std::max(capacity, 1));
  const WorkerTerms terms = args.terms;
  auto attached = engine.agents().Attach(std::move(args), std::move(sink));
  if (!attached) return attached.error();
  engine.survey().workers().Opened(attached->stream, poll.filter, name_, capacity, terms);
  engine.AfterCommit([welcome = std::move(welcome), attached = *attached] { welcome(attached); });
  return attached->stream;
}

v1::Welcome ToWelcome(const Agents::Attached& attached, const Backend& backend) {
  v1::Welcome welcome;
  ToProto(attached.agent, welcome.mutable_agent());
  ToProto(attached.agent.row.connect_time, welcome.mutable_time());
  for (const std::string& claim : attached.lost_claims) welcome.add_lost_claims(claim);
  welcome.set_logs(backend.logs.keeps());
  return welcome;
}

}  // namespace dfsmr
