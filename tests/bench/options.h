// What the command line says, and what every part of the program heeds.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/loop.h"

namespace dfsmr::bench {

struct Options {
  double seconds = 4;
  double warm_up_seconds = 0.5;
  int rounds = 3;
  int channels = 4;
  int client_threads = 1;
  std::vector<std::string> cases;  // globs; none: all that are not slow
  bool goals = false;
  bool tiny = false;
  std::string dsrv;
  std::vector<std::string> dsrv_arguments;
  std::string floor;
  std::string directory = std::filesystem::temp_directory_path();
  std::string json;    // a file to append to; empty: standard output
  std::string figure;  // an SVG to draw; empty: none
};

inline std::atomic<bool> interrupted = false;

// In slices, so that an interrupt still cleans up after itself.
inline void Sleep(double seconds) {
  using std::chrono::microseconds;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    if (interrupted) throw std::runtime_error("interrupted");
    const auto left = std::chrono::duration_cast<microseconds>(end - Clock::now());
    std::this_thread::sleep_for(std::clamp<microseconds>(left, {}, microseconds(50'000)));
  }
}

}  // namespace dfsmr::bench
