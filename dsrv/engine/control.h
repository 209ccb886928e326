// What operators do to one instance: pause, resume, skip, cancel, and a transition by hand.
#pragma once

#include <string>
#include <string_view>

#include "dsrv/engine/names.h"
#include "fsm/base/result.h"
#include "fsm/rules/instance.h"


namespace dfsmr {

class Control {
 public:
  Control(Residents& residents, Changer& changer, Spaces& spaces, Limits& limits, Resumer& resumer,
          Reports& reports, Operations& operations)
      : residents_(residents),
        changer_(changer),
        spaces_(spaces),
        limits_(limits),
        resumer_(resumer),
        reports_(reports),
        operations_(operations) {}

  // `by` is noted with each record of the change.
  Result<Ok> Pause(const std::string& ns, const std::string& id, const ChangedBy& by);
  Result<Ok> Resume(const std::string& ns, const std::string& id, const std::string& node,
                    bool force, const ChangedBy& by);
  Result<Ok> Skip(const std::string& ns, const std::string& id, const std::string& node,
                  const ChangedBy& by);
  Result<Ok> Cancel(const std::string& ns, const std::string& id, CancelMode mode,
                    const ChangedBy& by);
  Result<Ok> Move(const std::string& ns, const std::string& id, const std::string& node,
                  const std::string& transition, const std::string& params, const ChangedBy& by);

 private:
  template <typename Rule>
  Result<Ok> Apply(const std::string& ns, const std::string& id, const ChangedBy& by, Rule rule);

  Residents& residents_;
  Changer& changer_;
  Spaces& spaces_;
  Limits& limits_;
  Resumer& resumer_;
  Reports& reports_;
  Operations& operations_;
};

}  // namespace dfsmr
