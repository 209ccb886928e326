// Takes reports: those of workers about their claims, and those from outside.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/starter.h"
#include "storage/rows/plan.h"

namespace dfsmr {

class Reports {
 public:
  Reports(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer, Claims& claims,
          Starter& starter, const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        residents_(residents),
        changer_(changer),
        claims_(claims),
        starter_(starter),
        options_(options) {}

  // `children` are what a suspending report asks to be started. `starts` are started in the commit
  // of the report, all of them, or none if it is refused. A report that is repeated gets the answer
  // that it got before, and starts nothing.
  Result<Answer> Report(const std::string& ns, const std::string& id, ReportArgs args,
                        const std::vector<rows::ChildStart>& children,
                        std::vector<StartArgs> starts);
  // A report that came when its instance had stopped counts now, with what it starts: that has been
  // resumed.
  void ReportLate(Resident& resident, const ReportArgs& args);

 private:
  void Own(const Resident& resident, StartArgs* start) const;
  // Finds out whether all of `starts` can be started. What is wrong with them becomes the report's
  // fault.
  std::vector<Starter::Prepared> Prepare(std::vector<StartArgs> starts, const std::string& client,
                                         ReportArgs* args);
  // Refuses what the report asks for besides its transition if it is impossible.
  Result<Ok> CheckSuspend(const Resident& resident, const ReportArgs& args,
                          const std::vector<rows::ChildStart>& children);
  // Keeps what an accepted report of a plan's step brings besides its transition.
  void Keep(Resident& resident, const ReportArgs& args, const Answer& answer,
            const std::vector<rows::ChildStart>& children);
  // Keeps a refused report for the resume of its instance. False: it is not kept.
  bool KeepForResume(Resident& resident, const ReportArgs& args,
                     const std::vector<rows::ChildStart>& children);
  void EndBesideLate(Resident& resident, const ClaimRef& claim);
  // The answer to a report that was accepted before the last one, from the history; nullopt: it was
  // not accepted.
  std::optional<Answer> FormerAnswer(Resident& resident, const ReportArgs& args);

  OpenTurn& turn_;
  Catalog& catalog_;
  Residents& residents_;
  Changer& changer_;
  Claims& claims_;
  Starter& starter_;
  const EngineOptions& options_;
};

}  // namespace dfsmr
