// Packages as clients see them, and what they ask of them. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/registry.h"
#include "dsrv/engine/types.h"
#include "storage/rows/stats.h"

namespace dfsmr {

// Same numbers as package.proto.
enum class Verdict : uint8_t { kNone, kTrusted, kUnsigned, kRevoked };

// A version as trust sees it.
struct TrustView {
  struct Signer {
    std::string fingerprint;
    std::string name;  // of the key; empty: the namespace does not know it
    bool revoked = false;
  };
  Verdict verdict = Verdict::kUnsigned;
  std::string blocked;  // why; empty: it is not
  std::vector<Signer> signers;
};

struct ActivateArgs {
  std::string ns;
  std::string package;
  std::string version;                   // "1.4.0", or "sha256:" and 64 digits; empty: `rollback`
  bool rollback = false;                 // to what was active before
  uint32_t share = 0;                    // in hundredths of a percent: a candidate; 0: wholly
  std::optional<std::string> if_active;  // refuse unless it is; empty: unless none is
  bool adopt = false;                    // take over what was defined by hand
  bool force = false;                    // retire what is named from outside
  bool validate_only = false;
  std::string note;
  std::string by;
};

struct DocumentChange {
  enum class What : uint8_t { kNone, kAdded, kChanged, kSame, kRetired, kAdopted };
  std::string kind;
  std::string id;
  uint32_t version = 0;
  What what = What::kNone;
  std::optional<UpgradeStrategy> strategy;
  uint64_t affected = 0;  // instances that move, are aborted, or go on with the new programs
};
struct Activated {
  PackageVersionPtr package;  // null: none is active now
  std::string previous;       // the version that was active; empty: none was
  bool changed = false;
  std::vector<DocumentChange> documents;
};

// A version as it stands.
struct PackageStanding {
  enum class State : uint8_t { kNone, kActive, kCandidate, kPinned, kIdle };
  State state = State::kIdle;
  uint32_t share = 0;                       // of a candidate
  std::map<std::string, uint64_t> live;     // instances that have not stopped, by machine
  std::map<std::string, uint64_t> dry_runs;  // the same of dry runs, which nothing else counts
  rows::ResultCounts results = {};           // of those that have stopped and are kept
  std::map<std::string, uint32_t> defined;   // by kind and id, "machine:P.NAME": the newest version
  TrustView trust;
  uint64_t Live() const;
};

// What instances need of the machine versions of packages, to go on elsewhere as they do here.
struct VersionsInUse {
  using Number = std::pair<std::string, uint32_t>;  // of a machine
  // Whose programs versions have that stand for a later one: the version of their package.
  std::map<Number, std::string> programs;
  // What pinned package versions own, which their plans may name still: from which version on.
  std::map<std::string, uint32_t> owned;
};

struct RemoveArgs {
  std::string ns;
  std::string package;
  std::string version;
  bool all_but = false;
  uint32_t keep = 0;
  bool validate_only = false;
  std::string by;
};
struct Removed {
  std::vector<std::string> removed;
  std::vector<std::pair<std::string, std::string>> kept;  // versions, and why
  uint64_t freed = 0;
};

// What became of calls to activate or deactivate since the start: how many, by namespace, package
// and outcome.
using ActivationOutcomes = std::map<std::array<std::string, 3>, uint64_t>;

}  // namespace dfsmr
