// Sends spans of what happens to a collector. It reads the feed as any watcher does, from its end
// at the start on, in a thread of its own, and holds up nobody: while the collector does not take
// what there is, it reads no further.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dsrv/engine/reader.h"
#include "dsrv/feed/changes.h"
#include "dsrv/otlp/collector.h"
#include "dsrv/otlp/tracker.h"
#include "fsm/base/mutex.h"

namespace dfsmr::otlp {

struct ExporterOptions {
  std::string version;  // of this program
  size_t batch = 512;
  std::chrono::milliseconds linger{1'000};        // how long a span waits for others at most
  std::chrono::milliseconds patience{3'600'000};  // how long a collector that is away is tried
  std::chrono::milliseconds first_wait{500};      // before it is tried again; doubled up to 30 s
  // Sends a batch. May wait for `most`.
  std::function<Delivered(const std::string& json, std::chrono::milliseconds most)> post;
};

class Exporter {
 public:
  struct Counts {
    uint64_t sent = 0;
    uint64_t dropped = 0;
  };

  // `changes` and what `reader` refers to outlive it.
  Exporter(ExporterOptions options, const Reader& reader, Changes& changes);
  ~Exporter();  // as Stop

  // Sends what is there up to the feed's end, as far as the collector takes it at once and within
  // seconds, and ends. Call it
  // when the feed has ended.
  void Stop();

  // Any thread.
  Counts counts() const { return {sent_.load(), dropped_.load()}; }
  uint64_t position() const { return position_; }  // the last record that was read

 private:
  class Signal;

  void Run();
  bool Read();  // false: the feed has no more now
  bool Ship();  // false: the collector was asked, and is away
  void Drop(size_t count, const std::string& why);

  const ExporterOptions options_;
  const Reader reader_;
  Changes& changes_;
  const std::unique_ptr<Past> past_;
  const std::shared_ptr<Signal> signal_;
  std::atomic<uint64_t> position_;  // the last record that was read
  Tracker tracker_;
  std::vector<Span> spans_;
  std::chrono::steady_clock::time_point oldest_;  // of spans_
  // Since when the collector takes nothing; nullopt: it does.
  std::optional<std::chrono::steady_clock::time_point> away_since_;
  std::chrono::steady_clock::time_point try_again_;  // not before that, once it was given up
  std::atomic<uint64_t> sent_ = 0;
  std::atomic<uint64_t> dropped_ = 0;
  std::thread thread_;
};

}  // namespace dfsmr::otlp
