// YAML text → trees of plain values that know where they were written. This is the only user of the
// YAML library, and guards it against size, nesting, aliases, duplicate keys and bad encoding.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/diagnostic.h"

namespace dfsmr {

struct YamlNode;

struct YamlEntry {
  std::string key;  // as text, whatever it looks like
  Position at;      // of the key
  const YamlNode* value = nullptr;
};

struct YamlNode {
  enum class Kind : uint8_t { kScalar, kMap, kList };
  Kind kind = Kind::kScalar;
  bool plain = false;  // a scalar without quotes, which may stand for a number, boolean or null
  Position at;         // of an empty value: of its key
  std::string text;    // of a scalar, as written
  std::vector<YamlEntry> entries;      // of a map, in document order, no key twice
  std::vector<const YamlNode*> items;  // of a list

  bool IsScalar() const { return kind == Kind::kScalar; }
  bool IsMap() const { return kind == Kind::kMap; }
  bool IsList() const { return kind == Kind::kList; }
  bool IsNull() const;   // nothing, ~ or null
  bool IsEmpty() const { return IsScalar() && plain && text.empty(); }  // nothing at all
  // Null when there is no such key.
  const YamlEntry* Find(std::string_view key) const;
};

struct YamlDocument {
  std::string_view source;         // its text, a part of the whole
  const YamlNode* root = nullptr;  // null: not YAML, and reported
  bool sound = true;               // no error was reported in it
};

// Owns the nodes. All aliases to an anchored node share it. A walk of a document through its
// aliases meets at most kYamlNodesMax nodes more than the document has, and at most
// limits::kYamlDepth levels.
struct YamlTree {
  std::deque<YamlNode> nodes;
  std::vector<YamlDocument> documents;  // those with content
};

inline constexpr size_t kYamlNodesMax = 200'000;

enum class OnEmpty : uint8_t { kRefuse, kAccept };

// `text` must outlive the tree. Never throws. Reports what is wrong with any of the documents.
YamlTree ReadYaml(std::string_view text, Reporter* reporter, OnEmpty on_empty = OnEmpty::kRefuse);

// "a map", "a list", "nothing", "'30s'": the value, for messages.
std::string Describe(const YamlNode& node);

// The YAML core schema: JSON text, numbers as written where JSON allows it.
std::string JsonText(const YamlNode& node);
// JSON text, changed so that it is YAML, too; any other text unchanged.
std::string YamlOfJson(std::string_view text);
// Equal for trees that differ in comments, layout and the order of keys only.
std::string CanonicalText(const YamlNode& node);

}  // namespace dfsmr
