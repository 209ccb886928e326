#include "fsm/filter/filter.h"

#include <algorithm>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/filter/values.h"
#include "fsm/filter/words.h"

namespace dfsmr {
namespace {

struct KeyRow {
  std::string_view name;
  FilterKey key;
};
constexpr KeyRow kKeys[] = {{"id", FilterKey::kId},
                            {"machine", FilterKey::kMachine},
                            {"version", FilterKey::kVersion},
                            {"node", FilterKey::kNode},
                            {"parent", FilterKey::kParent},
                            {"worker", FilterKey::kWorker},
                            {"group", FilterKey::kGroup},
                            {"package", FilterKey::kPackage},
                            {"schedule", FilterKey::kSchedule},
                            {"trigger", FilterKey::kTrigger},
                            {"state", FilterKey::kState},
                            {"result", FilterKey::kResult},
                            {"is", FilterKey::kIs},
                            {"started", FilterKey::kStarted},
                            {"ended", FilterKey::kEnded},
                            {"changed", FilterKey::kChanged},
                            {"priority", FilterKey::kPriority},
                            {"progress", FilterKey::kProgress},
                            {"error", FilterKey::kError},
                            {"after", FilterKey::kAfter}};
constexpr std::string_view kLabelKey = "label.";

Result<Ok> SetKey(const FilterWord& word, FilterTerm* term) {
  if (word.key.starts_with(kLabelKey)) {
    term->key = FilterKey::kLabel;
    term->label = word.key.substr(kLabelKey.size());
    if (ValidName(term->label)) return Ok{};
    return BadFilter(word.key_column + kLabelKey.size(),
                     "after 'label.' stands the label's name: letters, digits, '.', '_' and '-', "
                     "a letter or digit first");
  }
  for (const KeyRow& row : kKeys) {
    if (row.name != word.key) continue;
    term->key = row.key;
    return Ok{};
  }
  const std::string lower = Lower(word.key);
  Nearest nearest(lower);
  for (const KeyRow& row : kKeys) nearest.Try(row.name);
  nearest.Try("label.");
  nearest.Try("not");
  return BadFilter(word.key_column, "unknown key " + Quoted(word.key) + nearest.Hint() +
                                        "; an id with a ':' in it is written in quotes");
}

Result<FilterTerm> ToTerm(const FilterWord& word, Timestamp now) {
  FilterTerm term;
  term.negated = word.negated;
  if (word.has_key) {
    auto set = SetKey(word, &term);
    if (!set) return set.error();
  }
  for (const FilterValue& value : word.values) {
    auto added = AddValue(value, now, &term);
    if (!added) return added.error();
  }
  return term;
}

// What it costs to learn what a term asks for.
int CostOf(const FilterTerm& term) {
  switch (term.key) {
    case FilterKey::kLabel:
    case FilterKey::kPackage:
      return 2;
    case FilterKey::kNode:
    case FilterKey::kIs:
    case FilterKey::kWorker:
    case FilterKey::kParent:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

bool TextPattern::Matches(std::string_view given) const {
  if (given.size() < text.size()) return false;
  if (open_front && open_back) return given.find(text) != std::string_view::npos;
  if (open_back) return given.starts_with(text);
  if (open_front) return given.ends_with(text);
  return given == text;
}

const std::string* FilterTerm::Exact() const {
  const bool one = !negated && texts.size() == 1 && texts.front().Exact();
  return one && key != FilterKey::kWord && key != FilterKey::kError ? &texts.front().text : nullptr;
}

bool Holds(const FilterTerm& term, const FilterFacts& facts) {
  bool fits = false;
  if (!term.numbers.empty()) {
    const double number = facts.Number(term.key);
    fits = std::ranges::any_of(term.numbers, [&](const auto& range) {
      return range.from <= number && number <= range.to;
    });
  } else if (!term.times.empty()) {
    const auto time = facts.Time(term.key);
    fits = time && std::ranges::any_of(term.times, [&](const auto& range) {
             return range.from <= *time && *time <= range.to;
           });
  } else {
    fits = facts.AnyText(term.key, term.label, [&](std::string_view text) {
      const std::string lower = term.key == FilterKey::kError ? Lower(text) : "";
      const std::string_view given = term.key == FilterKey::kError ? lower : text;
      return std::ranges::any_of(term.texts,
                                 [&](const TextPattern& one) { return one.Matches(given); });
    });
  }
  return fits != term.negated;
}

Result<InstanceFilter> InstanceFilter::Parse(std::string_view text, Timestamp now) {
  auto words = SplitFilter(text);
  if (!words) return words.error();
  InstanceFilter filter;
  for (const FilterWord& word : *words) {
    auto term = ToTerm(word, now);
    if (!term) return term.error();
    filter.terms_.push_back(*std::move(term));
  }
  std::ranges::stable_sort(filter.terms_, {}, CostOf);
  return filter;
}

bool InstanceFilter::Matches(const FilterFacts& facts) const {
  return std::ranges::all_of(terms_, [&](const FilterTerm& term) { return Holds(term, facts); });
}

const std::string* InstanceFilter::Exact(FilterKey key) const {
  for (const FilterTerm& term : terms_) {
    if (term.key != key) continue;
    if (const std::string* exact = term.Exact()) return exact;
  }
  return nullptr;
}

}  // namespace dfsmr
