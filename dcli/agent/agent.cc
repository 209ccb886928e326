#include "dcli/agent/agent.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "dcli/keeper/descendants.h"
#include "dcli/system/left.h"
#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{5'000};
constexpr double kSpread = 0.2;
constexpr seconds kExists{30};  // how long another agent of the name may take to end
constexpr milliseconds kExistsPause{1'000};
constexpr seconds kPatience{20};  // with --once
constexpr seconds kSayAgain{60};
constexpr milliseconds kParting{3'000};
constexpr milliseconds kLastLogs{3'000};
constexpr int kLeftoverWait = 2'000;  // milliseconds

// A folder of our own that nobody else can have put there.
bool MakeOwnFolder(const std::string& path) {
  struct stat about {};
  mkdir(path.c_str(), 0700);
  return lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
         (about.st_mode & 077) == 0;
}

}  // namespace

Agent::Agent(Context& context, AgentPlan plan)
    : Hands(context, std::move(plan)),
      reconnect_(loop_),
      grace_(loop_),
      idle_(loop_),
      parting_(loop_) {}

Agent::~Agent() = default;

int Agent::Run() {
  auto keeper = Keeper::Start();  // before there are other threads
  if (!keeper) return context_.Fail(kRefused, keeper.error().message);
  keeper_ = std::move(*keeper);
  loop_.Watch(keeper_->socket(), false, [this] { KeeperDied(); });
  logs_ = std::make_unique<LogPump>(*context_.client, context_.name_space);
  if (!plan_.logs) logs_->Enable(false);
  if (!plan_.packages.names.empty() || plan_.awaits_packages) {
    packages_ = std::make_unique<Packages>(
        *context_.client, loop_, [this]() -> Keeper& { return *keeper_; }, plan_.surroundings,
        context_.name_space, plan_.packages);
  }
  link_ = std::make_unique<Link>(
      *context_.client, loop_,
      Link::Events{.heard = [this](const auto& order, const auto& life) { Heard(order, life); },
                   .over = [this](const Result<Ok>& over) { Over(over); }});
  loop_.OnRest([this] {
    Flush();
    TellNotes();
  });
  started_ = steady_clock::now();
  if (plan_.started) plan_.started();
  if (!plan_.awaits_packages) Connect();
  loop_.Run();
  hands_.clear();
  pools_.clear();
  packages_.reset();
  if (keeper_ != nullptr) loop_.Unwatch(keeper_->socket());
  keeper_.reset();  // no process of ours lives any more
  link_.reset();
  logs_->Finish(kLastLogs);
  if (settled_) DeleteFolder(plan_.surroundings.folders);
  PrintNotes();
  printer_.HurryUp();
  if (!printer_.Finish()) _exit(status_);
  return status_;
}

void Agent::Interrupt(int count) {
  loop_.Post([this, count] {
    if (count == 1) {
      if (!hands_.empty()) {
        Note("finishing what is in hand (" + std::to_string(hands_.size()) +
             "); again gives it back");
      }
      grace_.SetIn(plan_.grace, [this] { GiveBackAll(); });
      return Leave();
    }
    status_ = kInterrupted;
    if (count > 2 || !ever_connected_) return End(kInterrupted);
    GiveBackAll();
  });
}

// By the thread that prints all else.
void Agent::PrintLines(std::string lines, bool err) {
  loop_.Post([this, lines = std::move(lines), err] {
    std::ostream& to = err ? context_.err : context_.out;
    PrintNotes();
    printer_.Add(lines.size(), [&to, lines] { to << lines << std::flush; });
  });
}

void Agent::Serve(std::vector<std::string> packages) {
  loop_.Post([this, packages = std::move(packages)] { ServeNow(packages); });
}

// What is asked for is said at the begin of a stream alone. The session stays, and what has begun.
void Agent::ServeNow(std::vector<std::string> packages) {
  if (packages == plan_.packages.names || leaving_) return;
  const bool first = plan_.packages.names.empty();
  plan_.open.clear_packages();
  for (const std::string& name : packages) plan_.open.add_packages(name);
  plan_.packages.names = std::move(packages);
  if (first) return Connect();
  if (!connected_) return;  // it is about to
  renews_ = true;
  link_->Cancel();
}

// The stream ------------------------------------------------------------------------------------

// It extends what it has in hand in the message that opens the stream: what a crash of the server has
// lost would else be handed out, perhaps to this very agent. Its reports stay in `out_`: they follow,
// of claims that the server knows again.
v1::AgentMessage Agent::FirstMessage() {
  v1::AgentMessage first;
  *first.mutable_register_() = plan_.registration;
  if (packages_ != nullptr) {
    for (const std::string& digest : packages_->Cached()) {
      first.mutable_register_()->add_cached(digest);
    }
  }
  *first.mutable_work()->mutable_open() = plan_.open;
  if (ever_connected_) {
    Repeat();
    if (leaving_) Leave();
  }
  v1::AgentMessage reports;
  if (out_.work().transitions_size() > 0) {
    reports.mutable_work()->mutable_transitions()->Swap(out_.mutable_work()->mutable_transitions());
  }
  first.MergeFrom(out_);
  out_.Swap(&reports);
  return first;
}

void Agent::Connect() {
  left_ = false;
  open_ = true;
  link_->Open(FirstMessage());
  Flush();
}

void Agent::Flush() {
  if (out_.ByteSizeLong() == 0) return;
  if (!open_ || !ever_connected_) {
    out_.Clear();
    return;
  }
  link_->Send(std::move(out_));
  out_.Clear();
}

void Agent::Heard(const v1::AgentOrder& order, const std::string& life) {
  if (order.has_welcome()) Welcomed(order.welcome(), life);
  if (!connected_) return;
  if (order.drained() && !drained_) {
    Note("drained by an operator: it is handed out no more until it is undrained");
  }
  drained_ = order.drained();
  const v1::WorkResponse& work = order.work();
  for (const v1::TransitionResult& result : work.results()) {
    if (results_.empty()) break;
    const std::string claim = results_.front();
    results_.pop_front();
    Answered(claim, result);
  }
  for (const v1::ExtendResponse::Item& answer : work.extended()) {
    if (extends_.empty()) break;
    const std::string claim = extends_.front();
    extends_.pop_front();
    Extended(claim, answer);
  }
  for (const v1::Task& task : work.tasks()) Take(task);
  if (!hands_.empty()) idle_.Clear();
  BeginWaiting();
  Orders(work);
}

void Agent::Welcomed(const v1::Welcome& welcome, const std::string& life) {
  connected_ = true;
  backoff_ = kFirstPause;
  exists_since_.reset();
  if (welcome.has_time()) {
    clock_ahead_ = FromProto(welcome.time()) -
                   std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }
  if (!settled_) Settle(life);
  if (plan_.logs) logs_->Enable(welcome.logs());
  if (!gone_why_.empty()) Note("the server is there");
  if (!ever_connected_) {
    Note("agent " + plan_.registration.name() + " takes work, up to " +
         std::to_string(plan_.open.max_tasks()) + " at once");
  }
  gone_why_.clear();
  ever_connected_ = true;
  MayEnd();
}

// What a last agent of this name has left behind goes, before anything is run.
void Agent::Settle(const std::string& life) {
  settled_ = true;
  Surroundings& to = plan_.surroundings;
  to.mark = MarkOf(life.empty() ? to.server : life, to.name_space, to.agent);
  const size_t killed = KillMarked("DFSMR_AGENT_ID=" + to.mark, kLeftoverWait);
  if (killed > 0) {
    Note("killed " + std::to_string(killed) + " processes that an agent of this name had left");
  }
  to.folders = plan_.base_folder + "/dfsmr-agent-" + to.mark;
  std::error_code error;
  if (MakeOwnFolder(to.folders)) {
    for (const auto& left : std::filesystem::directory_iterator(to.folders, error)) {
      DeleteFolder(left.path());
    }
    return;
  }
  std::string fresh = to.folders + "-XXXXXX";
  if (mkdtemp(fresh.data()) == nullptr) {
    Note("no folder can be made in " + plan_.base_folder + ": nothing can be run");
  }
  to.folders = fresh;
}

void Agent::Over(const Result<Ok>& over) {
  const bool was_connected = connected_;
  connected_ = false;
  open_ = false;
  results_.clear();
  extends_.clear();
  out_.Clear();
  if (leaving_ && hands_.empty()) return End(status_);
  if (std::exchange(renews_, false)) return Connect();
  if (over) {
    Absent({Code::kUnavailable, Reason::kNone, "it has ended the stream"});
  } else if (GivesUp(over.error(), was_connected)) {
    return;
  } else {
    Absent(over.error());
  }
  const bool exists = exists_since_.has_value();
  const milliseconds pause = exists ? kExistsPause : backoff_;
  if (was_connected) backoff_ = kFirstPause;
  backoff_ = std::min(backoff_ * 2, kLongestPause);
  std::uniform_real_distribution<double> spread(1 - kSpread, 1 + kSpread);
  const milliseconds wait(
      static_cast<int64_t>(static_cast<double>(pause.count()) * spread(random_)));
  reconnect_.SetIn(wait, [this] { Connect(); });
}

// True when it makes no sense to go on.
bool Agent::GivesUp(const Error& error, bool was_connected) {
  const auto now = steady_clock::now();
  const bool exists = error.reason == Reason::kAgentExists;
  if (exists && !was_connected) {
    if (!exists_since_) exists_since_ = now;
    if (now - *exists_since_ < kExists) return false;
    context_.Fail(error, "--name gives this one another name");
    End(kRefused);
    return true;
  }
  if (error.reason == Reason::kAgentEvicted) {
    context_.Fail(error, "an operator sent it away; start it anew to come back");
    End(kRefused);
    return true;
  }
  if (plan_.once && !ever_connected_ && Passing(error)) {
    if (now - started_ < kPatience) return false;
    End(context_.Fail(error));
    return true;
  }
  if (Passing(error) || !hands_.empty()) return false;
  const std::string_view hint = exists ? "a copy of this process has taken its place" : "";
  End(context_.Fail(error, hint));
  return true;
}

void Agent::Absent(const Error& error) {
  const auto now = steady_clock::now();
  const std::string why = Cause(error);
  if (!gone_why_.empty() && now - said_gone_ < kSayAgain) return;
  gone_why_ = why.empty() ? "it is gone" : why;
  said_gone_ = now;
  if (exists_since_) return Note("waiting for another agent of this name to end: " + why);
  const bool lost = error.reason == Reason::kPeerUnreachable ||  // there is a server, and it says so
                    error.reason == Reason::kAgentExists;
  const std::string what =
      lost ? "the server has ended the stream" : "no server at " + context_.client->server();
  Note(what + ": " + gone_why_ + "; trying again");
}

// The end ---------------------------------------------------------------------------------------

void Agent::Leave() {
  leaving_ = true;
  for (const auto& [worker, pool] : pools_) pool.processes->Close();
  std::deque<std::string> waiting = std::exchange(waiting_, {});
  for (const auto& [claim, hand] : hands_) {
    if (hand->stage == Hand::Stage::kFetching) waiting.push_back(claim);
  }
  for (const std::string& claim : waiting) {
    if (Hand* hand = Find(claim)) GiveBack(hand, "the agent ends");
  }
  if (!connected_ && hands_.empty()) return End(status_);
  if (!left_) {
    left_ = true;
    out_.set_leave(true);
    out_.mutable_work()->set_drain(true);
  }
  MayEnd();
}

void Agent::GiveBackAll() {
  if (!leaving_) Leave();
  std::vector<std::string> claims;
  for (const auto& [claim, hand] : hands_) claims.push_back(claim);
  for (const std::string& claim : claims) {
    Hand* hand = Find(claim);
    if (hand == nullptr) continue;
    hand->given_back = true;
    if (hand->run != nullptr)
      StopRun(hand);
    else if (hand->stage != Hand::Stage::kReporting)
      GiveBack(hand, "the agent ends");
  }
  MayEnd();
}

void Agent::TaskBegun() {
  begun_once_ = true;
  idle_.Clear();
  if (plan_.once && !leaving_) Leave();
}

// After each change of what is in hand.
void Agent::MayEnd() {
  if (!hands_.empty()) {
    idle_.Clear();
    return;
  }
  if (plan_.once && begun_once_ && !leaving_) return Leave();
  if (leaving_) {
    // The server ends the stream once nothing is in hand; should it not, so do we.
    if (!connected_) return End(status_);
    if (!parting_.set()) parting_.SetIn(kParting, [this] { End(status_); });
    return;
  }
  if (plan_.idle_exit && !idle_.set()) {
    idle_.SetIn(*plan_.idle_exit, [this] {
      Note("nothing to do for so long: good-bye");
      Leave();
    });
  }
}

void Agent::End(int status) {
  status_ = status;
  loop_.Stop();
}

// Its commands die with it, and what they had started comes to us.
void Agent::KeeperDied() {
  loop_.Unwatch(keeper_->socket());
  keeper_.reset();
  Keeper::KillOrphans();
  auto keeper = Keeper::Start();
  if (!keeper) {
    context_.Fail(kRefused, keeper.error().message);
    return End(kRefused);
  }
  keeper_ = std::move(*keeper);
  loop_.Watch(keeper_->socket(), false, [this] { KeeperDied(); });
}

}  // namespace dfsmr::cli
