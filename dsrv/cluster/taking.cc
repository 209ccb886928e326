#include "dsrv/cluster/taking.h"

#include <google/protobuf/util/time_util.h>
#include <algorithm>
#include <map>
#include <utility>

#include "dsrv/cluster/give_back.h"
#include "dsrv/cluster/levels.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/part_batch.h"
#include "dsrv/cluster/run_after.h"
#include "dsrv/wire/checks.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr const char* kPeek = "/dfsmr.peer.PeerService/Peek";
// From one look to the next while partitions have no owner; else a look waits for what comes.
constexpr milliseconds kAgain{200};
// What is found may be gone when it is to be taken.
constexpr milliseconds kInVain{2};
constexpr int kWaits = 3;  // for the looks of others
// How long a look waits for each owner: at first, how much longer each time, and at last.
constexpr milliseconds kFirstPatience{100};
constexpr int kLonger = 4;
constexpr milliseconds kLastPatience{1'600};  // those that cannot be reached say so after 1 s
constexpr milliseconds kTakes{3'000};         // a commit

milliseconds WaitOf(const v1::ReadyRequest& asked) {
  const int64_t wait = google::protobuf::util::TimeUtil::DurationToMilliseconds(asked.wait());
  return milliseconds(std::clamp<int64_t>(wait, 0, 300'000));
}

}  // namespace

std::map<PartitionId, std::string> TakesOf(const v1::ReadyRequest& asked,
                                           const std::vector<PartitionId>& dealt) {
  std::map<PartitionId, int32_t> shares;
  for (const PartitionId partition : dealt) ++shares[partition];
  v1::ReadyRequest take = asked;
  take.clear_wait();
  std::map<PartitionId, std::string> takes;
  for (const auto& [partition, tasks] : shares) {
    take.set_max_tasks(tasks);
    takes[partition] = take.SerializeAsString();
  }
  return takes;
}

v1::ReadyResponse TakenInOrder(const std::vector<PartitionId>& dealt,
                               std::map<PartitionId, v1::ReadyResponse>* taken) {
  v1::ReadyResponse whole;
  std::map<PartitionId, int> next;
  for (const PartitionId of : dealt) {
    auto& from = *(*taken)[of].mutable_tasks();
    const int at = next[of]++;
    if (at < from.size()) *whole.add_tasks() = std::move(from[at]);
  }
  return whole;
}

v1::ReadyResponse CutToMessage(v1::ReadyResponse* taken) {
  auto& tasks = *taken->mutable_tasks();
  size_t bytes = 0;
  int fit = 0;
  for (; fit < tasks.size(); ++fit) {
    bytes += tasks[fit].ByteSizeLong() + 8;
    if (fit > 0 && bytes > kReplyBytes) break;
  }
  v1::ReadyResponse others;
  for (int i = fit; i < tasks.size(); ++i) *others.add_tasks() = std::move(tasks[i]);
  tasks.DeleteSubrange(fit, tasks.size() - fit);
  return others;
}

Taking::Taking(Front& front, std::shared_ptr<const DirectOrigin> origin, v1::ReadyRequest asked,
               Deadline deadline, Done done)
    : front_(front),
      origin_(std::move(origin)),
      asked_(std::move(asked)),
      deadline_(deadline),
      until_(Clock::now() + WaitOf(asked_)),
      look_(NameOfLook(asked_, *origin_)),
      done_(std::move(done)),
      patience_(kFirstPatience) {}

Taking::Turn::~Turn() {
  const auto end = std::exchange(taking_.end_, nullptr);
  lock_.Unlock();
  if (end) end();
}

void Taking::Begin() {
  const auto self = shared_from_this();
  const Turn turn(*this);
  Share();
}

void Taking::Cancel() {
  const auto self = shared_from_this();
  const Turn turn(*this);
  cancelled_ = true;
  if (round_ && !round_->takes) CancelRest(*round_);
}

void Taking::Stop() {
  const auto self = shared_from_this();
  const Turn turn(*this);
  if (ended() || !round_ || round_->takes) return;
  round_->over = true;
  CancelRest(*round_);
  End({});
}

void Taking::CancelRest(Round& round) {
  for (const Asked& asked : round.asked) {
    if (!asked.done) asked.call->Cancel();
  }
}

void Taking::Share() {
  if (cancelled_) return End({.status = grpc::Status::CANCELLED});
  const auto seen =
      front_.looks().Take(look_, TasksWanted(asked_), front_.ServedHere(), Clock::now());
  if (seen) return Take(*seen);
  if (waited_++ < kWaits) {
    shares_ = front_.looks().Begin(look_, [self = shared_from_this()] {
      const Turn later(*self);
      if (!self->ended()) self->Share();
    });
    if (!shares_) return;
  }
  Look(milliseconds(0));
}

void Taking::EndShare() {
  if (std::exchange(shares_, false)) front_.looks().Leave(look_);
}

void Taking::Add(const RoundPtr& round, PartitionId partition, const char* method,
                 const std::string& request, milliseconds patience, Answered answered,
                 bool waits) {
  const auto most = std::chrono::system_clock::now() + patience;
  round->asked.push_back({std::make_shared<PartCall>(
      front_, origin_,
      PartCall::Ask{.partition = partition,
                    .method = method,
                    .request = request,
                    .deadline = std::min(deadline_, most),
                    .waits = waits},
      std::move(answered))});
  ++round->left;
}

void Taking::Begin(const RoundPtr& round) {
  std::vector<std::shared_ptr<PartCall>> calls;
  for (const Asked& asked : round->asked) calls.push_back(asked.call);
  BeginAll(front_, calls);
}

// Looks ------------------------------------------------------------------------------------------

void Taking::Look(milliseconds wait) {
  auto round = std::make_shared<Round>();
  round_ = round;
  found_.assign(front_.outside().partitions, {});
  unreachable_ = unanswered_ = 0;
  v1::ReadyRequest request = asked_;
  if (wait > milliseconds(0)) {
    *request.mutable_wait() =
        google::protobuf::util::TimeUtil::MillisecondsToDuration(wait.count());
  } else {
    request.clear_wait();
  }
  const std::string bytes = request.SerializeAsString();
  for (PartitionId partition = 0; partition < found_.size(); ++partition) {
    Add(round, partition, kPeek, bytes, wait + patience_,
        [self = shared_from_this(), round, wait, partition](const Reply& reply) {
          self->Looked(round, wait, partition, reply);
        },
        /*waits=*/wait > milliseconds(0));
  }
  Begin(round);
}

void Taking::Looked(const RoundPtr& round, milliseconds wait, size_t partition,
                    const Reply& reply) {
  const Turn turn(*this);
  round->asked[partition].done = true;
  --round->left;
  if (round->over || ended()) return;
  if (reply.status.ok()) {
    (void)found_[partition].ParseFromString(reply.bytes);
  } else if (reply.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    ++unanswered_;
  } else if (reply.status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    if (unreachable_++ == 0) why_ = reply;
  } else {
    round->over = true;
    CancelRest(*round);
    return End(reply);
  }
  // A look without a wait is answered at once. Of one with a wait the first that has something is
  // enough: then all are looked at again.
  const bool something = wait > milliseconds(0) && !found_[partition].levels().empty();
  if (round->left > 0 && !something) return;
  round->over = true;
  CancelRest(*round);
  something ? Look(milliseconds(0)) : Judge();
}

// All have been looked at.
void Taking::Judge() {
  if (cancelled_) return End({.status = grpc::Status::CANCELLED});  // those that wait go on
  const Choice choice{front_.looks().NextTurn(), front_.ServedHere()};
  TopLevel top(found_);
  if (const auto dealt = top.Take(TasksWanted(asked_), choice)) {
    shares_ = false;
    front_.looks().Keep(look_, std::move(top), Clock::now());
    return Take(*dealt);
  }
  EndShare();
  const auto dealt = Deal(found_, TasksWanted(asked_), choice);
  if (!dealt.empty()) return Take(dealt);
  if (front_.stops()) return End({});
  if (!waits_) front_.TellOfStop(weak_from_this());
  waits_ = true;
  const auto left = std::chrono::duration_cast<milliseconds>(until_ - Clock::now());
  const size_t missing = unanswered_ + unreachable_;
  const bool none = missing == found_.size();
  if (unanswered_ > 0 && patience_ < kLastPatience && (none || !asked_.has_wait())) {
    patience_ *= kLonger;
    return Look(milliseconds(0));
  }
  if (none) return EndUnreachable();
  if (left <= milliseconds(0)) return End({});
  // Those without an owner may have one soon, and those that hang may go on.
  patience_ = kFirstPatience;
  Look(missing > 0 ? std::min(left, kAgain) : left);
}

// Takes ------------------------------------------------------------------------------------------

void Taking::Take(const std::vector<PartitionId>& dealt) {
  auto round = std::make_shared<Round>();
  round->takes = true;
  round_ = round;
  dealt_ = dealt;
  taken_.clear();
  for (const auto& [partition, request] : TakesOf(asked_, dealt)) {
    Add(round, partition, kReadyMethod, request, kTakes,
        [self = shared_from_this(), round, of = partition](const Reply& reply) {
          self->Took(round, of, reply);
        });
  }
  Begin(round);
}

void Taking::Took(const RoundPtr& round, PartitionId partition, const Reply& reply) {
  const Turn turn(*this);
  if (reply.status.ok()) (void)taken_[partition].ParseFromString(reply.bytes);
  if (--round->left > 0) return;
  if (cancelled_) {
    for (const auto& [of, taken] : taken_) {
      AskGiveBack(front_, origin_, taken.tasks(), /*perhaps=*/false);
    }
    return End({.status = grpc::Status::CANCELLED});
  }
  v1::ReadyResponse whole = TakenInOrder(dealt_, &taken_);
  if (whole.tasks().empty()) return LookAgain();
  const v1::ReadyResponse others = CutToMessage(&whole);
  AskGiveBack(front_, origin_, others.tasks(), /*perhaps=*/false);
  End({}, std::move(whole));
}

// Another worker was quicker, or there was no room for what was found.
void Taking::LookAgain() {
  RunAfter(kInVain, [self = shared_from_this()] {
    const Turn later(*self);
    if (!self->ended()) self->Look(milliseconds(0));
  });
}

// The end ----------------------------------------------------------------------------------------

void Taking::EndUnreachable() {
  if (unreachable_ == 0) {
    why_ = {.status = {grpc::StatusCode::UNAVAILABLE, "no owner of a partition has answered for " +
                                                          std::to_string(patience_.count()) +
                                                          " ms"},
            .trailers = {{"dfsmr-reason", std::string(Name(Reason::kPeerUnreachable))}}};
  }
  End(why_);
}

void Taking::End(Reply reply, v1::ReadyResponse taken) {
  if (ended()) return;
  EndShare();
  reply.bytes.clear();
  end_ = [done = std::exchange(done_, nullptr), reply = std::move(reply),
          taken = std::move(taken)]() mutable { done(reply, std::move(taken)); };
}

}  // namespace dfsmr
