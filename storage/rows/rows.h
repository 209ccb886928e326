// Keys and encodings: the only place that knows how values rest in the store.
//
// A key is  partition (2 bytes, big endian) | kind (1 byte) | …  Texts in keys end with a zero byte
// (names and ids are printable), numbers are big endian, so that bytes sort as values do. Kinds are
// never reused.
//
//   0x00                                   the store's own (the epoch)
//   0x01 machine   ns machine version(4)   record.Machine
//   0x02 live      ns instance             record.Instance, of one that has not stopped
//   0x03 stopped   ns instance             record.Instance, of one that has
//   0x04 spec      ns instance             record.Spec: params and labels, written once
//   0x05 output    ns instance node        the JSON object that the node's worker reported
//   0x06 feed      seq(8)                  a page of record.Event, from this number on
//   0x07 history   ns instance seq(8)      record.HistoryPage: numbers of its records in the feed
//   0x08 kept      seq(8)                  record.Event that the feed no longer holds but a history does
//   0x09 expiry    time(8) ns instance     record.Expiry: when a stopped instance may go
//   0x0A label     ns key value instance   index
//   0x0B machine's ns machine instance     index
//   0x0C children  ns parent instance      index
//   0x0D stats     ns machine              record.Stats
//   0x0E feed's start                      the lowest seq that the feed still holds (8)
//   0x0F stats' seq                        the last record that the stats rows account for (8)
//   0x10 step      ns instance home(4)     record.Step: a token of a plan, a join, or how it ended
//   0x11 graph     ns instance             record.Graph, of one whose params made it
//   0x12 graphs    ns name                 record.Graph, shared by all planned under the same definitions
//   0x13 starts    ns instance home(4)     record.Starts: the children that a worker asked for
//   0x14 planned   ns instance step        the flow that a planner reported
//   0x15 unstarted ns instance home(4) number(8)  a child that could not be started
//   0x16 token     id                      record.AccessToken
//   0x17 dropped   ns machine              record.Stats: stopped instances that were dropped since
//                                          the stats row was written, so that it need not be
//
// A transition of a plain machine writes its instance's row, nothing else; the records of a whole
// turn share the pages of the feed. The history of an instance is the list of its records' numbers:
// the page being filled lies in the instance's row, and each full one in a row of its own.
//
// A page of the feed: a zero byte, then each record behind its length as a varint. A value that
// begins with another byte is one record alone, as the feed was written before there were pages.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/derived/latency.h"
#include "fsm/plan/graph.h"
#include "fsm/rules/instance.h"
#include "storage/store.h"

