// Polls and Work streams that wait for work, and what streams are told.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/refusals.h"
#include "dsrv/engine/sessions.h"

namespace dfsmr {

class Desk : public Part {
 public:
  Desk(OpenTurn& turn, Agenda& agenda, Claims& claims, HandOuts& handouts, Sessions& sessions)
      : turn_(turn), agenda_(agenda), claims_(claims), handouts_(handouts), sessions_(sessions) {}

  // As Engine's methods of the same names.
  Result<WaiterId> Poll(PollArgs args, PollSink sink);
  Result<WaiterId> Peek(PollArgs args, PeekSink sink);
  bool CancelPoll(WaiterId poll);
  Result<SessionId> OpenSession(Filter filter, std::string worker, int32_t capacity,
                                SessionSink sink, WorkerTerms terms);
  void DrainSession(SessionId session);
  void CloseSession(SessionId session, StreamEnd how);
  // Of a session on credit: it may be handed so many tasks in this pass, and is told how many of
  // them it was not. Of none it is told what there is, also when that is nothing.
  void Allow(SessionId session, size_t tasks);
  // Of a session on credit whose worker had these in hand when their partition changed hands, or
  // the way to it broke: they are the session's from now on. Of those that are over it is told.
  void TakeUp(SessionId session, const std::vector<HeldClaim>& held);
  // The worker of a session on credit has refused work of another partition.
  void Refuse(SessionId session, RefusedWork work);
  // Has the stream of a session end with an error; its driver then closes the session.
  void BreakSession(SessionId session, Error why);
  // Hands the stream nothing more, or hands out again.
  void Hold(SessionId session, bool held);
  // Tells the stream of a session orders about claims.
  void Order(SessionId session, SessionUpdate orders);
  void Order(const SessionName& session, SessionUpdate orders) {
    Order(sessions_.StreamOf(session), std::move(orders));
  }
  struct InHand {
    std::string instance;
    uint64_t visit;
  };
  // What the worker of the stream is not offered for now.
  std::vector<RefusedWork> RefusedBy(SessionId session) const;
  // What the stream has in hand; nothing when it has ended.
  std::map<ClaimId, InHand> InHandOf(SessionId session) const;
  void StopHandingOut(bool moves);
  void AfterCommit(SessionId session, std::function<void(bool more)> tell);
  void AfterPass(SessionId session, std::function<void(bool more)> tell);

  // Answers the polls that have waited long enough, in real time; so many at a time.
  void EndPolls();
  // When the next has; kNever: none waits.
  Timestamp PollsDue() const {
    return std::min(poll_ends_.empty() ? kNever : poll_ends_.begin()->first, refusals_.Due());
  }
  // Gives work to polls and streams that wait for it. False: there is no work for any of them.
  bool Serve();
  // At the end of each pass: passes on what streams are to be told. Not later, because a stream
  // that ends in the next pass may have been given work in this one.
  void TellSessions();

  void Absorb(const Change& change) override;

  // Why an agent takes no work now, as its keeper knows; empty: it does, or it is not known.
  using WhyNot = std::function<std::string(const std::string& ns, const std::string& agent)>;
  // Says of each ready token of the instance why no worker has it, as far as that can be told.
  void Explain(const Resident& resident, const WhyNot& why_not, InstanceWaits* waits) const;
  // Why nobody takes from this queue; empty: somebody may.
  std::string WhyNobody(const QueueKey& key, const WhyNot& why_not) const;

 private:
  struct Seen {
    std::string_view worker;
    const Filter* filter;
    bool held = false;  // it takes nothing for now
  };
  using Workers = std::vector<Seen>;
  // Those that wait, are connected, or were given by a poll what they work on; by name.
  Workers WorkersOf(const std::string& ns) const;
  static std::string WhyNone(const QueueKey& key, const WhyNot& why_not, const Workers& workers);
  // The same of a queue that any worker may take from, without looking at each of them.
  std::string WhyNotNow(const QueueKey& key) const;

  struct Parked {
    std::variant<PollSink, PeekSink> sink;
    Timestamp until;
  };
  struct Stream {
    SessionSink sink;
    bool draining = false;
    bool held = false;  // it is handed nothing more for now
    std::map<ClaimId, InHand> in_hand = {};
    // What it is allowed; nullopt: as much as it has room for.
    std::optional<size_t> credit = std::nullopt;
    bool told = false;  // what there is, and asks no more until it is allowed something
    // Takes nothing for now, however little it has in hand.
    bool idle() const { return draining || held; }
  };
  struct Waiter {
    Filter filter;
    std::string worker;
    size_t max = 1;  // tasks of the answer, or capacity of the stream
    WorkerTerms terms;
    std::variant<Parked, Stream> kind;
  };

  // How many streams ask for the same.
  struct Streams {
    ptrdiff_t open = 0;
    ptrdiff_t idle = 0;  // of them
  };

  // Null: the session has ended.
  Stream* StreamOf(SessionId session);
  // How many more tasks the stream has room for.
  static size_t CapacityOf(const Waiter& waiter);
  // Whether it waits for work, or to be told of it.
  static bool Asks(const Waiter& waiter);
  void TellLevels(SessionId session, bool asked);
  void TakeUp(SessionId session, const std::string& ns, const HeldClaim& held);
  std::optional<Error> Crowded(std::string_view what) const;
  WaiterId Park(WaiterId id, Waiter waiter);
  void Count(const Waiter& stream, ptrdiff_t by);
  // Remembers whose poll these are, where that matters.
  void NoteBusy(const Filter& filter, const std::string& worker, const std::vector<Task>& tasks);
  void AnswerPoll(WaiterId poll, std::vector<Task> tasks, bool durable);
  void AnswerPeek(WaiterId poll);
  void ServeOne(WaiterId id, const Filter& filter);
  void Free(const Change& change, uint64_t visit, const Claim& claim);
  // The worker of a claim has given it back because it cannot begin it.
  void NoteRefusal(const Change& change, const Token& token, const Claim& claim);
  // Has the worker's waiters go by what it refuses now. `fresh`: their streams are told of it.
  void Refilter(const WorkRefusals::Who& who, const RefusedWork* fresh = nullptr);
  void HoldInHand(const Instance& instance, uint64_t visit, const Claim& claim);
  using Answers = std::map<SessionId, std::vector<std::function<void(bool)>>>;
  // Has the answers of this pass told: after it, if `durable`, or after the commit.
  void PassOn(Answers* answers, bool durable);
  // Adds to what a stream is told: after the commit or, if `durable`, after this pass.
  void Tell(SessionId session, const std::function<void(SessionUpdate&)>& note,
            bool durable = false);

  OpenTurn& turn_;
  Agenda& agenda_;
  Claims& claims_;
  HandOuts& handouts_;
  Sessions& sessions_;
  std::unordered_map<WaiterId, Waiter> waiters_;
  std::map<Filter, Streams> streams_;  // by what they ask for, whatever they have refused
  std::set<std::pair<Timestamp, WaiterId>> poll_ends_;
  WorkRefusals refusals_;
  struct Busy {
    std::string worker;
    std::shared_ptr<const Filter> filter;
  };
  std::map<ClaimId, Busy> busy_;  // live claims of polls, of workers that runs_on may be about
  Answers answers_;
  Answers early_answers_;
  std::map<SessionId, SessionUpdate> updates_;
  std::set<SessionId> updates_wait_;  // whose updates wait for the commit
  std::vector<SessionId> allowed_;    // in this pass
};

}  // namespace dfsmr
