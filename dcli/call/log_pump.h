// Sends the lines of operations to the server: nothing waits for them. When more is written than
// can be sent, lines in the middle are left out, and the server is told how many.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "dcli/call/agents.h"
#include "fsm/base/mutex.h"

namespace dfsmr::cli {

// What is to be sent, without the sending. Not for several threads.
class LogQueue {
 public:
  using Stream = v1::LogLine::Stream;

  void Add(const std::string& instance, const std::string& claim, Stream stream, std::string text,
           Timestamp time);
  // Nothing more comes of it.
  void End(const std::string& claim);
  void Drop(const std::string& claim);
  bool empty() const { return lines_ == 0; }

  // Takes what one message may hold, in turns from all claims.
  v1::AppendLogsRequest Take();

 private:
  struct Line {
    uint64_t number;
    Stream stream;
    Timestamp time;
    std::string text;
  };
  // The server keeps the first lines and the last ones; so do we.
  struct Claim {
    std::string instance;
    uint64_t next = 1;      // the number of the next line
    uint64_t sent = 0;      // the number of the last line that was taken
    size_t head_bytes = 0;  // of the texts that were ever in the head
    size_t head_lines = 0;  // the same, counted
    size_t tail_bytes = 0;
    std::deque<Line> head;
    std::deque<Line> tail;
    bool ended = false;
  };
  void TakeFrom(const std::string& name, Claim* claim, size_t* room, v1::AppendLogsRequest* to);
  size_t MostOfTail() const;

  std::map<std::string, Claim> claims_;
  std::string last_;  // the claim that was taken from last
  size_t lines_ = 0;
};

// Add, End, Enable: any thread.
class LogPump {
 public:
  LogPump(Client& client, std::string name_space);
  ~LogPump();
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;

  // Until then lines wait; without logs on the server they are dropped.
  void Enable(bool logs);
  void Add(const std::string& instance, const std::string& claim, LogQueue::Stream stream,
           std::string text);
  void End(const std::string& claim);
  // Waits until all is taken by the server, at most so long.
  void Finish(std::chrono::milliseconds at_most);

 private:
  void Run();
  bool WaitForLines();
  bool SendOne();
  bool Connect();
  void Hear(AppendStream* stream);
  void Answered(const v1::AppendLogsResponse& response);

  Client& client_;
  const std::string name_space_;
  Mutex mutex_;
  ConditionVariable changed_;
  LogQueue queue_ GUARDED(mutex_);
  std::deque<v1::AppendLogsRequest> unanswered_ GUARDED(mutex_);  // of this stream, and the last
  size_t resent_ GUARDED(mutex_) = 0;     // so many of them were written to this stream
  uint64_t counted_ GUARDED(mutex_) = 0;  // what the stream's last answer said
  bool enabled_ GUARDED(mutex_) = false;
  bool dropped_ GUARDED(mutex_) = false;  // nobody wants them
  bool hurry_ GUARDED(mutex_) = false;
  bool finishing_ GUARDED(mutex_) = false;
  bool stopped_ GUARDED(mutex_) = false;
  bool broken_ GUARDED(mutex_) = true;
  std::unique_ptr<AppendStream> stream_;  // the sender's
  std::thread reader_;
  Backoff backoff_;
  Mutex writing_;    // a stream is not finished while it is written to
  double room_ = 0;  // bytes that may be sent now
  std::chrono::steady_clock::time_point filled_;
  std::chrono::steady_clock::time_point sent_{};  // the last time
  std::thread sender_;  // last: it uses the others
};

}  // namespace dfsmr::cli
