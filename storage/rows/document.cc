#include "storage/rows/document.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

Key KindKey(PartitionId partition, Kind row, std::string_view ns, DocumentKind kind) {
  return std::move(Key(partition, row).Text(ns).Byte(static_cast<uint8_t>(kind)));
}
std::string HeadKey(PartitionId partition, DocumentName name) {
  return KindKey(partition, kDocument, name.ns, name.kind).Text(name.name);
}
std::string TextKey(PartitionId partition, DocumentName name, uint32_t version) {
  return KindKey(partition, kDocumentText, name.ns, name.kind).Text(name.name).Version(version);
}

Result<DocumentHead> DecodeHead(std::string_view key, std::string_view value) {
  record::DocumentHead in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Corrupt("document", key);
  }
  return DocumentHead{in.version(), FromMicros(in.first_time()), in.deleted(), in.package(),
                      in.retired()};
}

}  // namespace

void PutDocumentHead(const Writer& writer, DocumentName name, const DocumentHead& head) {
  record::DocumentHead out;
  out.set_version(head.version);
  out.set_first_time(Micros(head.first_time));
  out.set_deleted(head.deleted);
  out.set_package(head.package);
  out.set_retired(head.retired);
  writer.batch.Put(HeadKey(writer.partition, name), out.SerializeAsString());
}

void DropDocumentHead(const Writer& writer, DocumentName name) {
  writer.batch.Delete(HeadKey(writer.partition, name));
}

void PutDocumentText(const Writer& writer, DocumentName name, uint32_t version,
                     const DocumentText& text) {
  record::Document out;
  out.set_source(text.source);
  out.set_define_time(Micros(text.define_time));
  out.set_package(text.package);
  out.set_package_version(text.package_version);
  writer.batch.Put(TextKey(writer.partition, name, version), out.SerializeAsString());
}

Result<std::optional<DocumentHead>> GetDocumentHead(const Reader& reader, DocumentName name) {
  const std::string key = HeadKey(reader.partition, name);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<DocumentHead>();
  auto head = DecodeHead(key, **value);
  if (!head) return head.error();
  return std::optional(*head);
}

Result<std::optional<DocumentText>> GetDocumentText(const Reader& reader, DocumentName name,
                                                    uint32_t version) {
  const std::string key = TextKey(reader.partition, name, version);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<DocumentText>();
  record::Document in;
  if (!in.ParseFromString(**value)) return Corrupt("document", key);
  return std::optional(
      DocumentText{in.source(), FromMicros(in.define_time()), in.package(), in.package_version()});
}

Result<Ok> ScanDocuments(const Reader& reader, std::string_view ns, DocumentKind kind,
                         std::string_view after,
                         const std::function<bool(std::string_view, DocumentHead)>& visit) {
  const Key prefix = KindKey(reader.partition, kDocument, ns, kind);
  return ScanAll(reader, Resume(prefix, after), PrefixEnd(prefix.bytes()),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto head = DecodeHead(key, value);
                   if (!head) return head.error();
                   KeyReader parts(key);
                   parts.Text();
                   parts.Number(1);
                   return visit(parts.Text(), *head);
                 });
}

Result<Ok> ScanAllDocuments(const Reader& reader,
                            const std::function<void(DocumentName, DocumentHead)>& visit) {
  const std::string begin = Key(reader.partition, kDocument);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto head = DecodeHead(key, value);
                   if (!head) return head.error();
                   KeyReader parts(key);
                   DocumentName name{};
                   name.ns = parts.Text();
                   const uint64_t kind = parts.Number(1);
                   if (kind < 1 || kind > static_cast<uint64_t>(DocumentKind::kLimit)) {
                     return Corrupt("document", key);
                   }
                   name.kind = static_cast<DocumentKind>(kind);
                   name.name = parts.Text();
                   visit(name, *head);
                   return true;
                 });
}

}  // namespace dfsmr::rows
