#include "storage/rows/package.h"

#include <utility>

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

Key VersionKey(PartitionId partition, std::string_view ns, std::string_view package) {
  return std::move(Key(partition, kPackageVersion).Text(ns).Text(package));
}
Key ActivationKey(PartitionId partition, std::string_view ns, std::string_view package) {
  return std::move(Key(partition, kActivation).Text(ns).Text(package));
}
Key UploadKey(PartitionId partition, Kind kind, std::string_view ns, UploadId upload) {
  return std::move(Key(partition, kind).Text(ns).Number(upload.epoch).Number(upload.number));
}

template <typename Message>
bool Parse(std::string_view value, Message* message) {
  return message->ParseFromArray(value.data(), static_cast<int>(value.size()));
}

void Encode(const PackageVersionRow& row, record::PackageVersion* out) {
  out->set_digest(row.digest);
  out->set_size(row.size);
  out->set_manifest(row.manifest);
  out->set_description(row.description);
  out->mutable_labels()->insert(row.labels.begin(), row.labels.end());
  for (const PackageDocument& one : row.documents) {
    record::PackageDocument* to = out->add_documents();
    to->set_kind(one.kind);
    to->set_id(one.id);
    to->set_path(one.path);
    to->set_line(one.line);
  }
  for (const PackageWorker& one : row.workers) {
    record::PackageWorker* to = out->add_workers();
    to->set_name(one.name);
    to->mutable_serves()->Assign(one.serves.begin(), one.serves.end());
    to->mutable_capabilities()->Assign(one.capabilities.begin(), one.capabilities.end());
    to->mutable_secrets()->Assign(one.secrets.begin(), one.secrets.end());
    to->mutable_actions()->Assign(one.actions.begin(), one.actions.end());
    to->set_dry_run(one.dry_run);
  }
  out->mutable_nodes()->Assign(row.nodes.begin(), row.nodes.end());
  for (const PackageFile& one : row.files) {
    record::PackageFile* to = out->add_files();
    to->set_path(one.path);
    to->set_size(one.size);
    to->set_executable(one.executable);
    to->set_link(one.link);
    to->set_offset(one.offset);
  }
  out->set_put_time(Micros(row.put_time));
  out->set_put_by(row.put_by);
  out->set_upload_epoch(row.upload.epoch);
  out->set_upload_number(row.upload.number);
  out->set_pieces(row.pieces);
  out->set_removed(row.removed);
  out->set_sha512(row.sha512);
}

std::vector<std::string> Words(const google::protobuf::RepeatedPtrField<std::string>& in) {
  return {in.begin(), in.end()};
}

PackageVersionRow Decode(const record::PackageVersion& in) {
  PackageVersionRow row;
  row.digest = in.digest();
  row.size = in.size();
  row.manifest = in.manifest();
  row.description = in.description();
  row.labels.insert(in.labels().begin(), in.labels().end());
  for (const auto& one : in.documents()) {
    row.documents.push_back({one.kind(), one.id(), one.path(), one.line()});
  }
  for (const auto& one : in.workers()) {
    row.workers.push_back({one.name(), Words(one.serves()), Words(one.capabilities()),
                           Words(one.secrets()), Words(one.actions()), one.dry_run()});
  }
  row.nodes = Words(in.nodes());
  for (const auto& one : in.files()) {
    row.files.push_back({one.path(), one.size(), one.executable(), one.link(), one.offset()});
  }
  row.put_time = FromMicros(in.put_time());
  row.put_by = in.put_by();
  row.upload = {in.upload_epoch(), in.upload_number()};
  row.pieces = in.pieces();
  row.removed = in.removed();
  row.sha512 = in.sha512();
  return row;
}

}  // namespace

void PutPackageVersion(const Writer& writer, const PackageVersionRow& row) {
  record::PackageVersion out;
  Encode(row, &out);
  writer.batch.Put(VersionKey(writer.partition, row.ns, row.package).Text(row.version),
                   out.SerializeAsString());
}

Result<std::optional<PackageVersionRow>> GetPackageVersion(const Reader& reader,
                                                           std::string_view ns,
                                                           std::string_view package,
                                                           std::string_view version) {
  const std::string key = VersionKey(reader.partition, ns, package).Text(version);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<PackageVersionRow>();
  record::PackageVersion in;
  if (!Parse(**value, &in)) return Corrupt("version of a package", key);
  PackageVersionRow row = Decode(in);
  row.ns = ns;
  row.package = package;
  row.version = version;
  return std::optional(std::move(row));
}

Result<Ok> ScanPackageVersions(const Reader& reader,
                               const std::function<void(PackageVersionRow)>& visit) {
  const std::string begin = Key(reader.partition, kPackageVersion);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::PackageVersion in;
                   if (!Parse(value, &in)) return Corrupt("version of a package", key);
                   PackageVersionRow row = Decode(in);
                   KeyReader parts(key);
                   row.ns = parts.Text();
                   row.package = parts.Text();
                   row.version = parts.Text();
                   visit(std::move(row));
                   return true;
                 });
}

