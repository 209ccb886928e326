#include "dsrv/engine/desk.h"

#include <algorithm>

#include "dsrv/engine/claims.h"
#include "dsrv/engine/handouts.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kPollEndsPerPass = 1'000;
constexpr size_t kTasksPerMessage = 200;  // of a stream, so that one message stays small

// What the former stream of a session is told.
Error TakenOver(const WorkerTerms& terms) {
  const std::string text =
      "another stream has been opened with the session " + Quoted(terms.session);
  if (terms.agent.empty()) return {Code::kFailedPrecondition, Reason::kStaleClaim, text};
  return {Code::kAlreadyExists, Reason::kAgentExists,
          text + " of agent " + Quoted(terms.agent) + ": it is connected there now"};
}

std::vector<Handling::Refusal> RefusalsOf(const Token& token) {
  return token.handling ? token.handling->refusals : std::vector<Handling::Refusal>();
}

}  // namespace

Desk::Stream* Desk::StreamOf(SessionId session) {
  auto it = waiters_.find(session);
  return it == waiters_.end() ? nullptr : std::get_if<Stream>(&it->second.kind);
}

size_t Desk::CapacityOf(const Waiter& waiter) {
  const Stream& stream = std::get<Stream>(waiter.kind);
  if (stream.idle() || stream.in_hand.size() >= waiter.max) return 0;
  return waiter.max - stream.in_hand.size();
}

bool Desk::Asks(const Waiter& waiter) {
  return CapacityOf(waiter) > 0 && !std::get<Stream>(waiter.kind).told;
}

std::optional<Error> Desk::Crowded(std::string_view what) const {
  if (waiters_.size() < limits::kWaiters) return std::nullopt;
  return Error{Code::kResourceExhausted, Reason::kOverloaded,
               "the server holds " + std::to_string(limits::kWaiters) +
                   " waiting polls and streams already" + std::string(what)};
}

WaiterId Desk::Park(WaiterId id, Waiter waiter) {
  agenda_.AddWaiter(id, waiter.filter, waiter.worker);
  waiters_.emplace(id, std::move(waiter));
  return id;
}

// Polls -----------------------------------------------------------------------------------------

Result<WaiterId> Desk::Poll(PollArgs args, PollSink sink) {
  if (auto full = turn_.NeedsRoom(Room::kScarce)) return *std::move(full);
  bool durable = true;
  const auto max = static_cast<size_t>(args.max_tasks);
  args.terms.keep_for = {};  // a poll has no stream that could break
  if (!refusals_.empty()) {
    args.filter.refuses = refusals_.NodesOf(WorkRefusals::Of(args.filter.ns, args.terms, 0));
  }
  auto tasks = handouts_.Take(args.filter, {args.worker, 0, args.terms}, max, &durable);
  NoteBusy(args.filter, args.worker, tasks);
  if (!tasks.empty() || args.until <= turn_.real() || handouts_.stopped()) {
    turn_.Answer(durable, [sink = std::move(sink), tasks = std::move(tasks)]() mutable {
      sink(std::move(tasks));
    });
    return WaiterId{0};
  }
  if (auto crowded = Crowded("; try again with a shorter wait")) return *std::move(crowded);
  const WaiterId id = turn_.NextId();
  poll_ends_.emplace(args.until, id);
  return Park(id, {std::move(args.filter), std::move(args.worker), max, std::move(args.terms),
                   Parked{std::move(sink), args.until}});
}

