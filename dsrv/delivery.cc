#include "dsrv/delivery.h"

#include <utility>

#include "dfsmr/peer.pb.h"
#include "dsrv/cluster/peers.h"

namespace dfsmr {
namespace {

std::string ToBytes(const Carrier::Portion& portion) {
  peer::Portion message;
  message.set_from(portion.from);
  message.set_to(portion.to);
  for (const Outgoing::Numbered& one : portion.messages) {
    auto* const added = message.add_messages();
    added->set_number(one.number);
    added->set_text(one.text);
  }
  return message.SerializeAsString();
}

std::optional<Carrier::Portion> ReadPortion(const std::string& bytes, uint16_t partitions) {
  peer::Portion message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  if (message.from() >= partitions || message.to() >= partitions) return std::nullopt;
  Carrier::Portion portion{static_cast<PartitionId>(message.from()),
                           static_cast<PartitionId>(message.to()),
                           {}};
  for (auto& one : *message.mutable_messages()) {
    portion.messages.push_back({one.number(), std::move(*one.mutable_text())});
  }
  return portion;
}

}  // namespace

// Who is nobody's or has only just been opened takes nothing: it is tried again.
void Delivery::Deliver(Carrier::Portion portion, Carrier::Told told) const {
  const auto route = front_.route(portion.to);
  if (route->kind == Route::Kind::kHere) {
    const auto served = partitions_.Find(portion.to);
    return served ? Carrier::Take(served->backend().loop, std::move(portion), std::move(told))
                  : told({});
  }
  if (route->kind == Route::Kind::kNobody) return told({});
  HaveDelivered(front_, route->peer, ToBytes(portion),
                [told = std::move(told)](const std::optional<std::string>& reply) {
                  peer::Applied applied;
                  const bool known = reply && applied.ParseFromString(*reply);
                  told(known ? std::optional(applied.up_to()) : std::nullopt);
                });
}

void Delivery::Take(const std::string& bytes,
                    std::function<void(std::optional<std::string> reply)> done) const {
  auto portion = ReadPortion(bytes, front_.outside().partitions);
  const bool here = portion && front_.route(portion->to)->kind == Route::Kind::kHere;
  const auto served = here ? partitions_.Find(portion->to) : nullptr;
  if (!served) return done({});
  Carrier::Take(served->backend().loop, *std::move(portion),
                [done = std::move(done)](std::optional<uint64_t> up_to) {
                  if (!up_to) return done({});
                  peer::Applied applied;
                  applied.set_up_to(*up_to);
                  done(applied.SerializeAsString());
                });
}

}  // namespace dfsmr
