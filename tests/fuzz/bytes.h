// A fuzzer's input taken as choices: whatever the bytes are, they mean something, and a small
// change of them is a small change of what is done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(size ? data : Nothing()), size) {}

  bool empty() const { return rest_.empty(); }
  // 0 when there are no more.
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  size_t Below(size_t n) { return Byte() % n; }
  bool Chance(int in_256) { return Byte() < in_256; }
  // Small ones are likelier than large ones.
  uint64_t Number() {
    uint64_t number = 0;
    for (size_t width = Below(9); width > 0; --width) number = number << 8 | Byte();
    return number;
  }
  // Fewer when there are fewer.
  std::string_view Take(size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  // Up to 255 bytes.
  std::string_view Piece() { return Take(Byte()); }
  // Up to the next zero byte, which goes, too.
  std::string_view Line() {
    const size_t end = std::min(rest_.find('\0'), rest_.size());
    const std::string_view line = Take(end);
    Byte();
    return line;
  }
  std::string_view Rest() { return Take(rest_.size()); }
  template <typename T>
  const T& Of(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

 private:
  static const uint8_t* Nothing() { return reinterpret_cast<const uint8_t*>(""); }
  std::string_view rest_;
};

}  // namespace dfsmr
