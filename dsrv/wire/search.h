// Finds the instances that a list asks for, in order of id: through the index that holds the fewest
// others, else by reading all rows. A search may end before all is found; then it says where the
// next one begins, and leaves out nothing before that.
#pragma once

#include <string>
#include <vector>

#include "dsrv/wire/matcher.h"

namespace dfsmr {

struct SearchHit {
  InstanceView view;
  std::string place;  // where a search begins that comes after it
};
struct SearchPage {
  std::vector<SearchHit> hits;
  std::string last;  // the next search begins after it; empty: nothing is left
  uint64_t looked_at = 0;
  Timestamp back_to = {};
};

// At most `limit`.
Result<SearchPage> SearchById(const Moment& moment, const InstanceQuery& query, size_t limit);

}  // namespace dfsmr
