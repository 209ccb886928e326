// The texts of the errors of the last hour, those that differ in their digits only taken together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/pulse.h"
#include "fsm/base/names.h"

namespace dfsmr {

struct ErrorTally {
  std::string text;
  uint64_t count = 0;
  Timestamp last;
  std::string instance;
};

class ErrorTexts {
 public:
  void Add(std::string_view text, const std::string& instance, Timestamp now) {
    std::string key(Head(text, kLength));
    for (char& c : key) {
      if (c >= '0' && c <= '9') c = '#';
    }
    auto at = texts_.find(key);
    if (at == texts_.end()) {
      if (texts_.size() == kMost) DropOldest();
      at = texts_.emplace(std::move(key), Text()).first;
    }
    ++at->second.counts.At(now);
    at->second.last = now;
    at->second.instance = instance;
  }

  // The commonest first.
  std::vector<ErrorTally> Commonest(Timestamp now, size_t most) const {
    std::vector<ErrorTally> all;
    for (const auto& [key, text] : texts_) {
      ErrorTally tally{key, 0, text.last, text.instance};
      text.counts.ForEach(now, [&](Timestamp, uint32_t count) { tally.count += count; });
      if (tally.count > 0) all.push_back(std::move(tally));
    }
    std::ranges::stable_sort(all, std::greater(), &ErrorTally::count);
    if (all.size() > most) all.resize(most);
    return all;
  }

 private:
  static constexpr size_t kMost = 100;
  static constexpr size_t kLength = 200;

  struct Text {
    Ring<uint32_t, 10 * kMinuteUs, 6> counts;
    Timestamp last;
    std::string instance;
  };

  void DropOldest() {
    texts_.erase(
        std::ranges::min_element(texts_, {}, [](const auto& entry) { return entry.second.last; }));
  }

  std::map<std::string, Text> texts_;
};

}  // namespace dfsmr
