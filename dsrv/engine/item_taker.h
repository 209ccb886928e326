// Who takes what changes of the feed bring triggers: at home what they start follows at once, and
// elsewhere home is told.
#pragma once

#include <cstdint>
#include <string>

#include "dsrv/engine/trigger_state.h"

namespace dfsmr {

class ItemTaker {
 public:
  virtual ~ItemTaker() = default;

  // Whether nothing can be taken now. Nothing of it changes during a pass.
  virtual bool TakesNothing() const = 0;
  struct Brought {
    const ItemSource& source;
    const std::string& json;
    uint32_t depth = 0;
    uint64_t seq = 0;  // of the change
  };
  enum class Took : uint8_t {
    kNothing,  // there is no room, and nothing has happened
    kNoted,
    kChanged,  // what it did may have changed the instance
  };
  virtual Took TakeChange(TriggerState& state, const Brought& brought) = 0;
  // Retention has taken away so many changes before the trigger looked at them.
  virtual void Miss(TriggerState& state, uint64_t count) = 0;
};

}  // namespace dfsmr
