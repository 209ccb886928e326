// What one fsync costs here and now.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "tests/bench/histogram.h"
#include "tests/bench/loop.h"

namespace dfsmr::bench {

// A file that grows by `bytes` and is synced, as a log is, for some seconds.
inline Histogram ProbeSync(const std::string& folder, std::size_t bytes, double seconds) {
  const std::string path = folder + "/probe";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error("cannot write to " + path);
  const std::string record(bytes, 'x');
  Histogram times;
  bool well = true;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (well && Clock::now() < end) {
    const auto begin = Clock::now();
    well = write(file, record.data(), bytes) == static_cast<ssize_t>(bytes) &&
           fdatasync(file) == 0;
    times.Add(static_cast<uint64_t>((Clock::now() - begin) / std::chrono::microseconds(1)));
  }
  close(file);
  unlink(path.c_str());
  if (!well) throw std::runtime_error("cannot write to " + path);
  return times;
}

}  // namespace dfsmr::bench
