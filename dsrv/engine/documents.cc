#include "dsrv/engine/documents.h"

#include "dsrv/engine/package_table.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/types.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kParsedMax = 4'000;

rows::DocumentName NameOf(const std::string& ns, const Document& document) {
  return {ns, document.kind(), document.name};
}

}  // namespace

std::string CauseOf(DocumentKind kind, std::string_view name) {
  return std::string(Name(kind)) + ":" + std::string(name);
}

Error NoSuchDocument(const rows::DocumentName& name, uint32_t version) {
  static constexpr Reason kReasons[] = {Reason::kNone, Reason::kNoSuchSchedule,
                                        Reason::kNoSuchTrigger, Reason::kNoSuchLimit};
  const std::string of = version > 0 ? "version " + std::to_string(version) + " of " : "";
  return {Code::kNotFound, kReasons[static_cast<size_t>(name.kind)],
          "namespace " + Quoted(name.ns) + " has no " + of + std::string(Name(name.kind)) + " " +
              Quoted(name.name)};
}

void Documents::SetKeeper(DocumentKind kind, DocumentKeeper* keeper) { keepers_[kind] = keeper; }

Result<std::optional<rows::DocumentHead>> Documents::HeadOf(const rows::DocumentName& name) {
  auto head = rows::GetDocumentHead(turn_.reader(), name);
  turn_.Trust(head);
  return head;
}

Result<bool> Documents::Stands(const rows::DocumentName& name) {
  auto head = HeadOf(name);
  if (!head) return head.error();
  return *head && !(*head)->deleted;
}

Result<Defined> Documents::Preview(const std::string& ns, const Document& document) {
  Defined one{.kind = Name(document.kind()), .id = document.name, .version = 1, .changed = true};
  auto head = HeadOf(NameOf(ns, document));
  if (!head) return head.error();
  if (!*head) return one;
  one.version = (*head)->version;
  if (!(*head)->deleted) {
    auto latest = Read(NameOf(ns, document), **head, one.version);
    if (!latest) return latest.error();
    one.changed = latest->document->fingerprint != document.fingerprint;
  }
  if (one.changed) ++one.version;
  return one;
}

void Documents::Add(const std::string& ns, const Defined& one, Document document,
                    const PackageVersionPtr& package) {
  const auto shared = std::make_shared<const Document>(std::move(document));
  const rows::DocumentName name = NameOf(ns, *shared);
  auto head = HeadOf(name);
  if (!head) return;
  const bool first = !*head || (*head)->deleted;
  const Timestamp now = turn_.now();
  DocumentVersion added{ns, one.version, now, first ? now : (*head)->first_time, shared, package};
  if (const auto standing = standing_.find(ns); first && standing != standing_.end()) {
    ++standing->second;
  }
  rows::DocumentText text{shared->source, now};
  if (package) {
    text.package = package->package;
    text.package_version = package->version;
  }
  rows::PutDocumentHead(turn_.writer(), name, {one.version, added.first_time, false, text.package});
  rows::PutDocumentText(turn_.writer(), name, one.version, text);
  Append(ChangeKind::kDefined, name, one.version, "", package.get());
  if (parsed_.size() >= kParsedMax) parsed_.clear();
  parsed_[{ns, name.kind, shared->name, one.version}] = added;
  if (auto keeper = keepers_.find(name.kind); keeper != keepers_.end()) {
    keeper->second->Defined(added, first);
  }
}

Result<Ok> Documents::Delete(const rows::DocumentName& name, const std::string& client) {
  auto head = HeadOf(name);
  if (!head) return head.error();
  if (!*head || !(*head)->retired) return End(name, ChangeKind::kDeleted, client, nullptr);
  (*head)->retired = false;
  rows::PutDocumentHead(turn_.writer(), name, **head);
  Append(ChangeKind::kDeleted, name, (*head)->version, client);
  return Ok{};
}

Result<Ok> Documents::Drop(const rows::DocumentName& name) {
  return End(name, ChangeKind::kDeleted, "", nullptr, /*whosever=*/true);
}

Result<Ok> Documents::Retire(const rows::DocumentName& name, const PackageVersion& package) {
  return End(name, ChangeKind::kRetired, "", &package);
}

Result<std::string> Documents::OwnerOf(const rows::DocumentName& name) {
  auto head = HeadOf(name);
  if (!head) return head.error();
  return *head && !(*head)->deleted ? (*head)->package : std::string();
}

