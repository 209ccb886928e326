// What lies in the store, whatever it is: rows of every kind, of damaged values and keys, are read
// or refused. A row is: kind, whether its key is made up too, length (2 bytes), value.
#include "fsm/plan/assemble.h"
#include "record.pb.h"
#include "storage/memory_store.h"
#include "storage/rows/feed.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"
#include "storage/rows/keys.h"
#include "storage/rows/machine.h"
#include "storage/rows/plan.h"
#include "storage/rows/retention.h"
#include "storage/rows/stats.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/quiet.h"
#include "tests/storage/rows/two_nodes.h"

namespace dfsmr {
namespace {

constexpr PartitionId kPartition = 0;

const Machine* Resolve(std::string_view, std::string_view, uint32_t version) {
  static const Machine machine = TwoNodes();
  return version == 1 ? &machine : nullptr;
}

// Where storage/rows would put a row of this kind that is of instance "i".
std::string KeyOf(rows::Kind kind) {
  rows::Key key(kPartition, kind);
  switch (kind) {
    case rows::kMachine:
      return key.Text("ns").Text("m").Version(1);
    case rows::kOutput:
    case rows::kPlanned:
      return key.Text("ns").Text("i").Text("a");
    case rows::kFeed:
    case rows::kKept:
      return key.Number(1);
    case rows::kHistory:
      return key.Text("ns").Text("i").Number(1);
    case rows::kExpiry:
      return key.Number(1).Text("ns").Text("i");
    case rows::kLabel:
      return key.Text("ns").Text("k").Text("v").Text("i");
    case rows::kByMachine:
      return key.Text("ns").Text("m").Text("i");
    case rows::kChildren:
      return key.Text("ns").Text("p").Text("i");
    case rows::kStats:
      return key.Text("ns").Text("m");
    case rows::kFeedStart:
    case rows::kStatsSeq:
      return key;
    case rows::kStep:
    case rows::kStarts:
      return key.Text("ns").Text("i").Version(0);
    case rows::kSharedGraph:
      return key.Text("ns").Text("g");
    case rows::kUnstarted:
      return key.Text("ns").Text("i").Version(0).Number(1);
    default:
      return key.Text("ns").Text("i");
  }
}

// Beside what is made up there is an instance, so that rows that belong to one are looked at.
void Fill(MemoryStore* store, Bytes bytes) {
  Batch batch;
  record::Instance instance;
  instance.set_machine("m");
  instance.set_version(1);
  instance.set_state(static_cast<uint32_t>(InstanceState::kRunning));
  instance.mutable_plan()->set_graph("g");
  batch.Put(KeyOf(rows::kLive), instance.SerializeAsString());
  while (!bytes.empty()) {
    const auto kind = static_cast<rows::Kind>(bytes.Below(rows::kUnstarted + 2));
    std::string key = KeyOf(kind);
    if (bytes.Chance(8)) key = rows::Key(kPartition, kind).bytes() + std::string(bytes.Piece());
    const size_t size = static_cast<size_t>(bytes.Byte()) << 8 | bytes.Byte();
    batch.Put(std::move(key), std::string(bytes.Take(size)));
  }
  Check(store->Write(kPartition, *store->Acquire(kPartition), batch).has_value(), "memory is kept");
}

void ReadPlan(const MemoryStore& store, const Instance& instance) {
  if (!instance.plan) return;
  const auto graph = rows::GetGraph({store, kPartition}, instance);
  if (graph) {
    for (uint32_t step = 0; step < graph->steps.size(); ++step) (void)ReadersOf(*graph, step);
    (void)Assemble(std::make_shared<const PlanGraph>(*graph), {.id = "m"});
  }
  (void)rows::ScanSteps({store, kPartition}, {"ns", "i"},
                        [](const rows::StepRow&) { return true; });
  (void)rows::GetStarts({store, kPartition}, {"ns", "i"}, 0);
  for (const auto& [key, token] : instance.tokens.left()) {
    if (token.late) (void)rows::DecodeStarts(token.late->starts);
  }
  (void)rows::GetPlanned({store, kPartition}, {"ns", "i"});
  (void)rows::IsUnstarted({store, kPartition}, instance, 0, 1);
}

void ReadInstances(const MemoryStore& store) {
  const auto seen = [&store](const Instance& instance) {
    (void)rows::History({store, kPartition}, instance, 0);
    (void)rows::HistoryBackwards({store, kPartition}, instance, [](uint64_t) { return true; });
    ReadPlan(store, instance);
    return true;
  };
  for (const bool stopped : {false, true}) {
    (void)rows::ScanInstances({store, kPartition}, stopped, {"", ""}, Resolve, seen);
    (void)rows::ScanInstances({store, kPartition}, stopped, {"ns", "a"}, Resolve, seen,
                              {.machine = "m", .node = "a", .state = InstanceState::kRunning});
  }
  const auto instance = rows::GetInstance({store, kPartition}, {"ns", "i"}, Resolve);
  if (instance) seen(*instance);
  (void)rows::GetSpec({store, kPartition}, {"ns", "i"});
  (void)rows::GetOutput({store, kPartition}, {"ns", "i"}, "a");
  (void)rows::GetOutputs({store, kPartition}, {"ns", "i"});
  const auto id = [](std::string_view) { return true; };
  (void)rows::ScanLabel({store, kPartition}, {"ns", ""}, "k", "v", id);
  (void)rows::ScanMachine({store, kPartition}, {"ns", ""}, "m", id);
  (void)rows::ScanChildren({store, kPartition}, {"ns", ""}, "p", id);
}

void ReadFeed(const MemoryStore& store) {
  (void)rows::FirstSeq({store, kPartition});
  (void)rows::LastSeq({store, kPartition});
  (void)rows::PageStart({store, kPartition}, 1);
  rows::FeedReader reader(store, kPartition);
  for (const uint64_t seq : {1, 2}) (void)reader.Get(seq);
  (void)rows::ScanFeed({store, kPartition}, 0, [](const Event&) { return true; });
  (void)rows::GetStatsSeq({store, kPartition});
  (void)rows::ScanDropped({store, kPartition},
                          [](const std::string&, const std::string&, const auto&) {});
  (void)rows::ScanStats({store, kPartition}, [](const rows::StatsRow& row) {
    for (const auto& [node, saved] : row.latencies) {
      const Latency latency = Latency::Restore(saved);
      (void)latency.Timeout({}, false);
      (void)latency.Timeout({}, true);
    }
  });
  (void)rows::ScanMachines({store, kPartition}, [](const rows::MachineRow&) {});
}

// As retention does it.
void Drop(const MemoryStore& store) {
  Batch batch;
  const auto expired = rows::ScanExpired({store, kPartition}, FromMicros(0), kNever, 100);
  if (expired) {
    for (const rows::Expired& one : *expired) rows::DropExpiry({batch, kPartition}, one);
  }
  (void)rows::TrimFeed({store, kPartition}, {batch, kPartition}, 0, kNever, 2,
                       [](const Event&) { return true; });
  const auto instance = rows::GetInstance({store, kPartition}, {"ns", "i"}, Resolve);
  if (!instance) return;
  (void)rows::DropInstance({store, kPartition}, {batch, kPartition}, *instance, 1, kNever);
  if (instance->plan) rows::DropPlan({batch, kPartition}, *instance);
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  MemoryStore store;
  Fill(&store, Bytes(data, size));
  ReadInstances(store);
  ReadFeed(store);
  Drop(store);
  return 0;
}
