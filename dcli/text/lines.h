// The output of a command, from bytes to lines that can be shown to anybody.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "dcli/text/masks.h"

namespace dfsmr::cli {

// Calls `take` with each line that `bytes` ends, without its line break; `begun` keeps the rest,
// and what came of the line before.
template <typename Take>
void CutLines(std::string_view bytes, std::string* begun, Take take) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = bytes.find('\n', at);
    if (end == bytes.npos) {
      *begun += bytes.substr(at);
      return;
    }
    if (begun->empty()) {
      take(bytes.substr(at, end - at));
    } else {
      *begun += bytes.substr(at, end - at);
      const std::string line = std::exchange(*begun, {});
      take(line);
    }
    at = end + 1;
  }
}

class Lines {
 public:
  using Sink = std::function<void(std::string)>;

  // Hands each line over, masked, without its line break and not larger than a log takes: a longer
  // one comes as several.
  Lines(const Masks& masks, Sink sink) : masked_(masks), sink_(std::move(sink)) {}
  void Add(std::string_view bytes);
  // Lines that may be the beginning of something hidden have waited long enough.
  void Release() { Take(masked_.FlushLines()); }
  // Nothing more comes.
  void End();
  bool holds() const { return masked_.holds_lines(); }

 private:
  void Take(std::string_view shown);
  void Hand(std::string_view line);

  MaskedStream masked_;
  Sink sink_;
  std::string line_;  // begun, not ended
};

}  // namespace dfsmr::cli
