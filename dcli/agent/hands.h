// What an agent has in hand: the claims, their runs, their reports, and the orders about them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dcli/agent/loop.h"
#include "dcli/agent/packages.h"
#include "dcli/agent/run.h"
#include "dcli/agent/secrets.h"
#include "dcli/agent/serve.h"
#include "dcli/agent/surroundings.h"
#include "dcli/call/agents.h"
#include "dcli/call/context.h"
#include "dcli/call/log_pump.h"
#include "dcli/system/printer.h"

namespace dfsmr::cli {

struct AgentPlan {
  v1::Register registration;
  v1::ReadyRequest open;
  std::vector<Worker> workers;
  PackagePlan packages;
  Surroundings surroundings;  // `mark` and `folders` are set once the server has answered
  std::string base_folder;    // where the folders of operations are made
  std::chrono::milliseconds grace{300'000};
  bool once = false;
  std::optional<std::chrono::milliseconds> idle_exit;
  bool logs = true;
  bool print = false;
  bool awaits_packages = false;   // which ones it serves it is told when it runs
  std::function<void()> started;  // called before it connects
  OwnSecrets own_secrets;
};

// The loop's thread. What is to be said to the server is gathered in `out_`: whoever owns the
// stream sends it.
class Hands {
 public:
  Hands(Context& context, AgentPlan plan);
  virtual ~Hands();
  Hands(const Hands&) = delete;
  Hands& operator=(const Hands&) = delete;

 protected:
  struct Hand;
  enum class Order { kNone, kCancel, kForce, kKill };

  // Called when a task has begun to run, and when one has left the hand.
  virtual void TaskBegun() = 0;
  virtual void MayEnd() = 0;

  // hands.cc: what it has in hand.
  void Take(const v1::Task& task);
  Hand* Add(const v1::Task& task);
  // Why the worker cannot do it here; nullopt: it can.
  std::optional<std::string> Unfit(const Worker& worker, const v1::Task& task) const;
  void Refuse(const v1::Task& task, const std::string& reason);
  void BeginWaiting();
  void AwaitRoom(const Worker* worker);
  void GiveBackSurplus(const Worker* worker);
  void Prepared(Hand* hand);
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

  // hands_packages.cc: tasks of packages.
  void TakeOfPackage(const v1::Task& task);
  void HavePackage(const std::string& claim, const Result<PackageInUsePtr>& package);
  void RunBy(Hand* hand, const PackageInUsePtr& package);
  std::unique_ptr<cli::Run> RunOf(Hand* hand);
  ServePool& PoolOf(const Hand& hand);
  void DropPool(const Worker* worker);

  // hands_secrets.cc: what is asked for before it begins.
  void AskForSecrets(Hand* hand);
  void HaveSecrets(Hand* hand, const SecretValues& values);
  void HaveNoSecrets(Hand* hand, const Error& error);
  void RefuseSoon(Hand* hand, const std::string& why);

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
  void SendBack(const Hand& hand, const std::string& reason, bool refused);
  void EndSilently(Hand* hand, const std::string& why);
  void Finish(Hand* hand, const std::string& how);
  void AddStop(const std::string& instance, const std::string& claim, v1::StopReport::Stage stage);
  void Repeat();

  // Prints a line for people. Lines that come soon after others go together: see TellNotes.
  void Note(std::string line);
  // Before the loop waits: prints what has been noted, or arms a timer to do so.
  void TellNotes();
  void PrintNotes();
  void Log(const Hand& hand, LogStream stream, std::string line);
  Hand* Find(const std::string& claim);
  void Aside(std::function<void()> work);  // something slow, in a thread of its own

  Keeper& keeper() { return *keeper_; }

  Context& context_;
  AgentPlan plan_;
  Loop loop_;
  std::unique_ptr<Keeper> keeper_;
  Printer printer_;
  std::vector<std::string> notes_;  // not printed yet
  SteadyTime notes_printed_{};      // the last time
  Timer tell_notes_{loop_};
  std::unique_ptr<LogPump> logs_;
  std::unique_ptr<Packages> packages_;  // null: it serves none
  struct Pool {
    PackageInUsePtr package;  // that the worker is of; null: of none
    std::unique_ptr<ServePool> processes;
  };
  std::map<const Worker*, Pool> pools_;                      // of workers that serve many tasks
  std::map<std::string, std::unique_ptr<Hand>> hands_;       // by claim
  std::deque<std::string> waiting_;                          // claims that have not begun
  // Of a worker that has had more claims than its `jobs`: when what waits for room goes back.
  struct Crowd {
    explicit Crowd(Loop& loop) : give_back(loop) {}
    Timer give_back;
    std::chrono::milliseconds pause{};
    SteadyTime given_back{};  // the last time
  };
  std::map<const Worker*, std::unique_ptr<Crowd>> crowds_;
  v1::AgentMessage out_;                                     // not sent yet
  std::deque<std::string> results_;                          // claims whose reports are unanswered
  std::deque<std::string> extends_;                          // and extends
  struct Said {
    SteadyTime time;
    v1::AgentMessage message;
  };
  std::deque<Said> said_;  // what is not answered: repeated when the stream has broken
  std::unordered_map<std::string, std::string> ended_;  // instances by claims, of the last ones
  std::deque<std::string> ended_order_;
  bool connected_ = false;  // welcomed
  bool open_ = false;       // there is a stream: what is said goes into it
  Duration clock_ahead_{};  // of the server's clock
  std::vector<std::thread> asides_;
  std::unique_ptr<SecretAsker> asker_;  // null: no task had secrets yet
};

struct Hands::Hand {
  explicit Hand(Loop& loop) : extend(loop), timeout(loop), tell(loop), again(loop) {}

  std::string Name() const { return task.instance() + " at " + task.machine() + "/" + task.node(); }

  // kFetching: its package is fetched and set up, and it has no worker yet.
  enum class Stage { kFetching, kWaiting, kPreparing, kBeginning, kRunning, kReporting };
  v1::Task task;
  PackageInUsePtr package;  // that serves it; null: none
  const Worker* worker = nullptr;
  Stage stage = Stage::kWaiting;
  bool begun = false;
  bool at_most_once = false;
  Order order = Order::kNone;
  bool lost = false;  // somebody else's now
  bool timed_out = false;
  bool given_back = false;  // by the agent's own end
  Timer extend;
  Timer timeout;
  Timer tell;
  Timer again;
  SteadyTime told_at{};
  double progress = 0;
  std::string note;
  std::string checkpoint;  // not taken by the server yet
  std::string sent_checkpoint;
  SecretValues secrets;
  std::unique_ptr<cli::Run> run;
  Verdict verdict;
};

}  // namespace dfsmr::cli
