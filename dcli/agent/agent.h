// An agent: takes tasks from its stream, has them run, reports, and obeys.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dcli/agent/link.h"
#include "dcli/call/log_pump.h"
#include "dcli/agent/loop.h"
#include "dcli/agent/run.h"
#include "dcli/agent/serve.h"
#include "dcli/agent/surroundings.h"
#include "dcli/call/context.h"
#include "dcli/system/printer.h"

namespace dfsmr::cli {

struct AgentPlan {
  v1::Register registration;
  v1::ReadyRequest open;
  std::vector<Worker> workers;
  Surroundings surroundings;  // `mark` and `folders` are set once the server has answered
  std::string base_folder;    // where the folders of operations are made
  std::chrono::milliseconds grace{300'000};
  bool once = false;
  std::optional<std::chrono::milliseconds> idle_exit;
  bool logs = true;
  bool print = false;
};

// The loop's thread, but for Interrupt.
class Agent {
 public:
  Agent(Context& context, AgentPlan plan);
  ~Agent();

  // Until it ends. The exit status.
  int Run();
  // Ctrl-C or SIGTERM, for the count-th time. Any thread.
  void Interrupt(int count);

 private:
  struct Hand;
  enum class Order { kNone, kCancel, kForce, kKill };

  // agent.cc: its life.
  void Connect();
  v1::AgentMessage FirstMessage() const;
  void Heard(const v1::AgentOrder& order, const std::string& life);
  void Welcomed(const v1::Welcome& welcome, const std::string& life);
  void Settle(const std::string& life);
  void Over(const Result<Ok>& over);
  bool GivesUp(const Error& error);
  void Absent(const Error& error);
  void Leave();
  void GiveBackAll();
  void MayEnd();
  void End(int status);
  void KeeperDied();
  Keeper& keeper() { return *keeper_; }
  void Flush();

  // hands.cc: what it has in hand.
  void Take(const v1::Task& task);
  void Refuse(const v1::Task& task, const std::string& reason);
  void BeginWaiting();
  void AskToBegin(Hand* hand);
  void Extended(const std::string& claim, const v1::ExtendResponse::Item& answer);
  void ExtendFailed(Hand* hand, const Error& error);
  void Begun(Hand* hand, const v1::ExtendResponse::Item& answer);
  void Start(Hand* hand);
  RunEvents EventsOf(const std::string& claim);
  void Extend(Hand* hand);
  void ScheduleExtend(Hand* hand, const google::protobuf::Timestamp& until);
  void Tell(Hand* hand);
  void TimeOut(Hand* hand);
  void Obey(const std::string& claim, Order order);
  void StopRun(Hand* hand);
  void Orders(const v1::WorkResponse& work);

  // reports.cc: how it ends.
  void Ended(Hand* hand, const RunEnd& end);
  void Stopped(Hand* hand, const RunEnd& end);
  void Report(Hand* hand, const Verdict& verdict);
  void SendReport(Hand* hand);
  void Answered(const std::string& claim, const v1::TransitionResult& result);
  void NotTaken(Hand* hand, const Error& error);
  void NoSuchTransition(const std::string& claim, const Error& error,
                        const Result<std::vector<std::string>>& legal);
  void GiveBack(Hand* hand, const std::string& reason, bool refused = false);
  void EndSilently(Hand* hand, const std::string& why);
  void Finish(Hand* hand, const std::string& how);
  void AddStop(const std::string& instance, const std::string& claim, v1::StopReport::Stage stage);
  void Repeat();

  void Note(const std::string& line);
  void Log(const Hand& hand, LogStream stream, std::string line);
  Hand* Find(const std::string& claim);
  void Aside(std::function<void()> work);  // something slow, in a thread of its own

  Context& context_;
  AgentPlan plan_;
  Loop loop_;
  std::unique_ptr<Keeper> keeper_;
  Printer printer_;
  std::unique_ptr<LogPump> logs_;
  std::map<std::string, std::unique_ptr<ServePool>> pools_;  // by worker
  std::map<std::string, std::unique_ptr<Hand>> hands_;       // by claim
  std::deque<std::string> waiting_;                          // claims that have not begun
  v1::AgentMessage out_;                                     // not sent yet
  std::deque<std::string> results_;                          // claims whose reports are unanswered
  std::deque<std::string> extends_;                          // and extends
  struct Said {
    SteadyTime time;
    v1::AgentMessage message;
  };
  std::deque<Said> said_;  // what is not answered: repeated when the stream has broken

  std::unordered_map<std::string, std::string> ended_;       // instances by claims, of the last ones
  std::deque<std::string> ended_order_;

  bool connected_ = false;
  bool ever_connected_ = false;
  bool settled_ = false;  // what a last agent of the name has left behind is gone
  bool begun_once_ = false;
  bool leaving_ = false;
  bool left_ = false;     // the good-bye was said on this stream
  bool giving_back_ = false;
  bool drained_ = false;
  int status_ = kSucceeded;
  std::string gone_why_;  // of the server, when it was said last
  std::chrono::milliseconds backoff_{100};
  std::minstd_rand random_{std::random_device{}()};
  Duration clock_ahead_{};  // of the server's clock
  std::optional<SteadyTime> exists_since_;
  SteadyTime started_;
  SteadyTime said_gone_;
  Timer reconnect_;
  Timer grace_;
  Timer idle_;
  Timer parting_;
  std::vector<std::thread> asides_;
  std::unique_ptr<Link> link_;
};

}  // namespace dfsmr::cli
