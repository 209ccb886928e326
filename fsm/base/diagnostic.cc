#include "fsm/base/diagnostic.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {

std::string Format(const Diagnostic& diagnostic) {
  return OneLine(diagnostic.source_name) + ":" + std::to_string(diagnostic.line) + ":" +
         std::to_string(diagnostic.column) + ": " +
         (diagnostic.path.empty() ? "." : OneLine(diagnostic.path)) + ": " +
         (diagnostic.error ? "" : "warning: ") + OneLine(diagnostic.message);
}

std::string PathTo(std::string_view parent, std::string_view key) {
  std::string path(parent);
  if (!path.empty()) path += '.';
  if (key.size() <= limits::kName) return path.append(key);
  return path.append(Head(key, limits::kName)) + "…";
}

bool HasErrors(const std::vector<Diagnostic>& diagnostics) {
  return std::ranges::any_of(diagnostics, &Diagnostic::error);
}

void Reporter::Add(bool error, Position at, std::string path, std::string message) {
  if (error) ++errors_;
  if (Full()) {
    ++dropped_;
    return;
  }
  diagnostics_.push_back(
      {error, source_name_, at.line, at.column, std::move(path), std::move(message)});
}

std::vector<Diagnostic> Reporter::Take() && {
  std::ranges::stable_sort(diagnostics_, [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.line, a.column, a.path) < std::tie(b.line, b.column, b.path);
  });
  diagnostics_.erase(std::unique(diagnostics_.begin(), diagnostics_.end()), diagnostics_.end());
  if (dropped_ > 0) {
    Diagnostic last = diagnostics_.back();
    last.error = true;
    last.message = std::to_string(dropped_) + " more problems are not listed";
    diagnostics_.push_back(std::move(last));
  }
  return std::move(diagnostics_);
}

}  // namespace dfsmr
