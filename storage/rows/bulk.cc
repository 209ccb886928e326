#include "storage/rows/bulk.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

std::string BulkKey(PartitionId partition, BulkName name) {
  return Key(partition, kBulk).Text(name.ns).Text(name.id);
}

Result<BulkRow> DecodeBulk(std::string_view key, std::string_view value) {
  record::Bulk in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      in.action() > static_cast<uint32_t>(BulkAction::kTransition) ||
      in.state() > static_cast<uint32_t>(BulkState::kLimited) ||
      in.mode() > static_cast<uint32_t>(CancelMode::kKill)) {
    return Corrupt("bulk", key);
  }
  BulkRow bulk;
  bulk.filter = in.filter();
  bulk.instances.assign(in.instances().begin(), in.instances().end());
  bulk.action = static_cast<BulkAction>(in.action());
  bulk.node = in.node();
  bulk.mode = static_cast<CancelMode>(in.mode());
  bulk.force = in.force();
  bulk.transition = in.transition();
  bulk.node_params = in.node_params();
  bulk.at_most = in.at_most();
  bulk.reason = in.reason();
  bulk.created_by = in.created_by();
  bulk.state = static_cast<BulkState>(in.state());
  bulk.start_time = FromMicros(in.start_time());
  bulk.end_time = FromMicros(in.end_time());
  bulk.last_seq = in.last_seq();
  bulk.place = in.place();
  bulk.looked_at = in.looked_at();
  bulk.matched = in.matched();
  bulk.changed = in.changed();
  bulk.unchanged = in.unchanged();
  bulk.refused = in.refused();
  bulk.reasons = {in.reasons().begin(), in.reasons().end()};
  bulk.sample.assign(in.sample().begin(), in.sample().end());
  return bulk;
}

}  // namespace

void PutBulk(const Writer& writer, BulkName name, const BulkRow& bulk) {
  record::Bulk out;
  out.set_filter(bulk.filter);
  for (const std::string& id : bulk.instances) out.add_instances(id);
  out.set_action(static_cast<uint32_t>(bulk.action));
  out.set_node(bulk.node);
  out.set_mode(static_cast<uint32_t>(bulk.mode));
  out.set_force(bulk.force);
  out.set_transition(bulk.transition);
  out.set_node_params(bulk.node_params);
  out.set_at_most(bulk.at_most);
  out.set_reason(bulk.reason);
  out.set_created_by(bulk.created_by);
  out.set_state(static_cast<uint32_t>(bulk.state));
  out.set_start_time(Micros(bulk.start_time));
  out.set_end_time(Micros(bulk.end_time));
  out.set_last_seq(bulk.last_seq);
  out.set_place(bulk.place);
  out.set_looked_at(bulk.looked_at);
  out.set_matched(bulk.matched);
  out.set_changed(bulk.changed);
  out.set_unchanged(bulk.unchanged);
  out.set_refused(bulk.refused);
  out.mutable_reasons()->insert(bulk.reasons.begin(), bulk.reasons.end());
  for (const std::string& id : bulk.sample) out.add_sample(id);
  writer.batch.Put(BulkKey(writer.partition, name), out.SerializeAsString());
}

void DropBulk(const Writer& writer, BulkName name) {
  writer.batch.Delete(BulkKey(writer.partition, name));
}

Result<Ok> ScanBulks(const Reader& reader, const std::function<void(BulkName, BulkRow)>& visit) {
  const std::string begin = Key(reader.partition, kBulk);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto bulk = DecodeBulk(key, value);
                   if (!bulk) return bulk.error();
                   KeyReader parts(key);
                   BulkName name{};
                   name.ns = parts.Text();
                   name.id = parts.Text();
                   visit(name, *std::move(bulk));
                   return true;
                 });
}

}  // namespace dfsmr::rows
