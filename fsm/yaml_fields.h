// Reading single values out of a YAML tree: each function reports what is wrong and returns whether
// nothing was; `out` changes only then.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "fsm/diagnostic.h"
#include "fsm/time.h"
#include "fsm/yaml_tree.h"

namespace dfsmr {

// A value under a key, where it was written, and whom to tell what is wrong with it.
struct Field {
  Field(const YamlEntry& entry, std::string path_, Reporter* reporter_)
      : value(*entry.value), key_at(entry.at), path(std::move(path_)), reporter(reporter_) {}

  const YamlNode& value;
  Position key_at;
  std::string path;
  Reporter* reporter;

  // Points at a scalar itself, and at the key of anything larger.
  Position At() const { return value.IsScalar() ? value.at : key_at; }
  void Fail(std::string message) const { reporter->Error(At(), path, std::move(message)); }
  Field Below(const YamlEntry& entry) const {
    return Field(entry, PathTo(path, entry.key), reporter);
  }
};

bool ReadText(const Field& field, std::string* out);  // nothing is the empty text
bool ReadName(const Field& field, std::string_view what, std::string* out);
bool ReadBoolean(const Field& field, bool* out);
bool ReadNumber(const Field& field, std::string_view what, double* out);
bool ReadInteger(const Field& field, int64_t min, int64_t max, int64_t* out);
bool ReadDuration(const Field& field, Duration* out);
// One of `words`, by its position.
bool ReadWord(const Field& field, std::span<const std::string_view> words, size_t* out);
// A map, or nothing, which is an empty one.
bool ReadMap(const Field& field, std::string_view example);

}  // namespace dfsmr
