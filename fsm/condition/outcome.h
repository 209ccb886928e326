// What has become of a step that is settled.
#pragma once

#include <cstdint>
#include <string_view>

namespace dfsmr {

enum class StepOutcome : uint8_t { kNone, kSucceeded, kFailed, kSkipped };  // kNone: not settled
std::string_view Name(StepOutcome outcome);  // "succeeded", "failed", "skipped"; "" of kNone

}  // namespace dfsmr
