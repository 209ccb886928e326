// Errors are values. Result<T> has std::expected's names (which Debian 12's clang cannot build yet);
// when compilers catch up it becomes an alias.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

#include "fsm/base/reason.h"

namespace dfsmr {

// Canonical gRPC codes, same numbers, so that the wire needs a cast only.
enum class Code : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// What was wrong, with the names involved, and what would be right.
struct Error {
  Code code = Code::kInternal;
  Reason reason = Reason::kNone;
  std::string message;
  uint32_t retry_ms = 0;  // a caller may try again after so long; 0: that is not known
  friend bool operator==(const Error&, const Error&) = default;
};

// The name of its reason, or "code 5" where it has none: for logs.
inline std::string ReasonOrCode(const Error& error) {
  if (error.reason != Reason::kNone) return std::string(Name(error.reason));
  return "code " + std::to_string(static_cast<int>(error.code));
}

struct Ok {
  friend bool operator==(const Ok&, const Ok&) = default;
};

// Ends the process when a condition that only a bug can break does not hold. On in production: a
// server that has lost track of its own state must not go on writing it down.
inline void Check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "dfsmr: broken invariant: %s\n", what);
  std::abort();
}

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: as std::expected
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: as std::expected

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    Check(has_value(), "value() of an error");
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    Check(has_value(), "value() of an error");
    return *std::get_if<0>(&state_);
  }
  T&& value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    Check(!has_value(), "error() of a value");
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

}  // namespace dfsmr
