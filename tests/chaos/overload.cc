#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "tests/chaos/chaos.h"
#include "tests/chaos/load.h"
#include "tests/chaos/raw.h"

namespace dfsmr::chaos {
namespace {

constexpr double kTimesCapacity = 10;
constexpr double kRssMostMib = 1'024;       // the server's, whatever comes
constexpr double kDeadlineSeconds = 10;     // of the calls that are too many
// The 99th percentile of what is accepted of other clients: what waits for a second is refused, and
// comes to that in the turns under way and for want of CPU.
constexpr double kOthersMostMs = 5'000;
constexpr double kRecoveredShare = 0.7;     // of the rate before it
constexpr double kRecoverySeconds = 10;

// Instances that end where they start, so that what is resident is the server's and not the load's;
// and one that waits for workers.
const char kMachines[] = R"(
id: load
nodes: {end: {start: true, final: true}}
---
id: job
nodes:
  work: {start: true, timeout_strategy: fixed, timeout: 600, transitions: {again: work, ok: end}}
  end: {final: true}
)";

void RaiseFileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

template <typename... Values>
std::string Format(const char* format, Values... values) {
  char text[600];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

template <typename... Values>
void Say(const char* format, Values... values) {
  std::printf("%s\n", Format(format, values...).c_str());
  std::fflush(stdout);
}

void Require(bool holds, const std::string& what) {
  if (!holds) throw Broken(what);
}

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

double RateOf(const Dsrv& server, const std::string& prefix, double seconds, double* p99_ms) {
  StartLoad load(server, {.prefix = prefix});
  const auto since = Clock::now();
  Sleep(seconds);
  const Outcomes outcomes = load.Stop();
  Require(outcomes.accepted > 0, "nothing was accepted of a load that waits for its answers: " +
                                     outcomes.first_other + outcomes.refusal);
  if (p99_ms != nullptr) *p99_ms = Percentile(outcomes.latency_ms, 0.99);
  return static_cast<double>(outcomes.items) / SecondsSince(since);
}

// Calls beside the abuse: somebody else's, each of so many callers one at a time.
class Others {
 public:
  explicit Others(const std::string& address, int callers = 1) {
    for (int i = 0; i < callers; ++i) {
      grpc::ChannelArguments own;
      own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      threads_.emplace_back([this, channel = grpc::CreateCustomChannel(
                                       address, grpc::InsecureChannelCredentials(), own)] {
        Run(channel);
      });
    }
  }
  ~Others() { Stop(); }

  // Of those that were accepted, in milliseconds.
  double P99() {
    Stop();
    Require(failed_.empty(), "a call beside it failed: " + failed_);
    Require(!latency_ms_.empty(), Format("beside it %zu calls were accepted, and %llu refused",
                                           latency_ms_.size(),
                                           static_cast<unsigned long long>(refused_)));
    return Percentile(latency_ms_, 0.99);
  }
  std::size_t accepted() const { return latency_ms_.size(); }
  uint64_t refused() const { return refused_; }

 private:
  void Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void Run(const std::shared_ptr<grpc::Channel>& channel) {
    Stub stub(channel);
    for (; !stopping_; std::this_thread::sleep_for(milliseconds(5))) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      context.set_wait_for_ready(true);  // gRPC 1.51 may fail to connect by chance
      v1::StartRequest request;
      v1::StartResponse response;
      request.set_machine("load");
      const auto since = Clock::now();
      const grpc::Status status = stub.Start(&context, request, &response);
      std::lock_guard lock(mutex_);
      if (status.ok()) {
        latency_ms_.push_back(static_cast<float>(SecondsSince(since) * 1e3));
      } else if (ReasonOf(context) == "OVERLOADED") {
        ++refused_;
      } else {
        failed_ = status.error_message();
      }
    }
  }

  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::vector<float> latency_ms_;
  uint64_t refused_ = 0;
  std::string failed_;
  std::vector<std::thread> threads_;
};

// The same in a process of its own, for so long.
class OtherProcess {
 public:
  OtherProcess(const Dsrv& server, double seconds)
      : child_({std::filesystem::canonical("/proc/self/exe"), "beside", "--address",
                server.address(), "--seconds", std::to_string(seconds)},
               server.path() + "/beside") {}

  // Waits for its end.
  double P99() {
    while (child_.Running()) Sleep(0.01);
    unsigned long long accepted = 0;
    unsigned long long refused = 0;
    double p99_ms = 0;
    std::istringstream figures(child_.Output());
    Require(static_cast<bool>(figures >> accepted >> refused >> p99_ms),
            "calls beside it failed: " + child_.Output());
    told_ = Format("others' calls: %llu accepted, p99 %.0f ms, %llu refused with OVERLOADED",
                   accepted, p99_ms, refused);
    return p99_ms;
  }
  const char* told() const { return told_.c_str(); }

