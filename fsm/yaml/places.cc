#include "fsm/yaml/places.h"

#include <charconv>
#include <string>

namespace dfsmr {
namespace {

struct Spot {
  const YamlNode* node = nullptr;
  Position at;
  std::string path;
};

// Reads the index that a path begins with, "[3]". Returns its length; 0: there is none.
size_t ReadIndex(std::string_view path, size_t* index) {
  if (!path.starts_with('[')) return 0;
  const char* end = path.data() + path.size();
  const auto read = std::from_chars(path.data() + 1, end, *index);
  return read.ec == std::errc() && read.ptr != end && *read.ptr == ']'
             ? static_cast<size_t>(read.ptr + 1 - path.data())
             : 0;
}

// Takes one step along `path`, and removes it there. False: the tree has no such thing.
bool Descend(std::string_view* path, Spot* spot) {
  size_t index = 0;
  if (const size_t length = ReadIndex(*path, &index); length > 0 && spot->node->IsList()) {
    if (index >= spot->node->items.size()) return false;
    spot->node = spot->node->items[index];
    spot->at = spot->node->at;
    spot->path += path->substr(0, length);
    path->remove_prefix(length);
    return true;
  }
  if (path->starts_with('.')) path->remove_prefix(1);
  const std::string_view key = path->substr(0, path->find_first_of(".["));
  const YamlEntry* entry = spot->node->IsMap() ? spot->node->Find(key) : nullptr;
  if (!entry || !entry->value) return false;
  spot->node = entry->value;
  spot->at = spot->node->IsScalar() ? spot->node->at : entry->at;
  spot->path = PathTo(spot->path, key);
  path->remove_prefix(key.size());
  return true;
}

// The first scalar in `spot` that holds `text`.
bool FindText(std::string_view text, Spot* spot) {
  const YamlNode& node = *spot->node;
  if (node.IsScalar()) return node.text.find(text) != node.text.npos;
  for (const YamlEntry& entry : node.entries) {
    if (!entry.value) continue;
    Spot below{entry.value, entry.value->at, PathTo(spot->path, entry.key)};
    if (FindText(text, &below)) return *spot = std::move(below), true;
  }
  for (size_t i = 0; i < node.items.size(); ++i) {
    Spot below{node.items[i], node.items[i]->at, spot->path + "[" + std::to_string(i) + "]"};
    if (FindText(text, &below)) return *spot = std::move(below), true;
  }
  return false;
}

}  // namespace

Written PlaceOf(const PlanProblem& problem, const YamlTree& tree) {
  const Written& written = problem.written;
  Spot spot{nullptr, written.at, written.path};
  for (const YamlDocument& document : tree.documents) {
    if (document.root && document.root->at <= written.at) spot.node = document.root;
  }
  std::string_view path = written.path;
  if (spot.node) {
    // The keys of the document itself are beside the key that says what it defines.
    for (std::string_view kind : {"plan.", "action."}) {
      if (path.starts_with(kind)) path.remove_prefix(kind.size());
    }
    spot.path.clear();
    while (!path.empty() && Descend(&path, &spot)) continue;
  }
  if (!spot.node || spot.path.empty() || !path.empty()) return written;
  if (!problem.reference.empty()) (void)FindText(problem.reference, &spot);
  return {spot.at, std::move(spot.path)};
}

}  // namespace dfsmr
