// In which lines of the table the waiting tokens of instances stand: for the keys that they wait
// for, but for those that their instance holds already.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fsm/derived/limit_table.h"
#include "fsm/machine/limit.h"
#include "fsm/rules/instance.h"

namespace dfsmr {

class LimitLines {
 public:
  using TokenName = std::pair<std::string, uint64_t>;  // its instance's ns\0id, and its visit

  explicit LimitLines(LimitTable& table) : table_(table) {}

  // The keys in whose line a token stands that waits for `keys`.
  const std::vector<LimitKey>& LineOf(const TokenName& name,
                                      const std::vector<LimitKey>& keys) const;
  // A token waits for keys, or does not any more: then it stands in no line.
  void Waits(const Instance& instance, uint64_t visit, const std::vector<LimitKey>& keys);
  void WaitsNoMore(const Instance& instance, uint64_t visit, const std::vector<LimitKey>& keys);
  // It lacks these keys alone.
  void Shorten(const Instance& instance, const Token& token, std::vector<LimitKey> lacks);

  // An instance holds a key that it did not hold before, or does not hold one any more: its tokens
  // are to be looked at again.
  void Holds(const Instance& instance, const std::string& key);
  void HoldsNoMore(const Instance& instance);
  // A token that waits for keys, if its instance holds one of them, or it stands in a shorter line.
  void Recheck(const Instance& instance, uint64_t visit, const std::vector<LimitKey>& keys);
  // The next instance with such tokens. `all`: those are all that wait.
  struct Doubtful {
    std::string ns;
    std::string id;
    std::set<uint64_t> visits;
    bool all = false;
  };
  std::optional<Doubtful> NextDoubtful();

 private:
  using ByKey = std::map<std::string, std::set<uint64_t>>;

  LimitTable& table_;
  // What the tokens of an instance lack may have changed, by ns\0id: those that wait for these
  // keys, and these themselves.
  struct Doubts {
    std::set<std::string> keys;
    std::set<uint64_t> visits;
  };
  std::map<std::string, Doubts> doubts_;
  // The waiting tokens of instances that have many tokens, by ns\0id and key.
  std::map<std::string, ByKey> waiting_;
  // Keys in whose line a token stands that waits for more, since its instance holds the others.
  std::map<TokenName, std::vector<LimitKey>> shortened_;
};

}  // namespace dfsmr
