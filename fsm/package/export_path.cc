#include "fsm/package/export_path.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>

#include "fsm/base/names.h"
#include "fsm/package/archive_rules.h"

namespace dfsmr {
namespace {

using Kind = ExportPath::Kind;

constexpr std::string_view kDefinitions = "definitions/";
constexpr std::string_view kPackages = "packages/";
constexpr std::string_view kInstances = "instances/";
constexpr std::string_view kYaml = ".yaml";
constexpr std::string_view kArchiveEnd = ".dfsmr";
constexpr std::string_view kSignatureEnd = ".dfsmr.sig";
constexpr std::string_view kRowsEnd = ".rows";
constexpr std::array<std::string_view, 6> kKinds = {"machine",  "plan",    "action",
                                                    "schedule", "trigger", "limit"};

// Takes both ends off. Empty: it has not both, or nothing is between them.
std::string_view Between(std::string_view text, std::string_view begin, std::string_view end) {
  const bool both =
      text.size() > begin.size() + end.size() && text.starts_with(begin) && text.ends_with(end);
  return both ? text.substr(begin.size(), text.size() - begin.size() - end.size())
              : std::string_view();
}

Error NotOfExport(std::string_view path) {
  return BadArchive(path,
                    "an export has no such file: it has namespace.yaml, definitions/KIND/ID.yaml, "
                    "packages/NAME-VERSION.dfsmr with .sig, packages/active.yaml and "
                    "instances/NUMBER.rows");
}

}  // namespace

Result<ExportPath> ParseExportPath(std::string_view path) {
  if (auto problem = PathProblem(path)) return BadArchive(path, *problem);
  if (path.size() > limits::kArchivePath) return TooLarge(path, "a path has at most 255 bytes");
  if (path == kSpacePath) return ExportPath{Kind::kSpace, "", ""};
  if (path == kActivePath) return ExportPath{Kind::kActive, "", ""};
  const auto flat = [](std::string_view name) { return name.find('/') == name.npos; };
  if (auto name = Between(path, kPackages, kSignatureEnd); !name.empty() && flat(name)) {
    return ExportPath{Kind::kSignature, "", std::string(name)};
  }
  if (auto name = Between(path, kPackages, kArchiveEnd); !name.empty() && flat(name)) {
    return ExportPath{Kind::kArchive, "", std::string(name)};
  }
  if (auto name = Between(path, kInstances, kRowsEnd); !name.empty()) {
    const bool digits = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) return ExportPath{Kind::kRows, "", std::string(name)};
  }
  const std::string_view name = Between(path, kDefinitions, kYaml);
  const size_t slash = name.find('/');
  if (slash == name.npos || !flat(name.substr(slash + 1))) return NotOfExport(path);
  const std::string_view kind = name.substr(0, slash);
  const std::string_view id = name.substr(slash + 1);
  if (std::ranges::find(kKinds, kind) == kKinds.end() || !ValidName(id)) return NotOfExport(path);
  return ExportPath{Kind::kDefinition, std::string(kind), std::string(id)};
}

std::string DefinitionPath(std::string_view kind, std::string_view id) {
  return std::string(kDefinitions) + std::string(kind) + "/" + std::string(id) + std::string(kYaml);
}

std::string ArchivePath(std::string_view package, std::string_view version) {
  return std::string(kPackages) + std::string(package) + "-" + std::string(version) +
         std::string(kArchiveEnd);
}

std::string SignaturePath(std::string_view package, std::string_view version) {
  return ArchivePath(package, version) + ".sig";
}

std::string RowsPath(uint64_t number) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%08llu", static_cast<unsigned long long>(number));
  return std::string(kInstances) + digits + std::string(kRowsEnd);
}

bool SentBefore(const ExportPath& a, std::string_view path_a, const ExportPath& b,
                std::string_view path_b) {
  // An archive is followed by its signature.
  const auto rank = [](const ExportPath& path) {
    return path.kind == Kind::kSignature ? Kind::kArchive : path.kind;
  };
  return std::tuple(rank(a), a.definition, a.id, a.kind, path_a) <
         std::tuple(rank(b), b.definition, b.id, b.kind, path_b);
}

}  // namespace dfsmr
