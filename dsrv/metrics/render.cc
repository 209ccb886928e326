#include "dsrv/metrics/render.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "dsrv/metrics/cluster.h"

namespace dfsmr::metrics {
namespace {

constexpr double kMicros = 1e6;  // in a second

std::string Lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string NameOf(int code) {
  constexpr std::array<const char*, 17> kNames = {"ok",
                                                  "cancelled",
                                                  "unknown",
                                                  "invalid_argument",
                                                  "deadline_exceeded",
                                                  "not_found",
                                                  "already_exists",
                                                  "permission_denied",
                                                  "resource_exhausted",
                                                  "failed_precondition",
                                                  "aborted",
                                                  "out_of_range",
                                                  "unimplemented",
                                                  "internal",
                                                  "unavailable",
                                                  "data_loss",
                                                  "unauthenticated"};
  const auto at = static_cast<size_t>(code);
  return at < kNames.size() ? kNames[at] : "unknown";
}

// A reason, or "code 5" where a refusal has none.
std::string ReasonName(const std::string& reason) {
  constexpr std::string_view kCode = "code ";
  if (!reason.starts_with(kCode)) return Lower(reason);
  return NameOf(std::atoi(reason.c_str() + kCode.size()));
}

class Rendering {
 public:
  Rendering(const Snapshot& snapshot, const Sees& sees, Form form)
      : all_(snapshot), sees_(sees), whole_(sees("*")), out_(form) {
    for (const Measured::Machine& machine : all_.measured.machines) {
      if (!sees(machine.ns)) continue;
      Row row{machine, Labels().With("namespace", machine.ns).With("machine", machine.id), {}};
      row.nodes.reserve(machine.nodes.size());
      for (const auto& node : machine.nodes)
        row.nodes.push_back(row.labels.With("node", node.name));
      rows_.push_back(std::move(row));
    }
  }

  std::string Take() {
    Machines();
    Nodes();
    NodeTimes();
    Queues();
    Breakers();
    Occurrences();
    Limits();
    Agents();
    Packages();
    Calls();
    Loop();
    Store();
    Feed();
    Doors();
    Backups();
    return TakeProcess();
  }
  std::string TakeProcess() {
    Server();
    if (all_.cluster) RenderCluster(*all_.cluster, whole_, &out_);
    Process();
    return out_.Take();
  }

 private:
  struct Row {
    const Measured::Machine& machine;
    Labels labels;
    std::vector<Labels> nodes;  // as machine.nodes
  };

  void Counter(std::string_view name, std::string_view help) {
    out_.Family(name, Type::kCounter, help);
  }
  void Gauge(std::string_view name, std::string_view help) {
    out_.Family(name, Type::kGauge, help);
  }
  void Histogram(std::string_view name, std::string_view help) {
    out_.Family(name, Type::kHistogram, help);
  }
  // Of a series that has no namespace.
  template <typename Number>
  void Whole(Number value, const Labels& labels = {}) {
    if (whole_) out_.Add(labels, value);
  }
  void WholeSpread(const Ranges& ranges, double per_unit) {
    if (whole_ && !ranges.counts.empty())
      out_.AddHistogram({}, ranges.edges, ranges.counts, ranges.sum, per_unit);
  }
  template <typename Visit>
  void EachNode(Visit visit) {
    for (const Row& row : rows_) {
      for (size_t i = 0; i < row.nodes.size(); ++i) visit(row.machine.nodes[i], row.nodes[i]);
    }
  }
  void NodeCounter(std::string_view name, std::string_view help, uint64_t NodeMeasures::*count) {
    Counter(name, help);
    EachNode([&](const Measured::Node& node, const Labels& labels) {
      out_.Add(labels, node.counts.*count);
    });
  }