Result<WaiterId> Desk::Peek(PollArgs args, PeekSink sink) {
  if (!refusals_.empty()) {
    args.filter.refuses = refusals_.NodesOf(WorkRefusals::Of(args.filter.ns, args.terms, 0));
  }
  const auto max = static_cast<size_t>(args.max_tasks);
  auto levels = handouts_.stopped() ? std::vector<Agenda::Level>()
                                    : agenda_.Peek(args.filter, args.worker, max);
  if (!levels.empty() || args.until <= turn_.real() || handouts_.stopped()) {
    turn_.Answer(true, [sink = std::move(sink), levels = std::move(levels)]() mutable {
      sink(std::move(levels));
    });
    return WaiterId{0};
  }
  if (auto crowded = Crowded("; try again with a shorter wait")) return *std::move(crowded);
  const WaiterId id = turn_.NextId();
  poll_ends_.emplace(args.until, id);
  return Park(id, {std::move(args.filter), std::move(args.worker), max, std::move(args.terms),
                   Parked{std::move(sink), args.until}});
}

void Desk::NoteBusy(const Filter& filter, const std::string& worker,
                    const std::vector<Task>& tasks) {
  if (tasks.empty() || (filter.capabilities.empty() && !agenda_.watches_names())) return;
  const auto shared = std::make_shared<const Filter>(filter);
  for (const Task& task : tasks) busy_[task.claim_id] = {worker, shared};
}

bool Desk::CancelPoll(WaiterId poll) {
  auto it = waiters_.find(poll);
  const Parked* parked = it == waiters_.end() ? nullptr : std::get_if<Parked>(&it->second.kind);
  if (!parked) return false;
  poll_ends_.erase({parked->until, poll});
  agenda_.RemoveWaiter(poll);
  waiters_.erase(it);
  return true;
}

void Desk::AnswerPoll(WaiterId poll, std::vector<Task> tasks, bool durable) {
  const auto& sink = std::get<Parked>(waiters_.at(poll).kind).sink;
  if (std::holds_alternative<PeekSink>(sink)) return AnswerPeek(poll);
  auto tell = [sink = std::get<PollSink>(sink), tasks = std::move(tasks)]() mutable {
    sink(std::move(tasks));
  };
  turn_.Answer(durable, std::move(tell));
  CancelPoll(poll);
}

void Desk::AnswerPeek(WaiterId poll) {
  const Waiter& waiter = waiters_.at(poll);
  auto levels = handouts_.stopped()
                    ? std::vector<Agenda::Level>()
                    : agenda_.Peek(waiter.filter, waiter.worker, waiter.max);
  auto tell = [sink = std::get<PeekSink>(std::get<Parked>(waiter.kind).sink),
               levels = std::move(levels)]() mutable { sink(std::move(levels)); };
  turn_.Answer(/*durable=*/true, std::move(tell));
  CancelPoll(poll);
}

void Desk::EndPolls() {
  while (refusals_.Due() <= turn_.real()) Refilter(refusals_.Forget(turn_.real()));
  for (size_t ended = 0; PollsDue() <= turn_.real(); ++ended) {
    if (ended == kPollEndsPerPass) return turn_.WantMore();
    AnswerPoll(poll_ends_.begin()->second, {}, /*durable=*/true);
  }
}

// Streams ---------------------------------------------------------------------------------------

Result<SessionId> Desk::OpenSession(Filter filter, std::string worker, int32_t capacity,
                                    SessionSink sink, WorkerTerms terms) {
  if (auto full = turn_.NeedsRoom(Room::kScarce)) return *std::move(full);
  if (auto crowded = Crowded("")) return *std::move(crowded);
  const SessionId id = turn_.NextId();
  if (!refusals_.empty()) filter.refuses = refusals_.NodesOf(WorkRefusals::Of(filter.ns, terms, id));
  if (terms.keep_for > Duration()) {
    const SessionId former = sessions_.Open(filter.ns, terms, id);
    if (former != 0) BreakSession(former, TakenOver(terms));
  }
  Stream stream{std::move(sink)};
  if (terms.on_credit) stream.credit = 0;
  Park(id, {std::move(filter), std::move(worker), static_cast<size_t>(capacity), std::move(terms),
            std::move(stream)});
  Count(waiters_.at(id), +1);
  if (handouts_.stopped()) DrainSession(id);
  return id;
}

