// How a plan gets on, told to those who wait for it.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "dcli/call/context.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {

// "[#####     ] 52%  3 running, 1 held: web.vm: no disk".
std::string ProgressLine(const v1::Instance& instance);

// While it lives: on a terminal the instance's progress as the status line, drawn anew when
// something happened, at most four times a second; there and elsewhere what to do when it is
// paused, once each time.
class PlanWatch {
 public:
  PlanWatch(Context& context, const std::string& instance);
  ~PlanWatch();
  PlanWatch(const PlanWatch&) = delete;
  PlanWatch& operator=(const PlanWatch&) = delete;

  // Something happened to it.
  void Heard(const v1::Change& change);

 private:
  void Run();
  void TakeALook(uint64_t pauses);
  void TellPaused(const v1::Instance& instance);

  Context& context_;
  v1::GetInstanceRequest request_;
  const bool drawing_;
  Canceller canceller_;
  uint64_t told_ = 0;  // pauses

  Mutex mutex_;
  Condition changed_;
  bool over_ GUARDED(mutex_) = false;
  bool news_ GUARDED(mutex_) = false;
  uint64_t pauses_ GUARDED(mutex_) = 0;
  std::thread thread_;
};

}  // namespace dfsmr::cli
