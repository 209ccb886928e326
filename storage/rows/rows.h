// All rows, under the names that the engine still uses: with a view or a batch, a partition, and
// the parts of an instance's name, in place of a Reader, a Writer and an InstanceName. Each is the
// function of the same name in the header of its kind, and goes when nobody calls it any more.
#pragma once

#include "storage/rows/credential.h"
#include "storage/rows/feed.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"
#include "storage/rows/machine.h"
#include "storage/rows/plan.h"
#include "storage/rows/reader.h"
#include "storage/rows/resting.h"
#include "storage/rows/retention.h"
#include "storage/rows/stats.h"

namespace dfsmr::rows {

inline void PutMachine(Batch* batch, PartitionId partition, const MachineRow& row) {
  PutMachine({*batch, partition}, row);
}
inline Result<Ok> ScanMachines(const View& view, PartitionId partition,
                               const std::function<void(MachineRow)>& visit) {
  return ScanMachines({view, partition}, visit);
}
inline Result<std::optional<std::string>> GetOutput(const View& view, PartitionId partition,
                                                    std::string_view ns, std::string_view id,
                                                    std::string_view node) {
  return GetOutput({view, partition}, {ns, id}, node);
}
inline Result<Instance> GetInstance(const View& view, PartitionId partition, std::string_view ns,
                                    std::string_view id, const Resolve& resolve) {
  return GetInstance({view, partition}, {ns, id}, resolve);
}
inline Result<Spec> GetSpec(const View& view, PartitionId partition, std::string_view ns,
                            std::string_view id) {
  return GetSpec({view, partition}, {ns, id});
}
inline Result<std::optional<Spec>> FindSpec(const View& view, PartitionId partition,
                                            std::string_view ns, std::string_view id) {
  return FindSpec({view, partition}, {ns, id});
}
inline Result<std::map<std::string, std::string>> GetOutputs(const View& view,
                                                             PartitionId partition,
                                                             std::string_view ns,
                                                             std::string_view id) {
  return GetOutputs({view, partition}, {ns, id});
}
inline Result<Ok> ScanInstances(const View& view, PartitionId partition, bool stopped,
                                std::string_view ns, std::string_view after, const Resolve& resolve,
                                const VisitInstance& visit, const Wanted& wanted = {}) {
  return ScanInstances({view, partition}, stopped, {ns, after}, resolve, visit, wanted);
}
inline Result<Ok> ScanLive(const View& view, PartitionId partition, const Resolve& resolve,
                           const std::function<Result<Ok>(const Resting&)>& visit,
                           const std::function<Result<Ok>(Instance)>& visit_other) {
  return ScanLive({view, partition}, resolve, visit, visit_other);
}
inline Result<Ok> ScanLabel(const View& view, PartitionId partition, std::string_view ns,
                            std::string_view key, std::string_view value, std::string_view after,
                            const VisitId& visit) {
  return ScanLabel({view, partition}, {ns, after}, key, value, visit);
}
inline Result<Ok> ScanMachine(const View& view, PartitionId partition, std::string_view ns,
                              std::string_view machine, std::string_view after,
                              const VisitId& visit) {
  return ScanMachine({view, partition}, {ns, after}, machine, visit);
}
inline Result<Ok> ScanChildren(const View& view, PartitionId partition, std::string_view ns,
                               std::string_view parent, std::string_view after,
                               const VisitId& visit) {
  return ScanChildren({view, partition}, {ns, after}, parent, visit);
}
inline Result<Ok> ScanSteps(const View& view, PartitionId partition, std::string_view ns,
                            std::string_view id, const std::function<bool(StepRow)>& visit) {
  return ScanSteps({view, partition}, {ns, id}, visit);
}
inline void PutGraph(Batch* batch, PartitionId partition, const Instance& instance,
                     const PlanGraph& graph) {
  PutGraph({*batch, partition}, instance, graph);
}
inline Result<PlanGraph> GetGraph(const View& view, PartitionId partition,
                                  const Instance& instance) {
  return GetGraph({view, partition}, instance);
}
inline void PutStarts(Batch* batch, PartitionId partition, const Instance& instance, NodeIndex home,
                      const std::vector<ChildStart>& starts) {
  PutStarts({*batch, partition}, instance, home, starts);
}
inline Result<std::vector<ChildStart>> GetStarts(const View& view, PartitionId partition,
                                                 std::string_view ns, std::string_view id,
                                                 NodeIndex home) {
  return GetStarts({view, partition}, {ns, id}, home);
}
inline void PutPlanned(Batch* batch, PartitionId partition, const Instance& instance,
                       std::string_view step, std::string_view flow) {
  PutPlanned({*batch, partition}, instance, step, flow);
}
inline Result<std::map<std::string, std::string>> GetPlanned(const View& view,
                                                             PartitionId partition,
                                                             std::string_view ns,
                                                             std::string_view id) {
  return GetPlanned({view, partition}, {ns, id});
}
inline void PutUnstarted(Batch* batch, PartitionId partition, const Instance& instance,
                         NodeIndex home, uint64_t number) {
  PutUnstarted({*batch, partition}, instance, home, number);
}
inline void DropUnstarted(Batch* batch, PartitionId partition, const Instance& instance,
                          NodeIndex home, uint64_t number) {
  DropUnstarted({*batch, partition}, instance, home, number);
}
inline Result<bool> IsUnstarted(const View& view, PartitionId partition, const Instance& instance,
                                NodeIndex home, uint64_t number) {
  return IsUnstarted({view, partition}, instance, home, number);
}
inline void DropSteps(Batch* batch, PartitionId partition, const Instance& instance) {
  DropSteps({*batch, partition}, instance);
}
inline void DropPlan(Batch* batch, PartitionId partition, const Instance& instance) {
  DropPlan({*batch, partition}, instance);
}
inline void Revive(Batch* batch, PartitionId partition, const Instance& instance,
                   Timestamp expiry) {
  Revive({*batch, partition}, instance, expiry);
}
inline void PutPages(Batch* batch, PartitionId partition, const std::vector<FeedPage>& pages) {
  PutPages({*batch, partition}, pages);
}
inline Result<Ok> ScanFeed(const View& view, PartitionId partition, uint64_t first,
                           const std::function<bool(Event)>& visit) {
  return ScanFeed({view, partition}, first, visit);
}
inline Result<uint64_t> PageStart(const View& view, PartitionId partition, uint64_t seq) {
  return PageStart({view, partition}, seq);
}
inline Result<uint64_t> LastSeq(const View& view, PartitionId partition) {
  return LastSeq({view, partition});
}
inline Result<uint64_t> FirstSeq(const View& view, PartitionId partition) {
  return FirstSeq({view, partition});
}
inline Result<std::vector<uint64_t>> History(const View& view, PartitionId partition,
                                             const Instance& instance, uint64_t after) {
  return History({view, partition}, instance, after);
}
inline Result<Ok> HistoryBackwards(const View& view, PartitionId partition,
                                   const Instance& instance,
                                   const std::function<bool(uint64_t seq)>& visit) {
  return HistoryBackwards({view, partition}, instance, visit);
}
inline Result<uint64_t> TrimFeed(const View& view, Batch* batch, PartitionId partition,
                                 uint64_t begin, Timestamp horizon, size_t most,
                                 const std::function<bool(const Event&)>& keep) {
  return TrimFeed({view, partition}, {*batch, partition}, begin, horizon, most, keep);
}
inline Result<std::vector<Expired>> ScanExpired(const View& view, PartitionId partition,
                                                Timestamp from, Timestamp now, size_t limit) {
  return ScanExpired({view, partition}, from, now, limit);
}
inline Result<Ok> DropInstance(const View& view, Batch* batch, PartitionId partition,
                               const Instance& instance, uint64_t feed_begin, Timestamp expiry) {
  return DropInstance({view, partition}, {*batch, partition}, instance, feed_begin, expiry);
}
inline void DropBare(Batch* batch, PartitionId partition, const Expired& expired) {
  DropBare({*batch, partition}, expired);
}
inline void DropExpiry(Batch* batch, PartitionId partition, const Expired& expired) {
  DropExpiry({*batch, partition}, expired);
}
inline void PutStats(Batch* batch, PartitionId partition, const StatsRow& row) {
  PutStats({*batch, partition}, row);
}
inline void PutStatsSeq(Batch* batch, PartitionId partition, uint64_t seq) {
  PutStatsSeq({*batch, partition}, seq);
}
inline Result<uint64_t> GetStatsSeq(const View& view, PartitionId partition) {
  return GetStatsSeq({view, partition});
}
inline Result<Ok> ScanStats(const View& view, PartitionId partition,
                            const std::function<void(StatsRow)>& visit) {
  return ScanStats({view, partition}, visit);
}
inline void PutDropped(Batch* batch, PartitionId partition, std::string_view ns,
                       std::string_view machine, const DroppedCounts& dropped) {
  PutDropped({*batch, partition}, ns, machine, dropped);
}
inline Result<Ok> ScanDropped(
    const View& view, PartitionId partition,
    const std::function<void(const std::string& ns, const std::string& machine,
                             const DroppedCounts&)>& visit) {
  return ScanDropped({view, partition}, visit);
}

inline Error NoSuchInstance(std::string_view ns, std::string_view id) {
  return NoSuchInstance({ns, id});
}

// The parts of PutInstance, as the engine calls them: PutSpec and PutOutput first, which note
// whether the instance is bare. PutInstance cuts a full page off its history and returns it.
void PutSpec(const Writer& writer, const Instance& instance, const Spec& spec);  // of instance.cc
inline void PutSpec(Batch* batch, PartitionId partition, Instance* instance, const Spec& spec) {
  instance->bare = spec.labels.empty() && instance->parent.empty() && !instance->plan;
  PutSpec({*batch, partition}, *instance, spec);
}
inline void PutOutput(Batch* batch, PartitionId partition, Instance* instance,
                      std::string_view node, std::string_view json) {
  instance->bare = false;
  PutOutput({*batch, partition}, *instance, node, json);
}
inline std::vector<uint64_t> PutInstance(Batch* batch, PartitionId partition, Instance* instance,
                                         const Machine& machine, bool just_stopped,
                                         Timestamp expiry) {
  const Written written =
      PutInstance({*batch, partition}, *instance, machine,
                  {.expiry = just_stopped ? std::optional(expiry) : std::nullopt});
  Note(written, instance);
  return written.page;
}

}  // namespace dfsmr::rows
