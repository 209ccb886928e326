#include "dsrv/wire/original_line.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace dfsmr {
namespace {

std::string AsScalar(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string_view CallOf(int kind) {
  switch (kind) {
    case v1::Change::DEFINED: return "Define";
    case v1::Change::STARTED: return "Start";
    case v1::Change::CLAIMED: return "Ready";
    case v1::Change::TRANSITIONED: return "Transition";
    case v1::Change::RELINQUISHED: return "Relinquish";
    default: return "";
  }
}

}  // namespace

std::string OriginalLine(const v1::Change& change) {
  std::string line(CallOf(change.kind()));
  if (line.empty()) line = v1::Change::Kind_Name(change.kind());
  auto field = [&line](std::string_view name, const std::string& value) {
    if (!value.empty()) line += " " + std::string(name) + ":" + AsScalar(value);
  };
  field("id", change.instance().empty() ? change.machine() : change.instance());
  if (!change.instance().empty()) field("machine", change.machine());
  field("prevNode", change.prev_node());
  field("transition", change.transition());
  field("node", change.node());
  return line;
}

}  // namespace dfsmr
