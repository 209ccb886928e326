// Who holds those keys of limits whose holders the server itself counts without having asked for
// them: tasks of a queue or action, and instances of a namespace, machine, group, schedule or
// trigger that began before the key had a number. Most of these rest on disk; so this is an index
// of them, kept in memory for the keys that are counted only.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "dsrv/engine/limit_numbers.h"
#include "dsrv/engine/names.h"

namespace dfsmr {

// Visits the built-in keys that an instance holds as a whole while it runs.
template <typename Visit>
void ForEachBuiltIn(const Instance& instance, Visit visit) {
  visit("machine:" + instance.machine);
  if (instance.parent_step) return;
  visit("namespace:" + instance.ns);
  if (!instance.provenance) return;
  if (!instance.provenance->group.empty()) visit("group:" + instance.provenance->group);
  if (const auto cause = CountedCause(*instance.provenance)) visit(std::string(*cause));
}
// Whether it holds a built-in key as a whole.
bool HoldsBuiltIn(const Instance& instance, const std::string& key);

inline bool IsTask(BuiltIn kind) { return kind == BuiltIn::kQueue || kind == BuiltIn::kAction; }
// "mail" of "queue:mail".
inline std::string NameIn(const std::string& key) { return key.substr(key.find(':') + 1); }

class LimitHolders {
 public:
  struct Holder {
    std::string_view instance;
    uint64_t visit = 0;  // of a task; 0: the instance as a whole
    Timestamp since;
  };
  using Visit = std::function<bool(const Holder&)>;
  using Name = std::pair<std::string, uint64_t>;  // an instance, and the visit of a task

  LimitHolders(OpenTurn& turn, Catalog& catalog, Residents& residents)
      : turn_(turn), catalog_(catalog), residents_(residents) {}

  // Knows the holders of a key from now on. Tasks are all found at once. Of instances those among
  // the first few thousand rows of the namespace are, and the others by ReadMore.
  void Keep(const std::string& ns, const std::string& key);
  // The same, when all instances are still to be loaded.
  void KeepUnread(const std::string& ns, const std::string& key);
  void Drop(const std::string& ns, const std::string& key);
  bool Keeps(const std::string& ns, const std::string& key) const;
  size_t CountOf(const std::string& ns, const std::string& key) const;

  // One holds a key that is known here, or does not any more; of other keys nothing is noted.
  void Put(const std::string& ns, const std::string& key, const Holder& holder);
  void Remove(const std::string& ns, const std::string& key, std::string_view instance,
              uint64_t visit);
  // An instance holds its built-in keys, or does not any more.
  void PutAll(const Instance& instance);
  void RemoveAll(const Instance& instance);

  // Reads some more of the rows that Keep has left. False: none is left.
  bool ReadMore();
  bool Reading() const { return !rest_.empty(); }

  // In order of their ids, after `after`, until `visit` returns false; of a key that is not known
  // those are found that are among the first few thousand rows, or in memory.
  void ForEach(const std::string& ns, const std::string& key, const Name& after,
               const Visit& visit) const;

 private:
  using Found = absl::btree_map<Name, Timestamp>;
  struct Rest {
    std::string ns;
    std::string key;
    std::string after;  // an instance's id: the rows up to it have been read
  };

  // Notes those of the next `rows` instances after `after` that hold the key. False: there are no
  // more; else `after` is the last.
  bool Read(const std::string& ns, const std::string& key, size_t rows, std::string* after,
            Found* to) const;
  void ReadTasks(const std::string& ns, const std::string& key, Found* to) const;
  void ReadUnwritten(const std::string& ns, const std::string& key, Found* to) const;

  OpenTurn& turn_;
  Catalog& catalog_;
  Residents& residents_;
  std::map<std::string, Found> kept_;  // by ns\0key
  std::deque<Rest> rest_;
};

// When a token's task was handed out.
Timestamp ClaimedSince(const Token& token);

}  // namespace dfsmr
