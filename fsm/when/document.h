// The documents that stand beside machines: schedules, triggers and limits. Like machines they have
// names (per kind), versions, and a text of their own; unlike machines no instance is pinned to
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace dfsmr {

struct ScheduleSource;  // schedule.h
struct TriggerSource;   // trigger.h
struct LimitSource;     // limit.h

// These numbers are in the keys of rows.
enum class DocumentKind : uint8_t { kSchedule = 1, kTrigger = 2, kLimit = 3 };
inline constexpr DocumentKind kDocumentKinds[] = {DocumentKind::kSchedule, DocumentKind::kTrigger,
                                                  DocumentKind::kLimit};
// "schedule", "trigger" or "limit".
constexpr std::string_view Name(DocumentKind kind) {
  constexpr std::string_view kNames[] = {"", "schedule", "trigger", "limit"};
  return kNames[static_cast<size_t>(kind)];
}
// The other way; nullopt: it is no such word.
constexpr std::optional<DocumentKind> DocumentKindNamed(std::string_view word) {
  for (DocumentKind one : kDocumentKinds) {
    if (Name(one) == word) return one;
  }
  return std::nullopt;
}

// In the order of DocumentKind; the pointers are never null.
using DocumentBody =
    std::variant<std::shared_ptr<const ScheduleSource>, std::shared_ptr<const TriggerSource>,
                 std::shared_ptr<const LimitSource>>;

// A document as it was written. Immutable once read.
struct Document {
  std::string name;
  std::string description;
  std::string source;       // the text of this document alone
  std::string fingerprint;  // equal for documents that differ only in comments, key order or layout
  DocumentBody body;
  size_t machines_before = 0;  // in the text it was read from: how many machines stand before it

  DocumentKind kind() const { return static_cast<DocumentKind>(body.index() + 1); }
};

}  // namespace dfsmr
