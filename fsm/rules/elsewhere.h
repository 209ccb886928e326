// What other partitions tell of an instance.
#pragma once

#include <string>

#include "fsm/rules/rules.h"

namespace dfsmr::rules {

// An instance of `instance.after`, which is to live elsewhere, is not there: this one stops with
// ERROR. Nothing when it does not wait for that any more.
void PrerequisiteMissing(Scene& scene, const std::string& id);

// A start with a report on this instance was refused where the new one was to live. Its history
// says so, and nothing else changes; it may have stopped.
void StartRefused(Scene& scene, const std::string& why);

}  // namespace dfsmr::rules
