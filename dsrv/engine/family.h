// Children of plans' steps: which of them have not stopped, and what their changes mean for the
// steps that started them. Kept in memory, rebuilt from the live instances.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"

namespace dfsmr {

// Whether the instance failed before any of its steps was ready.
bool Unplanned(const Instance& instance);

class Family : public Part {
 public:
  using Children = std::map<std::string, uint64_t>;  // id → generation of the step that started it

  Family(Residents& residents, Changer& changer) : residents_(residents), changer_(changer) {}

  // The children of an instance that have not stopped; null: it has none.
  const Children* ChildrenOf(const std::string& ns, const std::string& parent) const;
  // All children that have not stopped, by their parents' ns\0id.
  const std::unordered_map<std::string, Children>& all() const { return children_; }

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  // Counts the change of one child at its parent's step.
  bool Work() override;

 private:
  struct Moved {
    std::string ns;
    std::string parent;
    ParentStep step;
    ChildClass from;
    ChildClass to;
    bool unplanned;
  };

  Residents& residents_;
  Changer& changer_;
  std::unordered_map<std::string, Children> children_;  // by ns\0parent
  std::deque<Moved> moved_;
};

// Cancels children that no step waits for any more: those of an instance that is cancelled, stopped
// or upgraded, and those of a step that has gone on without them. A bounded number in each pass.
class Canceller : public Part {
 public:
  Canceller(OpenTurn& turn, Residents& residents, Changer& changer, Family& family)
      : turn_(turn), residents_(residents), changer_(changer), family_(family) {}

  // At start, when all instances are loaded: cancels children that the server had not come to when
  // it ended.
  void Loaded();
  void Absorb(const Change& change) override;
  void BeginPass() override;
  bool Work() override;

 private:
  struct Job {
    std::string ns;
    std::vector<std::string> ids;
    CancelMode mode;
    bool spares_alone = false;  // those that a call has resumed apart from their parent
  };

  bool GoesOnAlone(const std::string& ns, const std::string& id);
  void CheckLeft(const Instance& instance, const Token& before);
  // The children of one generation, or of all.
  void CancelChildren(const Instance& instance, std::optional<uint64_t> generation, Job job);

  OpenTurn& turn_;
  Residents& residents_;
  Changer& changer_;
  Family& family_;
  std::deque<Job> jobs_;
  size_t left_ = 0;  // in this pass
};

}  // namespace dfsmr
