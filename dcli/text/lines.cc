#include "dcli/text/lines.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kLargest = 16 << 10;

// The end of the last whole character within `limit` bytes.
size_t WholeCharacters(std::string_view text, size_t limit) {
  size_t end = limit;
  while (end > limit - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end > limit - 4 ? end : limit;
}

}  // namespace

void Lines::Add(std::string_view bytes) { Take(masked_.Add(bytes)); }

void Lines::Take(std::string_view shown) {
  CutLines(shown, &line_, [this](std::string_view line) { Hand(line); });
  while (line_.size() > kLargest) {
    const size_t size = WholeCharacters(line_, kLargest);
    sink_(line_.substr(0, size));
    line_.erase(0, size);
  }
}

void Lines::Hand(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  while (line.size() > kLargest) {
    const size_t size = WholeCharacters(line, kLargest);
    sink_(std::string(line.substr(0, size)));
    line.remove_prefix(size);
  }
  sink_(std::string(line));
}

void Lines::End() {
  Take(masked_.Flush());
  if (line_.empty()) return;
  const std::string line = std::move(line_);
  line_.clear();
  Hand(line);
}

}  // namespace dfsmr::cli
