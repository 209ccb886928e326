// The order in which a Work stream reads, writes and ends. Knows no call, so that it can be tested
// without one: WorkStream asks it what to do next.
#pragma once

#include <grpcpp/support/status.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "dsrv/calls/outbox.h"

namespace dfsmr {

// Reads pause while too much is unanswered or unwritten. The stream ends when all that was read is
// answered and all that waits is written; it ends sooner when the client is not to have answers any
// more. One thread at a time.
class Exchange {
 public:
  // What may be unanswered, in messages, and unwritten, in answers, before reads pause.
  static constexpr size_t kUnanswered = 32;
  static constexpr int kUnwritten = 10'000;

  // Reads. True: read the next message now, and then call ReadDone, or ReadEnded when none came.
  bool BeginRead();
  // The message that was read has been dealt with, except for its answer.
  void ReadDone();
  // The client has half-closed, or is gone: nothing more is read.
  void ReadEnded();

  // A message was read whose answers will come: by one call of Answer.
  void Expect() { ++unanswered_; }
  void Answer(v1::WorkResponse* answers);  // moves them out of the message
  // The message that is dealt with has extends. True: they are answered by AnswerEarly; when they
  // are not all of it, Answer holds the rest. Extends are answered in their order, so `early` ones
  // wait, too, while those of a message before do.
  bool TakeExtends(bool early);
  void AnswerEarly(v1::WorkResponse* extended, bool all);
  // False: nothing is written any more. Then TakeUnsent gives the update's tasks back.
  bool Add(SessionUpdate update);

  // Has a message be written even if it is empty.
  void Touch() { outbox_.Touch(); }
  // Writes. The message to write now, and then call WriteDone; null: none.
  const v1::WorkResponse* BeginWrite();
  // False: the message may have arrived or not, and nothing more can be written.
  void WriteDone(bool ok);

  // The end. The first call of these two says how the stream ends.
  // Goes on until all is answered and written.
  void End(grpc::Status status);
  // Waits for no answers any more, but writes what waits.
  void Break(grpc::Status status);
  // Waits for no answers, and writes nothing more: nobody reads it.
  void Cancel(grpc::Status status);
  // How to end the stream now, once; nullopt: not now. Ask after BeginWrite.
  std::optional<grpc::Status> TakeEnd();
  // gRPC is done with the stream.
  void Done() { stage_ = Stage::kDone; }

  bool serving() const { return stage_ == Stage::kServing; }
  bool done() const { return stage_ == Stage::kDone; }
  // How many tasks wait to be written.
  size_t tasks() const { return outbox_.tasks(); }
  Outbox::Unsent TakeUnsent() { return outbox_.TakeUnsent(); }

 private:
  // Each is followed only by those below it.
  enum class Stage {
    kServing,
    kEnding,    // end_ says how
    kFinished,  // gRPC has been told the end
    kDone,
  };
  enum class Reading {
    kPaused,
    kActive,  // a read is under way, or its message is being dealt with
    kEnded,
  };

  Stage stage_ = Stage::kServing;
  grpc::Status end_;
  Reading reading_ = Reading::kPaused;
  Outbox outbox_;
  size_t unanswered_ = 0;       // messages read whose answers are not in the outbox yet
  size_t late_extends_ = 0;     // messages whose extends come with Answer, and have not yet
  bool awaits_answers_ = true;  // before it ends
};

}  // namespace dfsmr
