#include "storage/rows/keys.h"

namespace dfsmr::rows {

void PutToken(Batch* batch, PartitionId partition, const TokenRow& row) {
  record::AccessToken out;
  out.set_hash(row.hash);
  out.set_name(row.name);
  out.set_ns(row.ns);
  out.set_role(row.role);
  for (const std::string& machine : row.machines) out.add_machines(machine);
  for (const std::string& queue : row.queues) out.add_queues(queue);
  out.set_create_time(Micros(row.create_time));
  out.set_expire_time(DeadlineMicros(row.expire_time));
  out.set_created_by(row.created_by);
  batch->Put(Key(partition, kToken).Text(row.id), out.SerializeAsString());
}

void DropToken(Batch* batch, PartitionId partition, std::string_view id) {
  batch->Delete(Key(partition, kToken).Text(id));
}

Result<std::vector<TokenRow>> ScanTokens(const View& view, PartitionId partition) {
  std::vector<TokenRow> rows;
  const std::string begin = Key(partition, kToken);
  auto read = [&rows](std::string_view key, std::string_view value) -> Result<bool> {
    record::AccessToken in;
    if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
        in.hash().size() != 32) {
      return Corrupt("token", key);
    }
    TokenRow& row = rows.emplace_back();
    row.id = KeyReader(key).Text();
    row.hash = in.hash();
    row.name = in.name();
    row.ns = in.ns();
    row.role = in.role();
    row.machines = {in.machines().begin(), in.machines().end()};
    row.queues = {in.queues().begin(), in.queues().end()};
    row.create_time = FromMicros(in.create_time());
    row.expire_time = DeadlineFrom(in.expire_time());
    row.created_by = in.created_by();
    return true;
  };
  auto scanned = ScanAll(view, begin, PrefixEnd(begin), read);
  if (!scanned) return scanned.error();
  return rows;
}

}  // namespace dfsmr::rows
