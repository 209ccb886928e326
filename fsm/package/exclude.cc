#include "fsm/package/exclude.h"

#include <algorithm>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kPatternLength = 255;
constexpr std::string_view kAlways[] = {".git/", ".hg/",      ".svn/",   "__pycache__/", "*~",
                                        "*.swp", ".DS_Store", "*.dfsmr", "*.sig"};

// What a * or ** at the begin of `pattern` takes up; a "**/" may also stand for no folder at all.
struct Star {
  size_t length = 0;  // of it in the pattern
  bool across = false;
  bool folders = false;  // it was "**/"
};
Star StarAt(std::string_view pattern, size_t at) {
  Star star{.length = 1};
  while (at + star.length < pattern.size() && pattern[at + star.length] == '*') ++star.length;
  star.across = star.length > 1;
  const bool whole_part = at == 0 || pattern[at - 1] == '/';
  if (star.across && whole_part && pattern.substr(at + star.length).starts_with('/')) {
    star.folders = true;
    ++star.length;
  }
  return star;
}

// Whether `pattern` fits all of `text`: for each place of the pattern the set of places in the text
// up to which it fits, so that it takes time in proportion to both, whatever the stars are.
bool Fits(std::string_view pattern, std::string_view text) {
  std::vector<bool> here(text.size() + 1);
  here[0] = true;
  for (size_t at = 0; at < pattern.size();) {
    std::vector<bool> next(text.size() + 1);
    if (pattern[at] != '*') {
      for (size_t i = 0; i < text.size(); ++i) next[i + 1] = here[i] && text[i] == pattern[at];
      ++at;
    } else {
      const Star star = StarAt(pattern, at);
      bool open = false;
      for (size_t i = 0; i <= text.size(); ++i) {
        if (star.folders) {
          if (i > 0 && text[i - 1] == '/' && open) next[i] = true;
          open = open || here[i];
          next[i] = next[i] || here[i];
        } else {
          if (i > 0 && text[i - 1] == '/' && !star.across) open = false;
          open = open || here[i];
          next[i] = open;
        }
      }
      at += star.length;
    }
    here = std::move(next);
  }
  return here[text.size()];
}

}  // namespace

Exclusions::Pattern Exclusions::Read(std::string_view text) {
  Pattern pattern;
  if (text.ends_with('/')) {
    pattern.folder = true;
    text.remove_suffix(1);
  }
  pattern.from_top = text.find('/') != text.npos;
  if (text.starts_with('/')) text.remove_prefix(1);
  pattern.text = text;
  return pattern;
}

std::vector<Exclusions::Pattern> Exclusions::AlwaysLeftOut() {
  std::vector<Pattern> patterns;
  for (const std::string_view text : kAlways) patterns.push_back(Read(text));
  return patterns;
}

Exclusions::Exclusions(const std::vector<std::string>& patterns) {
  for (const std::string& text : patterns) patterns_.push_back(Read(text));
}

bool Exclusions::Holds(std::string_view path, bool folder) const {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return std::ranges::any_of(patterns_, [&](const Pattern& pattern) {
    if (pattern.folder && !folder) return false;
    return Fits(pattern.text, pattern.from_top ? path : name);
  });
}

bool Exclusions::LeavesOutFolder(std::string_view path) const {
  for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) {
    if (Holds(path.substr(0, end), true)) return true;
  }
  return Holds(path, true);
}

bool Exclusions::LeavesOut(std::string_view path) const {
  if (path == "package.yaml") return false;
  const size_t slash = path.rfind('/');
  if (slash != path.npos && LeavesOutFolder(path.substr(0, slash))) return true;
  return Holds(path, false);
}

std::optional<std::string> PatternProblem(std::string_view pattern) {
  const std::string_view stem =
      pattern.ends_with('/') ? pattern.substr(0, pattern.size() - 1) : pattern;
  if (stem.empty() || stem == "/") return "a pattern is as *.log, tests/ or docs/**/*.md";
  if (pattern.size() > kPatternLength) return "a pattern has at most 255 characters";
  if (stem.find("//") != stem.npos || stem.starts_with("./") || stem.starts_with("../")) {
    return "a pattern is a path below the package's folder, such as tests/ or docs/*.md, not " +
           Quoted(pattern);
  }
  return std::nullopt;
}

}  // namespace dfsmr
