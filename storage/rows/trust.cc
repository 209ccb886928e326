#include "storage/rows/trust.h"

#include <utility>

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

template <typename Message>
Result<Message> Parsed(std::string_view what, std::string_view key, std::string_view value) {
  Message message;
  if (message.ParseFromArray(value.data(), static_cast<int>(value.size()))) return message;
  return Corrupt(what, key);
}

Key OfVersion(PartitionId partition, Kind kind, std::string_view ns, std::string_view package,
              std::string_view version) {
  return std::move(Key(partition, kind).Text(ns).Text(package).Text(version));
}

}  // namespace

void PutTrustedKey(const Writer& writer, std::string_view ns, const TrustedKeyRow& row) {
  record::TrustedKey out;
  out.set_name(row.name);
  out.set_public_key(row.public_key);
  out.set_create_time(Micros(row.create_time));
  out.set_created_by(row.created_by);
  if (row.Revoked()) out.set_revoke_time(Micros(row.revoke_time));
  writer.batch.Put(Key(writer.partition, kTrustedKey).Text(ns).Text(row.fingerprint),
                   out.SerializeAsString());
}

Result<Ok> ScanTrustedKeys(const Reader& reader,
                           const std::function<void(std::string_view, TrustedKeyRow)>& visit) {
  const std::string begin = Key(reader.partition, kTrustedKey);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto in = Parsed<record::TrustedKey>("trusted key", key, value);
                   if (!in) return in.error();
                   KeyReader parts(key);
                   const std::string ns(parts.Text());
                   TrustedKeyRow row;
                   row.name = in->name();
                   row.fingerprint = parts.Text();
                   row.public_key = in->public_key();
                   row.create_time = FromMicros(in->create_time());
                   row.created_by = in->created_by();
                   if (in->revoke_time() != 0) row.revoke_time = FromMicros(in->revoke_time());
                   visit(ns, std::move(row));
                   return true;
                 });
}

void PutSignature(const Writer& writer, std::string_view ns, std::string_view package,
                  std::string_view version, uint32_t number, const SignatureRow& row) {
  record::PackageSignature out;
  out.set_fingerprint(row.fingerprint);
  out.set_text(row.text);
  out.set_time(Micros(row.time));
  out.set_by(row.by);
  writer.batch.Put(
      OfVersion(writer.partition, kPackageSignature, ns, package, version).Version(number),
      out.SerializeAsString());
}

Result<std::vector<SignatureRow>> GetSignatures(const Reader& reader, std::string_view ns,
                                                std::string_view package,
                                                std::string_view version) {
  std::vector<SignatureRow> found;
  const std::string begin = OfVersion(reader.partition, kPackageSignature, ns, package, version);
  auto scanned =
      ScanAll(reader, begin, PrefixEnd(begin),
              [&](std::string_view key, std::string_view value) -> Result<bool> {
                auto in = Parsed<record::PackageSignature>("signature of a package", key, value);
                if (!in) return in.error();
                found.push_back({in->fingerprint(), in->text(), FromMicros(in->time()), in->by()});
                return true;
              });
  if (!scanned) return scanned.error();
  return found;
}

Result<Ok> ScanSignatures(const Reader& reader, const VisitSignature& visit) {
  const std::string begin = Key(reader.partition, kPackageSignature);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto in = Parsed<record::PackageSignature>("signature of a package", key, value);
                   if (!in) return in.error();
                   KeyReader parts(key);
                   const std::string_view ns = parts.Text();
                   const std::string_view package = parts.Text();
                   visit(ns, package, parts.Text(), in->fingerprint());
                   return true;
                 });
}

void PutDefined(const Writer& writer, std::string_view ns, std::string_view package,
                std::string_view version, const DefinedAs& defined) {
  record::PackageDefined out;
  out.mutable_documents()->insert(defined.begin(), defined.end());
  writer.batch.Put(OfVersion(writer.partition, kPackageDefined, ns, package, version),
                   out.SerializeAsString());
}

Result<Ok> ScanDefined(const Reader& reader, const VisitDefined& visit) {
  const std::string begin = Key(reader.partition, kPackageDefined);
  return ScanAll(
      reader, begin, PrefixEnd(begin),
      [&](std::string_view key, std::string_view value) -> Result<bool> {
        auto in = Parsed<record::PackageDefined>("documents of a package", key, value);
        if (!in) return in.error();
        KeyReader parts(key);
        const std::string_view ns = parts.Text();
        const std::string_view package = parts.Text();
        visit(ns, package, parts.Text(), {in->documents().begin(), in->documents().end()});
        return true;
      });
}

}  // namespace dfsmr::rows
