#include "dsrv/calls/cluster.h"

#include "dsrv/calls/method.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/survey.h"

namespace dfsmr {
namespace {

// Of the engine's own partition.
void CountInto(Engine& engine, v1::Cluster* cluster) {
  Tally all;
  const auto every = [](const std::string&) { return true; };
  for (const MachineTally& machine : engine.survey().Machines(every, "")) all.Add(machine.now);
  for (v1::Partition& partition : *cluster->mutable_partitions()) {
    if (partition.id() != engine.reader().partition) continue;
    partition.set_live(all.scheduled + all.running + all.paused);
    partition.set_ready(all.ready);
    partition.set_claimed(all.claimed);
    partition.set_outbox(engine.messages().outgoing()->waiting());
  }
}

}  // namespace

void ServeGetCluster(Call& call, const v1::GetClusterRequest& request, v1::Cluster* reply) {
  if (!call.Enter()) return;
  call.backend().cluster(reply);
  if (!request.with_counts()) return call.Succeed();
  PostFor(call, request.ByteSizeLong(), [&call, reply](Engine& engine) {
    CountInto(engine, reply);
    engine.AfterCommit([&call] { call.Succeed(); });
  });
}

}  // namespace dfsmr
