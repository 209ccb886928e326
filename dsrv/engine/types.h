// The values that the engine takes and returns. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/registry.h"
#include "fsm/base/diagnostic.h"
#include "fsm/derived/agenda.h"
#include "fsm/plan/compile.h"
#include "fsm/rules/rules.h"
#include "fsm/when/document.h"
#include "storage/place.h"
#include "storage/rows/bulk.h"
#include "storage/rows/feed.h"
#include "storage/rows/space.h"
#include "storage/secrets/seal.h"
#include "storage/store.h"

namespace dfsmr {

// What an instance or a token waits for. Same numbers as runner.proto.
struct WaitView {
  enum class Kind : uint8_t { kNone, kLimit, kRate, kStartAt, kAfter, kHold, kGroupPaused };
  Kind kind = Kind::kNone;
  std::string key;
  uint32_t max = 0;
  uint64_t held = 0;
  uint64_t ahead = 0;
  bool elsewhere = false;  // only home knows the numbers; its turn is
  int32_t priority = 0;    //   this one,
  uint64_t order = 0;      //   and this
  std::vector<std::string> holders;
  Timestamp until = kNever;
};
struct InstanceWaits {
  std::vector<WaitView> instance;
  std::map<uint64_t, std::vector<WaitView>> tokens;  // by visit
  // By visit: why no worker has what is ready.
  std::map<uint64_t, std::string> why;
  size_t leftovers = 0;  // what agents still hold of it though it has stopped
};

// An instance as clients see it.
struct InstanceView {
  Instance instance;
  std::shared_ptr<const Spec> spec;
  std::vector<std::string> nodes;  // the tokens', by name
  std::vector<uint32_t> tries_limits = {};  // of the tokens' work; 0: they have none
  std::map<std::string, std::string> outputs;
  size_t outputs_left_out = 0;   // that have no room in a message
  bool waits_for_group = false;  // its group lets no member begin
  bool left_behind = false;      // an upgrade or an abort has moved on from its version
  size_t leftovers = 0;          // as InstanceWaits has it; of no account with `waits`
  size_t more_tokens = 0;        // that it has besides those in `instance`
  PartitionId partition = 0;     // where it lives
  PackageVersionPtr package = nullptr;         // that it is pinned to
  std::shared_ptr<const InstanceWaits> waits;  // null: only what `instance` says of them is known
};

struct Task {
  std::string ns;
  std::string instance;
  std::string machine;
  uint32_t version = 0;
  std::string node;
  uint64_t visit = 0;
  uint32_t attempt = 0;
  ClaimId claim_id;
  std::string claim;  // as text
  Timestamp deadline = kNever;
  Timestamp begin_by = kNever;  // in two stages; then there is no deadline yet
  std::string checkpoint;
  std::shared_ptr<const Spec> spec;  // null: of a step, and too large to send with each task
  std::string node_params;
  std::string action;
  std::string queue;
  std::string event;
  std::string event_data;
  std::string phase;
  std::vector<std::string> middleware;
  uint32_t tries = 0;  // that have failed
  uint32_t tries_limit = 1;
  Duration run_timeout{};  // zero: none
  bool dry_run = false;
  PackageVersionPtr package = nullptr;  // that serves it
  std::string package_worker;           // of its manifest; empty: none serves the action
  std::string traceparent = {};         // its parent is the span of this attempt; empty: none
};

struct StartArgs {
  std::string ns;
  std::string machine;
  uint32_t version = 0;
  std::string package_version;  // of "P.NAME@VERSION"; empty: none is named
  bool inside = false;          // `version` is what the starter's own package means: retired or not
  std::string id;
  Spec spec;
  int32_t priority = 0;
  Timestamp start_at;
  Timestamp start_before = kNever;
  bool hold = false;
  std::vector<Instance::Prerequisite> after;
  std::optional<Duration> wait_after_fail;  // in place of the plan's
  std::shared_ptr<const PlanSource> flow;   // of spec.flow
  // For instances that the server starts by itself.
  std::string parent;
  Boxed<ParentStep> parent_step;
  Boxed<Provenance> provenance;  // null: it is in no group, and a caller starts it
  bool implicit = false;  // the machine may be an action that nobody has defined
  // Limits besides those of its machine or plan, such as {key: "schedule:NAME", max: 1,
  // on_conflict: skip}. Their keys are taken as they are.
  LimitAsks asks;
  std::optional<OnConflict> on_conflict;  // in place of what the documents say; not of `asks`
  bool force = false;                     // begins past all limits, and counts
  bool dry_run = false;                   // it is walked without effects
  bool outside = false;  // a caller asks for it, so quotas and a freeze may refuse it
  bool follows = false;  // another instance starts it: it has a trace only if that one has
  // What home says of its limits, where they may leave it out and it is to live elsewhere: an error
  // if they do. nullopt: home was not asked.
  std::optional<Result<Ok>> home_says = {};
};
// As deep in a chain of change triggers as the instance that starts it, whatever way it does; and a
// dry run, if that is one.
inline void Deepen(const Instance& starter, StartArgs* args) {
  if (starter.dry_run) args->dry_run = true;  // what a dry run starts is dry, too
  if (!starter.provenance || starter.provenance->depth == 0) return;
  if (!args->provenance) args->provenance = Provenance();
  args->provenance->depth = starter.provenance->depth;
}
// Starting one that limits leave out is refused with LIMIT_REACHED; the message names the key, its
// number and who holds it.
struct Started {
  InstanceView view;
  bool created = false;

