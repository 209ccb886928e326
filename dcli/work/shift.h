// What the lanes of `dcli work` share: whether to go on, whether the server is there, and the
// streams that they write to.
#pragma once

#include <functional>
#include <string_view>

#include "dcli/call/context.h"
#include "dcli/system/printer.h"
#include "dcli/system/process.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {

// Any thread.
class Shift {
 public:
  enum class Stage {
    kWorking,
    kFinishing,   // no more tasks; what is in hand is finished
    kAbandoning,  // what is in hand is killed and given back, but for what runs at most once
  };

  explicit Shift(Context& shift_context);

  // Ctrl-C, for the count-th time: finish, then abandon, then out.
  void Stop(int count);
  // Finish, and end with what `fail` says and returns: it is called by Close.
  void GiveUp(std::function<int()> fail);
  Stage stage() const;
  // The exit status, after the last lane has ended and all that was said is printed, however slowly
  // it is read. After the second Ctrl-C it ends the process itself when that takes longer than a
  // second.
  int Close();

  // Around each task.
  void Begin();
  void End();

  // What the server's answers (or their absence) say about it; tells people when it changes.
  // False for an error that will not pass, or when the server was never there: then it gave up.
  bool Heard(const Error* error);

  void Say(std::string_view message);
  // What commands write, as it is.
  void Pass(std::ostream& to, std::string_view text);
  // Whoever reads it is slow: commands had better wait.
  bool Full() const { return printer_.Full(); }

  Context& context;
  Canceller polls;  // cut short when no more is to be taken
  Canceller calls;  // all others, cut short when everything is dropped
  int abandoned() const { return abandoned_.get(); }  // a descriptor that can be read from then on

 private:
  mutable Mutex mutex_;
  Stage stage_ GUARDED(mutex_) = Stage::kWorking;
  int in_hand_ GUARDED(mutex_) = 0;
  bool ever_heard_ GUARDED(mutex_) = false;
  bool lost_ GUARDED(mutex_) = false;
  std::function<int()> failure_ GUARDED(mutex_);
  Descriptor abandoned_;
  Printer printer_;  // of all that goes to the context's streams until Close
};

}  // namespace dfsmr::cli
