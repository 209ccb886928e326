#include <algorithm>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/chaos/chaos.h"
#include "tests/chaos/linear_check.h"

namespace dfsmr::chaos {
namespace {

using Kind = Operation::Kind;

// Claims are not to time out: the specification knows no clock.
const char kMachine[] = R"(
id: m
nodes:
  a: {start: true, timeout_strategy: fixed, timeout: 86400, transitions: {ok: b, again: a}}
  b: {timeout: 0.0, transitions: {ok: d, back: a}}
  d: {final: true}
)";
constexpr int kClients = 10;
constexpr std::size_t kOpen = 3;        // instances that the clients are at, all at once
constexpr std::size_t kOperations = 48;  // of one instance

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// One instance, alone in its namespace, so that a Ready is about it and nothing else.
struct Subject {
  std::string ns;
  std::mutex mutex;
  std::vector<Operation> history;
  std::vector<std::string> claims;
  std::size_t begun = 0;
};

class Clients {
 public:
  Clients(const Dsrv& server, uint64_t seed, uint64_t operations)
      : server_(server), seed_(seed), owed_(operations) {
    for (std::size_t i = 0; i < kOpen; ++i) open_.push_back(NewSubject());
    for (int i = 0; i < kClients; ++i) threads_.emplace_back([this, i] { Run(i); });
  }

  bool ended() const { return ended_ == kClients; }
  const std::vector<std::shared_ptr<Subject>>& Join() {
    for (std::thread& thread : threads_) thread.join();
    return all_;
  }
  uint64_t unknown() const { return unknown_; }

 private:
  std::shared_ptr<Subject> NewSubject() {
    all_.push_back(std::make_shared<Subject>());
    all_.back()->ns = "n" + std::to_string(all_.size());
    return all_.back();
  }

  // Somebody's turn on one of the open instances; null at the end.
  std::shared_ptr<Subject> Choose(std::mt19937_64* random) {
    std::lock_guard lock(mutex_);
    if (owed_ == 0) return nullptr;
    --owed_;
    std::shared_ptr<Subject>& one = open_[(*random)() % open_.size()];
    if (one->begun == kOperations) one = NewSubject();
    ++one->begun;
    return one;
  }

