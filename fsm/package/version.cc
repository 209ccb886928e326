#include "fsm/package/version.h"

#include <algorithm>
#include <vector>

#include "fsm/base/names.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {
namespace {

constexpr std::string_view kDev = "dev.h";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); }
bool IsPartOfWord(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}
bool IsNumber(std::string_view text) { return !text.empty() && std::ranges::all_of(text, IsDigit); }

std::vector<std::string_view> Parts(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct Pieces {
  std::string_view core;
  std::string_view before;  // behind the first -
  std::string_view build;   // behind the +
  bool has_before = false;
  bool has_build = false;
};

Pieces PiecesOf(std::string_view version) {
  Pieces pieces;
  const size_t plus = version.find('+');
  if (plus != version.npos) {
    pieces.has_build = true;
    pieces.build = version.substr(plus + 1);
    version = version.substr(0, plus);
  }
  const size_t dash = version.find('-');
  pieces.core = version.substr(0, dash);
  if (dash != version.npos) {
    pieces.has_before = true;
    pieces.before = version.substr(dash + 1);
  }
  return pieces;
}

bool NoLeadingZero(std::string_view number) { return number.size() < 2 || number[0] != '0'; }

bool WordsAreSound(std::string_view text, bool numbers_matter) {
  return std::ranges::all_of(Parts(text), [&](std::string_view part) {
    return !part.empty() && std::ranges::all_of(part, IsPartOfWord) &&
           (!numbers_matter || !IsNumber(part) || NoLeadingZero(part));
  });
}

std::weak_ordering CompareNumbers(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a <=> b;
}

std::weak_ordering CompareParts(std::string_view a, std::string_view b) {
  const bool a_number = IsNumber(a);
  if (a_number != IsNumber(b)) {
    return a_number ? std::weak_ordering::less : std::weak_ordering::greater;
  }
  return a_number ? CompareNumbers(a, b) : std::weak_ordering(a <=> b);
}

std::weak_ordering CompareLists(std::string_view a, std::string_view b) {
  const auto left = Parts(a);
  const auto right = Parts(b);
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (const auto order = CompareParts(left[i], right[i]); order != 0) return order;
  }
  return left.size() <=> right.size();
}

Error NotPlain() {
  return {Code::kInvalidArgument, Reason::kNone,
          "the manifest's version cannot be replaced in its line; write it as plain text, such as "
          "'version: 1.4.0'"};
}

// Where line `line` (from 1) of a text begins.
size_t LineBegin(std::string_view text, uint32_t line) {
  size_t at = 0;
  for (uint32_t i = 1; i < line && at < text.size(); ++i) {
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  }
  return at;
}

}  // namespace

std::optional<std::string> VersionProblem(std::string_view version) {
  const auto wrong = [&](std::string_view why) {
    return Quoted(version) + " is not a version: " + std::string(why) +
           "; versions are as 1.4.0 or 1.4.0-rc.1 (SemVer 2.0)";
  };
  if (version.empty()) return wrong("it is empty");
  if (version.size() > kVersionLength) return wrong("it has more than 64 characters");
  const Pieces pieces = PiecesOf(version);
  const auto core = Parts(pieces.core);
  if (core.size() != 3 || !std::ranges::all_of(core, IsNumber)) {
    return wrong("it begins with three numbers, MAJOR.MINOR.PATCH");
  }
  if (!std::ranges::all_of(core, NoLeadingZero)) return wrong("a number has no zeros in front");
  if (pieces.has_before && !WordsAreSound(pieces.before, true)) {
    return wrong(
        "behind - stand words of letters, digits and -, with dots between them, and "
        "numbers have no zeros in front");
  }
  if (pieces.has_build && !WordsAreSound(pieces.build, false)) {
    return wrong("behind + stand words of letters, digits and -, with dots between them");
  }
  return std::nullopt;
}

std::weak_ordering CompareVersions(std::string_view a, std::string_view b) {
  const Pieces left = PiecesOf(a);
  const Pieces right = PiecesOf(b);
  if (const auto order = CompareLists(left.core, right.core); order != 0) return order;
  if (left.has_before != right.has_before) {
    return left.has_before ? std::weak_ordering::less : std::weak_ordering::greater;
  }
  return left.has_before ? CompareLists(left.before, right.before) : std::weak_ordering::equivalent;
}

std::string DevVersion(std::string_view version, std::string_view hex) {
  const std::string base(version.substr(0, version.find('+')));
  const char joint = base.find('-') == base.npos ? '-' : '.';
  return base + joint + std::string(kDev) + std::string(hex.substr(0, kDevDigits));
}

bool IsDevVersion(std::string_view version) {
  if (version.size() < kDevDigits + kDev.size() + 1) return false;
  const std::string_view digits = version.substr(version.size() - kDevDigits);
  const std::string_view front = version.substr(0, version.size() - kDevDigits);
  if (!std::ranges::all_of(digits, IsHex)) return false;
  return front.ends_with("-dev.h") || front.ends_with(".dev.h");
}

Result<std::string> WithVersion(std::string_view manifest, std::string_view version) {
  if (auto problem = VersionProblem(version)) {
    return Error{Code::kInvalidArgument, Reason::kNone, *problem};
  }
  Reporter reporter("package.yaml");
  const YamlTree tree = ReadYaml(manifest, &reporter);
  const YamlNode* root = tree.documents.empty() ? nullptr : tree.documents.front().root;
  const YamlEntry* entry = root && root->IsMap() ? root->Find("version") : nullptr;
  if (!entry || !entry->value->IsScalar() || entry->value->text.empty() ||
      entry->value->at < entry->at) {
    return NotPlain();
  }
  const std::string& old = entry->value->text;
  const Position at = entry->value->at;
  const size_t line = LineBegin(manifest, at.line);
  const size_t end = std::min(manifest.find('\n', line), manifest.size());
  size_t from = line;  // columns count characters
  for (uint32_t column = 1; column < at.column && from < end; ++column) {
    do ++from;
    while (from < end && (static_cast<unsigned char>(manifest[from]) & 0xC0U) == 0x80U);
  }
  const size_t found = manifest.substr(0, end).find(old, from);
  if (found == manifest.npos) return NotPlain();
  std::string changed(manifest.substr(0, found));
  changed += version;
  changed += manifest.substr(found + old.size());
  // Where the place was mistaken, the version is another one.
  Reporter again("package.yaml");
  const YamlTree after = ReadYaml(changed, &again);
  const YamlNode* map = after.documents.empty() ? nullptr : after.documents.front().root;
  const YamlEntry* written = map && map->IsMap() ? map->Find("version") : nullptr;
  if (!written || written->value->text != version) return NotPlain();
  return changed;
}

}  // namespace dfsmr
