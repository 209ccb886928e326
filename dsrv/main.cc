// dsrv: flags → objects → run → drain on SIGTERM.
#include <absl/synchronization/mutex.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "dsrv/backup/restore.h"
#include "dsrv/backup/verify.h"
#include "dsrv/listen.h"
#include "dsrv/process.h"
#include "dsrv/runtime/memory.h"
#include "dsrv/secretless.h"
#include "dsrv/served.h"
#include "dsrv/shared.h"
#include "dsrv/shared_store.h"
#include "dsrv/store_commands.h"
#include "dsrv/supervisor.h"
#include "dsrv/web.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

// Nobody knows what a store holds that has failed: no answer, no clean-up, no second try.
[[noreturn]] void StopAtOnce(const Error& error) {
  spdlog::critical(
      "the store failed: {}; the outcome of what was being written is unknown, so the server stops "
      "here. Restart it when the disk is well and has room: it goes on from what is on disk",
      error.message);
  std::_Exit(1);
}

// Nothing new comes in, nothing more is handed out, what is under way is answered.
void Drain(grpc::Server& server, Served& served, Web& web, Duration grace) {
  const auto until = std::chrono::steady_clock::now() + grace;
  web.Drain();
  SetServing(server, false);
  served.Drain();
  if (served.backend().gate.WaitEmpty(until)) return web.AwaitAnswers(until);
  spdlog::warn("some calls did not end within the grace period; they are cut off");
  server.Shutdown(std::chrono::system_clock::now());
  server.Wait();
  web.AwaitAnswers(std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
}

Result<std::unique_ptr<RocksStore>> OpenStore(const Flags& flags) {
  return RocksStore::Open({.path = flags.data,
                           .verify_checksums = flags.verify,
                           .cache_mb = flags.cache_mb,
                           .memtable_mb = flags.memtable_mb});
}

int RunRestore(const Flags& flags) {
  const auto restored = Restore(flags.restore, flags.data);
  if (!restored) {
    std::fprintf(stderr, "dsrv: %s\n", restored.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", restored->c_str());
  return 0;
}

// dsrv verify PATH.
int RunVerify(int argc, char** argv) {
  const std::string path = argc == 3 ? argv[2] : "";
  if (path.empty() || path.starts_with('-')) {
    const bool help = path == "--help" || path == "-h" || path == "-help";
    std::fprintf(help ? stdout : stderr,
                 "Usage: dsrv verify DIR|FILE\n\nReads all of a store that is not served, or of a "
                 "backup, and prints what is wrong.\nExits with 1 when anything is.\n");
    return help ? 0 : 2;
  }
  const auto found = VerifyStore(path, CompileStored);
  if (!found) {
    Error error = found.error();
    error.message = path + ": " + error.message;
    return Fail(error);
  }
  for (const std::string& problem : found->problems) std::printf("%s\n", OneLine(problem).c_str());
  std::printf(
      "%s: read %s: %s\n", path.c_str(), found->read.c_str(),
      found->wrong == 0 ? "all is well" : (std::to_string(found->wrong) + " wrong").c_str());
  return found->wrong == 0 ? 0 : 1;
}

void LogStart(const Flags& flags, int port, const Web& web, const Engine& engine, uint64_t life) {
  spdlog::info(
      "dsrv listens on {} port={} http={} tls={} auth={} data={} epoch={} last_change={} "
      "incarnation={:x}",
      flags.addr, port, web.address(),
      flags.tls.empty()             ? "off"
      : flags.tls.client_ca.empty() ? "on"
                                    : "mutual",
      flags.auth ? "tokens" : "off", flags.data, engine.epoch(), engine.last_seq(), life);
}

int Run(const Flags& flags, const ReadFlags& read) {
  const sigset_t signals = BlockSignals();
  RaiseFileLimit();
  auto log = StartLogs(flags);
  if (!log) return Fail(log.error());
  auto clock = [clock = std::make_shared<ServerClock>()] { return (*clock)(); };
  auto tls = flags.tls.empty() ? Result<Timestamp>(kNever) : CheckTls(flags.tls, clock());
  if (!tls) return Fail(tls.error());
  TlsExpiry tls_expiry = *tls;
  auto keys = ReadSecretKeys(flags);
  if (!keys) return Fail(keys.error());
  auto trails = Trails::Open(flags, clock);
  if (!trails) return Fail(trails.error());
  auto store = OpenStore(flags);
  if (!store) return Fail(store.error());
  const RocksStore& embedded = **store;
  auto opened = Served::Open({flags, clock, tls_expiry, *trails, *keys, StopAtOnce},
                             {*std::move(store), &embedded, embedded.incarnation(), flags.data});
  if (!opened) return Fail(opened.error());
  Served& served = **opened;
  ReturnFreedMemory();  // the store's log was read into memory, and into tables from there

  auto acceptor = Acceptor::Listen(flags.addr);
  if (!acceptor) return Fail(acceptor.error());
  auto web = Web::Listen(flags);
  if (!web) return Fail(web.error());
  served.Start();
  auto server = Listen(
      flags,
      [&served](grpc::ServerBuilder& builder) {
        SetReflection(builder, served.reflection());
        for (const auto& service : served.services()) builder.RegisterService(service.get());
      },
      acceptor->get());
  if (!server) {
    served.Stop();
    return Fail({Code::kUnavailable, Reason::kNone, "gRPC does not start"});
  }
  SetServing(*server, true);
  LogStart(flags, (*acceptor)->port(), **web, served.engine(), served.backend().life);
  (*web)->Bind(served.behind());
  (*web)->Serve(*server, [] { return true; });

  const TlsWatch tls_watch(flags.tls, clock, tls_expiry);
  auto supervisor = std::make_unique<Supervisor>(
      [&served](std::function<void()> well) { served.Turn(std::move(well)); });
  const int signal = AwaitStop(
      [&signals] {
        int next = 0;
        sigwait(&signals, &next);
        return next;
      },
      [&served] { spdlog::info("meter {}", served.backend().loop.meter().Text()); }, read);
  supervisor.reset();
  spdlog::info("dsrv stops: {}; grace={}s", strsignal(signal), Seconds(flags.grace));
  Drain(*server, served, **web, flags.grace);
  served.Stop();
  spdlog::info("dsrv has stopped");
  // Until the very end the gate answers calls with UNAVAILABLE. gRPC's own shutdown would answer
  // CANCELLED, and wait seconds for idle clients to hang up.
  std::_Exit(0);
}

}  // namespace
}  // namespace dfsmr

int main(int argc, char** argv) {
  // Debian's Abseil looks for lock cycles in release builds, too; gRPC pays for it on every call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  dfsmr::Arguments arguments(argc, argv);
  argc = arguments.count();
  argv = arguments.values();
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "verify") return dfsmr::RunVerify(argc, argv);
  if (word == "migrate") return dfsmr::RunMigrate(argc, argv);
  if (word == "store") return dfsmr::RunStoreCommand(argc, argv);
  const auto read = [argc, argv] { return dfsmr::ParseFlags(argc, argv); };
  auto flags = read();
  if (!flags) return dfsmr::Fail(flags.error());
  if (!flags->store.url.empty()) {
    return dfsmr::RunShared(
        *flags, read,
        [&flags](const std::string& known) { return dfsmr::OpenShared(*flags, known); }, argv);
  }
  return flags->restore.empty() ? dfsmr::Run(*flags, read) : dfsmr::RunRestore(*flags);
}