  void Machines() {
    Counter("dfsmr_starts", "Instances that were started.");
    for (const Row& row : rows_) out_.Add(row.labels, row.machine.counts.starts);
    Counter("dfsmr_finishes", "Instances that have stopped, by result.");
    constexpr std::array<const char*, kResults> kNames = {"success", "warning", "error",
                                                          "cancelled", "aborted"};
    for (const Row& row : rows_) {
      for (size_t i = 0; i < kResults; ++i) {
        out_.Add(row.labels.With("result", kNames[i]), row.machine.counts.finishes[i]);
      }
    }
    Gauge("dfsmr_instances", "Instances, by state.");
    constexpr std::array<const char*, 4> kStates = {"scheduled", "running", "paused", "stopped"};
    for (const Row& row : rows_) {
      for (size_t i = 0; i < kStates.size(); ++i) {
        out_.Add(row.labels.With("state", kStates[i]), row.machine.instances[i]);
      }
    }
  }

  void Nodes() {
    Counter("dfsmr_transitions", "Transitions out of the node.");
    EachNode([&](const Measured::Node& node, const Labels& labels) {
      for (const auto& [name, count] : node.counts.transitions) {
        out_.Add(labels.With("transition", name), count);
      }
    });
    Counter("dfsmr_claims", "Claims: the first of a visit, and retries.");
    EachNode([&](const Measured::Node& node, const Labels& labels) {
      out_.Add(labels.With("attempt", "first"), node.counts.first_claims);
      out_.Add(labels.With("attempt", "retry"), node.counts.retries);
    });
    NodeCounter("dfsmr_timeouts", "Claims whose deadline has passed.", &NodeMeasures::timeouts);
    NodeCounter("dfsmr_errors", "Reports with an error.", &NodeMeasures::errors);
    NodeCounter("dfsmr_claims_refused", "Claims that their worker could not begin.",
                &NodeMeasures::refused);
    NodeCounter("dfsmr_claims_unbegun", "Claims that nobody has begun in time.",
                &NodeMeasures::unbegun);
    NodeCounter("dfsmr_attempts_abandoned", "Attempts that were lost with their worker.",
                &NodeMeasures::abandoned);
    Gauge("dfsmr_tokens", "Where instances stand, by state.");
    constexpr std::array<const char*, 4> kStates = {"ready", "claimed", "waiting", "held"};
    EachNode([&](const Measured::Node& node, const Labels& labels) {
      for (size_t i = 0; i < kStates.size(); ++i) {
        out_.Add(labels.With("state", kStates[i]), node.counts.tokens[i]);
      }
    });
  }

  void NodeSpread(Spread<kWorkEdges> NodeMeasures::*of) {
    EachNode([&](const Measured::Node& node, const Labels& labels) {
      const Spread<kWorkEdges>& spread = node.counts.*of;
      const auto counts = spread.counts();
      if (std::ranges::all_of(counts, [](uint64_t count) { return count == 0; })) return;
      out_.AddHistogram(labels, Spread<kWorkEdges>::edges(), counts, spread.sum(), kMicros);
    });
  }
  void NodeTimes() {
    Histogram("dfsmr_task_seconds", "From claim to report.");
    NodeSpread(&NodeMeasures::task);
    Histogram("dfsmr_task_wait_seconds", "From ready to claim.");
    NodeSpread(&NodeMeasures::wait);
    Gauge("dfsmr_task_timeout_seconds", "What the next claim gets.");
    EachNode([&](const Measured::Node& node, const Labels& labels) {
      if (node.timeout) out_.Add(labels, Seconds(*node.timeout));
    });
  }

  template <typename Add>
  void EachQueue(Add add) {
    for (const Row& row : rows_) {
      for (const auto& [name, queue] : row.machine.queues)
        add(queue, row.labels.With("queue", name));
    }
  }
  void Queues() {
    Gauge("dfsmr_ready_tasks", "Tasks that wait for a worker.");
    EachQueue(
        [&](const Measured::Queue& queue, const Labels& labels) { out_.Add(labels, queue.ready); });
    Gauge("dfsmr_ready_oldest_seconds", "For how long the oldest of them has waited.");
    EachQueue([&](const Measured::Queue& queue, const Labels& labels) {
      out_.Add(labels, Seconds(queue.oldest.value_or(Duration())));
    });
    Gauge("dfsmr_asking", "Polls and streams that would take one now.");
    EachQueue([&](const Measured::Queue& queue, const Labels& labels) {
      out_.Add(labels, queue.asking);
    });
  }

