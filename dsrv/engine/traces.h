// What logs ask of the engine: which node and attempt a claim's lines are of, and whether what a
// reader follows has ended. Nothing is kept for it, and nothing changes: it costs those who ask.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsrv/engine/names.h"
#include "fsm/rules/rules.h"

namespace dfsmr {

class Traces {
 public:
  Traces(OpenTurn& turn, Residents& residents) : turn_(turn), residents_(residents) {}

  struct Trace {
    enum class Kind : uint8_t {
      kUnknown,  // no claim that was handed out here
      kOpen,     // it may still win
      kOver,     // it was given back, or its visit has ended; the instance's history says when
    };
    Kind kind = Kind::kUnknown;
    uint64_t born = 0;  // the number of the instance's first record
    std::string node;   // unless kUnknown; empty: it is not known any more
    uint64_t visit = 0;
    uint32_t attempt = 0;  // 0: it is not known any more
    std::string worker;
    bool dry_run = false;
  };
  Trace TraceOf(const std::string& ns, const std::string& id, const ClaimRef& claim);

  struct Scope {
    uint64_t born = 0;
    bool named = true;    // the instance has the node that is asked for; its plan may not be known yet
    bool stands = false;  // a token is there
    bool over = false;    // the instance, the step or the visit has ended
    Timestamp end_time{};  // of the instance, if that has stopped
  };
  // `node` empty, `visit` 0: of the instance. kNotFound: there is no such instance.
  Result<Scope> ScopeOf(const std::string& ns, const std::string& id, const std::string& node,
                        uint64_t visit);

 private:
  bool LostInCrash(const Resident& resident, const Token& token, ClaimId claim, ClaimId born_after);
  void LookForNode(const Resident& resident, const std::string& node, Scope* scope);
  void LookForStep(const Resident& resident, const Node& meant, Scope* scope);

  OpenTurn& turn_;
  Residents& residents_;
};

}  // namespace dfsmr
