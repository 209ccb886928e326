// What the lanes of `dcli work` (one thread for each of --jobs) share: whether to go on, whether
// the server is there, and the streams that they write to.
#pragma once

#include <functional>
#include <string_view>

#include "dcli/call/context.h"
#include "dcli/call/log_pump.h"
#include "dcli/system/printer.h"
#include "dcli/system/process.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {

// Any thread.
class Shift {
 public:
  enum class Stage {
    kWorking,
    kFinishing,   // no more tasks are taken; those in hand are finished
    kAbandoning,  // those in hand are killed and given back, except on at-most-once nodes
  };

  explicit Shift(Context& shift_context);

  // Ctrl-C, for the count-th time. First: finish. Second: abandon. Third: end the process.
  void Stop(int count);
  // Finishes. Then Close calls `fail`, which says what was wrong, and returns its status.
  void GiveUp(std::function<int()> fail);
  Stage stage() const;
  // Call it after the last lane has ended. Waits until everything is printed, however slowly it is
  // read, and returns the exit status. After the second Ctrl-C, if that takes longer than a second,
  // it ends the process.
  int Close();

  // Each lane calls Begin before a task and End after it.
  void Begin();
  void End();

  // Notes an answer of the server (null), or the error of a call, and says so when the server goes
  // away or comes back. False for an error that will not pass, or when the server was never
  // reached: then the shift has given up.
  bool Heard(const Error* error);

  // A line of our own on standard error.
  void Say(std::string_view message);
  // Bytes that a command has written.
  void Pass(std::ostream& to, std::string_view text);
  // True while our reader is so slow that commands should wait.
  bool Full() const { return printer_.Full(); }

  Context& context;
  Canceller polls;  // cancelled when no more tasks are to be taken
  Canceller calls;  // all other calls; cancelled on the way out
  LogPump* logs = nullptr;                            // where lines of commands go; null: nowhere
  int abandoned() const { return abandoned_.get(); }  // a descriptor, readable from kAbandoning on

 private:
  mutable Mutex mutex_;
  Stage stage_ GUARDED(mutex_) = Stage::kWorking;
  int in_hand_ GUARDED(mutex_) = 0;
  bool ever_heard_ GUARDED(mutex_) = false;
  bool lost_ GUARDED(mutex_) = false;
  std::function<int()> failure_ GUARDED(mutex_);
  Descriptor abandoned_;
  Printer printer_;  // prints everything that goes to the context's streams until Close
};

}  // namespace dfsmr::cli