  void Breakers() {
    Gauge("dfsmr_breaker_state", "1 for the state of the machine's breaker.");
    for (const Row& row : rows_) {
      if (row.machine.breaker.empty()) continue;
      for (const char* state : {"closed", "open", "half-open"}) {
        out_.Add(row.labels.With("state", state), row.machine.breaker == state ? 1 : 0);
      }
    }
    Counter("dfsmr_breaker_opens", "How often the breaker has opened.");
    for (const Row& row : rows_) out_.Add(row.labels, row.machine.counts.breaker_opens);
    Gauge("dfsmr_retry_ratio", "Retries in claims, over the last minute.");
    for (const Row& row : rows_) {
      if (!row.machine.breaker.empty()) out_.Add(row.labels, row.machine.retry_ratio);
    }
    Gauge("dfsmr_retries_held_back", "Retries that an open breaker holds back.");
    for (const Row& row : rows_) out_.Add(row.labels, row.machine.held_back);
  }

  template <typename Map, typename Add>
  void EachNamed(const Map& map, std::string_view label, Add add) {
    for (const auto& [name, value] : map) {
      if (!sees_(name.first)) continue;
      add(value, Labels().With("namespace", name.first).With(label, name.second));
    }
  }
  void Occurrences() {
    Counter("dfsmr_occurrences", "What came due of schedules and triggers, by outcome.");
    for (const Measured::Occurrences& one : all_.measured.occurrences) {
      if (!sees_(one.ns)) continue;
      const Labels source = Labels().With("namespace", one.ns).With("source", one.source);
      out_.Add(source.With("outcome", Lower(one.outcome)), one.count);
    }
    Histogram("dfsmr_occurrence_delay_seconds", "From due to decided; jitter counts as delay.");
    WholeSpread(Ranges(all_.measured.occurrence_delay), kMicros);
    Gauge("dfsmr_trigger_lag_records", "Records of the feed that the trigger has not looked at.");
    const auto add = [&](uint64_t count, const Labels& labels) { out_.Add(labels, count); };
    EachNamed(all_.trigger_lags, "source", add);
    Gauge("dfsmr_dead_letters", "Occurrences that have failed and wait for an operator.");
    EachNamed(all_.dead_letters, "source", add);
  }

  void Limits() {
    Gauge("dfsmr_limit_held", "Places of the limit that are taken.");
    EachNamed(all_.limits, "limit", [&](const LimitCounts& limit, const Labels& labels) {
      out_.Add(labels, limit.held);
    });
    Gauge("dfsmr_limit_waiting", "How many wait for a place.");
    EachNamed(all_.limits, "limit", [&](const LimitCounts& limit, const Labels& labels) {
      out_.Add(labels, limit.waiting);
    });
  }

  template <typename Map, typename Add>
  void EachSpace(const Map& all, Add add) {
    for (const auto& [ns, counts] : all) {
      if (sees_(ns)) add(counts, Labels().With("namespace", ns));
    }
  }
  void Agents() {
    Gauge("dfsmr_agents", "Agents, by state.");
    EachSpace(all_.agents, [&](const AgentCounts& agents, const Labels& labels) {
      for (const auto& [state, count] : agents.by_state)
        out_.Add(labels.With("state", state), count);
    });
    Gauge("dfsmr_agent_slots", "Slots of the agents that are connected.");
    EachSpace(all_.agents, [&](const AgentCounts& agents, const Labels& labels) {
      out_.Add(labels, agents.slots);
    });
    Gauge("dfsmr_agent_operations", "What agents have in hand.");
    EachSpace(all_.agents, [&](const AgentCounts& agents, const Labels& labels) {
      out_.Add(labels, agents.operations);
    });
    Counter("dfsmr_log_lines", "Lines of logs that were taken.");
    Whole(all_.log_lines);
    Counter("dfsmr_log_lines_left_out", "Lines of logs for which there was no room.");
    Whole(all_.log_lines_left_out);
    Gauge("dfsmr_log_bytes", "What logs take.");
    Whole(all_.log_bytes);
  }

