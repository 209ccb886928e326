// The progress of a plan, for people who wait for it.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "dcli/call/context.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {

// "[#####     ] 52%  3 running, 1 held: web.vm: no disk".
std::string ProgressLine(const v1::Instance& instance);

// As long as it lives and standard error is a terminal, shows the instance's progress as the status
// line, which is updated after changes, at most four times a second. Terminal or not, it says once
// for each pause what to do.
class PlanWatch {
 public:
  PlanWatch(Context& context, const std::string& instance);
  ~PlanWatch();
  PlanWatch(const PlanWatch&) = delete;
  PlanWatch& operator=(const PlanWatch&) = delete;

  // Call this for each change of the instance.
  void Heard(const v1::Change& change);

 private:
  void Run();
  void TakeALook(uint64_t pauses);
  void TellPaused(const v1::Instance& instance);

  Context& context_;
  v1::GetInstanceRequest request_;
  const bool drawing_;
  Canceller canceller_;
  uint64_t told_ = 0;  // how many pauses there were when it last said what to do

  Mutex mutex_;
  ConditionVariable changed_;
  bool over_ GUARDED(mutex_) = false;
  bool news_ GUARDED(mutex_) = false;
  uint64_t pauses_ GUARDED(mutex_) = 0;
  std::thread thread_;
};

}  // namespace dfsmr::cli
