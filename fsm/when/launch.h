// What a schedule does when a time has come, and a trigger with an item: it starts an instance, or
// reports a transition to one. Plain values, as they are written.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fsm/base/time.h"
#include "fsm/plan/source.h"

namespace dfsmr {

// What becomes of a launch while an instance of the same schedule or trigger goes on.
enum class Overlap : uint8_t { kAllow, kWait, kLatest, kSkip, kCancel, kReplace };
inline constexpr std::array<std::string_view, 6> kOverlapWords = {"allow", "wait",   "latest",
                                                                  "skip",  "cancel", "replace"};
constexpr std::string_view Name(Overlap overlap) {
  return kOverlapWords[static_cast<size_t>(overlap)];
}

// How many wait for the instance that goes on, at most, with `wait`.
inline constexpr uint32_t kOverlapWaiting = 100;

// "Template": a text whose `${…}` are filled in at the launch.
struct LaunchStart {
  std::string machine;
  uint32_t version = 0;                                     // 0: the latest
  std::string id;                                           // template; empty: the default
  std::string params = "{}";                                // template, as JSON text
  std::vector<std::pair<std::string, std::string>> labels;  // the values are templates
  int32_t priority = 0;
  std::string group;                // template; empty: none
  std::optional<Duration> before;   // it must begin so soon after its time
};
struct LaunchSend {
  std::string instance;       // template
  std::string transition;     // template
  std::string node;           // template; empty: none is named
  std::string params = "{}";  // template, as JSON text
};

struct LaunchSource {
  std::variant<LaunchStart, LaunchSend> action;
  Overlap overlap = Overlap::kAllow;  // of `send`, too: what it moves is not counted
  uint32_t stop_on_fail = 0;          // failures in a row after which it is paused; 0: never
  std::optional<std::string> paused;  // the note with which it is paused when it is first defined
  Written written;                    // `start` or `send`

  const LaunchStart* start() const { return std::get_if<LaunchStart>(&action); }
  const LaunchSend* send() const { return std::get_if<LaunchSend>(&action); }
};

}  // namespace dfsmr