  void Calls() {
    Counter("dfsmr_calls", "Calls that have ended, by door, method and code.");
    for (const auto& [kind, count] : all_.calls) {
      Whole(count, Labels()
                       .With("door", kind.http ? "http" : "grpc")
                       .With("method", kind.method)
                       .With("code", NameOf(static_cast<int>(kind.code))));
    }
    Histogram("dfsmr_call_seconds", "How long calls took, without streams and those that waited.");
    WholeSpread(all_.call_seconds, kMicros);
    Gauge("dfsmr_calls_open", "Calls under way.");
    Whole(all_.calls_open);
    Counter("dfsmr_refusals", "Calls that were refused, by reason.");
    for (const auto& [reason, count] : all_.refusals) {
      Whole(count, Labels().With("reason", ReasonName(reason)));
    }
  }

  void Loop() {
    Counter("dfsmr_turns", "Turns of the deciding thread.");
    Whole(all_.loop.turns);
    Histogram("dfsmr_turn_records", "Records of the feed in a turn that has some.");
    WholeSpread(all_.loop.turn_records, 1);
    Gauge("dfsmr_mailbox_depth", "Requests that wait for the deciding thread.");
    Whole(all_.loop.mailbox);
    Histogram("dfsmr_mailbox_wait_seconds", "For how long requests waited for it.");
    WholeSpread(all_.loop.mailbox_wait, kMicros);
    Counter("dfsmr_stage_cpu_seconds", "CPU time of the stages of turns.");
    for (const auto& [stage, us] : all_.loop.stage_us) {
      Whole(static_cast<double>(us) / kMicros, Labels().With("stage", stage));
    }
    Counter("dfsmr_commits", "Batches that are on disk.");
    Whole(all_.loop.commits);
    Histogram("dfsmr_commit_seconds", "From the begin of a commit until it was on disk.");
    WholeSpread(all_.loop.commit, kMicros);
    Histogram("dfsmr_fsync_seconds", "The sync of the log in it.");
    WholeSpread(all_.store.sync, kMicros);
    Counter("dfsmr_commit_bytes", "Keys and values of what was written.");
    Whole(all_.loop.bytes);
    Counter("dfsmr_commit_rows", "Rows that were written.");
    Whole(all_.loop.puts, Labels().With("op", "put"));
    Whole(all_.loop.deletes, Labels().With("op", "delete"));
  }

  void Packages() {
    Gauge("dfsmr_package_bytes", "Bytes of the archives in the registry.");
    EachSpace(all_.packages, [&](const PackageCounts& packages, const Labels& labels) {
      out_.Add(labels, packages.bytes);
    });
    Gauge("dfsmr_packages_blocked", "Versions in use whose tasks are not handed out.");
    EachSpace(all_.packages, [&](const PackageCounts& packages, const Labels& labels) {
      out_.Add(labels, packages.blocked);
    });
    Counter("dfsmr_package_activations", "Calls to activate or deactivate, by outcome.");
    for (const auto& [labels, count] : all_.activations) {
      const auto& [ns, package, outcome] = labels;
      if (!sees_(ns)) continue;
      out_.Add(Labels().With("namespace", ns).With("package", package).With("outcome", outcome),
               count);
    }
  }

  void Store() {
    Gauge("dfsmr_store_bytes", "About what rows take on disk and in memory, by kind.");
    for (const auto& [kind, bytes] : all_.store.bytes) Whole(bytes, Labels().With("kind", kind));
    Gauge("dfsmr_store_stalled", "1 while writes wait for the merging of tables.");
    Whole(all_.store.stalled ? 1 : 0);
    Gauge("dfsmr_disk_free_bytes", "What is free on the disk of the store.");
    if (all_.store.disk_free) Whole(*all_.store.disk_free);
    Gauge("dfsmr_room", "1 for how much room the disk has for the store.");
    for (const char* state : {"ample", "scarce", "none"}) {
      Whole(all_.store.room == state ? 1 : 0, Labels().With("state", state));
    }
  }

