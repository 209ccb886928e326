// Reads what schedules and triggers start or send: the keys start, send, overlap, stop_on_fail and
// paused.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/base/template.h"
#include "fsm/when/launch.h"
#include "fsm/yaml/fields.h"

namespace dfsmr {

inline constexpr std::array<std::string_view, 5> kLaunchKeys = {"start", "send", "overlap",
                                                                "stop_on_fail", "paused"};

// What is wrong with a reference that is well-formed; nullopt: nothing is.
using ReferenceProblem = std::function<std::optional<std::string>(const Reference&)>;

// Reports each reference of a template that `problem` finds wrong, at the text where it stands. True:
// there is none. The template itself has been read without errors.
bool CheckReferences(const Field& field, const ReferenceProblem& problem);

// Reads them out of the keys of `document`. `launch->overlap` is the default of `start`. False:
// something is wrong, and was reported.
bool ReadLaunch(const Keys& keys, const Field& document, const ReferenceProblem& problem,
                LaunchSource* launch);

}  // namespace dfsmr
