#include "storage/rows/credential.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {

void PutCredential(const Writer& writer, const CredentialRow& row) {
  record::AccessToken out;
  out.set_hash(row.hash);
  out.set_name(row.name);
  out.set_ns(row.ns);
  out.set_role(row.role);
  for (const std::string& machine : row.machines) out.add_machines(machine);
  for (const std::string& queue : row.queues) out.add_queues(queue);
  for (const std::string& secret : row.secrets) out.add_secrets(secret);
  out.set_create_time(Micros(row.create_time));
  out.set_expire_time(DeadlineMicros(row.expire_time));
  out.set_created_by(row.created_by);
  out.set_parent(row.parent);
  out.set_parent_hash(row.parent_hash);
  out.set_code(row.code);
  writer.batch.Put(Key(writer.partition, kCredential).Text(row.id), out.SerializeAsString());
}

void DropCredential(const Writer& writer, std::string_view id) {
  writer.batch.Delete(Key(writer.partition, kCredential).Text(id));
}

Result<std::vector<CredentialRow>> ScanCredentials(const Reader& reader) {
  std::vector<CredentialRow> rows;
  const std::string begin = Key(reader.partition, kCredential);
  auto read = [&rows](std::string_view key, std::string_view value) -> Result<bool> {
    record::AccessToken in;
    if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
        in.hash().size() != 32) {
      return Corrupt("access token", key);
    }
    CredentialRow& row = rows.emplace_back();
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
    row.secrets = {in.secrets().begin(), in.secrets().end()};
    row.parent = in.parent();
    row.parent_hash = in.parent_hash();
    row.code = in.code();
    return true;
  };
  auto scanned = ScanAll(reader, begin, PrefixEnd(begin), read);
  if (!scanned) return scanned.error();
  return rows;
}

}  // namespace dfsmr::rows