void PutPackage(const Writer& writer, std::string_view ns, std::string_view package,
                const PackageRow& row) {
  record::Package out;
  out.set_active(row.active);
  out.set_candidate(row.candidate);
  out.set_share(row.share);
  out.set_previous(row.previous);
  out.set_activations(row.activations);
  out.set_before(row.before);
  writer.batch.Put(Key(writer.partition, kPackage).Text(ns).Text(package), out.SerializeAsString());
}

Result<Ok> ScanPackages(
    const Reader& reader,
    const std::function<void(std::string_view, std::string_view, PackageRow)>& visit) {
  const std::string begin = Key(reader.partition, kPackage);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Package in;
                   if (!Parse(value, &in)) return Corrupt("package", key);
                   KeyReader parts(key);
                   const std::string_view ns = parts.Text();
                   visit(ns, parts.Text(),
                         {in.active(), in.candidate(), in.share(), in.previous(), in.activations(),
                          in.before()});
                   return true;
                 });
}

void PutActivation(const Writer& writer, std::string_view ns, std::string_view package,
                   uint64_t number, const ActivationRow& row) {
  record::PackageActivation out;
  out.set_time(Micros(row.time));
  out.set_version(row.version);
  out.set_digest(row.digest);
  out.set_share(row.share);
  out.set_rollback(row.rollback);
  out.set_by(row.by);
  out.set_note(row.note);
  writer.batch.Put(ActivationKey(writer.partition, ns, package).Number(number),
                   out.SerializeAsString());
}

void DropActivation(const Writer& writer, std::string_view ns, std::string_view package,
                    uint64_t number) {
  writer.batch.Delete(ActivationKey(writer.partition, ns, package).Number(number));
}

Result<std::vector<ActivationRow>> GetActivations(const Reader& reader, std::string_view ns,
                                                  std::string_view package, size_t most) {
  std::vector<ActivationRow> found;
  bool sound = true;
  const std::string begin = ActivationKey(reader.partition, ns, package);
  auto scanned = reader.view.Scan(
      begin, PrefixEnd(begin),
      [&](std::string_view, std::string_view value) {
        record::PackageActivation in;
        sound = Parse(value, &in);
        if (!sound || found.size() == most) return false;
        found.push_back({FromMicros(in.time()), in.version(), in.digest(), in.share(),
                         in.rollback(), in.by(), in.note()});
        return true;
      },
      /*reverse=*/true);
  if (!scanned) return scanned.error();
  if (!sound) return Corrupt("activation of a package", begin);
  return found;
}

void PutPiece(const Writer& writer, std::string_view ns, UploadId upload, uint32_t number,
              std::string bytes) {
  writer.batch.Put(UploadKey(writer.partition, kPackagePiece, ns, upload).Version(number),
                   std::move(bytes));
}

Result<std::optional<std::string>> GetPiece(const Reader& reader, std::string_view ns,
                                            UploadId upload, uint32_t number) {
  return reader.view.Get(
      UploadKey(reader.partition, kPackagePiece, ns, upload).Version(number).bytes());
}

void PutPackageText(const Writer& writer, std::string_view ns, UploadId upload,
                    std::string_view path, std::string text) {
  writer.batch.Put(UploadKey(writer.partition, kPackageText, ns, upload).Text(path),
                   std::move(text));
}

Result<std::map<std::string, std::string>> GetPackageTexts(const Reader& reader,
                                                           std::string_view ns, UploadId upload) {
  std::map<std::string, std::string> texts;
  const std::string begin = UploadKey(reader.partition, kPackageText, ns, upload);
  auto scanned = ScanAll(reader, begin, PrefixEnd(begin),
                         [&](std::string_view key, std::string_view value) -> Result<bool> {
                           KeyReader parts(key);
                           parts.Text();
                           parts.Number();
                           parts.Number();
                           texts[std::string(parts.Text())] = value;
                           return true;
                         });
  if (!scanned) return scanned.error();
  return texts;
}

void DropUpload(const Writer& writer, std::string_view ns, UploadId upload) {
  for (Kind kind : {kPackagePiece, kPackageText}) {
    const std::string begin = UploadKey(writer.partition, kind, ns, upload);
    writer.batch.DeleteRange(begin, PrefixEnd(begin));
  }
}

// Of each upload only the first row is read, since a piece may have megabytes.
Result<Ok> ScanUploads(const Reader& reader,
                       const std::function<void(std::string_view, UploadId)>& visit) {
  for (Kind kind : {kPackagePiece, kPackageText}) {
    std::string next = Key(reader.partition, kind);
    const std::string end = PrefixEnd(next);
    for (bool found = true; found;) {
      found = false;
      auto scanned =
          ScanAll(reader, next, end, [&](std::string_view key, std::string_view) -> Result<bool> {
            KeyReader parts(key);
            const std::string ns(parts.Text());
            const uint64_t epoch = parts.Number();
            const UploadId upload{epoch, parts.Number()};
            visit(ns, upload);
            found = true;
            next = PrefixEnd(UploadKey(reader.partition, kind, ns, upload).bytes());
            return false;
          });
      if (!scanned) return scanned;
    }
  }
  return Ok{};
}

}  // namespace dfsmr::rows
