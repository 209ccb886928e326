#include "dsrv/http/envelope.h"

#include "fsm/base/json.h"

namespace dfsmr::http {

std::string ToEnvelope(uint8_t flags, std::string_view message) {
  std::string envelope(1, static_cast<char>(flags));
  for (int shift = 24; shift >= 0; shift -= 8) {
    envelope += static_cast<char>(message.size() >> shift & 0xff);
  }
  envelope += message;
  return envelope;
}

std::string EndEnvelope(const Failure* failure) {
  if (!failure) return ToEnvelope(kEndFlag, "{}");
  std::string metadata;
  for (const auto& [name, value] : failure->trailers) {
    if (name.ends_with("-bin")) continue;  // it is in the details
    metadata += (metadata.empty() ? "" : ",") + json::Quote(name) + ":[" + json::Quote(value) + "]";
  }
  return ToEnvelope(kEndFlag,
                    "{\"error\":" + ErrorJson(*failure) + ",\"metadata\":{" + metadata + "}}");
}

std::optional<EnvelopeReader::Envelope> EnvelopeReader::Take() {
  constexpr size_t kHeader = 5;
  if (waiting_.size() < kHeader) return std::nullopt;
  size_t size = 0;
  for (size_t i = 1; i < kHeader; ++i) size = size << 8 | static_cast<uint8_t>(waiting_[i]);
  too_large_ = size > most_;
  if (too_large_ || waiting_.size() < kHeader + size) return std::nullopt;
  Envelope envelope{static_cast<uint8_t>(waiting_[0]), waiting_.substr(kHeader, size)};
  waiting_.erase(0, kHeader + size);
  return envelope;
}

}  // namespace dfsmr::http