  // It has not begun, because limits have no room for it yet: view.instance.limits->keys.
  bool WaitsForLimits() const { return view.instance.waits.Has(Wait::kLimit); }
};
// The refusal of a report because of one of its starts, number `at` from 0.
Error RefusedStart(size_t at, const std::string& machine, const std::string& id, Error why);

struct Defined {
  std::string_view kind;  // "machine", "plan", "action", "schedule", "trigger" or "limit"
  std::string id;
  uint32_t version = 0;
  bool changed = false;
  std::optional<UpgradeStrategy> strategy;  // of a machine, plan or action
  uint64_t affected = 0;
};

// How many tokens stand on a node, and how many have left it.
struct NodeCounts {
  uint64_t ready = 0;
  uint64_t claimed = 0;
  uint64_t waiting = 0;
  uint64_t held = 0;
  uint64_t completed = 0;
  uint64_t timed_out = 0;
};
struct NodeStats : NodeCounts {
  uint64_t limited = 0;  // ready, but limits have no room for it
  std::optional<Duration> p50;
  std::optional<Duration> p95;
  std::optional<Duration> timeout_now;
};
struct MachineStats {
  uint64_t scheduled = 0;
  uint64_t running = 0;
  uint64_t paused = 0;
  uint64_t stopped = 0;
  double retry_rate = 0;
  std::string_view breaker;
};
struct MachineView {
  MachineVersionPtr definition;
  std::shared_ptr<const Machine> machine;  // with its nodes: of a plan, as it is before any params
  MachineStats stats;
  std::vector<NodeStats> nodes;  // as machine->nodes
  bool retired = false;          // its package no longer has it
};

// The process of a worker. Agents may choose the same word.
struct SessionName {
  std::string ns;
  std::string agent;    // empty: of a worker that is none
  std::string session;  // not empty
  friend auto operator<=>(const SessionName&, const SessionName&) = default;
};

// What a worker says of the claims that it wants.
struct WorkerTerms {
  Duration begin_within{};   // not zero: they are made in two stages
  std::string session = {};  // the worker's process; empty: it does not say
  Duration keep_for{};     // not zero: what has begun stays with the session for so long after its
                           // stream has ended
  std::string agent = {};  // the session is of this agent
  std::string address = {};  // that it calls from
  // Its stream is one of several, which share what the worker has room for: it is told what there
  // is, and is handed only what it is allowed (Desk::Allow).
  bool on_credit = false;

