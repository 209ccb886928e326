// What kind of thing a document defines, and under which id.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "fsm/base/diagnostic.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

// A machine, a plan or an action.
struct Kind {
  std::string_view name;
  std::string_view id;  // the key that holds its id
  std::span<const std::string_view> keys;
};

// What `root`, a map, defines unless it is a schedule, trigger or limit. A document without the key
// of an id is taken for the kind whose keys it has most of.
Kind KindOf(const YamlNode& root);

// An id as a document has it. All views point into the tree, or to constants.
struct DefinedId {
  std::string_view kind;   // "machine"
  std::string_view names;  // machines, plans and actions share their names (""); others have own ones
  std::string_view key;    // that holds the id
  std::string_view id;
  Position at;
};

// Of all documents whose id can be read, in the order of the text.
std::vector<DefinedId> DefinedIdsOf(const YamlTree& tree);

}  // namespace dfsmr
