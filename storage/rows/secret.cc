#include "storage/rows/secret.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

Result<SecretRow> DecodeSecret(std::string_view key, std::string_view value) {
  record::Secret in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) || in.last() == 0) {
    return Corrupt("secret", key);
  }
  KeyReader parts(key);
  SecretRow row;
  row.ns = parts.Text();
  row.name = parts.Text();
  row.last = in.last();
  for (const record::Secret::Version& one : in.versions()) {
    row.versions.push_back(
        {one.version(), FromMicros(one.create_time()), one.created_by(), one.key()});
  }
  return row;
}

std::string SealedKey(PartitionId partition, std::string_view ns, std::string_view name,
                      uint32_t version) {
  return Key(partition, kSealedSecret).Text(ns).Text(name).Version(version);
}

}  // namespace

void PutSecret(const Writer& writer, const SecretRow& row) {
  record::Secret out;
  out.set_last(row.last);
  for (const SecretVersion& one : row.versions) {
    record::Secret::Version* to = out.add_versions();
    to->set_version(one.version);
    to->set_create_time(Micros(one.create_time));
    to->set_created_by(one.created_by);
    to->set_key(one.key);
  }
  writer.batch.Put(Key(writer.partition, kSecret).Text(row.ns).Text(row.name),
                   out.SerializeAsString());
}

Result<std::optional<SecretRow>> GetSecret(const Reader& reader, std::string_view ns,
                                           std::string_view name) {
  const std::string key = Key(reader.partition, kSecret).Text(ns).Text(name);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<SecretRow>();
  auto row = DecodeSecret(key, **value);
  if (!row) return row.error();
  return std::optional(*std::move(row));
}

Result<std::vector<SecretRow>> SecretsOf(const Reader& reader, std::string_view ns) {
  std::vector<SecretRow> rows;
  const std::string begin = Key(reader.partition, kSecret).Text(ns);
  auto scanned = ScanAll(reader, begin, PrefixEnd(begin),
                         [&](std::string_view key, std::string_view value) -> Result<bool> {
                           auto row = DecodeSecret(key, value);
                           if (!row) return row.error();
                           if (!row->versions.empty()) rows.push_back(*std::move(row));
                           return true;
                         });
  if (!scanned) return scanned.error();
  return rows;
}

Result<Ok> ScanSecrets(const Reader& reader, const std::optional<SecretName>& after,
                       const std::function<bool(SecretRow)>& visit) {
  const std::string all = Key(reader.partition, kSecret);
  std::string begin = all;
  if (after) begin = Key(reader.partition, kSecret).Text(after->ns).Text(after->name).Byte(0);
  return ScanAll(reader, begin, PrefixEnd(all),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto row = DecodeSecret(key, value);
                   if (!row) return row.error();
                   return visit(*std::move(row));
                 });
}

void PutSealed(const Writer& writer, std::string_view ns, std::string_view name, uint32_t version,
               const SealedSecret& secret) {
  record::SealedSecret out;
  out.set_key(secret.key);
  out.set_sealed(secret.sealed);
  writer.batch.Put(SealedKey(writer.partition, ns, name, version), out.SerializeAsString());
}

void DropSealed(const Writer& writer, std::string_view ns, std::string_view name,
                uint32_t version) {
  writer.batch.Delete(SealedKey(writer.partition, ns, name, version));
}

Result<std::optional<SealedSecret>> GetSealed(const Reader& reader, std::string_view ns,
                                              std::string_view name, uint32_t version) {
  const std::string key = SealedKey(reader.partition, ns, name, version);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<SealedSecret>();
  record::SealedSecret in;
  if (!in.ParseFromString(**value)) return Corrupt("sealed secret", key);
  return std::optional(SealedSecret{in.key(), in.sealed()});
}

}  // namespace dfsmr::rows