  SessionName NameIn(const std::string& ns) const { return {ns, agent, session}; }
  // What is kept of a claim that is made at `now`; null: nothing.
  Boxed<Operation> NewOperation(Timestamp now) const;
};

struct PollArgs {
  Filter filter;
  std::string worker;
  WorkerTerms terms = {};
  int32_t max_tasks = 1;
  Timestamp until;  // how long to wait, in real time, for the first task; passed: does not wait
};

// How much room the disk has for the store. A write that fails ends the process, so whatever makes
// the store grow is refused while there is still enough room for everything else.
enum class Room : uint8_t {
  kAmple,
  kScarce,  // definitions and starts are refused
  kNone,    // hand-outs and reports, too, except to polls and streams that wait already
};
inline constexpr std::string_view NameOf(Room room) {
  return room == Room::kAmple ? "ample" : room == Room::kScarce ? "scarce" : "none";
}

struct Extended {
  Timestamp deadline = kNever;
  bool cancel_requested = false;
  bool kill_requested = false;
  std::optional<Error> error;
  // An early begin: the answer need not wait for the commit, because the claim is not written
  // either. A crash that loses the one loses the other, as it may lose any claim of that work.
  bool early = false;
};

// A claim that a stream has in hand.
struct HeldClaim {
  std::string instance;
  std::string claim;
};

// What a Work stream is told. The engine passes it on after the commit that makes it true.
// What a worker has said that it cannot begin: it is not offered it until then.
struct RefusedWork {
  std::string machine;
  uint32_t version = 0;
  std::string node;
  std::string reason;
  Timestamp until;
};

struct SessionUpdate {
  std::vector<Task> tasks;
  std::vector<std::string> cancelled;
  std::vector<std::string> killed;
  std::vector<std::string> finishable;  // of `cancelled`: a report of these still counts
  bool drained = false;  // nothing is in hand and nothing more will come
  // On credit: what there is, where nothing is allowed; absent: nothing new is to be said.
  std::optional<std::vector<Agenda::Level>> levels = {};
  size_t spare = 0;  // on credit: so much of what was allowed was not used, and counts no more
  std::vector<std::string> over = {};  // on credit: claims in hand no more, whoever ended them
  std::vector<HeldClaim> again = {};   // on credit: and those that are in hand again
  std::vector<RefusedWork> refused = {};  // on credit: by the worker, just now
  std::optional<bool> held = {};  // from now on: nothing is handed out to it; of an agent
  std::optional<Error> end;       // the stream is to end with it
  bool answers_first = false;     // with `end`: what was read is answered before it
};

// How the stream of a worker ends.
enum class StreamEnd {
  kBroken,      // its worker is gone
  kHalfClosed,  // its worker has said so
  kUnknown,     // on credit: the server that it was connected to is gone, or this one gives its
                // partition away. The worker may live, and report through another
};
using SessionSink = std::function<void(SessionUpdate)>;
using SessionId = WaiterId;

using PollSink = std::function<void(std::vector<Task>)>;
using PeekSink = std::function<void(std::vector<Agenda::Level>)>;

struct Turn {
  uint64_t number = 0;
  std::shared_ptr<const Batch> batch;                 // null while the turn is being decided
  std::vector<std::function<void()>> after;           // answers to run when the batch is durable
  std::shared_ptr<std::vector<rows::FeedPage>> feed;  // the batch's records, in order
  uint64_t feed_start = 0;  // the batch drops the records before this one; 0: it drops none