 private:
  bench::Child child_;
  std::string told_;
};

void TenTimes(Dsrv* server, double seconds) {
  double unloaded_p99_ms = 0;
  const double before = RateOf(*server, "before-", std::max(2.0, seconds / 6), &unloaded_p99_ms);
  Outcomes outcomes;
  double peak_mib = 0;
  double others_p99_ms = 0;
  {
    PeakMemory memory(server->pid());
    OtherProcess others(*server, seconds);
    StartLoad load(*server, {.prefix = "burst-",
                             .batches_per_s = kTimesCapacity * before / 100,
                             .deadline_seconds = kDeadlineSeconds});
    Sleep(seconds);
    outcomes = load.Stop();
    peak_mib = memory.mib();
    others_p99_ms = others.P99();
    Say("overload: beside it %s", others.told());
  }
  Say("overload: capacity %.0f instances/s in batches of 100, p99 %.0f ms; offered %.1f times that "
      "for %.0f s: %llu batches accepted (%.0f instances/s, p50 %.0f ms, p99 %.0f ms), %llu "
      "refused with OVERLOADED, %llu late, %llu not sent by the client; peak RSS %.0f MiB",
      before, unloaded_p99_ms,
      static_cast<double>(outcomes.offered) * 100 / seconds / before, seconds,
      static_cast<unsigned long long>(outcomes.accepted),
      static_cast<double>(outcomes.items) / seconds, Percentile(outcomes.latency_ms, 0.5),
      Percentile(outcomes.latency_ms, 0.99), static_cast<unsigned long long>(outcomes.overloaded),
      static_cast<unsigned long long>(outcomes.late),
      static_cast<unsigned long long>(outcomes.unsent), peak_mib);
  Require(server->Running(), "overload ended the server:\n" + server->log());
  double recovery = 0;
  double after = 0;
  const auto since = Clock::now();
  for (int i = 0; after < kRecoveredShare * before; ++i) {
    Require(SecondsSince(since) < kRecoverySeconds + 1,
            Format("%.0f s after the overload the rate is %.0f/s, before it was %.0f/s",
                   SecondsSince(since), after, before));
    after = RateOf(*server, "after" + std::to_string(i) + "-", 1, nullptr);
    recovery = SecondsSince(since);
  }
  Say("overload: %.0f%% of the rate %.1f s after it", 100 * after / before, recovery);
  Require(outcomes.other == 0, "refused without the right reason: " + outcomes.first_other);
  Require(outcomes.overloaded > 0, "nothing was refused: that was no overload");
  Require(outcomes.refusal.find("try again") != std::string::npos,
          "the refusal does not say what to do: " + outcomes.refusal);
  Require(outcomes.accepted > 0, "nothing was accepted in the overload");
  Require(others_p99_ms < kOthersMostMs, "what was accepted took too long");
  Require(peak_mib < kRssMostMib, "the server took too much memory");
}

// Streams whose clients never read: the feed, work, and answers to reports that are sent on and on.
class Unread {
 public:
  Unread(const Dsrv& server, int watchers) {
    for (int i = 0; i < watchers; ++i) {
      Open(server, "/dfsmr.v1.RunnerService/Changes", [] {
        v1::ChangesRequest request;
        request.set_after("0");
        request.set_follow(true);
        return request.SerializeAsString();
      }());
    }
    v1::WorkRequest work;
    work.mutable_open()->set_machine("job");
    work.mutable_open()->set_max_tasks(10'000);
    Open(server, "/dfsmr.v1.RunnerService/Work", work.SerializeAsString());
    Open(server, "/dfsmr.v1.RunnerService/Work", work.SerializeAsString());
    flood_ = std::thread([this] { Flood(); });
  }
  ~Unread() {
    stopping_ = true;
    for (auto& stream : streams_) stream->context.TryCancel();
    flood_.join();
    for (auto& stream : streams_) {
      grpc::Status status;
      stream->call->Finish(&status, nullptr);
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) continue;
  }
  uint64_t reports() const { return reports_; }

 private:
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericStub> stub;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  };

  void Open(const Dsrv& server, const char* method, const std::string& first) {
    auto stream = std::make_unique<Stream>();
    stream->stub = std::make_unique<grpc::GenericStub>(server.Connect());
    stream->call = stream->stub->PrepareCall(&stream->context, method, &queue_);
    stream->call->StartCall(nullptr);
    Await();
    Write(stream.get(), first);
    streams_.push_back(std::move(stream));
  }

