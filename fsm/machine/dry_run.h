// What becomes of work in a dry run, which walks an instance without effects.
#pragma once

#include <string>

namespace dfsmr {

// As an action or a node says it.
struct DryRunRule {
  bool worker = false;     // a worker that heeds dry runs does it
  std::string transition;  // else the server reports this; empty: `ok`, or the first there is
  std::string output;      // JSON object; empty: none is given

  bool empty() const { return !worker && transition.empty(); }
  friend bool operator==(const DryRunRule&, const DryRunRule&) = default;
};

}  // namespace dfsmr