void Desk::DrainSession(SessionId session) {
  Stream* stream = StreamOf(session);
  if (!stream || stream->draining) return;
  Count(waiters_.at(session), -1);
  stream->draining = true;
  Count(waiters_.at(session), +1);
  agenda_.RemoveWaiter(session);
  /*mutant drained-too-early*/ if (!stream->in_hand.empty())
    return; /*end*/
  Tell(session, [](SessionUpdate& update) { update.drained = true; });
}

void Desk::CloseSession(SessionId session, StreamEnd how) {
  Stream* stream = StreamOf(session);
  if (!stream) return;
  const auto in_hand = std::move(stream->in_hand);
  Count(waiters_.at(session), -1);
  const std::string ns = waiters_.at(session).filter.ns;
  agenda_.RemoveWaiter(session);
  sessions_.Close(session, how);
  waiters_.erase(session);
  // What it has in hand goes with the partition.
  if (how == StreamEnd::kUnknown && handouts_.stopped()) return;
  for (const auto& [claim, held] : in_hand) {
    switch (how) {
      case StreamEnd::kBroken:
        claims_.Abandon(ns, held.instance, held.visit, claim);
        break;
      case StreamEnd::kHalfClosed:
        claims_.Return(ns, held.instance, held.visit, claim);
        break;
      case StreamEnd::kUnknown:
        claims_.Leave(ns, held.instance, held.visit, claim);
        break;
    }
  }
}

void Desk::BreakSession(SessionId session, Error why) {
  if (!StreamOf(session)) return;
  Tell(session, [&](SessionUpdate& update) { update.end = std::move(why); });
}

void Desk::Hold(SessionId session, bool held) {
  Stream* stream = StreamOf(session);
  if (!stream || stream->held == held) return;
  const Waiter& waiter = waiters_.at(session);
  Count(waiter, -1);
  stream->held = held;
  Count(waiter, +1);
  agenda_.RemoveWaiter(session);
  if (Asks(waiter)) agenda_.AddWaiter(session, waiter.filter, waiter.worker);
  Tell(session, [held](SessionUpdate& update) { update.held = held; });
}

void Desk::Allow(SessionId session, size_t tasks) {
  Stream* stream = StreamOf(session);
  if (!stream || !stream->credit) return;
  const Waiter& waiter = waiters_.at(session);
  const bool asked = Asks(waiter);
  stream->told = false;
  if (tasks == 0) return TellLevels(session, asked);
  *stream->credit += tasks;
  allowed_.push_back(session);
  if (!asked && Asks(waiter)) agenda_.AddWaiter(session, waiter.filter, waiter.worker);
}

void Desk::TellLevels(SessionId session, bool asked) {
  Waiter& waiter = waiters_.at(session);
  Stream& stream = std::get<Stream>(waiter.kind);
  auto levels = stream.idle() ? std::vector<Agenda::Level>()
                              : agenda_.Peek(waiter.filter, waiter.worker, CapacityOf(waiter));
  stream.told = !levels.empty();
  if (asked && !Asks(waiter)) agenda_.RemoveWaiter(session);
  /*mutant told-in-vain-asks-no-more*/ if (!asked && Asks(waiter))
    agenda_.AddWaiter(session, waiter.filter, waiter.worker); /*end*/
  Tell(session, [&](SessionUpdate& update) { update.levels = std::move(levels); },
       /*durable=*/true);
}

void Desk::TakeUp(SessionId session, const std::vector<HeldClaim>& held) {
  const Stream* stream = StreamOf(session);
  if (!stream || !stream->credit) return;
  const std::string ns = waiters_.at(session).filter.ns;
  for (const HeldClaim& one : held) TakeUp(session, ns, one);
}

