#include "dsrv/engine/agents.h"

#include <algorithm>

#include "dsrv/engine/claims.h"
#include "dsrv/engine/desk.h"
#include "dsrv/engine/sessions.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/when/calendar.h"

namespace dfsmr {
namespace {

using Presence = rows::AgentRow::Presence;

Error NoSuchAgent(const std::string& name) {
  return {Code::kNotFound, Reason::kNoSuchAgent,
          "no agent " + Quoted(name) + " is connected or was lately; 'dcli agents' lists them"};
}

Error Exists(const std::string& name, const std::string& address) {
  return {Code::kAlreadyExists, Reason::kAgentExists,
          "an agent " + Quoted(name) + " is connected already, from " + address +
              "; choose another name, or stop that one"};
}

bool HasAll(const std::vector<std::string>& has, const std::vector<std::string>& wanted) {
  return std::ranges::all_of(
      wanted, [&](const std::string& word) { return std::ranges::find(has, word) != has.end(); });
}

}  // namespace

Result<Ok> Agents::Recover() {
  return rows::ScanAgents(turn_.reader(),
                          [&](std::string_view ns, std::string_view name, rows::AgentRow row) {
                            const Name key{std::string(ns), std::string(name)};
                            // Its stream ended with the server's life.
                            if (row.presence == Presence::kConnected)
                              row.presence = Presence::kLost;
                            gone_.emplace(row.last_seen, key);
                            operations_.Follow(key, row.session);
                            agents_[key].row = std::move(row);
                          });
}

Result<Ok> Agents::MayAttach(const AttachArgs& args) const {
  const auto at = agents_.find({args.ns, args.name});
  if (at == agents_.end()) {
    if (agents_.size() < limits::kAgents) return Ok{};
    return Error{Code::kResourceExhausted, Reason::kOverloaded,
                 "the server knows " + std::to_string(limits::kAgents) + " agents already"};
  }
  const std::string& session = args.row.session;
  if (/*mutant evicted-comes-back*/ at->second.row.evicted == session /*end*/) {
    return Error{
        Code::kFailedPrecondition, Reason::kAgentEvicted,
        "agent " + Quoted(args.name) + " was evicted by an operator; start it anew to come back"};
  }
  if (/*mutant two-of-a-name*/ at->second.stream != 0 &&
      at->second.row.session != session /*end*/) {
    return Exists(args.name, at->second.row.address);
  }
  return Ok{};
}

Result<Agents::Attached> Agents::Attach(AttachArgs args, SessionSink sink) {
  const Name name{args.ns, args.name};
  const std::string session = args.row.session;
  if (options_.AtHome()) {
    if (auto may = MayAttach(args); !may) return may.error();
  } else if (const auto at = agents_.find(name); at != agents_.end() && at->second.stream != 0 &&
                                                 at->second.row.session != session) {
    // Home has seen the end of it.
    desk_.BreakSession(at->second.stream, Exists(args.name, args.row.address));
  }
  auto stream = desk_.OpenSession(args.filter, args.name, static_cast<int32_t>(args.row.slots),
                                  std::move(sink), args.terms);
  if (!stream) return stream.error();
  Agent& agent = agents_[name];
  Attached attached{*stream, {}, {}};
  if (agent.row.session != session && !agent.row.session.empty()) {
    attached.lost_claims = EndSession(name, agent);
  }
  operations_.Follow(name, session);
  gone_.erase({agent.row.last_seen, name});
  streams_.erase(agent.stream);
  rows::AgentRow row = std::move(args.row);
  /*mutant drain-forgotten*/ row.drained = agent.row.drained; /*end*/
  row.drain_reason = agent.row.drain_reason;
  if (agent.row.session == session) {
    row.done = agent.row.done;
    row.failed = agent.row.failed;
    row.abandoned = agent.row.abandoned;
  }
  row.evicted = agent.row.evicted;
  row.presence = Presence::kConnected;
  row.connect_time = row.last_seen = turn_.real();
  agent = {std::move(row), *stream};
  streams_[*stream] = name;
  Put(name, agent);
  Tell(name, ChangeKind::kAgentConnected);
  if (agent.row.drained) desk_.Hold(*stream, true);
  operations_.Repeat(name, *stream);
  attached.agent = ViewOf(name, agent);
  return attached;
}

// The processes of the agent's last session are gone.
std::vector<std::string> Agents::EndSession(const Name& name, Agent& agent) {
  std::vector<std::string> lost;
  for (const auto& [id, begun] : operations_.BegunBy(name)) lost.push_back(begun.text);
  /*mutant former-session-awaited*/ sessions_.End(
      {name.first, name.second, agent.row.session}); /*end*/
  return lost;
}

Agents::Agent* Agents::OfStream(SessionId stream, const Name** name) {
  auto at = streams_.find(stream);
  if (at == streams_.end()) return nullptr;
  *name = &at->second;
  return &agents_.at(at->second);
}

void Agents::Heard(SessionId stream) {
  const Name* name;
  if (Agent* agent = OfStream(stream, &name)) agent->row.last_seen = turn_.real();
}

void Agents::Stopping(SessionId stream, const std::string& instance, const ClaimRef& claim,
                      bool ended) {
  const Name* name;
  if (OfStream(stream, &name)) operations_.Told(*name, instance, claim, ended);
}

void Agents::Leave(SessionId stream) {
  const Name* name;
  Agent* agent = OfStream(stream, &name);
  if (!agent) return;
  agent->leaving = true;
  desk_.DrainSession(stream);
}

void Agents::Ended(SessionId stream, bool half_closed) {
  const Name* found;
  Agent* agent = OfStream(stream, &found);
  if (!agent) return;
  const Name name = *found;
  streams_.erase(stream);
  agent->stream = 0;
  const bool left = half_closed || (agent->leaving && operations_.CountBy(name, stream) == 0);
  agent->row.presence = left ? Presence::kLeft : Presence::kLost;
  agent->row.last_seen = turn_.real();
  gone_.emplace(agent->row.last_seen, name);
  Put(name, *agent);
  Tell(name, left ? ChangeKind::kAgentLeft : ChangeKind::kAgentLost);
}

Result<Agents::Agent*> Agents::Find(const std::string& ns, const std::string& name) {
  auto at = agents_.find({ns, name});
  if (at == agents_.end() || at->second.row.presence == Presence::kForgotten) {
    return NoSuchAgent(name);
  }
  return &at->second;
}

Result<AgentView> Agents::Drain(const std::string& ns, const std::string& name, bool undo,
                                const std::string& reason) {
  auto agent = Find(ns, name);
  if (!agent) return agent.error();
  rows::AgentRow& row = (*agent)->row;
  if (row.drained == undo) {
    row.drained = !undo;
    row.drain_reason = undo ? "" : reason;
    Put({ns, name}, **agent);
    if ((*agent)->stream != 0) desk_.Hold((*agent)->stream, !undo);
    if ((*agent)->stream == 0 && undo) gone_.emplace(row.last_seen, Name{ns, name});
  }
  return ViewOf({ns, name}, **agent);
}

Result<Agents::Evicted> Agents::Evict(const std::string& ns, const std::string& name) {
  auto found = Find(ns, name);
  if (!found) return found.error();
  const Name key{ns, name};
  Agent& agent = **found;
  Evicted evicted;
  const SessionId stream = agent.stream;
  desk_.Hold(stream, true);  // what it loses is for others
  SessionUpdate orders;
  auto all = operations_.BegunBy(key);
  for (const auto& [id, held] : desk_.InHandOf(stream)) {
    all.try_emplace(id, Operations::Begun{held.instance, held.visit,
                                          rules::ClaimText(ns, held.instance, held.visit, id)});
  }
  for (const auto& [id, begun] : all) {
    orders.cancelled.push_back(begun.text);
    orders.killed.push_back(begun.text);
    claims_.LoseForGood(ns, begun.instance, begun.visit, id);
    ++(claims_.IsLive(ns, begun.instance, begun.visit, id) ? evicted.kept : evicted.given_back);
  }
  operations_.Follow(key, "");
  if (stream != 0) {
    orders.end =
        Error{Code::kFailedPrecondition, Reason::kAgentEvicted,
              "an operator has evicted agent " + Quoted(name) + "; start it anew to come back"};
    desk_.Order(stream, std::move(orders));
    streams_.erase(stream);
    Tell(key, ChangeKind::kAgentLost, "evicted");
  } else {
    gone_.erase({agent.row.last_seen, key});
  }
  const std::string session = agent.row.session;
  sessions_.End({ns, name, session});
  agent = {};
  agent.row.presence = Presence::kForgotten;
  agent.row.evicted = session;
  agent.row.last_seen = turn_.real();
  gone_.emplace(agent.row.last_seen, key);
  Put(key, agent);
  return evicted;
}

AgentView Agents::ViewOf(const Name& name, const Agent& agent) const {
  AgentView view{name.first, name.second, agent.row, AgentState::kNone, 0, {}, {}};
  view.in_hand = operations_.CountBy(name, agent.stream);
  if (agent.stream == 0) {
    view.state = agent.row.presence == Presence::kLeft ? AgentState::kOffline : AgentState::kLost;
  } else if (!agent.row.drained && !agent.leaving) {
    view.state = AgentState::kActive;
  } else {
    view.state = view.in_hand > 0 ? AgentState::kDraining : AgentState::kDrained;
  }
  return view;
}

Result<AgentView> Agents::Get(const std::string& ns, const std::string& name) {
  auto agent = Find(ns, name);
  if (!agent) return agent.error();
  AgentView view = ViewOf({ns, name}, **agent);
  view.operations = operations_.List({ns, name, "", "", 1'000}, {{{ns, name}, (*agent)->stream}});
  view.refuses = desk_.RefusedBy((*agent)->stream);
  return view;
}

std::vector<AgentView> Agents::List(const AgentQuery& query) {
  std::vector<AgentView> views;
  for (auto at = agents_.upper_bound({query.ns, query.after});
       at != agents_.end() && at->first.first == query.ns && views.size() < query.limit; ++at) {
    const Agent& agent = at->second;
    if (agent.row.presence == Presence::kForgotten) continue;
    if (!HasAll(agent.row.capabilities, query.capabilities)) continue;
    const bool labelled = std::ranges::all_of(query.labels, [&](const auto& label) {
      auto of = agent.row.labels.find(label.first);
      return of != agent.row.labels.end() && of->second == label.second;
    });
    if (!labelled) continue;
    AgentView view = ViewOf(at->first, agent);
    if (query.state != AgentState::kNone && view.state != query.state) continue;
    views.push_back(std::move(view));
  }
  return views;
}

std::vector<OperationView> Agents::ListOperations(const OperationQuery& query) {
  std::vector<std::pair<Name, SessionId>> of;
  for (auto at = agents_.lower_bound({query.ns, query.agent});
       at != agents_.end() && at->first.first == query.ns; ++at) {
    if (!query.agent.empty() && at->first.second != query.agent) break;
    of.emplace_back(at->first, at->second.stream);
  }
  return operations_.List(query, of);
}

std::string Agents::WhyNot(const std::string& ns, const std::string& name) const {
  auto at = agents_.find({ns, name});
  if (at == agents_.end() || at->second.row.presence == Presence::kForgotten) return "";
  const Agent& agent = at->second;
  const AgentView view = ViewOf(at->first, agent);
  const std::string since = " since " + UtcText(agent.row.last_seen);
  switch (view.state) {
    case AgentState::kLost:
      return name + " is LOST" + since;
    case AgentState::kOffline:
      return name + " is OFFLINE" + since;
    case AgentState::kDraining:
    case AgentState::kDrained:
      return name + " is drained" +
             (agent.row.drain_reason.empty() ? "" : ": " + agent.row.drain_reason);
    default:
      return "";
  }
}

void Agents::Put(const Name& name, Agent& agent) {
  agent.dirty = false;
  rows::PutAgent(turn_.writer(), name.first, name.second, agent.row);
}

void Agents::Save() {
  for (auto& [name, agent] : agents_) {
    if (agent.dirty) Put(name, agent);
  }
}

void Agents::Forget(const std::string& ns) {
  for (auto it = agents_.lower_bound({ns, ""}); it != agents_.end() && it->first.first == ns;) {
    const auto& [name, agent] = *it;
    operations_.Follow(name, "");
    if (!agent.row.session.empty()) sessions_.End({ns, name.second, agent.row.session});
    if (agent.stream != 0) {
      desk_.BreakSession(agent.stream,
                         {Code::kFailedPrecondition, Reason::kNamespaceDeleting,
                          "namespace " + Quoted(ns) + " is being deleted, with its agents"});
      streams_.erase(agent.stream);
    }
    gone_.erase({agent.row.last_seen, name});
    rows::DropAgent(turn_.writer(), name.first, name.second);
    it = agents_.erase(it);
  }
}

void Agents::Tell(const Name& name, ChangeKind kind, std::string note) {
  if (!options_.AtHome()) return;
  Event event;
  event.kind = kind;
  event.time = turn_.now();
  event.ns = name.first;
  event.client = name.second;
  event.note = std::move(note);
  turn_.Append(&event);
}

void Agents::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  for (const auto& [visit, token_before, token, was, now] : change.claims) {
    if (!was || !was->operation || was->operation->agent.empty() || was->given_back) continue;
    const bool abandoned =
        now && now->operation && now->operation->abandoned && !was->operation->abandoned;
    const bool reported = was->id == change.self && !now;
    if (!abandoned && !reported) continue;
    auto at = agents_.find({instance.ns, was->operation->agent});
    if (at == agents_.end()) continue;
    at->second.dirty = true;
    rows::AgentRow& row = at->second.row;
    if (abandoned) ++row.abandoned;
    const auto& answer = instance.last_answer;
    if (!reported || !answer || answer->claim != was->id) continue;  // it was given back
    ++row.done;
    if (answer->transition == "error") ++row.failed;
  }
}

// Agents that have been away for the retention are forgotten, but not that one is drained: it would
// come back undrained.
void Agents::BeginPass() {
  while (!gone_.empty() && After(gone_.begin()->first, options_.retention) < turn_.real()) {
    const Name name = gone_.begin()->second;
    gone_.erase(gone_.begin());
    if (/*mutant drain-expires*/ agents_.at(name).row.drained /*end*/) continue;
    operations_.Follow(name, "");
    rows::DropAgent(turn_.writer(), name.first, name.second);
    agents_.erase(name);
  }
}

}  // namespace dfsmr
