// Drops stopped instances whose time is up, and the beginning of the feed: a bounded amount in each
// pass, in the same batch as the rest of the turn.
#pragma once

#include <algorithm>

#include "dsrv/engine/names.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/types.h"
#include "storage/rows/retention.h"

namespace dfsmr {

class Retention {
 public:
  Retention(OpenTurn& turn, Catalog& catalog, Statistics& statistics, Residents& residents,
            Groups& groups, const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        statistics_(statistics),
        residents_(residents),
        groups_(groups),
        options_(options) {}

  void Work();
  // Drops in this pass what has expired by now.
  void Hurry() { look_due_ = next_ = turn_.now(); }
  Timestamp Due() const { return std::min(ExpiryDue(), trim_due_); }
  // Drops a stopped instance now, unless this turn has changed it.
  void DropNow(const std::string& ns, const std::string& id);
  // For a virtual clock: when the next stopped instance is to be dropped.
  Timestamp NextExpiry();

 private:
  void WorkByVirtualClock();
  // When the store is to be looked at for what has expired: when something will have, but not more
  // often than once a second.
  Timestamp ExpiryDue() const;
  // Drops those that had expired by `until`, or some of them. False: not all.
  bool DropExpired(Timestamp until);
  // False: the instance changed in this turn, and must stay until the turn ends.
  bool Drop(const rows::Expired& one);
  void TrimFeed();

  OpenTurn& turn_;
  Catalog& catalog_;
  Statistics& statistics_;
  Residents& residents_;
  Groups& groups_;
  const EngineOptions& options_;
  Timestamp look_due_;
  Timestamp next_;  // what was there at the last look expires then, or later
  Timestamp trim_due_;
  Timestamp expired_up_to_{};
  Timestamp dropped_up_to_{};     // for a virtual clock: none is left that expired by then
  bool expired_pending_ = false;  // more are due than a pass may drop
};

}  // namespace dfsmr
