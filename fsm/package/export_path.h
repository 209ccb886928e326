// What an export of a namespace may hold: the paths of its files, and the order in which they are
// sent. Pure, for the server and for dcli.
//
//   namespace.yaml               settings, trusted keys, names of secrets
//   definitions/KIND/ID.yaml     what was defined by hand, as it was written
//   packages/NAME-VERSION.dfsmr  archives; each may have a .dfsmr.sig beside it
//   packages/active.yaml         which versions are in force
//   instances/NUMBER.rows        instances that have not stopped, as rows of the store
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

struct ExportPath {
  // In the order in which they are sent.
  enum class Kind : uint8_t { kSpace, kDefinition, kArchive, kSignature, kActive, kRows };
  Kind kind = Kind::kSpace;
  std::string definition;  // its kind: machine, plan, action, schedule, trigger, limit
  std::string id;          // of a definition; NAME-VERSION of an archive or signature
};

// BAD_ARCHIVE: an export has no such file; it names the path and says why.
Result<ExportPath> ParseExportPath(std::string_view path);

std::string DefinitionPath(std::string_view kind, std::string_view id);
std::string ArchivePath(std::string_view package, std::string_view version);
std::string SignaturePath(std::string_view package, std::string_view version);
std::string RowsPath(uint64_t number);
inline constexpr std::string_view kSpacePath = "namespace.yaml";
inline constexpr std::string_view kActivePath = "packages/active.yaml";

// Sorts paths of sound files as they are sent: by kind, an archive before its signature, then by
// the bytes of their paths.
bool SentBefore(const ExportPath& a, std::string_view path_a, const ExportPath& b,
                std::string_view path_b);

}  // namespace dfsmr
