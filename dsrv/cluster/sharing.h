// The stream of a worker over several partitions, as far as it can be decided without calls: which
// partition is told what, which of them hand out what the worker has room for, and what the worker
// is told. Knows no threads and no servers.
//
// Each partition has a stream of its own, on credit, which may break and be opened anew. What it
// was asked and has not answered it is asked again then, and what the worker has in hand of it is
// told to it: a report that names its claim may be repeated.
//
// An agent is welcomed by home first, and then by the others.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dfsmr/peer.pb.h"
#include "dfsmr/v1/agent.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/cluster/in_order.h"
#include "fsm/base/limits.h"
#include "fsm/base/result.h"
#include "storage/store.h"

namespace dfsmr {

// One thread at a time.
class Sharing {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Parts = std::map<PartitionId, peer::WorkPart>;

  // What a partition has said it has counts for so long; then it is asked again before it is taken
  // from.
  static constexpr auto kFresh = std::chrono::milliseconds(20);
  // One that is asked is waited for so long, and not again before it has answered.
  static constexpr auto kAnswer = std::chrono::milliseconds(50);
  // What the worker refuses it is not offered for so long.
  static constexpr auto kRefused = std::chrono::seconds(60);
  // One that could not hand out what it was allowed is left alone for so long.
  static constexpr auto kInVain = std::chrono::milliseconds(2);
  // An agent is welcomed without the partitions that have not by then; home hears of it so often.
  static constexpr auto kWelcome = std::chrono::seconds(2);

  explicit Sharing(uint16_t partitions) : parts_(partitions) {}

  // The worker's messages; the first one opens the stream. The error ends it.
  Result<Ok> Take(v1::WorkRequest message);
  Result<Ok> Take(v1::AgentMessage message, Time now);
  // No more of them come, and the partitions are told so.
  void HalfClose();
  // The same, but they are told how the stream ends only when that is known.
  void Close() { closed_ = true; }
  // Whether it matters how: what is in hand may be kept for the worker. Once it is open.
  bool Keeps() const {
    return register_ || open_->keep_for().seconds() > 0 || open_->keep_for().nanos() > 0;
  }
  // All that was asked.
  bool Answered() const { return results_.open() == 0 && extended_.open() == 0; }
  // Nor does the worker have anything in hand.
  bool Idle() const {
    return Answered() &&
           std::ranges::all_of(parts_, [](const Part& part) { return part.held.empty(); });
  }
  bool opened() const { return open_.has_value(); }
  // The worker's namespace.
  const std::string& space() const { return open_->namespace_(); }
  // So much waits to be told that the worker does not read: tasks time out unread, and make room.
  bool Overflows() const { return next_.tasks_size() > limits::kCapacity; }
  // Nothing more is handed out, and streams of partitions may end.
  bool ends() const { return drains_ || half_closed_ || closed_ || leaves_; }
  // Whether an agent is not known to home yet: other partitions are not to be asked.
  bool Unwelcomed() const { return register_ && !welcome_; }
  const std::string& agent() const { return register_->name(); }
  // So much is unanswered that no message should be read.
  bool Full() const;

  // The stream of a partition is opened, for the first time or anew: what it is told first.
  std::vector<peer::WorkPart> Open(PartitionId partition, Time now);
  void TakeReply(PartitionId partition, peer::WorkPartReply reply, Time now);
  // It has broken.
  void Lose(PartitionId partition);
  // Nobody can be asked for now: what waits for an answer gets this one.
  void Refuse(PartitionId partition, const v1::Error& why);
  // It has ended well, and will not be opened again.
  void End(PartitionId partition);

  // Allows partitions to hand out what there is room for. Call it when anything has changed, and at
  // the time that it returns.
  std::optional<Time> Deal(Time now);
  // What the open streams are to be told now.
  Parts TakeParts() { return std::exchange(out_, {}); }
  // What the worker is to be told now; nullopt: nothing.
  std::optional<v1::WorkResponse> TakeResponse();
  // The same for an agent. `any`: also an empty one, once it is welcomed.
  std::optional<v1::AgentOrder> TakeOrder(Time now, bool any);
  // The last word to each partition: how the stream has ended. `writing`: was being written then.
  Parts Farewell(peer::WorkPart::End end, const v1::WorkResponse& writing);

 private:
  struct Report {
    InOrder<v1::TransitionResult>::Ticket ticket;
    v1::TransitionRequest request;
    bool sent = false;
    bool again = false;  // it was asked of a stream that broke
  };
  struct Extend {
    InOrder<v1::ExtendResponse::Item>::Ticket ticket;
    v1::ExtendRequest::Item item;
    bool sent = false;
  };
  struct Part {
    bool open = false;
    // What it was asked, in order.
    std::deque<Report> reports;
    std::deque<Extend> extends;
    std::vector<v1::RelinquishRequest> relinquishes;  // that wait for its stream
    std::vector<v1::StopReport> stops;                // the same
    std::map<std::string, std::string> held;          // claims, and their instances
    peer::PeekResponse levels;  // as told last, since nothing was allowed
    Time told;                  // when
    bool looks = false;         // it is asked what there is
    Time looked;                // when
    bool late = false;          // it has not answered in time
    Time not_before;            // is it to be allowed anything
    size_t allowed = 0;         // and not answered yet
    bool welcomed = false;      // an agent
    // Whether it may have something, and is waited for.
    bool Awaited() const { return looks && !late; }
    bool Stale(Time now) const {
      return !looks && !levels.levels().empty() && told + kFresh < now;
    }
  };

  PartitionId PlaceOf(const std::string& ns, const std::string& instance) const;
  void Share(v1::WorkRequest message);
  void NoteRefused(PartitionId by_way_of, v1::RefusedWork work, Time now);
  void TakeWelcome(PartitionId partition, v1::AgentOrder order, Time now);
  bool MayWelcome(Time now) const;
  void Ask(PartitionId partition, Report report);
  void Ask(PartitionId partition, Extend extend);
  void Answer(Part& part, v1::TransitionResult result);
  void Answer(Part& part, v1::ExtendResponse::Item item);
  void DropUnrepeatable(Part& part);
  size_t Room() const;

  std::optional<v1::ReadyRequest> open_;
  size_t most_ = 1;  // tasks in hand
  bool drains_ = false;
  bool half_closed_ = false;
  bool closed_ = false;
  std::vector<Part> parts_;
  size_t unanswered_ = 0;  // bytes
  InOrder<v1::TransitionResult> results_;
  InOrder<v1::ExtendResponse::Item> extended_;
  v1::WorkResponse next_;  // without results and extended
  struct Refused {
    v1::RefusedWork work;
    Time until;
  };
  std::vector<Refused> refused_;  // by the worker: it is not offered it by others either

  // Of an agent.
  std::optional<v1::Register> register_;
  bool leaves_ = false;
  std::optional<v1::Welcome> welcome_;  // home's, until it is told
  Time welcome_by_;
  bool greeted_ = false;  // it is told
  bool drained_ = false;
  bool news_ = false;  // the order to be told is, even if it is empty
  Time heard_;         // of it, at home
  Parts out_;
};

}  // namespace dfsmr