void Desk::TakeUp(SessionId session, const std::string& ns, const HeldClaim& held) {
  ExtendArgs args{.session = session, .takes_up = true};
  sessions_.Complete(ns, &args);
  const Extended taken =
      claims_.Extend(ns, held.instance, ClaimRef::Read(held.claim), std::nullopt, std::move(args));
  if (!taken.error && !taken.cancel_requested) return;
  Tell(session, [&](SessionUpdate& update) {
    update.cancelled.push_back(held.claim);
    if (taken.kill_requested) update.killed.push_back(held.claim);
    if (taken.error) {
      update.over.push_back(held.claim);
    } else {
      update.finishable.push_back(held.claim);
    }
  });
}

void Desk::Order(SessionId session, SessionUpdate orders) {
  if (!StreamOf(session)) return;
  Tell(session, [&](SessionUpdate& update) {
    std::ranges::move(orders.cancelled, std::back_inserter(update.cancelled));
    std::ranges::move(orders.killed, std::back_inserter(update.killed));
    std::ranges::move(orders.finishable, std::back_inserter(update.finishable));
    if (orders.end) update.end = std::move(orders.end);
  });
}

void Desk::Count(const Waiter& stream, ptrdiff_t by) {
  Filter asks = stream.filter;
  asks.refuses.clear();
  const auto at = streams_.try_emplace(std::move(asks)).first;
  at->second.open += by;
  if (std::get<Stream>(stream.kind).idle()) at->second.idle += by;
  if (at->second.open == 0) streams_.erase(at);
}

std::map<ClaimId, Desk::InHand> Desk::InHandOf(SessionId session) const {
  auto at = waiters_.find(session);
  const Stream* stream = at == waiters_.end() ? nullptr : std::get_if<Stream>(&at->second.kind);
  return stream ? stream->in_hand : std::map<ClaimId, InHand>();
}

void Desk::StopHandingOut(bool moves) {
  handouts_.Stop();
  std::vector<WaiterId> all;
  for (const auto& [id, waiter] : waiters_) all.push_back(id);
  for (WaiterId id : all) {
    const Stream* stream = StreamOf(id);
    if (stream && stream->credit && moves) {
      Tell(id, [](SessionUpdate& update) {
        update.end = Error{Code::kUnavailable, Reason::kNone,
                           "the partition is given to another server"};
        update.answers_first = true;
      });
    } else if (stream) {
      DrainSession(id);
    } else {
      AnswerPoll(id, {}, /*durable=*/true);
    }
  }
}

void Desk::AfterCommit(SessionId session, std::function<void(bool)> tell) {
  answers_[session].push_back(std::move(tell));
}

void Desk::AfterPass(SessionId session, std::function<void(bool)> tell) {
  early_answers_[session].push_back(std::move(tell));
}

void Desk::Tell(SessionId session, const std::function<void(SessionUpdate&)>& note, bool durable) {
  note(updates_[session]);
  if (!durable) updates_wait_.insert(session);
}

void Desk::PassOn(Answers* all, bool durable) {
  for (auto& [session, answers] : *all) {
    const bool open = waiters_.contains(session);  // else no two need be of one stream
    const bool updated = updates_.contains(session) && updates_wait_.contains(session) != durable;
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool more = open && (updated || i + 1 < answers.size());
      auto answer = [tell = std::move(answers[i]), more] { tell(more); };
      durable ? turn_.Answer(true, std::move(answer)) : turn_.AfterCommit(std::move(answer));
    }
  }
  all->clear();
}

void Desk::TellSessions() {
  for (const SessionId session : std::exchange(allowed_, {})) {
    Stream* stream = StreamOf(session);
    const size_t spare = stream ? std::exchange(*stream->credit, 0) : 0;
    if (spare == 0) continue;
    Tell(session, [spare](SessionUpdate& update) { update.spare += spare; }, /*durable=*/true);
  }
  PassOn(&early_answers_, /*durable=*/true);
  PassOn(&answers_, /*durable=*/false);
  for (auto& [session, update] : updates_) {
    const Stream* stream = StreamOf(session);
    if (!stream) continue;
    turn_.Answer(
        !updates_wait_.contains(session),
        [sink = stream->sink, update = std::move(update)]() mutable { sink(std::move(update)); });
  }
  updates_.clear();
  updates_wait_.clear();
}