Result<Ok> Documents::End(const rows::DocumentName& name, ChangeKind kind,
                          const std::string& client, const PackageVersion* package, bool whosever) {
  auto head = HeadOf(name);
  if (!head) return head.error();
  if (!*head || (*head)->deleted) return NoSuchDocument(name);
  if (!(*head)->package.empty() && !package && !whosever) {
    return Error{Code::kFailedPrecondition, Reason::kOwnedByPackage,
                 std::string(Name(name.kind)) + " " + Quoted(name.name) + " belongs to package " +
                     Quoted((*head)->package) +
                     ": activate a version without it, or deactivate the package"};
  }
  (*head)->deleted = true;
  (*head)->retired = kind == ChangeKind::kRetired;
  if (const auto standing = standing_.find(std::string(name.ns)); standing != standing_.end()) {
    --standing->second;
  }
  rows::PutDocumentHead(turn_.writer(), name, **head);
  Append(kind, name, (*head)->version, client, package);
  if (auto keeper = keepers_.find(name.kind); keeper != keepers_.end()) {
    keeper->second->Deleted(std::string(name.ns), std::string(name.name));
  }
  return Ok{};
}

uint64_t Documents::StandingIn(const std::string& ns) {
  if (const auto known = standing_.find(ns); known != standing_.end()) return known->second;
  uint64_t& standing = standing_[ns];
  for (DocumentKind kind :
       {DocumentKind::kSchedule, DocumentKind::kTrigger, DocumentKind::kLimit}) {
    auto scanned = rows::ScanDocuments(turn_.reader(), ns, kind, "",
                                       [&](std::string_view, const rows::DocumentHead& head) {
                                         if (!head.deleted) ++standing;
                                         return true;
                                       });
    turn_.Trust(scanned);
  }
  return standing;
}

void Documents::Forget(const std::string& ns) {
  standing_.erase(ns);
  std::erase_if(parsed_, [&](const auto& one) { return std::get<0>(one.first) == ns; });
}

void Documents::Append(ChangeKind kind, const rows::DocumentName& name, uint32_t version,
                       const std::string& client, const PackageVersion* package) {
  Event event;
  event.kind = kind;
  event.time = turn_.now();
  event.ns = name.ns;
  event.version = version;
  event.client = client;
  event.about = Event::About{.cause = CauseOf(name.kind, name.name)};
  if (package) event.package = Event::Package{package->package, package->version, package->digest};
  turn_.Append(&event);
}

Result<DocumentVersion> Documents::Find(const rows::DocumentName& name, uint32_t version) {
  auto head = HeadOf(name);
  if (!head) return head.error();
  if (!*head || (*head)->deleted) return NoSuchDocument(name);
  return VersionOf(name, **head, version);
}

Result<DocumentVersion> Documents::FindRetired(const rows::DocumentName& name, uint32_t version) {
  auto head = HeadOf(name);
  if (!head) return head.error();
  if (!*head || !(*head)->retired) return NoSuchDocument(name);
  return VersionOf(name, **head, version);
}

Error Documents::WhyGone(const rows::DocumentName& name) {
  auto head = HeadOf(name);
  if (!head) return head.error();
  if (!*head || !(*head)->retired) return NoSuchDocument(name);
  return RetiredByPackage(Name(name.kind), name.name);
}

Result<DocumentVersion> Documents::FindAtHome(const rows::DocumentName& name, uint32_t version) {
  auto head = rows::GetDocumentHead(turn_.home(), name);
  if (!turn_.Trust(head)) return head.error();
  if (!*head) return NoSuchDocument(name);
  return VersionOf(name, **head, version);
}

Result<DocumentVersion> Documents::VersionOf(const rows::DocumentName& name,
                                             const rows::DocumentHead& head, uint32_t version) {
  if (version > head.version) return NoSuchDocument(name, version);
  return Read(name, head, version == 0 ? head.version : version);
}

Result<DocumentVersion> Documents::Read(const rows::DocumentName& name,
                                        const rows::DocumentHead& head, uint32_t version) {
  const Id id{name.ns, name.kind, name.name, version};
  if (auto known = parsed_.find(id); known != parsed_.end()) return known->second;
  auto text = rows::GetDocumentText(turn_.home(), name, version);
  if (!turn_.Trust(text)) return text.error();
  if (!*text) return NoSuchDocument(name, version);
  auto document = options_.parse_document((*text)->source);
  if (!document) {
    Error error{Code::kDataLoss, Reason::kStoreFailed,
                "version " + std::to_string(version) + " of " + std::string(Name(name.kind)) + " " +
                    Quoted(name.name) +
                    " in the store is not accepted any more: " + document.error().message};
    return error;
  }
  const PackageVersionPtr package =
      (*text)->package.empty()
          ? nullptr
          : packages_.Version(name.ns, (*text)->package, (*text)->package_version);
  if (package && options_.own_document) options_.own_document(*package, &*document);
  document->name = name.name;  // also when its package is gone
  DocumentVersion read{std::string(name.ns),
                       version,
                       (*text)->define_time,
                       head.first_time,
                       std::make_shared<const Document>(*std::move(document)),
                       package};
  if (parsed_.size() >= kParsedMax) parsed_.clear();
  parsed_[id] = read;
  return read;
}

}  // namespace dfsmr
