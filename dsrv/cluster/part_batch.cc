#include "dsrv/cluster/part_batch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <utility>

#include "dfsmr/peer.pb.h"
#include "dsrv/cluster/front.h"
#include "dsrv/cluster/peers.h"

namespace dfsmr {
namespace {

using Calls = std::vector<std::shared_ptr<PartCall>>;
using Clock = std::chrono::system_clock;
using Reply = DirectServices::Reply;

// The answers that are late are ended one by one, each when its time is over.
constexpr std::chrono::seconds kGraceOfAll{1};
// Of requests that one call carries; the server that is asked takes no more than 4 MiB.
constexpr size_t kCarried = 1 << 20;

peer::Parts ToParts(const Calls& calls) {
  peer::Parts parts;
  const DirectOrigin& origin = calls.front()->origin();
  peer::Parts::Origin& told = *parts.mutable_origin();
  told.set_peer(origin.Peer());
  told.set_bearer(std::string(origin.Bearer()));
  told.set_certificate(origin.Certificate());
  told.set_door(std::string(origin.Door()));
  told.set_request_id(origin.RequestId());
  told.set_besides(std::string(origin.Besides()));
  told.set_traceparent(origin.traceparent());
  const auto now = Clock::now();
  for (const auto& call : calls) {
    const PartCall::Ask& ask = call->ask();
    peer::Parts::Part& part = *parts.add_parts();
    part.set_partition(ask.partition);
    part.set_method(ask.method);
    part.set_request(ask.request);
    if (ask.deadline == Clock::time_point::max()) continue;
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(ask.deadline - now);
    part.set_patience(std::max<int64_t>(left.count(), 1));
  }
  return parts;
}

Clock::time_point LastOf(const Calls& calls) {
  Clock::time_point last = Clock::time_point::min();
  for (const auto& call : calls) last = std::max(last, call->ask().deadline);
  return last == Clock::time_point::max() ? last : last + kGraceOfAll;
}

Reply ToReply(peer::PartReplies::Reply& from) {
  Reply reply{.status = {static_cast<grpc::StatusCode>(from.code()), from.message()},
              .bytes = std::move(*from.mutable_bytes()),
              .let_in = !from.not_mine()};
  for (auto& one : *from.mutable_trailers()) reply.trailers.emplace_back(one.key(), one.value());
  return reply;
}

void Carry(Front& front, const std::shared_ptr<Peer>& peer, const Calls& calls) {
  for (const auto& call : calls) call->Leaves(peer);
  HavePartsDone(front, peer, ToParts(calls).SerializeAsString(), LastOf(calls),
                [calls](const grpc::Status& status, const std::string& bytes) {
                  peer::PartReplies replies;
                  const auto count = static_cast<int>(calls.size());
                  const bool known = status.ok() && replies.ParseFromString(bytes) &&
                                     replies.replies_size() == count;
                  for (int i = 0; i < count; ++i) {
                    PartCall& call = *calls[static_cast<size_t>(i)];
                    known ? call.Returns(ToReply(*replies.mutable_replies(i)))
                          : call.Fails(status);
                  }
                });
}

// The parts of a call of another server, while they are asked.
struct Served {
  peer::PartReplies replies;
  std::atomic<size_t> left = 0;
  std::function<void(const std::string&)> done;

  void Take(int which, Reply reply) {
    peer::PartReplies::Reply& to = *replies.mutable_replies(which);
    to.set_not_mine(!reply.let_in);
    to.set_code(static_cast<uint32_t>(reply.status.error_code()));
    to.set_message(reply.status.error_message());
    to.set_bytes(std::move(reply.bytes));
    for (const auto& [key, value] : reply.trailers) {
      auto& one = *to.add_trailers();
      one.set_key(key);
      one.set_value(value);
    }
    Count();
  }
  void Count() {
    if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) done(replies.SerializeAsString());
  }
};

}  // namespace

void BeginAll(Front& front, const Calls& calls) {
  std::map<std::string, std::pair<std::shared_ptr<Peer>, Calls>> away;  // by server
  Calls others;
  for (const auto& call : calls) {
    const auto peer = call->Way();
    if (!peer) {
      others.push_back(call);
      continue;
    }
    auto& [to, these] = away[peer->id];
    to = peer;
    these.push_back(call);
  }
  for (const auto& [id, one] : away) {
    const auto& [peer, these] = one;
    size_t bytes = 0;
    for (const auto& call : these) bytes += call->ask().request.size();
    if (bytes <= kCarried) {
      Carry(front, peer, these);
    } else {
      others.insert(others.end(), these.begin(), these.end());
    }
  }
  for (const auto& call : others) call->Begin();
}

void ServeParts(Front& front, const std::string& request,
                std::function<void(const std::string&)> done) {
  peer::Parts parts;
  auto served = std::make_shared<Served>();
  served->done = std::move(done);
  if (!parts.ParseFromString(request)) return served->done("");
  const peer::Parts::Origin& told = parts.origin();
  const auto origin = std::make_shared<const DirectOrigin>(
      DirectOrigin::Told{.peer = told.peer(),
                         .bearer = /*mutant front-part-bearer-lost*/ told.bearer() /*end*/,
                         .certificate = told.certificate(),
                         .door = told.door(),
                         .request_id = told.request_id(),
                         .besides = told.besides(),
                         .traceparent = told.traceparent()});
  served->left = static_cast<size_t>(parts.parts_size()) + 1;  // and this one, which begins them
  for (int i = 0; i < parts.parts_size(); ++i) served->replies.add_replies();
  const auto now = Clock::now();
  for (int i = 0; i < parts.parts_size(); ++i) {
    peer::Parts::Part& part = *parts.mutable_parts(i);
    const bool ours = part.partition() < front.outside().partitions;
    PartCall::Ask ask{.partition = static_cast<PartitionId>(ours ? part.partition() : 0),
                      .method = std::move(*part.mutable_method()),
                      .request = std::move(*part.mutable_request())};
    if (part.patience() > 0) ask.deadline = now + std::chrono::microseconds(part.patience());
    auto call = std::make_shared<PartCall>(
        front, origin, std::move(ask),
        [served, i](Reply reply) { served->Take(i, std::move(reply)); });
    if (!ours || !call->BeginDirectly()) served->Take(i, {.let_in = false});
  }
  served->Count();
}

}  // namespace dfsmr
