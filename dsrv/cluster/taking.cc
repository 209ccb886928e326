#include "dsrv/cluster/taking.h"

#include <google/protobuf/util/time_util.h>
#include <algorithm>
#include <map>
#include <utility>

#include "dsrv/access/door_key.h"
#include "dsrv/cluster/inner.h"
#include "dsrv/cluster/levels.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/part_batch.h"
#include "dsrv/cluster/run_after.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr const char* kReady = "/dfsmr.v1.RunnerService/Ready";
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

}  // namespace

Taking::Taking(Front& front, grpc::GenericCallbackServerContext* context)
    : front_(front), context_(context), patience_(kFirstPatience) {}

bool Taking::Wants(const Front& front, const grpc::GenericCallbackServerContext& context) {
  return front.outside().partitions > 1 && context.method() == kReady && !IsInner(context);
}

void Taking::Begin() {
  {
    const Lock lock(mutex_);
    self_ = shared_from_this();
  }
  StartRead(&request_);
}

void Taking::OnReadDone(bool ok) {
  using google::protobuf::util::TimeUtil;
  const Lock lock(mutex_);
  if (!ok || !asked_.ParseFromString(ToBytes(request_))) {
    return End(grpc::Status(grpc::StatusCode::INTERNAL, "the call came without a request"));
  }
  const int64_t wait = TimeUtil::DurationToMilliseconds(asked_.wait());
  until_ = Clock::now() + milliseconds(std::clamp<int64_t>(wait, 0, 300'000));
  origin_ = OriginOf(*context_);
  look_ = NameOfLook();
  Share();
}

void Taking::Share() {
  if (cancelled_) return End(grpc::Status::CANCELLED);
  if (const auto seen = front_.looks().Take(look_, Most(), Clock::now())) return Take(*seen);
  if (waited_++ < kWaits) {
    shares_ = front_.looks().Begin(look_, [self = self_] {
      const Lock later(self->mutex_);
      if (!self->ended_) self->Share();
    });
    if (!shares_) return;
  }
  Look(milliseconds(0));
}

void Taking::EndShare() {
  if (std::exchange(shares_, false)) front_.looks().Leave(look_);
}

std::string Taking::NameOfLook() const {
  v1::ReadyRequest request = asked_;
  request.clear_wait();
  request.clear_worker();
  std::string name = request.SerializeAsString();
  name += std::string(origin_->Bearer()) + '\0' + origin_->Certificate();
  return name;
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
                    .deadline = std::min(context_->deadline(), most),
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
        [self = self_, round, wait, partition](const Reply& reply) {
          self->Looked(round, wait, partition, reply);
        },
        /*waits=*/wait > milliseconds(0));
  }
  Begin(round);
}

void Taking::Looked(const RoundPtr& round, milliseconds wait, size_t partition,
                    const Reply& reply) {
  const Lock lock(mutex_);
  round->asked[partition].done = true;
  --round->left;
  if (round->over || ended_) return;
  if (reply.status.ok()) {
    (void)found_[partition].ParseFromString(reply.bytes);
  } else if (reply.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    ++unanswered_;
  } else if (reply.status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    if (unreachable_++ == 0) {
      why_ = reply.status;
      reason_ = ValueOf(reply.trailers, "dfsmr-reason");
    }
  } else {
    round->over = true;
    for (const Asked& other : round->asked) other.call->Cancel();
    return Fail(reply);
  }
  // A look without a wait is answered at once. Of one with a wait the first that has something is
  // enough: then all are looked at again.
  const bool something = wait > milliseconds(0) && !found_[partition].levels().empty();
  if (round->left > 0 && !something) return;
  round->over = true;
  for (const Asked& other : round->asked) {
    if (!other.done) other.call->Cancel();
  }
  something ? Look(milliseconds(0)) : Judge();
}

