// Plays scenes: short stories that a simulator tells besides its runs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tests/sim/random.h"

namespace dfsmr {

struct NamedScene {
  const char* name;
  void (*play)(uint64_t seed);
};

// Two scenes of a seed: each has its turn, and one is drawn. What was wrong; empty: all is well.
inline std::string PlayTwo(const std::vector<NamedScene>& all, uint64_t seed, bool trace) {
  Random random(seed * 37 + 19);
  for (const NamedScene& scene : {all[seed % all.size()], random.Of(all)}) {
    if (trace) std::printf("scene: %s\n", scene.name);
    try {
      scene.play(random.Next());
    } catch (const std::exception& error) {
      return "scene '" + std::string(scene.name) + "': " + error.what();
    }
  }
  return "";
}

}  // namespace dfsmr
