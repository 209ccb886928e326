// The language in which people say which instances they mean:
//
//   machine:order state:running,paused -node:pay changed:..-30m label.site:eu* error:"no space"
//
// Terms are separated by spaces, and all must hold. `-` or `not:` in front negates. A comma means
// or, `*` at an end of a text matches whatever is there, and what stands in double quotes is taken
// as it is (\" and \\ are a quote and a backslash). A word without a key is what the id begins
// with.
//
// Text becomes terms here, and terms are compared with the facts of one instance. Where the facts
// come from, and which index finds the instances, is not known here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

enum class FilterKey : uint8_t {
  kWord,  // no key
  kId,
  kMachine,
  kVersion,
  kNode,
  kParent,
  kWorker,
  kGroup,
  kPackage,
  kSchedule,
  kTrigger,
  kState,
  kResult,
  kIs,
  kLabel,
  kStarted,
  kEnded,
  kChanged,
  kPriority,
  kProgress,
  kError,
  kAfter,
};

// A text in which something may be left open at either end.
struct TextPattern {
  std::string text;
  bool open_front = false;
  bool open_back = false;

  bool Exact() const { return !open_front && !open_back; }
  bool Matches(std::string_view given) const;
  friend bool operator==(const TextPattern&, const TextPattern&) = default;
};

// Both ends belong to it.
template <typename T>
struct FilterRange {
  T from;
  T to;
  friend bool operator==(const FilterRange&, const FilterRange&) = default;
};

// One term: it holds when one of its values fits, or when none does if it is negated.
struct FilterTerm {
  FilterKey key = FilterKey::kWord;
  bool negated = false;
  std::string label;                               // kLabel: the label's key
  std::vector<TextPattern> texts = {};             // of keys that are compared as texts
  std::vector<FilterRange<double>> numbers = {};   // kVersion, kPriority, kProgress
  std::vector<FilterRange<Timestamp>> times = {};  // kStarted, kEnded, kChanged

  // The only value if it is an exact text, and not negated: an index can find it. Null: it is not.
  const std::string* Exact() const;
  friend bool operator==(const FilterTerm&, const FilterTerm&) = default;
};

// What a filter asks of an instance.
class FilterFacts {
 public:
  using Visit = std::function<bool(std::string_view)>;
  virtual ~FilterFacts() = default;
  // Calls `visit` with each text that the instance has under `key` (of kLabel: under that label)
  // until it returns true. Whether it did.
  virtual bool AnyText(FilterKey key, const std::string& label, const Visit& visit) const = 0;
  virtual double Number(FilterKey key) const = 0;
  // nullopt: there is no such time, so no range holds it.
  virtual std::optional<Timestamp> Time(FilterKey key) const = 0;
};

class InstanceFilter {
 public:
  // `now` is what -30m counts from. BAD_FILTER: the message says at which column, counted in
  // characters from 1, and what would be right. TOO_LARGE.
  static Result<InstanceFilter> Parse(std::string_view text, Timestamp now);

  bool Matches(const FilterFacts& facts) const;
  bool empty() const { return terms_.empty(); }
  // Those that cost least to compare first.
  const std::vector<FilterTerm>& terms() const { return terms_; }
  // The exact value that all instances must have under `key`; null: the filter names none.
  const std::string* Exact(FilterKey key) const;

 private:
  std::vector<FilterTerm> terms_;
};

// Whether one term holds.
bool Holds(const FilterTerm& term, const FilterFacts& facts);

}  // namespace dfsmr
