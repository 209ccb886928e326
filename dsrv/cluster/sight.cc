#include "dsrv/cluster/sight.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>

namespace dfsmr {
namespace {

using google::protobuf::util::TimeUtil;

void ShowServer(const ServerRow& row, Duration silent, const Keeper::Sight& sight, bool self,
                v1::Server* out) {
  out->set_id(row.id);
  out->set_address(row.address);
  out->set_version(row.version);
  out->set_level(row.level);
  out->set_state(silent >= kSilent ? v1::Server::SILENT
                 : row.leaving     ? v1::Server::LEAVING
                                   : v1::Server::UP);
  *out->mutable_start_time() = TimeUtil::MicrosecondsToTimestamp(Micros(row.started));
  *out->mutable_silent() = TimeUtil::MicrosecondsToDuration(silent.count());
  const auto owned = std::ranges::count(sight.seen.parts, row.id, &PartRow::owner);
  out->set_partitions(static_cast<uint32_t>(owned));
  out->set_reachable(self);
  for (const auto& peer : sight.peers) {
    if (peer->id != row.id) continue;
    out->set_reachable(peer->answers);
    *out->mutable_round_trip() = TimeUtil::MicrosecondsToDuration(peer->round_trip_us);
  }
}

void ShowPartition(const PartRow& row, bool owned, v1::Partition* out) {
  out->set_id(row.id);
  out->set_state(owned ? v1::Partition::SERVING : v1::Partition::NO_OWNER);
  out->set_server(row.owner);
  out->set_epoch(row.held.epoch);
  out->set_last_change(row.held.feed);
  if (row.since <= Timestamp()) return;
  *out->mutable_owned_since() = TimeUtil::MicrosecondsToTimestamp(Micros(row.since));
}

}  // namespace

void Show(const Keeper& keeper, const ServerRow& self, const StoreFacts& store, v1::Cluster* out) {
  out->set_store(store.kind);
  out->set_database(store.database);
  out->set_durability(store.durability);
  out->set_answered_by(self.id);
  const auto sight = keeper.sight();
  if (!sight) return;
  out->set_level(sight->seen.cluster.level);
  out->set_life(sight->seen.cluster.life);
  std::vector<ServerRow> servers = sight->seen.servers;
  std::erase_if(servers, &ServerRow::dead);
  std::ranges::sort(servers, {}, &ServerRow::started);
  // Between two renewals of its own a server has no news of the others.
  const auto since = std::chrono::duration_cast<Duration>(LeaseTimeNow() - sight->when);
  const Duration late = std::max(Duration::zero(), since - kSilent);
  for (const ServerRow& row : servers) {
    const bool own = row.id == self.id;
    const Duration silent = std::max(Duration::zero(), sight->seen.now - row.seen) + late;
    ShowServer(row, own ? since : silent, *sight, own, out->add_servers());
  }
  for (const PartRow& part : sight->seen.parts) {
    const auto owner = std::ranges::find(servers, part.owner, &ServerRow::id);
    const bool owned = owner != servers.end() && sight->seen.now - owner->seen < kSilent;
    ShowPartition(part, owned, out->add_partitions());
  }
}

}  // namespace dfsmr
