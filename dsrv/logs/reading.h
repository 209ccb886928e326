// One ReadLogs: checks what it asks for, and reads portion after portion, at the pace of its
// reader. Knows no protocol: its owner is told what to send.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "dfsmr/v1/agent.pb.h"
#include "dsrv/engine/traces.h"
#include "dsrv/logs/logs.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class LogReading : public Logs::Follower, public std::enable_shared_from_this<LogReading> {
 public:
  // Who sends what is read. Exactly one call of Send is open at a time: Sent ends it. While there
  // is nothing to read, a message without entries comes every 5 s, so that its reader sees that the
  // server is there. Its cursor is empty if there never was a line.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void Send(const v1::ReadLogsResponse& response) = 0;
    virtual void End(const std::optional<Error>& error) = 0;  // the last call
  };

  // What is wrong with a request, if anything is; `ns`: the namespace that it reads in.
  static Result<Ok> Check(const v1::ReadLogsRequest& request);

  LogReading(Logs& logs, v1::ReadLogsRequest request, std::string ns, std::weak_ptr<Sink> sink);

  void Begin();  // call it once
  void Sent();
  void Close();  // nobody reads any more
  void Wake(bool news) override;
  void Stop() override;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage {
    kIdle,  // waits to be woken
    kBusy,  // reads, sends or asks: whoever set it goes on
    kEnded,
  };

  void AskScope(std::function<void(const Result<Traces::Scope>&)> then);
  void Open(const Result<Traces::Scope>& scope);
  void NoteScope(const Traces::Scope& scope);
  void Step();  // on the thread that reads
  void SendLines(Sink& sink, LogReader::Portion& portion);
  void SendPlace(Sink& sink);
  bool MayEnd() const;
  void Rest();
  void EndWith(const std::optional<Error>& error);

  Logs& logs_;
  const v1::ReadLogsRequest request_;
  const std::string ns_;
  const std::weak_ptr<Sink> sink_;

  // Whoever has set kBusy uses these.
  std::optional<LogReader> reader_;
  bool told_ = false;                      // where it has come to, since the last line
  bool stood_ = false;                     // a token was seen where it reads, or a line
  std::optional<Clock::time_point> over_;  // since when what it reads of has ended
  Clock::time_point last_line_{};
  Clock::time_point asked_{};
  Clock::time_point sent_{};

  Mutex mutex_;
  Stage stage_ GUARDED(mutex_) = Stage::kBusy;
  bool woken_ GUARDED(mutex_) = false;  // meanwhile
  bool news_ GUARDED(mutex_) = true;    // there may be lines to read
  bool follows_ GUARDED(mutex_) = false;
  std::optional<Error> stop_ GUARDED(mutex_);
};

}  // namespace dfsmr
