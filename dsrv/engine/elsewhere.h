// The instances of other partitions, as far as a decision of home's depends on how many there are:
// whether a version may go, how many a definition affects. Home asks the others, and counts what
// they say as long as it decides.
#pragma once

#include <string>

#include "dsrv/engine/live_count.h"
#include "dsrv/engine/names.h"

namespace dfsmr {

class Elsewhere {
 public:
  Elsewhere(Catalog& catalog, Launcher& launcher, Triggers& triggers)
      : catalog_(catalog), launcher_(launcher), triggers_(triggers) {}

  // What there is of a namespace in this partition.
  LiveCounts CountHere(const std::string& ns) const;
  // From now on, until Forget, these count, too.
  void Add(const std::string& ns, const LiveCounts& counts);
  void Forget(const std::string& ns);

 private:
  template <typename Visit>
  void ForEach(const std::string& ns, Visit visit) const;

  Catalog& catalog_;
  Launcher& launcher_;
  Triggers& triggers_;
};

}  // namespace dfsmr