  void Run(int number) {
    std::mt19937_64 random(seed_ + static_cast<uint64_t>(number));
    const auto channel = server_.Connect();
    Stub stub(channel);
    while (const auto subject = Choose(&random)) {
      Operation operation = Ask(subject.get(), &random);
      if (operation.kind == Kind::kStart && !Defined(&stub, subject->ns)) continue;
      operation.invoked = Now();
      const grpc::Status status = Call(&stub, subject->ns, &operation);
      if (OutcomeUnknown(status)) {
        ++unknown_;
        operation.returned = INT64_MAX;
        // Each unknown outcome doubles what is to be searched: no more than one a crash.
        channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30));
        if (operation.kind == Kind::kGet) continue;  // without an effect
      } else {
        operation.returned = Now();
      }
      std::lock_guard lock(subject->mutex);
      if (operation.kind == Kind::kReady && operation.known() && operation.refusal.empty()) {
        subject->claims.push_back(operation.claim);
      }
      subject->history.push_back(std::move(operation));
    }
    ++ended_;
  }

  static Operation Ask(Subject* subject, std::mt19937_64* random) {
    static const Kind kinds[] = {Kind::kStart,  Kind::kReady,      Kind::kReady,  Kind::kReady,
                                 Kind::kReady,  Kind::kReport,     Kind::kReport, Kind::kReport,
                                 Kind::kReport, Kind::kReport,     Kind::kEvent,  Kind::kEvent,
                                 Kind::kGet,    Kind::kRelinquish, Kind::kGet};
    static const char* const transitions[] = {"ok", "again", "back", "again", "back"};
    const auto below = [random](uint64_t bound) { return (*random)() % bound; };
    Operation operation;
    std::lock_guard lock(subject->mutex);
    operation.kind = subject->begun <= 2 ? Kind::kStart : kinds[below(std::size(kinds))];
    if (below(60) == 0) operation.kind = below(3) == 0 ? Kind::kForce : Kind::kCancel;
    if (operation.kind == Kind::kReport || operation.kind == Kind::kRelinquish) {
      if (subject->claims.empty()) {
        operation.kind = Kind::kReady;
        return operation;
      }
      const uint64_t back = below(3) == 0 ? below(subject->claims.size()) : 0;
      operation.claim = subject->claims[subject->claims.size() - 1 - back];
    }
    if (operation.kind == Kind::kReport || operation.kind == Kind::kEvent) {
      operation.transition = transitions[below(std::size(transitions))];
    }
    return operation;
  }

  bool Defined(Stub* stub, const std::string& ns) {
    while (true) {
      grpc::ClientContext context;
      v1::DefineRequest request;
      v1::DefineResponse response;
      request.set_namespace_(ns);
      request.set_source(kMachine);
      if (stub->Define(&context, request, &response).ok()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  grpc::Status Call(Stub* stub, const std::string& ns, Operation* operation) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Status status = Send(stub, ns, operation, &context);
    if (!status.ok() && !OutcomeUnknown(status)) {
      operation->refusal = ReasonOf(context);
      if (operation->refusal.empty()) operation->refusal = status.error_message();
    }
    return status;
  }

  static grpc::Status Send(Stub* stub, const std::string& ns, Operation* operation,
                           grpc::ClientContext* context) {
    switch (operation->kind) {
      case Kind::kStart: return Start(stub, ns, operation, context);
      case Kind::kReady: return Ready(stub, ns, operation, context);
      case Kind::kReport:
      case Kind::kEvent: return Transition(stub, ns, operation, context);
      case Kind::kGet: return Get(stub, ns, operation, context);
      case Kind::kRelinquish: {
        v1::RelinquishRequest request;
        v1::RelinquishResponse response;
        request.set_namespace_(ns);
        request.set_instance("x");
        request.set_claim(operation->claim);
        return stub->Relinquish(context, request, &response);
      }
      default: {
        v1::CancelRequest request;
        v1::Instance response;
        request.set_namespace_(ns);
        request.set_instance("x");
        request.set_mode(operation->kind == Kind::kForce ? v1::CancelRequest::FORCE
                                                         : v1::CancelRequest::CANCEL);
        return stub->Cancel(context, request, &response);
      }
    }
  }

  static grpc::Status Start(Stub* stub, const std::string& ns, Operation* operation,
                            grpc::ClientContext* context) {
    v1::StartRequest request;
    v1::StartResponse response;
    request.set_namespace_(ns);
    request.set_machine("m");
    request.set_id("x");
    const grpc::Status status = stub->Start(context, request, &response);
    operation->created = response.created();
    return status;
  }

  static grpc::Status Ready(Stub* stub, const std::string& ns, Operation* operation,
                            grpc::ClientContext* context) {
    v1::ReadyRequest request;
    v1::ReadyResponse response;
    request.set_namespace_(ns);
    const grpc::Status status = stub->Ready(context, request, &response);
    if (!status.ok()) return status;
    if (response.tasks().empty()) {
      operation->refusal = "none";
    } else {
      operation->claim = response.tasks(0).claim();
      operation->node = response.tasks(0).node();
      operation->visit = response.tasks(0).visit();
    }
    return status;
  }

  static grpc::Status Transition(Stub* stub, const std::string& ns, Operation* operation,
                                 grpc::ClientContext* context) {
    v1::TransitionRequest request;
    v1::TransitionResponse response;
    request.set_namespace_(ns);
    request.set_instance("x");
    request.set_claim(operation->claim);
    request.set_transition(operation->transition);
    const grpc::Status status = stub->Transition(context, request, &response);
    if (!status.ok()) return status;
    operation->node = response.node();
    operation->visit = response.visit();
    operation->repeated = response.repeated_report();
    operation->state = StateOf(response.state(), response.result());
    return status;
  }

  static grpc::Status Get(Stub* stub, const std::string& ns, Operation* operation,
                          grpc::ClientContext* context) {
    v1::GetInstanceRequest request;
    v1::Instance response;
    request.set_namespace_(ns);
    request.set_id("x");
    const grpc::Status status = stub->GetInstance(context, request, &response);
    if (!status.ok()) return status;
    operation->state = StateOf(response.state(), response.result());
    if (response.tokens_size() == 1) {
      operation->node = response.tokens(0).node();
      operation->visit = response.tokens(0).visit();
      operation->claimed = response.tokens(0).state() == v1::Token::CLAIMED;
    }
    return status;
  }

  static char StateOf(v1::Instance::State state, v1::Instance::Result result) {
    if (state != v1::Instance::STOPPED) return 'R';
    return result == v1::Instance::SUCCESS ? 'S' : result == v1::Instance::CANCELLED ? 'C' : '?';
  }

  const Dsrv& server_;
  const uint64_t seed_;
  std::mutex mutex_;
  uint64_t owed_;
  std::vector<std::shared_ptr<Subject>> open_;
  std::vector<std::shared_ptr<Subject>> all_;
  std::atomic<int> ended_ = 0;
  std::atomic<uint64_t> unknown_ = 0;
  std::vector<std::thread> threads_;
};

// A history with the crashes that happened during it.
std::vector<Operation> WithCrashes(const Subject& subject, const std::vector<Operation>& crashes) {
  std::vector<Operation> history = subject.history;
  int64_t first = INT64_MAX;
  int64_t last = 0;
  for (const Operation& operation : history) {
    first = std::min(first, operation.invoked);
    last = std::max(last, operation.known() ? operation.returned : operation.invoked);
  }
  for (const Operation& crash : crashes) {
    if (crash.invoked < last && crash.returned > first) history.push_back(crash);
  }
  return history;
}

}  // namespace

