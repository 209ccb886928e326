// Answers scrapes. The deciding thread is asked for its numbers at most once a second, however many
// scrape; until somebody does, nothing is done but the counting.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/metrics/gather.h"
#include "dsrv/metrics/render.h"
#include "fsm/base/mutex.h"

namespace dfsmr::metrics {

class Collector {
 public:
  explicit Collector(Sources sources) : sources_(std::move(sources)) {}
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Whether a caller may scrape: a viewer, of any namespace.
  Result<Caller> Admit(const Origin& origin) const;

  // `done` gets the text of the series that `sees` lets through, from a thread of the pool; or the
  // error that the server is stopping. Any thread. Everything that was answered a second before the
  // call is counted in it.
  using Done = std::function<void(Result<std::string>)>;
  void Scrape(Sees sees, Form form, Done done);

 private:
  using SnapshotPtr = std::shared_ptr<const Snapshot>;
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Sees sees;
    Form form;
    Done done;
  };

  void Ask();
  void Answer(const SnapshotPtr& snapshot);
  void GiveUp();
  std::vector<Waiting> TakeWaiting();
  void Show(Waiting one, SnapshotPtr snapshot);

  const Sources sources_;
  Mutex mutex_;
  SnapshotPtr last_ GUARDED(mutex_);
  Clock::time_point last_time_ GUARDED(mutex_);
  bool asked_ GUARDED(mutex_) = false;
  std::vector<Waiting> waiting_ GUARDED(mutex_);
};

}  // namespace dfsmr::metrics
