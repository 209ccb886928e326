#include "storage/rows/agent.h"

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

std::string RowKey(PartitionId partition, std::string_view ns, std::string_view name) {
  return Key(partition, kAgent).Text(ns).Text(name);
}

std::string RowKey(PartitionId partition, const LeftoverRow& row) {
  return Key(partition, kLeftover)
      .Text(row.ns)
      .Text(row.agent)
      .Number(row.id.epoch)
      .Number(row.id.serial);
}

template <typename List>
std::vector<std::string> Texts(const List& list) {
  return {list.begin(), list.end()};
}

void EncodeHost(const HostRow& host, record::Host* out) {
  out->set_hostname(host.hostname);
  out->set_os(host.os);
  out->set_kernel(host.kernel);
  out->set_arch(host.arch);
  out->set_cpus(host.cpus);
  out->set_memory(host.memory);
  out->set_cgroups(host.cgroups);
  out->set_boot_id(host.boot_id);
}

HostRow DecodeHost(const record::Host& in) {
  return {in.hostname(), in.os(),     in.kernel(),  in.arch(),
          in.cpus(),     in.memory(), in.cgroups(), in.boot_id()};
}

AgentRow DecodeAgent(const record::Agent& in) {
  AgentRow row;
  row.session = in.session();
  row.version = in.version();
  row.address = in.address();
  row.host = DecodeHost(in.host());
  for (const auto& [key, value] : in.labels()) row.labels[key] = value;
  row.cached = Texts(in.cached());
  row.capabilities = Texts(in.capabilities());
  row.packages = Texts(in.packages());
  row.queues = Texts(in.queues());
  row.actions = Texts(in.actions());
  row.slots = in.slots();
  row.presence = static_cast<AgentRow::Presence>(in.presence());
  row.connect_time = FromMicros(in.connect_time());
  row.last_seen = FromMicros(in.last_seen());
  row.drained = in.drained();
  row.drain_reason = in.drain_reason();
  row.done = in.done();
  row.failed = in.failed();
  row.abandoned = in.abandoned();
  row.evicted = in.evicted();
  return row;
}

}  // namespace

void PutAgent(const Writer& writer, std::string_view ns, std::string_view name,
              const AgentRow& row) {
  record::Agent out;
  out.set_session(row.session);
  out.set_version(row.version);
  out.set_address(row.address);
  EncodeHost(row.host, out.mutable_host());
  for (const auto& [key, value] : row.labels) (*out.mutable_labels())[key] = value;
  for (const std::string& digest : row.cached) out.add_cached(digest);
  for (const std::string& word : row.capabilities) out.add_capabilities(word);
  for (const std::string& package : row.packages) out.add_packages(package);
  for (const std::string& queue : row.queues) out.add_queues(queue);
  for (const std::string& action : row.actions) out.add_actions(action);
  out.set_slots(row.slots);
  out.set_presence(static_cast<uint32_t>(row.presence));
  out.set_connect_time(Micros(row.connect_time));
  out.set_last_seen(Micros(row.last_seen));
  out.set_drained(row.drained);
  out.set_drain_reason(row.drain_reason);
  out.set_done(row.done);
  out.set_failed(row.failed);
  out.set_abandoned(row.abandoned);
  out.set_evicted(row.evicted);
  writer.batch.Put(RowKey(writer.partition, ns, name), out.SerializeAsString());
}

void DropAgent(const Writer& writer, std::string_view ns, std::string_view name) {
  writer.batch.Delete(RowKey(writer.partition, ns, name));
}

Result<Ok> ScanAgents(
    const Reader& reader,
    const std::function<void(std::string_view, std::string_view, AgentRow)>& visit) {
  const std::string begin = Key(reader.partition, kAgent);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Agent in;
                   if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                     return Corrupt("agent", key);
                   }
                   KeyReader parts(key);
                   const std::string_view ns = parts.Text();
                   visit(ns, parts.Text(), DecodeAgent(in));
                   return true;
                 });
}

void PutLeftover(const Writer& writer, const LeftoverRow& row) {
  record::Leftover out;
  out.set_session(row.session);
  out.set_instance(row.instance);
  out.set_machine(row.machine);
  out.set_version(row.version);
  out.set_node(row.node);
  out.set_visit(row.visit);
  out.set_attempt(row.attempt);
  out.set_claim(row.claim);
  out.set_claim_time(Micros(row.claim_time));
  out.set_begin_time(Micros(row.begin_time));
  out.set_deadline(DeadlineMicros(row.deadline));
  out.set_progress(row.progress);
  out.set_note(row.note);
  out.set_killed(row.killed);
  out.set_order_time(Micros(row.order_time));
  out.set_signal_time(Micros(row.signal_time));
  out.set_dry_run(row.dry_run);
  writer.batch.Put(RowKey(writer.partition, row), out.SerializeAsString());
}

void DropLeftover(const Writer& writer, const LeftoverRow& row) {
  writer.batch.Delete(RowKey(writer.partition, row));
}

Result<Ok> ScanLeftovers(const Reader& reader, const std::function<void(LeftoverRow)>& visit) {
  const std::string begin = Key(reader.partition, kLeftover);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Leftover in;
                   if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                     return Corrupt("leftover", key);
                   }
                   KeyReader parts(key);
                   LeftoverRow row;
                   row.ns = parts.Text();
                   row.agent = parts.Text();
                   row.id.epoch = parts.Number();
                   row.id.serial = parts.Number();
                   row.session = in.session();
                   row.instance = in.instance();
                   row.machine = in.machine();
                   row.version = in.version();
                   row.node = in.node();
                   row.visit = in.visit();
                   row.attempt = in.attempt();
                   row.claim = in.claim();
                   row.claim_time = FromMicros(in.claim_time());
                   row.begin_time = FromMicros(in.begin_time());
                   row.deadline = DeadlineFrom(in.deadline());
                   row.progress = in.progress();
                   row.note = in.note();
                   row.killed = in.killed();
                   row.order_time = FromMicros(in.order_time());
                   row.signal_time = FromMicros(in.signal_time());
                   row.dry_run = in.dry_run();
                   visit(std::move(row));
                   return true;
                 });
}

Result<std::map<std::string, size_t>> CountLeftovers(const Reader& reader, std::string_view ns) {
  std::map<std::string, size_t> counts;
  const std::string begin = Key(reader.partition, kLeftover).Text(ns);
  auto scanned = ScanAll(reader, begin, PrefixEnd(begin),
                         [&](std::string_view key, std::string_view value) -> Result<bool> {
                           record::Leftover in;
                           if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                             return Corrupt("leftover", key);
                           }
                           ++counts[in.instance()];
                           return true;
                         });
  if (!scanned) return scanned.error();
  return counts;
}

}  // namespace dfsmr::rows
