// The keys of a timeout in a document. Behind yaml.h.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "fsm/machine/timeout.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

// They are judged together, when all of them are known.
struct TimeoutReading {
  struct Place {
    Position at;
    std::string path;
  };
  TimeoutKeys keys;
  bool timeout_given = false;  // though perhaps not readable
  std::map<std::string_view, Place> places;  // of the keys that were read

  // Whether `key` is one of a timeout; then it was read, and what is wrong with it reported.
  bool Read(std::string_view key, const Field& field);
  // Reports what is wrong with the keys together. `partial`: what is not given will be inherited.
  TimeoutPolicy Judge(bool partial, Reporter* reporter) const;
};

}  // namespace dfsmr
