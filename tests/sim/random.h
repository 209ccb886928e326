// One number decides everything that a simulated run does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dfsmr {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) { state_ = Next(); }  // no two seeds overlap
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  size_t Below(size_t n) { return static_cast<size_t>(Next() % n); }
  bool Chance(int percent) { return Below(100) < static_cast<size_t>(percent); }
  // Mostly small, with both ends of the range and beyond zero.
  int32_t Priority() {
    static constexpr int32_t kPriorities[] = {0, 1,  2,  0,          1,
                                              2, -1, -2, 2147483647, -2147483647 - 1};
    return kPriorities[Below(10)];
  }
  template <typename T>
  const T& Of(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace dfsmr
