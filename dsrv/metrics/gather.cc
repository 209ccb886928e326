#include "dsrv/metrics/gather.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "dsrv/backup/backups.h"
#include "dsrv/calls/changes_stream.h"
#include "dsrv/engine/agents.h"
#include "dsrv/engine/compile.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/triggers.h"
#include "dsrv/engine/trust.h"
#include "storage/place.h"
#include "storage/rows/occurrence_heads.h"

namespace dfsmr::metrics {
namespace {

// Keys of limits that are looked at in each namespace, and in all.
constexpr size_t kKeysOfSpace = 1'000;
constexpr size_t kKeys = 4'000;

std::string NameOf(AgentState state) {
  switch (state) {
    case AgentState::kActive:
      return "active";
    case AgentState::kDraining:
      return "draining";
    case AgentState::kDrained:
      return "drained";
    case AgentState::kLost:
      return "lost";
    case AgentState::kOffline:
      return "offline";
    case AgentState::kNone:
      break;
  }
  return "unknown";
}

double SecondsOf(Timestamp time) { return static_cast<double>(Micros(time)) / 1e6; }

void AddAgents(Engine& engine, const std::string& ns, Snapshot* snapshot) {
  const auto agents = engine.agents().List({ns, AgentState::kNone, {}, {}, "", limits::kAgents});
  if (agents.empty()) return;
  AgentCounts& counts = snapshot->agents[ns];
  for (const AgentState state : {AgentState::kActive, AgentState::kDraining, AgentState::kDrained,
                                 AgentState::kLost, AgentState::kOffline}) {
    counts.by_state[NameOf(state)];
  }
  for (const AgentView& agent : agents) {
    ++counts.by_state[NameOf(agent.state)];
    counts.operations += agent.in_hand;
    if (agent.row.presence == rows::AgentRow::Presence::kConnected) counts.slots += agent.row.slots;
  }
}

void AddLimits(Engine& engine, const std::string& ns, size_t* left, Snapshot* snapshot) {
  const size_t most = std::min(*left, kKeysOfSpace);
  const auto all = engine.limits().Look().List({ns, "", false, "", most + 1});
  *left -= std::min(most, all.size());
  if (all.size() > most) return;  // no number is better than one that leaves some out
  // What is held anywhere home tells, and who waits; only tasks wait where they are.
  const bool home = engine.reader().partition == kHome;
  for (const LimitView& limit : all) {
    if (!home && !IsTask(BuiltInOf(limit.key))) continue;
    LimitCounts& counts = snapshot->limits[{ns, limit.key.substr(0, limit.key.find('/'))}];
    if (home) counts.held += limit.held;
    counts.waiting += limit.waiting;
  }
}

void AddPackages(const Packages& packages, Snapshot* snapshot) {
  for (const auto& [name, state] : packages.table().all()) {
    PackageCounts& counts = snapshot->packages[name.first];
    const bool blocks = packages.trust().BlocksAny(name.first);
    for (const auto& [version, known] : state.versions) {
      if (known.removed) continue;
      counts.bytes += known.size;
      if (!blocks) continue;
      const PackageStanding standing = packages.StandingOf(*known.version);
      const bool used = standing.state != PackageStanding::State::kIdle;
      counts.blocked += used && !standing.trust.blocked.empty();
    }
  }
  snapshot->activations = packages.outcomes();
}

LoopCounts LoopOf(Loop& loop) {
  const Meter& meter = loop.meter();
  LoopCounts counts;
  counts.turns = meter.Get(Meter::kTurns);
  counts.turn_records = Ranges(meter.turn_records());
  counts.mailbox = loop.MailWaiting();
  counts.mailbox_wait = Ranges(meter.mailbox_wait());
  counts.stage_us = {{"decide", meter.Get(Meter::kDecideUs)},
                     {"encode", meter.Get(Meter::kEncodeUs)},
                     {"commit", meter.Get(Meter::kCommitUs)},
                     {"reply", meter.Get(Meter::kReplyUs)}};
  counts.commits = meter.Get(Meter::kCommits);
  counts.commit = Ranges(meter.commits());
  counts.bytes = meter.Get(Meter::kBytes);
  counts.puts = meter.Get(Meter::kPuts);
  counts.deletes = meter.Get(Meter::kDeletes);
  return counts;
}

// The kinds of rows are told in storage/rows/keys.h.
void GatherStore(const RocksStore& store, PartitionId partition, StoreCounts* counts) {
  counts->sync = Ranges(store.syncs());
  const auto sizes = store.SizesOf(partition, {{0x02, 0x10}, {0x03}, {0x06}, {0x07, 0x08}});
  uint64_t rest = sizes.all;
  constexpr std::array<const char*, 4> kNames = {"live", "stopped", "feed", "history"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    counts->bytes.emplace_back(kNames[i], sizes.of[i]);
    rest -= std::min(rest, sizes.of[i]);
  }
  counts->bytes.emplace_back("other", rest);
  counts->stalled = store.Stalls();
}

StoreCounts StoreOf(const Sources& sources) {
  StoreCounts counts;
  if (sources.store) GatherStore(*sources.store, sources.backend.reader.partition, &counts);
  counts.room = NameOf(sources.room());
  std::error_code failed;
  if (sources.backend.server) {
    const auto space = std::filesystem::space(sources.backend.server->data, failed);
    if (!failed) counts.disk_free = space.available;
  }
  return counts;
}

std::vector<WatcherCounts> WatchersOf(const Sources& sources) {
  const Backend& backend = sources.backend;
  constexpr std::array<const char*, kWatcherClasses> kNames = {"grpc", "http", "console", "otlp"};
  std::vector<WatcherCounts> all;
  auto classes = backend.watchers.ByClass();
  if (sources.exporter) {
    classes[static_cast<size_t>(WatcherClass::kOtlp)] = {1, sources.exporter->position()};
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    WatcherCounts& one = all.emplace_back();
    one.name = kNames[i];
    one.count = classes[i].count;
    const uint64_t head = backend.changes.head();
    if (one.count == 0 || classes[i].slowest >= head) continue;
    one.lag_records = head - classes[i].slowest;
    one.lag_seconds =
        std::chrono::duration<double>(backend.changes.LagOf(classes[i].slowest)).count();
  }
  return all;
}

void AddBackups(const Backend& backend, Snapshot* snapshot) {
  const BackupStatus status = backend.backups.status();
  snapshot->backs_up = status.asked;
  if (status.last_time != Timestamp()) snapshot->backup_time = SecondsOf(status.last_time);
  snapshot->backup_bytes = status.last_bytes;
  snapshot->backup_failures = status.failures;
}

// Of /proc/self/stat, which tells memory in pages and CPU time in ticks.
ProcessCounts ProcessOf() {
  ProcessCounts counts;
  std::ifstream file("/proc/self/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  // The second field is the name, in parentheses; the fields behind it begin with the third.
  std::istringstream rest(all.substr(std::min(all.rfind(')') + 2, all.size())));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(std::move(field));
  const auto field = [&](size_t number) {
    return number - 3 < fields.size() ? std::strtoull(fields[number - 3].c_str(), nullptr, 10) : 0;
  };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  counts.cpu_seconds = static_cast<double>(field(14) + field(15)) / ticks;
  counts.virtual_bytes = field(23);
  counts.resident_bytes = field(24) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc/self/fd", failed), end; !failed && at != end;
       at.increment(failed)) {
    ++counts.files;
  }
  rlimit most{};
  if (getrlimit(RLIMIT_NOFILE, &most) == 0) counts.most_files = most.rlim_cur;
  return counts;
}

}  // namespace

void GatherEngine(Engine& engine, Snapshot* snapshot) {
  snapshot->measured = engine.Measure();
  size_t left = kKeys;
  for (const std::string& ns : engine.survey().Namespaces()) {
    AddAgents(engine, ns, snapshot);
    AddLimits(engine, ns, &left, snapshot);
  }
  AddPackages(engine.packages(), snapshot);
  engine.triggers().VisitPlaces([&](const std::string& ns, const FeedPlace& place) {
    snapshot->trigger_lags[{ns, "trigger:" + place.trigger}] = place.lag;
  });
  snapshot->feed_first = engine.survey().feed_start();
  snapshot->feed_last = engine.survey().last_seq();
}

void GatherServer(const Sources& sources, Snapshot* snapshot) {
  const Backend& backend = sources.backend;
  // A row that cannot be read is told by whoever needs it.
  (void)rows::ScanOccurrenceHeads(
      {backend.reader.store, backend.reader.partition},
      [&](const std::string& ns, const std::string& cause, const rows::OccurrenceHead& head) {
        snapshot->dead_letters[{ns, cause}] = head.failed;
      });
  if (backend.calls) {
    snapshot->calls = backend.calls->counts();
    snapshot->call_seconds = Ranges(backend.calls->seconds());
    snapshot->calls_open = backend.calls->open();
  }
  snapshot->refusals = backend.refusals.Counts();
  snapshot->loop = LoopOf(backend.loop);
  snapshot->store = StoreOf(sources);
  snapshot->watchers = WatchersOf(sources);
  const DoorCounts door = sources.door();
  snapshot->http_connections = door.open;
  snapshot->http_closed = door.closed;
  if (sources.exporter) snapshot->spans = sources.exporter->counts();
  snapshot->log_lines = backend.logs.lines();
  snapshot->log_lines_left_out = backend.logs.left_out();
  snapshot->log_bytes = backend.logs.bytes();
  AddBackups(backend, snapshot);
  snapshot->audit_failed = sources.audit && sources.audit->failed();
  if (backend.server) GatherProcess(*backend.server, snapshot);
  if (sources.cluster) snapshot->cluster = sources.cluster();
}

void GatherProcess(const ServerFacts& server, Snapshot* snapshot) {
  snapshot->version = server.version;
  const Timestamp expiry = server.tls_expiry;
  if (expiry != kNever) snapshot->tls_expiry = SecondsOf(expiry);
  snapshot->process = ProcessOf();
  snapshot->process.start_seconds = SecondsOf(server.start_time);
}

}  // namespace dfsmr::metrics
