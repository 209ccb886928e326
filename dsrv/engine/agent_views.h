// What clients see of agents and of what they have in hand.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dsrv/engine/types.h"
#include "storage/rows/agent.h"

namespace dfsmr {

struct OperationView {
  rows::LeftoverRow row;  // of what is in hand as of what is left; begin_time absent: not begun
  CancelMode order = CancelMode::kNone;
  bool leftover = false;
  bool lost = false;
};

// The same numbers as agent.proto.
enum class AgentState : uint8_t { kNone, kActive, kDraining, kDrained, kLost, kOffline };

struct AgentView {
  std::string ns;
  std::string name;
  rows::AgentRow row;
  AgentState state = AgentState::kNone;
  size_t in_hand = 0;
  std::vector<OperationView> operations;  // of Get only
  std::vector<RefusedWork> refuses;       // the same
};

struct AgentQuery {
  std::string ns;
  AgentState state = AgentState::kNone;  // kNone: any
  std::vector<std::string> capabilities;
  std::map<std::string, std::string> labels;
  std::string after;  // the name of the last one of the page before
  size_t limit = 0;
};

struct OperationQuery {
  std::string ns;
  std::string agent;     // empty: any
  std::string instance;  // the same
  std::string after;     // OperationPlace of the last one of the page before
  size_t limit = 0;
};
// Where an operation stands in the list: texts sort as operations do.
std::string OperationPlace(const OperationView& view);

}  // namespace dfsmr
