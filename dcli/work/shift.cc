#include "dcli/work/shift.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace dfsmr::cli {

Shift::Shift(Context& shift_context)
    : context(shift_context), abandoned_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Shift::Stop(int count) {
  if (count > 2) _exit(kInterrupted);
  {
    const Lock lock(mutex_);
    stage_ = std::max(stage_, count == 1 ? Stage::kFinishing : Stage::kAbandoning);
    if (count == 1 && in_hand_ > 0) {
      Say("finishing what is in hand (" + std::to_string(in_hand_) +
          "); Ctrl-C again gives it back");
    }
  }
  polls.Cancel();
  if (count < 2) return;
  printer_.HurryUp();
  const uint64_t one = 1;
  if (write(abandoned_.get(), &one, sizeof one) < 0) _exit(kInterrupted);
  calls.Cancel();
}

void Shift::GiveUp(std::function<int()> fail) {
  {
    const Lock lock(mutex_);
    if (!failure_) failure_ = std::move(fail);
    stage_ = std::max(stage_, Stage::kFinishing);
  }
  polls.Cancel();
}

Shift::Stage Shift::stage() const {
  const Lock lock(mutex_);
  return stage_;
}

int Shift::Close() {
  if (!printer_.Finish()) _exit(kInterrupted);
  const Lock lock(mutex_);
  if (stage_ == Stage::kAbandoning) return kInterrupted;
  return failure_ ? failure_() : kSucceeded;
}

void Shift::Begin() {
  const Lock lock(mutex_);
  ++in_hand_;
}

void Shift::End() {
  const Lock lock(mutex_);
  --in_hand_;
}

bool Shift::Heard(const Error* error) {
  Lock lock(mutex_);
  if (error == nullptr) {
    if (lost_) Say("the server is back");
    lost_ = false;
    ever_heard_ = true;
    return true;
  }
  if (!Passing(*error) || (Unreached(*error) && !ever_heard_)) {
    lock.Unlock();
    GiveUp([this, copy = *error] { return context.Fail(copy); });
    return false;
  }
  if (!lost_) Say("the server is gone: " + Cause(*error) + "; trying again");
  lost_ = true;
  return true;
}

void Shift::Say(std::string_view message) {
  printer_.Add(message.size(), [this, text = std::string(message)] { context.Note(text); });
}

void Shift::Pass(std::ostream& to, std::string_view text) {
  printer_.Add(text.size(), [&to, copy = std::string(text)] { to << copy << std::flush; });
}

}  // namespace dfsmr::cli
