// Walks dry runs: reports at their work what a worker might have, by the ordinary rules, and has
// their waits be over at once.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "fsm/rules/dry_run.h"

namespace dfsmr {

class DryRuns : public Part {
 public:
  DryRuns(OpenTurn& turn, Residents& residents, Changer& changer, Reports& reports,
          HandOuts& handouts)
      : turn_(turn),
        residents_(residents),
        changer_(changer),
        reports_(reports),
        handouts_(handouts) {}

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  void BeginPass() override;
  // Does one step of the dry run that has waited longest.
  bool Work() override;

 private:
  using Job = std::pair<std::string, uint64_t>;  // ns\0id, visit; visit 0: it is to be stopped

  void Enlist(const Instance& instance, const Token& token);
  void Step(Resident& resident, uint64_t visit);
  void Report(Resident& resident, const Token& token, GivenAnswer given);
  void Stop(Resident& resident, InstanceResult result, const std::string& why);

  OpenTurn& turn_;
  Residents& residents_;
  Changer& changer_;
  Reports& reports_;
  HandOuts& handouts_;
  std::deque<Job> waiting_;
  size_t left_ = 0;  // in this pass
};

}  // namespace dfsmr