namespace dfsmr::rows {

// The machine that an instance is pinned to; null when there is no such version.
using Resolve =
    std::function<const Machine*(std::string_view ns, std::string_view machine, uint32_t version)>;

struct MachineRow {
  std::string ns;
  std::string id;
  uint32_t version = 0;
  std::string source;
  Timestamp define_time;
};
void PutMachine(Batch* batch, PartitionId partition, const MachineRow& row);
Result<Ok> ScanMachines(const View& view, PartitionId partition,
                        const std::function<void(MachineRow)>& visit);

// Writes a changed instance, and moves it to the stopped ones when it has just stopped: then it may
// go at `expiry`. A full page of its history gets its own row, and is answered.
std::vector<uint64_t> PutInstance(Batch* batch, PartitionId partition, Instance* instance,
                                  const Machine& machine, bool just_stopped, Timestamp expiry);
// What is written once, with the indexes that find it again.
// Both before PutInstance, which writes whether the instance is bare.
void PutSpec(Batch* batch, PartitionId partition, Instance* instance, const Spec& spec);
void PutOutput(Batch* batch, PartitionId partition, Instance* instance,
               std::string_view node, std::string_view json);

// The output of one node; nullopt when there is none.
Result<std::optional<std::string>> GetOutput(const View& view, PartitionId partition,
                                             std::string_view ns, std::string_view id,
                                             std::string_view node);

Error NoSuchInstance(std::string_view ns, std::string_view id);  // kNotFound, in words

// kNotFound when there is no such instance.
Result<Instance> GetInstance(const View& view, PartitionId partition, std::string_view ns,
                             std::string_view id, const Resolve& resolve);
Result<Spec> GetSpec(const View& view, PartitionId partition, std::string_view ns,
                     std::string_view id);
// nullopt when there is no such instance.
Result<std::optional<Spec>> FindSpec(const View& view, PartitionId partition,
                                     std::string_view ns, std::string_view id);
Result<std::map<std::string, std::string>> GetOutputs(const View& view, PartitionId partition,
                                                      std::string_view ns, std::string_view id);

// Live or stopped instances of one namespace (of all when `ns` is empty) with ids after `after`, in
// order of id, until `visit` returns false. Rows that cannot be what `wanted` asks for are skipped
// without being read in full, which is what makes a search through millions of them bearable; those
// visited may still be others.
struct Wanted {
  std::string machine;  // empty, kNone: any
  std::string node;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kNone;
  bool tokens = true;  // of plans that have not stopped, too: they are rows of their own
};
using VisitInstance = std::function<bool(Instance)>;
Result<Ok> ScanInstances(const View& view, PartitionId partition, bool stopped,
                         std::string_view ns, std::string_view after, const Resolve& resolve,
                         const VisitInstance& visit, const Wanted& wanted = {});
// All that live, for a start: millions of them in seconds. Most are of a plain machine, stand on one
// node unclaimed or are yet to start, and are told as they lie in the store; the others in full.
struct Resting {
  std::string_view ns;
  std::string_view id;
  std::string_view machine;
  uint32_t version = 0;
  InstanceState state = InstanceState::kNone;
  int32_t priority = 0;
  Timestamp start_at;
  std::string_view node;  // empty: it has not begun
  uint64_t visit = 0;
  TokenState token = TokenState::kNone;
  Timestamp available_at = kNever;
};
Result<Ok> ScanLive(const View& view, PartitionId partition, const Resolve& resolve,
                    const std::function<Result<Ok>(const Resting&)>& visit,
                    const std::function<Result<Ok>(Instance)>& visit_other);

// Ids that an index holds, after `after`, in order, until `visit` returns false.
using VisitId = std::function<bool(std::string_view id)>;
Result<Ok> ScanLabel(const View& view, PartitionId partition, std::string_view ns,
                     std::string_view key, std::string_view value, std::string_view after,
                     const VisitId& visit);
Result<Ok> ScanMachine(const View& view, PartitionId partition, std::string_view ns,
                       std::string_view machine, std::string_view after, const VisitId& visit);
Result<Ok> ScanChildren(const View& view, PartitionId partition, std::string_view ns,
                        std::string_view parent, std::string_view after, const VisitId& visit);

// Plans. PutInstance writes the rows of the homes that are dirty; this reads them all.
struct StepRow {
  NodeIndex home = kNoNode;
  std::optional<Token> token;
  std::string node;  // the token's, by name
  uint32_t arrived = 0;
  bool doomed = false;
  std::string input;  // in place of the step's own; empty: none
  std::optional<Ended> ended;
};
Result<Ok> ScanSteps(const View& view, PartitionId partition, std::string_view ns,
                     std::string_view id, const std::function<bool(StepRow)>& visit);

void PutGraph(Batch* batch, PartitionId partition, const Instance& instance,
              const PlanGraph& graph);
// kNotFound when it is not there. The schemas' checks are not made: only their texts are kept.
Result<PlanGraph> GetGraph(const View& view, PartitionId partition, const Instance& instance);

// What a worker asked to be started: the fields of a start that are its own.
struct ChildStart {
  std::string machine;
  uint32_t version = 0;
  std::string id;
  int32_t priority = 0;
  Spec spec;
  Timestamp start_at;
  Timestamp start_before = kNever;
  bool hold = false;
  std::vector<Instance::Prerequisite> after;
};
void PutStarts(Batch* batch, PartitionId partition, const Instance& instance, NodeIndex home,
               const std::vector<ChildStart>& starts);
Result<std::vector<ChildStart>> GetStarts(const View& view, PartitionId partition,
                                          std::string_view ns, std::string_view id,
                                          NodeIndex home);
void PutPlanned(Batch* batch, PartitionId partition, const Instance& instance,
                std::string_view step, std::string_view flow);
Result<std::map<std::string, std::string>> GetPlanned(const View& view, PartitionId partition,
                                                      std::string_view ns, std::string_view id);
// Children that could not be started, by their numbers.
void PutUnstarted(Batch* batch, PartitionId partition, const Instance& instance, NodeIndex home,
                  uint64_t number);
void DropUnstarted(Batch* batch, PartitionId partition, const Instance& instance, NodeIndex home,
                   uint64_t number);
Result<bool> IsUnstarted(const View& view, PartitionId partition, const Instance& instance,
                         NodeIndex home, uint64_t number);
// The rows of steps: those of a graph of planners mean others in the one that comes after it.
void DropSteps(Batch* batch, PartitionId partition, const Instance& instance);
// Everything that a plan has left behind but the instance itself: before it is planned anew.
void DropPlan(Batch* batch, PartitionId partition, const Instance& instance);
// An instance that had stopped lives again: its row goes, and its expiry.
void Revive(Batch* batch, PartitionId partition, const Instance& instance, Timestamp expiry);

// Consecutive records of the feed, as they lie in its row.
struct FeedPage {
  uint64_t first = 0;  // their numbers
  uint64_t last = 0;
  std::string bytes;
};
// `event` follows the last record of `pages`: goes into the last one, or a new one if that is full.
void AddEvent(std::vector<FeedPage>* pages, const Event& event);
void PutPages(Batch* batch, PartitionId partition, const std::vector<FeedPage>& pages);
// Its records with first <= seq, ascending, until `visit` returns false.
Result<Ok> ReadPage(const FeedPage& page, uint64_t first, const std::function<bool(Event)>& visit);

// Records with first <= seq, ascending, until `visit` returns false.
Result<Ok> ScanFeed(const View& view, PartitionId partition, uint64_t first,
                    const std::function<bool(Event)>& visit);
// The first number of the page that holds record `seq`; `seq` itself when none does.
Result<uint64_t> PageStart(const View& view, PartitionId partition, uint64_t seq);
// 0 when the feed is empty.
Result<uint64_t> LastSeq(const View& view, PartitionId partition);
// The lowest seq that the feed holds, or would hold: 1 before anything was dropped.
Result<uint64_t> FirstSeq(const View& view, PartitionId partition);
// Records by their numbers, wherever they lie now. It keeps the page that it has read last, since
// records of one instance are often neighbours. One thread.
class FeedReader {
 public:
  FeedReader(const View& view, PartitionId partition) : view_(view), partition_(partition) {}
  Result<Event> Get(uint64_t seq);  // kNotFound when it is gone

