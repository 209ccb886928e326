// Limits as they are asked for: how many of those that share a key hold it at once, how many begin
// in a time, and what becomes of one that finds no room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/time.h"

namespace dfsmr {

// The numbers are kept in the store; new words are added at the end.
enum class OnConflict : uint8_t { kFail, kWait, kSkip, kLatest, kCancel, kReplace };
std::string_view Name(OnConflict word);  // "fail", "wait", …
std::optional<OnConflict> ConflictNamed(std::string_view word);

// `count` in any time of `per`, evenly spaced, and `burst` at once after a rest.
struct Rate {
  uint32_t count = 1;
  Duration per = std::chrono::seconds(1);
  uint32_t burst = 1;

  // The time between two that begin; rounded up, so that no more than `count` fit into `per`.
  Duration Spacing() const { return (per + Duration(count - 1)) / count; }
  // The time in which so many may begin, one after the other; at most 70,000 years, so that it can
  // be added to a time of today.
  Duration Span(uint32_t tokens) const {
    constexpr Duration kLongest{int64_t{1} << 61};
    return tokens > 0 && Spacing() > kLongest / tokens ? kLongest : Spacing() * int64_t{tokens};
  }
  friend bool operator==(const Rate&, const Rate&) = default;
};

struct LimitNumbers {
  std::optional<uint32_t> max;  // how many hold the key at once; absent: any number
  std::optional<Rate> rate;     // how many begin; absent: any number
  friend bool operator==(const LimitNumbers&, const LimitNumbers&) = default;
};

// A key with the numbers that its asker gave it.
struct LimitKey {
  std::string key;
  LimitNumbers numbers;
  friend bool operator==(const LimitKey&, const LimitKey&) = default;
};

// What a document asks for, or the start of an instance.
struct LimitAsk {
  std::string key;  // a template's text, without quotes: "env/${params.env}"
  LimitNumbers numbers{.max = 1, .rate = {}};
  OnConflict on_conflict = OnConflict::kWait;
  std::optional<uint32_t> waiting;  // how many may wait; absent: any number, with kLatest 1
  bool singleton = false;           // it was written as `singleton`
  friend bool operator==(const LimitAsk&, const LimitAsk&) = default;
};
using LimitAsks = std::vector<LimitAsk>;

inline constexpr size_t kLimitKey = 256;          // characters
inline constexpr uint32_t kLimitMax = 1'000'000;  // that hold a key, or wait for it, at once
// What is wrong with a key; nullopt: nothing.
std::optional<std::string> LimitKeyProblem(std::string_view key);

// Keys of which the server itself counts the holders.
enum class BuiltIn : uint8_t {
  kNone,
  kNamespace,
  kGroup,
  kSchedule,
  kTrigger,
  kMachine,
  kQueue,
  kAction
};
// "queue:mail" is kQueue.
BuiltIn BuiltInOf(std::string_view key);
// What is wrong with a key that a document asks for, or with the begin of its template: as above,
// or it is reserved or a built-in one.
std::optional<std::string> WrittenKeyProblem(std::string_view key);

}  // namespace dfsmr