// Hand-outs -------------------------------------------------------------------------------------

bool Desk::Serve() {
  bool served = false;
  while (!handouts_.tired()) {
    const auto match = agenda_.NextMatch();
    if (!match) break;
    ServeOne(match->first, match->second);
    served = true;
  }
  return served;
}

void Desk::ServeOne(WaiterId id, const Filter& filter) {
  Waiter& waiter = waiters_.at(id);
  bool durable = true;
  Stream* stream = std::get_if<Stream>(&waiter.kind);
  if (!stream) {
    const auto& sink = std::get<Parked>(waiter.kind).sink;
    if (std::holds_alternative<PeekSink>(sink)) return AnswerPeek(id);
    auto tasks = handouts_.Take(filter, {waiter.worker, 0, waiter.terms}, waiter.max, &durable);
    NoteBusy(filter, waiter.worker, tasks);
    if (!tasks.empty()) AnswerPoll(id, std::move(tasks), durable);
    return;
  }
  if (stream->credit == 0u) return TellLevels(id, Asks(waiter));
  const size_t most =
      std::min({CapacityOf(waiter), kTasksPerMessage, stream->credit.value_or(SIZE_MAX)});
  auto tasks = handouts_.Take(filter, {waiter.worker, id, waiter.terms}, most, &durable);
  if (tasks.empty()) return;
  if (stream->credit) *stream->credit -= tasks.size();
  for (const Task& task : tasks) stream->in_hand[task.claim_id] = {task.instance, task.visit};
  if (CapacityOf(waiter) == 0) agenda_.RemoveWaiter(id);
  Tell(
      id,
      [&](SessionUpdate& update) { std::ranges::move(tasks, std::back_inserter(update.tasks)); },
      durable);
}

// Claims of streams -----------------------------------------------------------------------------

void Desk::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  for (const ClaimChange& claim : change.claims) {
    const auto& [visit, token_before, token, before, now] = claim;
    if (claim.Left(&Claim::Live)) Free(change, visit, *before);
    const bool given_back = now && before && now->id == change.self && now->given_back;
    if (given_back && token->handling && token->handling->refusals != RefusalsOf(*token_before)) {
      NoteRefusal(change, *token, *now);
    }
    if (claim.Has(&Claim::Live) && now->session != 0) HoldInHand(instance, visit, *now);
    // It is another stream's from now on: it does not end with the former one.
    Stream* const former = before && now && before->session != now->session
                               ? StreamOf(before->session)
                               : nullptr;
    if (former && former->in_hand.erase(before->id) > 0 && former->credit) {
      Tell(before->session, [&, visit = visit, before = before](SessionUpdate& update) {
        update.over.push_back(rules::ClaimText(instance, visit, before->id));
      });
    }
  }
  if (instance.Stopped() || !change.Cancelled()) return;
  for (const Token& token : instance.tokens) {
    for (const Claim& claim : token.claims) {
      if (!claim.Live() || claim.session == 0) continue;
      Tell(claim.session, [&](SessionUpdate& update) {
        /*mutant stream-not-told-of-cancel*/ update.cancelled.push_back(
            rules::ClaimText(instance, token.visit, claim.id)); /*end*/
        update.finishable.push_back(update.cancelled.back());
      });
    }
  }
}

