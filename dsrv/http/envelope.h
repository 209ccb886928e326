// Connect's streams: messages in envelopes of a flag byte and four bytes of size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsrv/http/failure.h"

namespace dfsmr::http {

inline constexpr uint8_t kPackedFlag = 1;
inline constexpr uint8_t kEndFlag = 2;

std::string ToEnvelope(uint8_t flags, std::string_view message);
// What ends a stream: {} or {"error":…}, with the trailers.
std::string EndEnvelope(const Failure* failure);

// Takes envelopes apart, however their bytes are cut.
class EnvelopeReader {
 public:
  explicit EnvelopeReader(size_t most) : most_(most) {}
  void Add(std::string_view bytes) { waiting_ += bytes; }

  struct Envelope {
    uint8_t flags = 0;
    std::string message;
  };
  // nullopt: not all of it is there yet, or it is too large.
  std::optional<Envelope> Take();
  bool too_large() const { return too_large_; }
  bool empty() const { return waiting_.empty(); }

 private:
  const size_t most_;
  std::string waiting_;
  bool too_large_ = false;
};

}  // namespace dfsmr::http