  size_t records() const { return feed->empty() ? 0 : feed->back().last - feed->front().first + 1; }
};

// An instance that a bulk has found, and the last record of its history then; 0: it is not known.
struct BulkHit {
  std::string id;
  uint64_t last_seq = 0;
};
struct BulkPortion {
  std::vector<BulkHit> hits;  // in order of id
  std::string last;           // the next portion begins after it; empty: there is none
  uint64_t looked_at = 0;     // rows
};

struct EngineOptions {
  PartitionId partition = 0;
  uint16_t partitions = 1;  // of the store
  // The partition that has the rows of what belongs to all; nullopt: this one.
  std::optional<PartitionId> home = {};
  bool AtHome() const { return !home || *home == partition; }
  Duration retention = std::chrono::hours(24 * 7);
  Duration lazy = std::chrono::milliseconds(300);  // a claim is written after at most this long
  // Whether begins may be answered early (Extended). False where another server may take the
  // partition over while this one still answers.
  bool early_begins = true;
  Duration stats_every = std::chrono::seconds(5);
  size_t cached_instances = 100'000;
  // The clock stands until it is told to go on (Engine::BeginTurn). The store of such an engine is
  // for no other, since its times are not those of the world.
  bool virtual_clock = false;
  // How many nodes have numbers of their own in Measured.
  size_t metrics_series = 2'000;
  // Text → the one machine, plan or action in it. Must accept for ever what it has once accepted.
  std::function<Result<Machine>(std::string_view source)> compile;
  // The same of a schedule, trigger or limit.
  std::function<Result<Document>(std::string_view source)> parse_document;
  // Have the names of a document, or of a flow that a worker has reported, as the package version
  // sees them: what is its own gets the package's name in front. Absent: nothing is changed.
  std::function<void(const PackageVersion&, Machine*)> own_machine;
  std::function<void(const PackageVersion&, Document*)> own_document;
  std::function<void(const PackageVersion&, PlanSource*)> own_flow;
  // Parses the text of a flow, as sent with Start or by a planner.
  std::function<Result<std::shared_ptr<const PlanSource>>(std::string_view text, TextOrigin origin)>
      parse_flow;
  // Compiles a JSON Schema that was accepted before. Violations call the checked value `subject`.
  std::function<std::shared_ptr<const ParamsCheck>(std::string_view schema,
                                                   std::string_view subject)>
      schema;
  // Runs a job where it holds up nobody, and later, in a turn of the engine, what the job answers
  // (null: nothing): on the engine's thread, and not after the engine is gone. Absent: both happen
  // at once.
  using Job = std::function<std::function<void()>()>;
  std::function<void(Job)> offload;
  // How many steps of one plan are planned, or reached, in one change: what is more is offloaded,
  // or left to later passes. Each of these reaches `portion` steps, so that it holds up nobody.
  size_t steps_at_once = 1'000;
  size_t portion = 250;
  // Namespaces: whether only those exist that were made by name, and the quotas of those that have
  // none of their own.
  bool closed_namespaces = false;
  rows::Quotas quotas = {};
  // Hears that a namespace goes, when that is durable: its access tokens are gone from the store.
  std::function<void(const std::string& ns)> tokens_gone;
  // The keys that secrets are sealed with at first (null: there are none, and nothing is sealed),
  // and so many bytes for a nonce, as Seal wants them. Absent: of the turn's randomness, for tests.
  SecretKeysPtr secret_keys = nullptr;
  std::function<std::string(size_t)> random_bytes;
  // Hears that all secrets were looked at after the keys had changed: how many versions each key
  // seals. Absent: nobody does.
  std::function<void(const std::map<std::string, uint64_t>& by_key)> secrets_resealed;
  // Finds the next instances of a bulk of a namespace, in rows that are written, on any thread.
  // Absent: it finds none.
  std::function<Result<BulkPortion>(const Reader& reader, const std::string& ns,
                                    const rows::BulkRow& bulk, Timestamp now)>
      find_for_bulk;
  // The share, 0 to 1, of instances that are started without a trace and get one of their own.
  double trace_sample = 0;
  // Hears of each instance that retention removes, in the turn that does it. Absent: nobody does.
  std::function<void(const std::string& ns, const std::string& id)> removed;

  // Whether the instance lives in this engine's partition.
  bool Has(std::string_view ns, std::string_view id) const {
    return PartitionOf(ns, id, partitions) == partition;
  }
};

}  // namespace dfsmr
