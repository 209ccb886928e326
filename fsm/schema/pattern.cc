// Regular expressions from outside, matched against text from outside.
//
// g++ 12 warns of std::regex's own code when it is built with sanitizers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "fsm/schema/pattern.h"

#include <algorithm>
#include <charconv>

#include "fsm/base/names.h"

namespace dfsmr::json_schema {
namespace {

constexpr size_t kTextMax = 1'000;
constexpr size_t kSizeMax = 2'000;

// Selects libstdc++'s matcher that advances all threads together: its time is linear in the text,
// and its recursion is bounded by the pattern. The default matcher backtracks, and recurses for
// every character.
constexpr auto kFlags = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;

std::wstring Widen(std::string_view utf8) {
  std::wstring out;
  out.reserve(utf8.size());
  for (size_t i = 0; i < utf8.size();) {
    auto first = static_cast<unsigned char>(utf8[i]);
    size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    uint32_t code = length == 1 ? first : first & (0xFFu >> (length + 1));
    for (size_t k = 1; k < length && i + k < utf8.size(); ++k) {
      code = (code << 6) | (static_cast<unsigned char>(utf8[i + k]) & 0x3Fu);
    }
    out += static_cast<wchar_t>(code);
    i += length;
  }
  return out;
}

// An upper bound, up to a constant factor, of the states that the pattern compiles to. Counted
// repetitions copy what they repeat; a repeated group copies everything in it. Saturates at
// kSizeMax + 1.
size_t SizeOf(std::string_view text) {
  size_t sum = text.size();
  size_t product = 1;
  for (size_t i = text.find('{'); i != std::string_view::npos; i = text.find('{', i + 1)) {
    size_t close = std::min(text.find('}', i), text.size());
    size_t largest = 1;
    for (size_t at = i + 1; at < close; ++at) {
      size_t count = 0;
      auto [end, error] = std::from_chars(text.data() + at, text.data() + close, count);
      if (error == std::errc::result_out_of_range) return kSizeMax + 1;
      if (error != std::errc()) continue;
      largest = std::max(largest, count);
      at = static_cast<size_t>(end - text.data());
    }
    if (i > 0 && text[i - 1] == ')') {
      product *= std::min(largest, kSizeMax + 1);
    } else {
      sum += std::min(largest, kSizeMax + 1);
    }
    if (sum * product > kSizeMax) return kSizeMax + 1;
  }
  return sum * product;
}

}  // namespace

Result<Pattern> Pattern::Compile(std::string_view text) {
  auto refuse = [text](const std::string& why) {
    return Error{Code::kInvalidArgument, Reason::kNone, "pattern " + Quoted(text) + " " + why};
  };
  Pattern pattern;
  pattern.size_ = SizeOf(text);
  if (text.size() > kTextMax || pattern.size_ > kSizeMax) {
    return refuse("is too large; use fewer or smaller repetitions");
  }
  std::wstring wide = Widen(text);
  try {
    std::wregex alone(wide, kFlags);  // checked alone, so that it cannot close the group below
    pattern.regex_ = std::wregex(L"[^]*?(?:" + wide + L")", kFlags);
  } catch (const std::regex_error& e) {
    if (e.code() == std::regex_constants::error_complexity) {
      return refuse("has a backreference, which is not supported");
    }
    return refuse("is not a regular expression: " + std::string(e.what()));
  }
  return pattern;
}

bool Pattern::Matches(std::string_view utf8) const {
  std::wstring wide = Widen(utf8);
  return std::regex_search(wide, regex_, std::regex_constants::match_continuous);
}

}  // namespace dfsmr::json_schema
