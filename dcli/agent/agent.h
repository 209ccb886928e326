// An agent: takes tasks from its stream, has them run, reports, and obeys.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "dcli/agent/hands.h"
#include "dcli/agent/link.h"

namespace dfsmr::cli {

// The loop's thread, but for Interrupt.
class Agent : private Hands {
 public:
  Agent(Context& context, AgentPlan plan);
  ~Agent() override;

  // Until it ends. The exit status.
  int Run();
  // Ctrl-C or SIGTERM, for the count-th time. Any thread.
  void Interrupt(int count);
  // As AgentBeside's. Any thread.
  void Serve(std::vector<std::string> packages);
  void PrintLines(std::string lines, bool err);

 private:
  void Connect();
  void ServeNow(std::vector<std::string> packages);
  v1::AgentMessage FirstMessage();
  void Heard(const v1::AgentOrder& order, const std::string& life);
  void Welcomed(const v1::Welcome& welcome, const std::string& life);
  void Settle(const std::string& life);
  void Over(const Result<Ok>& over);
  bool GivesUp(const Error& error, bool was_connected);
  void Absent(const Error& error);
  void Leave();
  void GiveBackAll();
  void TaskBegun() override;
  void MayEnd() override;
  void End(int status);
  void KeeperDied();
  void Flush();

  bool ever_connected_ = false;
  bool settled_ = false;  // what a last agent of the name has left behind is gone
  bool begun_once_ = false;
  bool leaving_ = false;
  bool left_ = false;  // the good-bye was said on this stream
  bool drained_ = false;
  bool renews_ = false;  // it has ended the stream itself, to open one anew
  int status_ = kSucceeded;
  std::string gone_why_;  // of the server, when it was said last
  std::chrono::milliseconds backoff_{100};
  std::minstd_rand random_{std::random_device{}()};
  std::optional<SteadyTime> exists_since_;
  SteadyTime started_;
  SteadyTime said_gone_;
  Timer reconnect_;
  Timer grace_;
  Timer idle_;
  Timer parting_;
  std::unique_ptr<Link> link_;
};

}  // namespace dfsmr::cli