void Linear(const Options& options, uint64_t operations, double seconds_between_kills) {
  Dsrv server(options);
  server.Start();
  std::mt19937_64 random(options.seed);
  std::vector<Operation> crashes;
  const auto since = Clock::now();
  Clients clients(server, options.seed, operations);
  auto next_kill = Clock::now() + std::chrono::duration<double>(seconds_between_kills);
  while (!clients.ended()) {
    std::this_thread::sleep_for(milliseconds(1 + random() % 40));
    if (Clock::now() < next_kill) continue;
    Operation crash;
    crash.kind = Kind::kCrash;
    crash.invoked = Now();
    server.Kill();
    server.Start();
    crash.returned = Now();
    crashes.push_back(crash);
    next_kill = Clock::now() + std::chrono::duration<double>(seconds_between_kills);
  }
  const auto& subjects = clients.Join();
  const double recorded = SecondsSince(since);
  std::size_t checked = 0;
  std::size_t across = 0;
  for (const auto& subject : subjects) {
    const std::vector<Operation> history = WithCrashes(*subject, crashes);
    if (history.size() > subject->history.size()) ++across;
    checked += subject->history.size();
    const std::string failure = CheckLinear(history);
    if (!failure.empty()) {
      throw Broken("instance x of namespace " + subject->ns + ": " + failure);
    }
  }
  std::printf(
      "linear: %zu operations of %d clients on %zu instances in %.0f s, with %zu kills (%llu "
      "operations left without an answer, %zu histories across a kill), checked in %.1f s: every "
      "history has a sequential order\n",
      checked, kClients, subjects.size(), recorded, crashes.size(),
      static_cast<unsigned long long>(clients.unknown()), across,
      SecondsSince(since) - recorded);
}

}  // namespace dfsmr::chaos
