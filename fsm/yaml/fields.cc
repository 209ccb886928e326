#include "fsm/yaml/fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "fsm/base/duration.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

bool Refuse(const Field& field, const std::string& expected) {
  field.Fail("expected " + expected + ", not " + Describe(field.value));
  return false;
}

std::string WithArticle(std::string_view what) {
  return (what.starts_with('a') || what.starts_with('i') ? "an " : "a ") + std::string(what);
}

// The whole text as a number; nullopt when it is not a number or not finite.
template <typename T>
std::optional<T> Parse(std::string_view text) {
  T value{};
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Keys::Keys(const Field& map, std::span<const std::string_view> known, std::string_view all)
    : map_(map.value), path_(map.path), reporter_(map.reporter) {
  for (const YamlEntry& entry : map_.entries) {
    if (std::ranges::find(known, entry.key) != known.end() || reporter_->Full()) continue;
    Nearest nearest(entry.key);
    for (std::string_view key : known) nearest.Try(key);
    const std::string_view meant = nearest.Best();
    reporter_->Error(entry.at, PathTo(path_, entry.key),
                     "unknown key " + Quoted(entry.key) + nearest.Hint() +
                         (meant.empty() ? "; " + std::string(all) : ""));
    if (!meant.empty() && !map_.Find(meant)) misspelt_.emplace_back(meant, &entry);
  }
}

const YamlEntry* Keys::Find(std::string_view key) const {
  if (const YamlEntry* entry = map_.Find(key)) return entry;
  auto it = std::ranges::find(misspelt_, key, [](const auto& pair) { return pair.first; });
  return it == misspelt_.end() ? nullptr : it->second;
}

std::optional<Field> Keys::Take(std::string_view key) const {
  const YamlEntry* entry = Find(key);
  if (!entry) return std::nullopt;
  return Field(*entry, PathTo(path_, entry->key), reporter_);
}

bool ReadText(const Field& field, std::string* out) {
  if (!field.value.IsScalar()) return Refuse(field, "text");
  *out = field.value.text;
  return true;
}

bool ReadName(const Field& field, std::string_view what, std::string* out) {
  if (!field.value.IsScalar() || field.value.IsEmpty()) {
    return Refuse(field, "the name of " + WithArticle(what));
  }
  if (auto problem = NameProblem(what, field.value.text)) {
    field.Fail(*problem);
    return false;
  }
  *out = field.value.text;
  return true;
}

bool ReadNames(const Field& field, std::string_view what, std::vector<std::string>* out) {
  if (field.value.IsMap() || field.value.IsEmpty()) {
    return Refuse(field, "the name of " + WithArticle(what) + ", or a list of such names");
  }
  std::vector<std::string> names(field.value.IsList() ? field.value.items.size() : 1);
  bool sound = true;
  if (!field.value.IsList()) sound = ReadName(field, what, &names[0]);
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    if (!ReadName(field.Item(i), what, &names[i])) sound = false;
  }
  if (sound) *out = std::move(names);
  return sound;
}

bool ReadBoolean(const Field& field, bool* out) {
  const std::string& text = field.value.text;
  const bool yes = text == "true" || text == "True" || text == "TRUE";
  const bool no = text == "false" || text == "False" || text == "FALSE";
  if (!field.value.IsScalar() || (!yes && !no)) return Refuse(field, "true or false");
  *out = yes;
  return true;
}

bool ReadNumber(const Field& field, std::string_view what, double* out) {
  std::optional<double> value;
  if (field.value.IsScalar()) value = Parse<double>(field.value.text);
  if (!value || !std::isfinite(*value)) return Refuse(field, std::string(what));
  *out = *value;
  return true;
}

bool ReadFactor(const Field& field, double* out) {
  double factor = 1;
  if (!ReadNumber(field, "a number, 1 or more", &factor)) return false;
  if (factor < 1) {
    field.Fail("factor " + Quoted(field.value.text) + " is less than 1");
    return false;
  }
  *out = factor;
  return true;
}

bool ReadInteger(const Field& field, int64_t min, int64_t max, int64_t* out) {
  std::optional<int64_t> value;
  if (field.value.IsScalar()) value = Parse<int64_t>(field.value.text);
  if (!value || *value < min || *value > max) {
    return Refuse(field, "a whole number from " + std::to_string(min) + " to " +
                             std::to_string(max));
  }
  *out = *value;
  return true;
}

bool ReadDuration(const Field& field, Duration* out) {
  if (!field.value.IsScalar() || field.value.IsEmpty()) {
    return Refuse(field, "a duration such as 250ms, 30s, 5m, 2h, 7d");
  }
  Result<Duration> duration = ParseDuration(field.value.text);
  if (!duration) {
    field.Fail(duration.error().message);
    return false;
  }
  *out = *duration;
  return true;
}

bool ReadDurationAboveZero(const Field& field, Duration* out) {
  Duration duration{};
  if (!ReadDuration(field, &duration)) return false;
  if (duration == Duration::zero()) return Refuse(field, "a duration above zero");
  *out = duration;
  return true;
}

bool ReadWord(const Field& field, std::span<const std::string_view> words, size_t* out) {
  auto it = std::ranges::find(words, std::string_view(field.value.text));
  if (field.value.IsScalar() && it != words.end()) {
    *out = static_cast<size_t>(it - words.begin());
    return true;
  }
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  }
  std::string hint = field.value.IsScalar() ? Hint(field.value.text, words) : "";
  field.Fail("expected " + list + ", not " + Describe(field.value) + hint);
  return false;
}

bool ReadWords(const Field& field, std::span<const std::string_view> words,
               std::string_view example, std::vector<size_t>* out) {
  const YamlNode& value = field.value;
  if (!value.IsList() || value.items.empty()) {
    field.Fail("expected a list such as " + std::string(example) + ", not " +
               (value.IsList() ? "an empty one" : Describe(value)));
    return false;
  }
  bool sound = true;
  std::vector<size_t> choices;
  for (size_t i = 0; i < value.items.size(); ++i) {
    size_t choice = 0;
    if (!ReadWord(field.Item(i), words, &choice)) {
      sound = false;
    } else if (std::ranges::find(choices, choice) != choices.end()) {
      field.Item(i).Fail(Quoted(words[choice]) + " is there twice; keep one of them");
      sound = false;
    } else {
      choices.push_back(choice);
    }
  }
  if (sound) *out = std::move(choices);
  return sound;
}

bool ReadUpgradeStrategy(const Field& field, UpgradeStrategy* out) {
  static constexpr std::array<std::string_view, 3> kWords = {"continue", "upgrade", "abort"};
  size_t choice = 0;
  if (!ReadWord(field, kWords, &choice)) return false;
  *out = static_cast<UpgradeStrategy>(choice);
  return true;
}

bool ReadMap(const Field& field, std::string_view example) {
  if (field.value.IsMap() || field.value.IsNull()) return true;
  return Refuse(field, "a map such as " + std::string(example));
}

}  // namespace dfsmr