// All have been looked at.
void Taking::Judge() {
  if (cancelled_) return End(grpc::Status::CANCELLED);  // and those that wait go on
  const uint64_t turn = front_.looks().NextTurn();
  TopLevel top(found_);
  if (const auto dealt = top.Take(Most(), turn)) {
    shares_ = false;
    front_.looks().Keep(look_, std::move(top), Clock::now());
    return Take(*dealt);
  }
  EndShare();
  if (const auto dealt = Deal(found_, Most(), turn); !dealt.empty()) return Take(dealt);
  const auto left = std::chrono::duration_cast<milliseconds>(until_ - Clock::now());
  const size_t missing = unanswered_ + unreachable_;
  const bool none = missing == found_.size();
  if (unanswered_ > 0 && patience_ < kLastPatience && (none || !asked_.has_wait())) {
    patience_ *= kLonger;
    return Look(milliseconds(0));
  }
  if (none) return EndUnreachable();
  if (left <= milliseconds(0)) {
    out_ = ToBuffer(v1::ReadyResponse().SerializeAsString());
    return End(grpc::Status::OK);
  }
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
  std::map<PartitionId, int32_t> shares;
  for (const PartitionId partition : dealt) ++shares[partition];
  for (const auto& [partition, tasks] : shares) {
    v1::ReadyRequest request = asked_;
    request.clear_wait();
    request.set_max_tasks(tasks);
    Add(round, partition, kReady, request.SerializeAsString(), kTakes,
        [self = self_, round, of = partition](const Reply& reply) {
          self->Took(round, of, reply);
        });
  }
  Begin(round);
}

void Taking::Took(const RoundPtr& round, PartitionId partition, const Reply& reply) {
  const Lock lock(mutex_);
  if (reply.status.ok()) (void)taken_[partition].ParseFromString(reply.bytes);
  if (--round->left > 0) return;
  if (cancelled_) {
    GiveBack(/*perhaps=*/false);
    return End(grpc::Status::CANCELLED);
  }
  v1::ReadyResponse whole;
  std::map<PartitionId, int> next;
  for (const PartitionId of : dealt_) {
    const auto& from = taken_[of].tasks();
    const int at = next[of]++;
    if (at < from.size()) *whole.add_tasks() = from.Get(at);
  }
  if (whole.tasks().empty()) return LookAgain();
  out_ = ToBuffer(whole.SerializeAsString());
  End(grpc::Status::OK);
}

// Another worker was quicker, or there was no room for what was found.
void Taking::LookAgain() {
  RunAfter(kInVain, [self = self_] {
    const Lock later(self->mutex_);
    if (!self->ended_) self->Look(milliseconds(0));
  });
}

// The worker is gone. `perhaps`: it may have seen what was taken for it.
void Taking::GiveBack(bool perhaps) {
  for (const auto& [partition, taken] : std::exchange(taken_, {})) {
    AskGiveBack(front_, *context_, taken.tasks(), perhaps);
  }
}

// The end ----------------------------------------------------------------------------------------

void Taking::Fail(const Reply& reply) {
  PassTrailersBack(reply.trailers, context_);
  End(reply.status);
}

void Taking::EndUnreachable() {
  if (unreachable_ == 0) {
    why_ = {grpc::StatusCode::UNAVAILABLE, "no owner of a partition has answered for " +
                                               std::to_string(patience_.count()) + " ms"};
    reason_ = Name(Reason::kPeerUnreachable);
  }
  if (!reason_.empty()) context_->AddTrailingMetadata("dfsmr-reason", reason_);
  End(why_);
}

void Taking::End(const grpc::Status& status) {
  if (std::exchange(ended_, true)) return;
  EndShare();
  if (status.ok()) {
    StartWriteAndFinish(&out_, grpc::WriteOptions(), status);
  } else {
    Finish(status);
  }
}

void Taking::OnCancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  if (!round_ || round_->takes) return;
  for (const Asked& asked : round_->asked) {
    if (!asked.done) asked.call->Cancel();
  }
}

void Taking::OnDone() {
  std::shared_ptr<Taking> self;  // perhaps the last one
  {
    const Lock lock(mutex_);
    if (context_->IsCancelled()) GiveBack(/*perhaps=*/true);
    self.swap(self_);
  }
}

}  // namespace dfsmr
