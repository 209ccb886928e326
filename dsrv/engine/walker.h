// Goes on through plans where one change would have reached too many steps: a portion in each pass,
// of one instance after the other.
#pragma once

#include <deque>
#include <string>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

class Walker : public Part {
 public:
  Walker(OpenTurn& turn, Changer& changer, const EngineOptions& options)
      : turn_(turn), changer_(changer), portion_(options.portion) {}

  void Load(Resident& resident) override { Enlist(resident.instance); }
  void Absorb(const Change& change) override;
  void BeginPass() override { walked_ = false; }
  bool Work() override;

 private:
  void Enlist(const Instance& instance);

  OpenTurn& turn_;
  Changer& changer_;
  const size_t portion_;
  std::deque<std::string> waiting_;  // ns\0id
  bool walked_ = false;              // in this pass
};

}  // namespace dfsmr
