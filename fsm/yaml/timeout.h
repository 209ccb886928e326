// The keys of a timeout in a document.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "fsm/machine/timeout.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// They are checked together, once all of them are known.
struct TimeoutReading {
  struct Place {
    Position at;
    std::string path;
  };
  TimeoutKeys keys;
  bool timeout_given = false;                // also when it could not be read
  std::map<std::string_view, Place> places;  // of the keys that were read

  // Reads `key` and reports what is wrong with it; false when it is not a key of a timeout.
  bool Read(std::string_view key, const Field& field);
  // Reports what is wrong with the keys together. `partial`: missing keys will be inherited.
  TimeoutPolicy Judge(bool partial, Reporter* reporter) const;
};

}  // namespace dfsmr
