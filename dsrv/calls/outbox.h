// The messages that a Work stream writes, and the tasks that did not arrive with them.
#pragma once

#include <utility>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

// At most one message is being written; whatever is added meanwhile is merged into the next one.
// One thread at a time.
class Outbox {
 public:
  void Add(SessionUpdate update);
  void Add(v1::WorkResponse* answers);  // moves them out of the message
  // Has a message be written even if it is empty.
  void Touch() { touched_ = true; }
  // Whether there is something to write and nothing is being written.
  bool Ready() const { return !writing_ && Filled(); }
  bool writing() const { return writing_; }
  // How many answers wait to be written: many when the client does not read.
  int answers() const { return next_.results_size() + next_.extended_size(); }
  // How many tasks wait to be written.
  size_t tasks() const { return next_tasks_.size(); }

  // Begins to write: the message, which stays valid until Written or Broke. Only when Ready.
  const v1::WorkResponse* Write();
  void Written();
  // The stream broke while the message was written: its tasks may have arrived.
  void Broke();
  // Nothing is written after the message that is being written.
  void Drop();
  // For tasks that come when nothing is written any more.
  void Return(std::vector<Task> tasks);

  struct Unsent {
    std::vector<Task> undelivered;  // they never reached their worker
    std::vector<Task> doubtful;     // they may have
  };
  // The tasks that were not delivered since the last call.
  Unsent TakeUnsent() { return std::exchange(unsent_, {}); }

 private:
  bool Filled() const;
  void KeepBack();

  bool writing_ = false;
  bool touched_ = false;
  v1::WorkResponse current_;
  v1::WorkResponse next_;
  std::vector<Task> current_tasks_;
  std::vector<Task> next_tasks_;
  Unsent unsent_;
};

}  // namespace dfsmr
