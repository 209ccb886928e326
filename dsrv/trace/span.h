// The names of spans. No state; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dfsmr {

// What a span is of: an instance (visit 0), one of its visits (attempt 0), or an attempt of that.
struct SpanOf {
  std::string_view ns;
  std::string_view instance;
  uint64_t visit = 0;
  uint32_t attempt = 0;
};

// 16 hex digits of a SHA-256: the same whenever it is asked for, also after a crash, so that a
// worker's spans hang on one that is made later, or by another process.
std::string SpanId(const SpanOf& of);

}  // namespace dfsmr
