// Where work runs: which workers may take it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

struct RunsOn {
  std::vector<std::string> capabilities;  // a worker has all of these; each once
  std::string agent;  // the worker's name; empty: any. As it was written it may hold references

  bool empty() const { return capabilities.empty() && agent.empty(); }
  friend bool operator==(const RunsOn&, const RunsOn&) = default;
};

// Whether a text holds references, or what looks like one.
inline bool Refers(std::string_view text) { return text.find("${") != std::string_view::npos; }

}  // namespace dfsmr