  bool Write(Stream* stream, const std::string& bytes) {
    const grpc::Slice slice(bytes);
    stream->call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    return Await();
  }

  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  // Reports of claims that do not exist, as fast as they are taken.
  void Flood() {
    v1::WorkRequest request;
    for (int i = 0; i < 1'000; ++i) {
      auto* report = request.add_transitions();
      report->set_instance("nobody");
      report->set_transition("ok");
      report->set_claim("1-1-1-1");
    }
    const std::string bytes = request.SerializeAsString();
    while (!stopping_ && Write(streams_.back().get(), bytes)) reports_ += 1'000;
  }

  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> reports_ = 0;
  std::thread flood_;
};

void NobodyReads(Dsrv* server, int watchers, double seconds) {
  {
    Stub stub(server->Connect());
    for (int batch = 0; batch < 40; ++batch) {
      v1::StartBatchRequest request;
      v1::StartBatchResponse response;
      grpc::ClientContext context;
      for (int i = 0; i < 500; ++i) {
        auto* start = request.add_starts();
        start->set_machine("job");
        start->set_params("{\"text\": \"" + std::string(1'000, 'x') + "\"}");
      }
      Require(stub.StartBatch(&context, request, &response).ok(), "StartBatch failed");
    }
  }
  const double before_mib = VitalsOf(server->pid()).rss_mib;
  PeakMemory memory(server->pid());
  Unread unread(*server, watchers);
  StartLoad load(*server, {.prefix = "unread-", .clients = 4});
  OtherProcess others(*server, seconds);
  const double p99_ms = others.P99();
  const Outcomes outcomes = load.Stop();
  Say("overload: %d watchers and 2 Work streams whose clients never read, one of which sent %llu "
      "reports, for %.0f s under load: RSS %.0f MiB, at most %.0f; others' calls p99 %.0f ms",
      watchers, static_cast<unsigned long long>(unread.reports()), seconds, before_mib,
      memory.mib(), p99_ms);
  Require(outcomes.other == 0, "others' calls failed: " + outcomes.first_other);
  Require(memory.mib() < kRssMostMib, "clients that do not read take the server's memory");
  Require(p99_ms < kOthersMostMs, "clients that do not read hold up the others");
}

std::vector<RawConnection> Connections(const Dsrv& server, int count, const std::string& greeting) {
  std::vector<RawConnection> connections;
  for (int i = 0; i < count; ++i) {
    connections.emplace_back(server.port());
    Require(connections.back().open(),
            Format("connection %d of %d: %s", i + 1, count, std::strerror(errno)));
    if (!greeting.empty()) connections.back().Send(greeting);
  }
  return connections;
}

// Of each of them: the server has taken it, and so has sent its greeting.
void AwaitTaken(const std::vector<RawConnection>& connections, double within_seconds) {
  const auto since = Clock::now();
  for (std::size_t i = 0; i < connections.size(); ++i) {
    const double left = std::max(0.0, within_seconds - SecondsSince(since));
    bool ended = false;
    const std::string said = connections[i].Receive(static_cast<int>(1'000 * left), &ended);
    Require(!said.empty(),
            Format("connection %zu of %zu %s", i + 1, connections.size(),
                   ended ? "was hung up on without a greeting"
                         : Format("is not taken after %.0f s", within_seconds).c_str()));
  }
}

void AwaitHungUp(const std::vector<RawConnection>& connections, double within_seconds,
                 const char* whose) {
  const auto since = Clock::now();
  for (std::size_t i = 0; i < connections.size(); ++i) {
    for (bool ended = false; !ended;) {
      const double left = within_seconds - SecondsSince(since);
      Require(left > 0, Format("connection %zu of %zu, %s, is still open after %.0f s", i + 1,
                               connections.size(), whose, within_seconds));
      connections[i].Receive(static_cast<int>(1'000 * left), &ended);
    }
  }
}

void AwaitSockets(const Dsrv& server, int most, double within_seconds) {
  const auto since = Clock::now();
  for (int sockets = 0; (sockets = VitalsOf(server.pid()).sockets) > most; Sleep(0.05)) {
    Require(SecondsSince(since) < within_seconds,
            Format("connections were closed: %.0f s later the server still has %d sockets, of "
                   "which at most %d are for others", within_seconds, sockets, most));
  }
}

void ManyConnections(Dsrv* server, int count) {
  const Vitals before = VitalsOf(server->pid());
  double p99_ms = 0;
  Vitals during;
  {
    const auto connections = Connections(*server, count, kPreface + Settings());
    AwaitTaken(connections, 30);
    OtherProcess others(*server, 2);
    p99_ms = others.P99();
    during = VitalsOf(server->pid());
  }
  AwaitSockets(*server, before.sockets + 20, 30);
  Say("overload: %d connections at once: RSS %.0f MiB, before %.0f; others' calls p99 %.0f ms; "
      "gone with their clients", count, during.rss_mib, before.rss_mib, p99_ms);
  Require(during.rss_mib < kRssMostMib, "connections take too much memory");
  Require(p99_ms < kOthersMostMs, "connections hold up the others");
}

// Clients that have greeted and then are gone without a word, as a machine that loses its power.
void Vanished(Dsrv* server, int count) {
  constexpr double kKeepaliveSeconds = 80;  // a ping each minute, and 20 s for its answer
  const auto connections = Connections(*server, count, kPreface + Settings());
  const auto since = Clock::now();
  AwaitTaken(connections, 10);
  AwaitHungUp(connections, kKeepaliveSeconds + 20, "whose client vanished");
  Say("overload: %d connections whose clients vanished were hung up after %.0f s", count,
      SecondsSince(since));
}

// Clients that connect and say nothing, or half of what they should.
void HalfOpen(Dsrv* server, int count) {
  constexpr double kHandshakeSeconds = 10;
  const auto silent = Connections(*server, count, "");
  const auto halves = Connections(*server, count, kPreface.substr(0, 12));
  const auto since = Clock::now();
  AwaitTaken(silent, kHandshakeSeconds);
  AwaitTaken(halves, kHandshakeSeconds);
  AwaitHungUp(silent, 2 * kHandshakeSeconds + 10, "that says nothing");
  AwaitHungUp(halves, 2 * kHandshakeSeconds + 10, "that says half a greeting");
  Say("overload: %d connections that said nothing and %d that said half a greeting were hung up "
      "after %.0f s", count, count, SecondsSince(since));
}

void PingFlood(const Dsrv& server) {
  const RawConnection connection(server.port());
  Require(connection.open() && connection.Send(kPreface + Settings()), "cannot connect");
  std::string said;
  bool ended = false;
  int pings = 0;
  while (!ended && pings < 100'000 && connection.Send(Ping())) {
    ++pings;
    said += connection.Receive(pings % 10 == 0 ? 1 : 0, &ended);
  }
  for (int i = 0; i < 50 && !ended; ++i) said += connection.Receive(100, &ended);
  Require(said.find("too_many_pings") != std::string::npos,
          "a flood of pings was not told to calm down");
  Require(ended, "a flood of pings was not hung up on");
  Say("overload: a flood of pings was told too_many_pings and hung up on after %d of them", pings);
}

// A server that may not open more files says so, serves those it has, and takes others again later.
void NoMoreFiles(const Options& options, int limit) {
  Dsrv server(options, {}, {"/usr/bin/prlimit", "--nofile=" + std::to_string(limit)});
  server.Start();
  server.Define(kMachines);
  {
    Others others(server.address());
    Sleep(0.2);
    std::vector<RawConnection> connections;
    for (int i = 0; i < 2 * limit; ++i) {
      connections.emplace_back(server.port());
      connections.back().Send(kPreface + Settings());
    }
    const double cpu_us = bench::UsageOf(server.pid()).cpu_us;
    Sleep(1);
    const double share = (bench::UsageOf(server.pid()).cpu_us - cpu_us) / 1e6;
    const double p99_ms = others.P99();
    Require(p99_ms < kOthersMostMs, "a server without files left holds up those it has");
    Require(share < 0.5, Format("a server without files left spins: %.0f%% of a CPU", 100 * share));
    Require(server.log().find("files") != std::string::npos,
            "a server without files left does not say so:\n" + server.log());
  }
  const auto since = Clock::now();
  const auto channel = server.Connect();
  Require(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)),
          "a server that had no files left takes no connections any more");
  Say("overload: at the limit of %d files the server says so, serves on, and takes connections "
      "again %.1f s after others have closed", limit, SecondsSince(since));
}

}  // namespace

void Beside(const std::string& address, int callers, double seconds) {
  Others others(address, callers);
  Sleep(seconds);
  const double p99_ms = others.P99();
  std::printf("%zu %llu %.1f\n", others.accepted(),
              static_cast<unsigned long long>(others.refused()), p99_ms);
}

void Overload(const Options& options, double seconds, bool brief) {
  RaiseFileLimit();
  NoMoreFiles(options, 400);
  // Caches of a size that is soon full, so that what grows beyond them shows.
  Dsrv server(options, {"--cache-mb", "64"});
  server.Start();
  server.Define(kMachines);
  TenTimes(&server, seconds);
  NobodyReads(&server, brief ? 20 : 200, brief ? 3 : 30);
  PingFlood(server);
  ManyConnections(&server, brief ? 1'000 : 10'000);
  HalfOpen(&server, brief ? 50 : 1'000);
  if (!brief) Vanished(&server, 100);
  Require(server.Running(), "the server ended:\n" + server.log());
}

}  // namespace dfsmr::chaos