  void Feed() {
    Gauge("dfsmr_feed_first_seq", "The first record that the feed holds.");
    Whole(all_.feed_first);
    Gauge("dfsmr_feed_last_seq", "The last one.");
    Whole(all_.feed_last);
    Gauge("dfsmr_feed_watchers", "Who follows the feed, by class.");
    for (const WatcherCounts& one : all_.watchers)
      Whole(one.count, Labels().With("class", one.name));
    Gauge("dfsmr_feed_lag_records", "Records that the slowest of the class has not read.");
    for (const WatcherCounts& one : all_.watchers) {
      Whole(one.lag_records, Labels().With("class", one.name));
    }
    Gauge("dfsmr_feed_lag_seconds", "For how long the first of them has been there.");
    for (const WatcherCounts& one : all_.watchers) {
      Whole(one.lag_seconds, Labels().With("class", one.name));
    }
  }

  void Doors() {
    Counter("dfsmr_bulk_instances", "Instances that bulks have looked at, by outcome.");
    for (const auto& [labels, count] : all_.measured.bulks) {
      Whole(count, Labels().With("action", labels.first).With("outcome", labels.second));
    }
    Gauge("dfsmr_http_connections", "Connections over HTTP.");
    Whole(all_.http_connections);
    Counter("dfsmr_http_closed", "Connections over HTTP that were closed.");
    for (const auto& [why, count] : all_.http_closed) Whole(count, Labels().With("why", why));
    Counter("dfsmr_otlp_spans", "Spans for a collector of traces.");
    if (all_.spans) {
      Whole(all_.spans->sent, Labels().With("outcome", "sent"));
      Whole(all_.spans->dropped, Labels().With("outcome", "dropped"));
    }
  }

  void Backups() {
    Gauge("dfsmr_backup_timestamp_seconds", "Of what moment the last backup by the server is.");
    if (all_.backup_time) Whole(*all_.backup_time);
    Gauge("dfsmr_backup_bytes", "Its size.");
    if (all_.backup_time) Whole(all_.backup_bytes);
    Counter("dfsmr_backup_failures", "Backups by the server that have failed.");
    if (all_.backs_up) Whole(all_.backup_failures);
  }

  void Server() {
    Gauge("dfsmr_build_info", "1, with the version of the server.");
    Whole(1, Labels().With("version", all_.version));
    Gauge("dfsmr_tls_expiry_timestamp_seconds", "When the certificate ends.");
    if (all_.tls_expiry) Whole(*all_.tls_expiry);
    Gauge("dfsmr_audit_failed", "1 while the audit trail cannot be written.");
    Whole(all_.audit_failed ? 1 : 0);
    Gauge("dfsmr_metrics_folded", "Nodes that are not shown by themselves, but as _other.");
    Whole(all_.measured.folded);
  }

  void Process() {
    const ProcessCounts& process = all_.process;
    Counter("process_cpu_seconds", "CPU time of the server.");
    Whole(process.cpu_seconds);
    Gauge("process_start_time_seconds", "When it was started.");
    Whole(process.start_seconds);
    Gauge("process_virtual_memory_bytes", "Its address space.");
    Whole(process.virtual_bytes);
    Gauge("process_resident_memory_bytes", "Its memory.");
    Whole(process.resident_bytes);
    Gauge("process_open_fds", "Its open files.");
    Whole(process.files);
    Gauge("process_max_fds", "How many it may open.");
    Whole(process.most_files);
  }

  const Snapshot& all_;
  const Sees& sees_;
  const bool whole_;
  Exposition out_;
  std::vector<Row> rows_;
};

}  // namespace

std::string Render(const Snapshot& snapshot, const Sees& sees, Form form) {
  return Rendering(snapshot, sees, form).Take();
}

std::string RenderProcess(const Snapshot& snapshot, const Sees& sees, Form form) {
  return Rendering(snapshot, sees, form).TakeProcess();
}

}  // namespace dfsmr::metrics
