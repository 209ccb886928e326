// Starts in other partitions than home that limits may leave out: home, which decides for all, is
// asked before they are made, so that one that is left out is refused and leaves no trace. Home
// keeps a place for each that it lets begin, until that asks by itself (LimitGuests).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "dsrv/engine/engine.h"
#include "fsm/base/result.h"

namespace dfsmr {

class Call;
struct Backend;

// The starts of a command, which lives until all is done.
using StartRefs = std::vector<StartArgs*>;
inline StartRefs StartsOf(StartArgs& start) { return {&start}; }
StartRefs StartsOf(std::vector<Result<StartArgs>>& starts);  // without those that are errors

// In the loop. True: home is asked, and `then` is called once, from any thread, when its answers
// are in the starts; without an answer these are errors (UNAVAILABLE). False: there is nothing to
// ask.
bool AskHome(const Backend& backend, Engine& engine, const StartRefs& starts,
             std::function<void()> then);

// Posts `run`, which ends the call and starts `starts`, to the loop, when home has been asked. Of a
// store of several partitions.
void PostStarting(Call& call, const StartRefs& starts, size_t bytes,
                  std::function<void(Engine&)> run);

}  // namespace dfsmr
