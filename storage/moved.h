// What is written on a store that nobody is to serve: that it has moved elsewhere, or that it is
// still being made of another one.
#pragma once

#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

// A mark is the name of where the store went, or this of where it comes from. "": there is none.
inline std::string BeingMadeOf(const std::string& source) { return "of:" + source; }

// Why a store with a mark is not opened.
inline Error NotHere(const std::string& store, const std::string& mark) {
  const std::string source = mark.starts_with("of:") ? mark.substr(3) : "";
  return {Code::kFailedPrecondition, Reason::kNone,
          source.empty()
              ? store + " has moved to " + mark +
                    ": name that one; or, to serve this one all the same, run dsrv store unmark"
              : store + " is only a part of " + source +
                    ", of which it is being made: run the same dsrv migrate again"};
}

}  // namespace dfsmr
