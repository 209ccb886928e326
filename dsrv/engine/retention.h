// Drops stopped instances whose time is up, and the beginning of the feed: a bounded amount in each
// pass, in the same batch as the rest of the turn.
#pragma once

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/turn.h"
#include "storage/rows/retention.h"

namespace dfsmr {

class Retention {
 public:
  Retention(OpenTurn& turn, Catalog& catalog, Statistics& statistics, Residents& residents,
            const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        statistics_(statistics),
        residents_(residents),
        options_(options) {}

  void Work();
  Timestamp Due() const { return std::min(expiry_due_, trim_due_); }
  // For a virtual clock: when the next stopped instance is to be dropped.
  Timestamp NextExpiry();

 private:
  void WorkByVirtualClock();
  // Drops those that had expired by `until`, or some of them. False: not all.
  bool DropExpired(Timestamp until);
  // False: the instance changed in this turn, and must stay until the turn ends.
  bool Drop(const rows::Expired& one);
  void TrimFeed();

  OpenTurn& turn_;
  Catalog& catalog_;
  Statistics& statistics_;
  Residents& residents_;
  const EngineOptions& options_;
  Timestamp expiry_due_;
  Timestamp trim_due_;
  Timestamp expired_up_to_{};
  Timestamp dropped_up_to_{};     // for a virtual clock: none is left that expired by then
  bool expired_pending_ = false;  // more are due than a pass may drop
};

}  // namespace dfsmr
