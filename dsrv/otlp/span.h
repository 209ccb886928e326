// A span, and its form on the wire. No state; any thread.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fsm/base/time.h"

namespace dfsmr::otlp {

struct Span {
  std::string trace;   // 32 hex digits
  std::string id;      // 16
  std::string parent;  // 16; empty: it is the root of its trace
  std::string name;
  Timestamp begin;
  Timestamp end;
  std::vector<std::pair<std::string, std::variant<std::string, uint64_t, bool>>> attributes = {};
  bool failed = false;
  std::string error = {};  // of one that failed
};

// An ExportTraceServiceRequest in OTLP's JSON. `version` is that of this program.
std::string ToJson(const std::vector<Span>& spans, const std::string& version);

}  // namespace dfsmr::otlp
