// Takes reports: those of workers about their claims, and those from outside.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/claims.h"
#include "dsrv/engine/residents.h"
#include "storage/rows/plan.h"

namespace dfsmr {

class Reports {
 public:
  Reports(OpenTurn& turn, Catalog& catalog, Changer& changer, Claims& claims)
      : turn_(turn), catalog_(catalog), changer_(changer), claims_(claims) {}

  // `children` are what a suspending report asks to be started. A report that is repeated gets the
  // answer that it got before.
  Result<Answer> Report(const std::string& ns, const std::string& id, ReportArgs args,
                        const std::vector<rows::ChildStart>& children);

 private:
  // Refuses what the report asks for besides its transition if it is impossible.
  Result<Ok> CheckSuspend(const Resident& resident, const ReportArgs& args,
                          const std::vector<rows::ChildStart>& children);
  // Keeps what an accepted report of a plan's step brings besides its transition.
  void Keep(Resident& resident, const ReportArgs& args, const Answer& answer,
            const std::vector<rows::ChildStart>& children);
  // The answer to a report that was accepted before the last one, from the history; nullopt: it was
  // not accepted.
  std::optional<Answer> FormerAnswer(Resident& resident, const ReportArgs& args);

  OpenTurn& turn_;
  Catalog& catalog_;
  Changer& changer_;
  Claims& claims_;
};

}  // namespace dfsmr
