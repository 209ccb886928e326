// Instances that steps started and that wait for the keys of limits, apart from all others that
// wait: if only their ancestors hold a key, they would wait for ever. Under each key are their
// parents, and who is above these, so that a change of its holders costs a look-up per holder and
// not one per child.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dfsmr {

class LimitChildren {
 public:
  // A child waits for a key, as a whole or by one more of its tokens. True: it is the first of its
  // parent under this key. `key` is ns\0key.
  bool Add(const std::string& key, const std::string& parent, const std::string& child);
  // It waits by one less. True: its parent has none left.
  bool Remove(const std::string& key, const std::string& parent, const std::string& child);

  // The next key and parent of which it is not known who is above them.
  std::optional<std::pair<std::string, std::string>> NextUncharted();
  // The parent itself and its ancestors.
  void Chart(const std::string& key, const std::string& parent, const std::set<std::string>& above);

  // The parents under a key that `ancestor` is above of, or is.
  const std::set<std::string>& Below(const std::string& key, const std::string& ancestor) const;
  // At most `most` children of a parent that wait for the key.
  std::vector<std::string> ChildrenOf(const std::string& key, const std::string& parent,
                                      size_t most) const;

 private:
  struct Parent {
    absl::btree_map<std::string, uint32_t> children;  // by how many of its tokens each waits
    std::set<std::string> above;
  };
  struct Waited {
    std::map<std::string, Parent> parents;
    std::map<std::string, std::set<std::string>> below;  // an ancestor's parents
  };

  std::map<std::string, Waited> by_key_;
  std::set<std::pair<std::string, std::string>> uncharted_;
};

}  // namespace dfsmr
