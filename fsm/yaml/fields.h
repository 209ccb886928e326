// Reading single values out of a YAML tree. Each function reports what is wrong and returns false,
// or sets `out` and returns true.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/base/diagnostic.h"
#include "fsm/base/time.h"
#include "fsm/machine/machine.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

// A value under a key, where it was written, and where to report what is wrong with it.
struct Field {
  Field(const YamlEntry& entry, std::string path_, Reporter* reporter_)
      : value(*entry.value), key_at(entry.at), path(std::move(path_)), reporter(reporter_) {}

  Field(const YamlNode& item, std::string path_, Reporter* reporter_)
      : value(item), key_at(item.at), path(std::move(path_)), reporter(reporter_) {}

  const YamlNode& value;
  Position key_at;  // for an item of a list: the item's
  std::string path;
  Reporter* reporter;

  // The place of a scalar itself, or of the key of a list or map.
  Position At() const { return value.IsScalar() ? value.at : key_at; }
  void Fail(std::string message) const { reporter->Error(At(), path, std::move(message)); }
  Field Below(const YamlEntry& entry) const {
    return Field(entry, PathTo(path, entry.key), reporter);
  }
  // Of a list.
  Field Item(size_t i) const {
    return Field(*value.items[i], path + "[" + std::to_string(i) + "]", reporter);
  }
};

// The keys of a map. Reports unknown keys. A misspelt key stands for the key that it resembles,
// which is then not reported as missing, too.
class Keys {
 public:
  // `known` must outlive this. `all` is the hint for a key that resembles no known key: "a delay
  // has initial and max".
  Keys(const Field& map, std::span<const std::string_view> known, std::string_view all);

  // Nullopt when there is no such key.
  std::optional<Field> Take(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

 private:
  const YamlEntry* Find(std::string_view key) const;

  const YamlNode& map_;
  std::string path_;
  Reporter* reporter_;
  std::vector<std::pair<std::string_view, const YamlEntry*>> misspelt_;  // by the key meant
};

bool ReadText(const Field& field, std::string* out);  // nothing is the empty text
bool ReadName(const Field& field, std::string_view what, std::string* out);
// A list of names, or one of them.
bool ReadNames(const Field& field, std::string_view what, std::vector<std::string>* out);
bool ReadBoolean(const Field& field, bool* out);
bool ReadNumber(const Field& field, std::string_view what, double* out);
bool ReadFactor(const Field& field, double* out);  // 1 or more
bool ReadInteger(const Field& field, int64_t min, int64_t max, int64_t* out);
bool ReadDuration(const Field& field, Duration* out);
bool ReadDurationAboveZero(const Field& field, Duration* out);
// One of `words`, by its position.
bool ReadWord(const Field& field, std::span<const std::string_view> words, size_t* out);
// A list of them, not empty, each at most once.
bool ReadWords(const Field& field, std::span<const std::string_view> words,
               std::string_view example, std::vector<size_t>* out);
bool ReadUpgradeStrategy(const Field& field, UpgradeStrategy* out);
// A map, or nothing, which is an empty one.
bool ReadMap(const Field& field, std::string_view example);

}  // namespace dfsmr
