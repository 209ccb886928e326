// Resumes what has stopped: brings the instance back among the living, where it stood, with the
// reports that came too late, and with the children that were cancelled with it. Those follow some
// in each pass; that they are still to come is kept with their parent.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"

namespace dfsmr {

class Resumer : public Part {
 public:
  Resumer(OpenTurn& turn, Statistics& statistics, Residents& residents, Changer& changer,
          Limits& limits, Reports& reports)
      : turn_(turn),
        statistics_(statistics),
        residents_(residents),
        changer_(changer),
        limits_(limits),
        reports_(reports) {}

  // Continues a stopped instance, as a call has asked. `node`, when not empty, names what is handed
  // out again though it runs at most once; `force` hands out all that workers may still have.
  Result<Ok> Resume(Resident& resident, const std::string& node, bool force);

  void Load(Resident& resident) override;
  void BeginPass() override;
  // Resumes some children of one instance.
  bool Work() override;

 private:
  struct Job {
    std::string ns;
    std::string parent;
    uint64_t turn = 0;  // in which it was given: what was started then is not in the index yet
    std::string after;  // the last child that was looked at
  };

  Result<Ok> Continue(Resident& resident, const std::string& node, bool force);
  Result<Ok> MayResume(Resident& resident, const std::string& node);
  void Enlist(const Instance& instance);
  void ResumeChild(const Instance& parent, const std::string& id);
  // Whether the parent still waits for the child, which was cancelled with it.
  static bool Awaits(const Instance& parent, const Instance& child);

  OpenTurn& turn_;
  Statistics& statistics_;
  Residents& residents_;
  Changer& changer_;
  Limits& limits_;
  Reports& reports_;
  std::deque<Job> jobs_;
  size_t left_ = 0;  // in this pass
};

}  // namespace dfsmr
