// What a token that is limited to machines and queues may touch.
#include <algorithm>

#include "dsrv/engine/engine.h"
#include "dsrv/engine/state.h"

namespace dfsmr {

bool Engine::Concerns(const std::string& ns, const std::string& id, const std::string& claim,
                      const std::vector<std::string>& machines,
                      const std::vector<std::string>& queues) {
  auto among = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::ranges::find(names, name) != names.end();
  };
  auto loaded = Load(ns, id);
  if (!loaded) return false;
  const Resident& resident = **loaded;
  const Tokens& tokens = resident.instance.tokens;
  auto stands_there = [&](const Token& token) {
    const auto& nodes = resident.machine().nodes;
    return token.node < nodes.size() && among(queues, nodes[token.node].settings->queue);
  };
  if (!among(machines, resident.instance.machine)) return false;
  if (claim.empty()) return queues.empty() || std::ranges::any_of(tokens, stands_there);
  auto ref = ParseClaim(resident.instance, claim);
  if (!ref) return false;
  const Token* token = tokens.Find(ref->visit);
  return !token || stands_there(*token);
}

}  // namespace dfsmr