 private:
  const View& view_;
  const PartitionId partition_;
  FeedPage page_;
};
// All numbers of an instance's history after `after`, ascending; `instance.history` is the last page.
Result<std::vector<uint64_t>> History(const View& view, PartitionId partition,
                                      const Instance& instance, uint64_t after);

// The same, newest first, until `visit` returns false.
Result<Ok> HistoryBackwards(const View& view, PartitionId partition, const Instance& instance,
                            const std::function<bool(uint64_t seq)>& visit);

// Retention. Drops the pages at the feed's begin, which is `begin`, that hold nothing later than
// `horizon`, until `most` records or a page more are gone, keeping elsewhere the records that
// `keep` wants. Answers where the feed begins now.
Result<uint64_t> TrimFeed(const View& view, Batch* batch, PartitionId partition, uint64_t begin,
                          Timestamp horizon, size_t most,
                          const std::function<bool(const Event&)>& keep);
struct Expired {
  std::string ns;
  std::string id;
  Timestamp at;
  // Of a bare instance, otherwise empty.
  std::string machine;
  uint32_t version = 0;
  uint64_t first_seq = 0;
};
// At most `limit` instances whose time is up, the longest overdue first. `from` skips what has been
// dropped already, and with it the tombstones.
Result<std::vector<Expired>> ScanExpired(const View& view, PartitionId partition, Timestamp from,
                                         Timestamp now, size_t limit);
// Everything of a stopped instance, also what is kept of it from before the feed's begin.
Result<Ok> DropInstance(const View& view, Batch* batch, PartitionId partition,
                        const Instance& instance, uint64_t feed_begin, Timestamp expiry);
// The same for a bare one none of whose records the feed has dropped.
void DropBare(Batch* batch, PartitionId partition, const Expired& expired);
void DropExpiry(Batch* batch, PartitionId partition, const Expired& expired);

// What lets a caller in (rows_token.cc).
struct TokenRow {
  std::string id;
  std::string hash;  // SHA-256 of the secret, 32 bytes
  std::string name;
  std::string ns;  // "*": all
  uint32_t role = 0;
  std::vector<std::string> machines;
  std::vector<std::string> queues;
  Timestamp create_time;
  Timestamp expire_time = kNever;
  std::string created_by;
  friend bool operator==(const TokenRow&, const TokenRow&) = default;
};
void PutToken(Batch* batch, PartitionId partition, const TokenRow& row);
void DropToken(Batch* batch, PartitionId partition, std::string_view id);
// All of them, by id.
Result<std::vector<TokenRow>> ScanTokens(const View& view, PartitionId partition);

// Counters and latencies of one machine.
struct NodeCounts {
  uint64_t completed = 0;
  uint64_t timed_out = 0;
};
struct VersionCounts {
  uint64_t stopped = 0;
  std::map<std::string, NodeCounts> nodes;
};
struct StatsRow {
  std::string ns;
  std::string machine;
  std::map<uint32_t, VersionCounts> versions;
  std::map<std::string, Latency::Snapshot> latencies;  // by node
};
void PutStats(Batch* batch, PartitionId partition, const StatsRow& row);
// Everything up to this record of the feed is in the stats rows.
void PutStatsSeq(Batch* batch, PartitionId partition, uint64_t seq);
Result<uint64_t> GetStatsSeq(const View& view, PartitionId partition);
Result<Ok> ScanStats(const View& view, PartitionId partition,
                     const std::function<void(StatsRow)>& visit);
// Of the versions of one machine, how many stopped instances retention has dropped since PutStats,
// which removes this row.
using DroppedCounts = std::map<uint32_t, uint64_t>;
void PutDropped(Batch* batch, PartitionId partition, std::string_view ns, std::string_view machine,
                const DroppedCounts& dropped);
Result<Ok> ScanDropped(const View& view, PartitionId partition,
                       const std::function<void(const std::string& ns, const std::string& machine,
                                                const DroppedCounts&)>& visit);

}  // namespace dfsmr::rows
