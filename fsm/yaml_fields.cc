#include "fsm/yaml_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "fsm/duration.h"
#include "fsm/names.h"

namespace dfsmr {
namespace {

bool Refuse(const Field& field, const std::string& expected) {
  field.Fail("expected " + expected + ", not " + Describe(field.value));
  return false;
}

// The whole text as a number; nullopt when it is none or not finite.
template <typename T>
std::optional<T> Parse(std::string_view text) {
  T value{};
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool ReadText(const Field& field, std::string* out) {
  if (!field.value.IsScalar()) return Refuse(field, "text");
  *out = field.value.text;
  return true;
}

bool ReadName(const Field& field, std::string_view what, std::string* out) {
  if (!field.value.IsScalar() || field.value.IsEmpty()) {
    return Refuse(field, "the name of a " + std::string(what));
  }
  if (auto problem = NameProblem(what, field.value.text)) {
    field.Fail(*problem);
    return false;
  }
  *out = field.value.text;
  return true;
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

bool ReadMap(const Field& field, std::string_view example) {
  if (field.value.IsMap() || field.value.IsNull()) return true;
  return Refuse(field, "a map such as " + std::string(example));
}

}  // namespace dfsmr