void Desk::NoteRefusal(const Change& change, const Token& token, const Claim& claim) {
  const auto key = handouts_.KeyOf(*change.resident.version, *change.resident.graph, token);
  const bool named = claim.operation && !claim.operation->session.empty();
  if (!key || (!named && claim.session == 0)) return;
  WorkerTerms terms;
  if (named) terms.session = claim.operation->session;
  if (named) terms.agent = claim.operation->agent;
  const auto who = WorkRefusals::Of(key->ns, terms, claim.session);
  const RefusedWork work{key->machine, key->version, key->node,
                         token.handling->refusals.back().reason,
                         After(turn_.real(), WorkRefusals::kFor)};
  refusals_.Note(who, work);
  /*mutant refused-offered-again*/ Refilter(who, &work); /*end*/
}

void Desk::Refuse(SessionId session, RefusedWork work) {
  if (!StreamOf(session)) return;
  const Waiter& waiter = waiters_.at(session);
  const auto who = WorkRefusals::Of(waiter.filter.ns, waiter.terms, session);
  refusals_.Note(who, std::move(work));
  Refilter(who);
}

void Desk::Refilter(const WorkRefusals::Who& who, const RefusedWork* fresh) {
  for (auto& [id, waiter] : waiters_) {
    if (WorkRefusals::Of(waiter.filter.ns, waiter.terms, id) != who) continue;
    waiter.filter.refuses = refusals_.NodesOf(who);
    if (fresh && StreamOf(id)) {
      Tell(id, [fresh](SessionUpdate& update) { update.refused.push_back(*fresh); });
    }
    agenda_.RemoveWaiter(id);
    const bool open = std::holds_alternative<Parked>(waiter.kind) || Asks(waiter);
    if (open) agenda_.AddWaiter(id, waiter.filter, waiter.worker);
  }
}

std::vector<RefusedWork> Desk::RefusedBy(SessionId session) const {
  auto at = waiters_.find(session);
  if (at == waiters_.end()) return {};
  return refusals_.By(WorkRefusals::Of(at->second.filter.ns, at->second.terms, session));
}

// A claim has ended: its stream may have another task, and hears of it unless it ended it itself.
void Desk::Free(const Change& change, uint64_t visit, const Claim& claim) {
  if (!busy_.empty() && claim.session == 0) busy_.erase(claim.id);
  Stream* stream = claim.session == 0 ? nullptr : StreamOf(claim.session);
  if (!stream) return;
  const Waiter& waiter = waiters_.at(claim.session);
  const bool asked = Asks(waiter);
  stream->in_hand.erase(claim.id);
  if (stream->credit) {
    Tell(claim.session, [&](SessionUpdate& update) {
      update.over.push_back(rules::ClaimText(change.instance(), visit, claim.id));
    });
  }
  /*mutant planted-17*/ if (!asked && Asks(waiter))
    agenda_.AddWaiter(claim.session, waiter.filter, waiter.worker); /*end*/
  const bool drained = stream->draining && stream->in_hand.empty();
  if (claim.id == change.self && !drained) return;
  Tell(claim.session, [&](SessionUpdate& update) {
    if (claim.id != change.self) {
      std::string text = rules::ClaimText(change.instance(), visit, claim.id);
      if (change.instance().cancel == CancelMode::kKill) update.killed.push_back(text);
      update.cancelled.push_back(std::move(text));
    }
    update.drained = drained;
  });
}

// A claim that had timed out is alive again: it counts against its stream's capacity as before.
void Desk::HoldInHand(const Instance& instance, uint64_t visit, const Claim& claim) {
  Stream* stream = StreamOf(claim.session);
  if (!stream || stream->in_hand.contains(claim.id)) return;
  /*mutant revived-not-in-hand*/ stream->in_hand[claim.id] = {instance.id, visit}; /*end*/
  if (stream->credit) {
    Tell(claim.session, [&](SessionUpdate& update) {
      update.again.push_back({instance.id, rules::ClaimText(instance, visit, claim.id)});
    });
  }
  if (CapacityOf(waiters_.at(claim.session)) == 0) agenda_.RemoveWaiter(claim.session);
}

}  // namespace dfsmr
