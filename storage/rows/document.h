// The rows of documents that stand beside machines: schedules, triggers and limits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/when/document.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// A document by its name, whatever its version.
struct DocumentName {
  std::string_view ns;
  DocumentKind kind;
  std::string_view name;
};

struct DocumentHead {
  uint32_t version = 0;  // the latest
  Timestamp first_time;  // when it was first defined, since it was last deleted
  bool deleted = false;  // it stands for nothing; versions go on counting after it
  std::string package = {};  // that it belongs to; empty: it was defined by hand
  bool retired = false;  // it is deleted because its package no longer has it
};
struct DocumentText {
  std::string source;
  Timestamp define_time;
  std::string package = {};  // whose version this was defined by; empty: by hand
  std::string package_version = {};
};

void PutDocumentHead(const Writer& writer, DocumentName name, const DocumentHead& head);
void DropDocumentHead(const Writer& writer, DocumentName name);
void PutDocumentText(const Writer& writer, DocumentName name, uint32_t version,
                     const DocumentText& text);
// nullopt: nobody has defined it.
Result<std::optional<DocumentHead>> GetDocumentHead(const Reader& reader, DocumentName name);
Result<std::optional<DocumentText>> GetDocumentText(const Reader& reader, DocumentName name,
                                                    uint32_t version);

// Those of a namespace and kind in order of name after `after` (empty: all), until `visit` returns
// false. Deleted ones, too.
Result<Ok> ScanDocuments(const Reader& reader, std::string_view ns, DocumentKind kind,
                         std::string_view after,
                         const std::function<bool(std::string_view name, DocumentHead)>& visit);
// All of all namespaces and kinds.
Result<Ok> ScanAllDocuments(const Reader& reader,
                            const std::function<void(DocumentName, DocumentHead)>& visit);

}  // namespace dfsmr::rows
