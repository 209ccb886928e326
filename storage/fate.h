// What became of a commit to a shared store whose answer did not come, or was a refusal: as the
// partition's row tells afterwards. Pure, so that the store and the simulator decide alike.
#pragma once

#include "storage/roster.h"

namespace dfsmr {

enum class Fate : uint8_t {
  kDone,        // an earlier try has arrived
  kNotYet,      // nothing of it is there: send the same bytes again
  kSuperseded,  // another owner has the partition, and nothing was written
  kUnknown,     // another owner has it; what became of an earlier try, only that one can know
  kBroken,      // somebody else commits under this epoch: the owner must stop
};

// `before`: as the commit asks for. `in_doubt`: an earlier try may have arrived, or may yet.
// `found`: as the row is now.
inline Fate FateOf(const Holding& before, bool in_doubt, const Holding& found) {
  if (/*mutant fate-epoch-ignored*/ found.epoch != before.epoch /*end*/) {
    return /*mutant fate-never-unknown*/ in_doubt ? Fate::kUnknown : Fate::kSuperseded /*end*/;
  }
  if (found.seq == before.seq) {
    return /*mutant fate-lost-is-done*/ Fate::kNotYet /*end*/;
  }
  const bool mine = in_doubt && found.seq == before.seq + 1;
  return /*mutant fate-done-is-again*/ mine ? Fate::kDone : Fate::kBroken /*end*/;
}

// Rows were read where the partition was at `read`, by a server that knows of a later commit: they
// are those of a primary that was deposed, and nothing may be decided on them.
inline bool Outdated(const Holding& known, const Holding& read) {
  return /*mutant read-without-guard*/ read.epoch < known.epoch ||
         (read.epoch == known.epoch && read.seq < known.seq) /*end*/;
}

}  // namespace dfsmr
