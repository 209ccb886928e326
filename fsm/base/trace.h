// W3C Trace Context: to which trace an instance belongs. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dfsmr {

struct TraceContext {
  std::string id;        // 32 lower-case hex digits, not all 0
  std::string parent;    // the span that it hangs on: 16 such digits; empty: none, it is a root
  bool sampled = false;  // spans are recorded
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// Reads a `traceparent`. Nullopt: it is malformed, and counts for nothing.
std::optional<TraceContext> ReadTraceparent(std::string_view text);

// The `traceparent` by which the span `span` (16 hex digits) of this trace is a parent.
std::string Traceparent(const TraceContext& trace, std::string_view span);

// As it rests on disk: 16 bytes of the id, 8 of the parent (0: none), a byte of flags.
std::string PackTrace(const TraceContext& trace);
std::optional<TraceContext> UnpackTrace(std::string_view bytes);

}  // namespace dfsmr
