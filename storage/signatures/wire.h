// The texts and bytes of OpenSSH: base64, and strings with their length in front.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfsmr {

// With or without the signs at its end; nullopt: it is no base64.
std::optional<std::string> FromBase64(std::string_view text);
std::string ToBase64(std::string_view bytes);

void PutString(std::string_view bytes, std::string* to);

// Takes fields off the front. After a failure all is empty and ok() is false.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}
  std::string_view Bytes(size_t length);
  uint8_t Byte();
  uint32_t Number();
  std::string_view String() { return Bytes(Number()); }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace dfsmr
