// Regular expressions from outside, as JSON Schema means them.
#pragma once

#include <cstddef>
#include <regex>
#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr::json_schema {

// A regular expression as the draft means it, in time linear in the text, so without
// backreferences. Matches anywhere in the text unless it is anchored.
class Pattern {
 public:
  // The error's message says what is wrong with `text`.
  static Result<Pattern> Compile(std::string_view text);
  bool Matches(std::string_view utf8) const;
  size_t size() const { return size_; }  // the cost of matching one character

 private:
  std::wregex regex_;
  size_t size_ = 1;
};

}  // namespace dfsmr::json_schema
