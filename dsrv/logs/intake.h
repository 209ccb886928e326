// The lines of one AppendLogs stream on their way into the store, request by request. Knows no
// protocol.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dfsmr/v1/agent.pb.h"
#include "dsrv/access/access.h"
#include "dsrv/logs/logs.h"

namespace dfsmr {

namespace limits {
inline constexpr size_t kLogMessage = 1 << 20;
inline constexpr size_t kLogText = 16 << 10;
inline constexpr uint64_t kLogNumber = 1ull << 40;  // of a line
}  // namespace limits

// What is wrong with a request, if anything is. `first`: it is the stream's first.
Result<Ok> CheckLogs(const v1::AppendLogsRequest& request, bool first);

class LogIntake : public std::enable_shared_from_this<LogIntake> {
 public:
  // Who hears of what became of requests; on the thread that writes.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void Answer(const v1::AppendLogsResponse& response) = 0;
    virtual void Refuse(const Error& error) = 0;  // the stream ends; the last call
  };
  // Reads a request from its bytes, on the thread that writes; false: they are no request.
  using Parse = std::function<bool(v1::AppendLogsRequest*)>;

  LogIntake(Logs& logs, Caller caller, std::weak_ptr<Sink> sink)
      : logs_(logs), caller_(std::move(caller)), sink_(std::move(sink)) {}

  // Takes the next request, of so many bytes. Any thread, one at a time.
  void Take(Parse parse, size_t bytes);

 private:
  struct Waiting {
    v1::AppendLogsRequest request;
    size_t bytes = 0;
    int asked = 0;                  // how often the loop was, for its claims
    std::set<std::string> refused;  // claims
  };
  struct Question {
    std::string instance;
    std::string claim;
  };
  struct Answer;

  // On the thread that writes.
  void Arrived(const Parse& parse, size_t bytes);
  // What is known of a claim that the caller may write to; null: nothing, or not any more.
  const Logs::Known* Find(const std::string& claim);
  Result<Ok> Check(const v1::AppendLogsRequest& request);
  void GoOn();
  void Ask(std::vector<Question> questions);
  void Learn(const std::vector<Answer>& answers);
  void Append(Waiting& waiting);
  void Refuse(const Error& error);

  Logs& logs_;
  const Caller caller_;
  const std::weak_ptr<Sink> sink_;
  std::string ns_;
  bool opened_ = false;  // the first request has come
  bool asking_ = false;
  bool ended_ = false;
  uint64_t taken_ = 0;             // requests
  std::set<std::string> allowed_;  // claims, of a caller who is limited to some
  std::deque<Waiting> waiting_;
};

}  // namespace dfsmr
