// dsrv: flags → objects → run → drain on SIGTERM.
#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "dsrv/access/acceptor.h"
#include "dsrv/access/access.h"
#include "dsrv/access/audit.h"
#include "dsrv/access/secret_key_file.h"
#include "dsrv/access/tls.h"
#include "dsrv/backup/backups.h"
#include "dsrv/backup/restore.h"
#include "dsrv/backup/verify.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/changes_stream.h"
#include "dsrv/calls/feed.h"
#include "dsrv/calls/own_names.h"
#include "dsrv/calls/secrets.h"
#include "dsrv/calls/services.h"
#include "dsrv/feed/changes.h"
#include "dsrv/flags.h"
#include "dsrv/logs/logs.h"
#include "dsrv/loop/disk.h"
#include "dsrv/loop/loop.h"
#include "dsrv/runtime/memory.h"
#include "dsrv/supervisor.h"
#include "dsrv/web.h"
#include "dsrv/wire/bulks.h"
#include "fsm/base/limits.h"
#include "fsm/base/mutex.h"
#include "fsm/base/names.h"
#include "fsm/schema/schema.h"
#include "fsm/yaml/definitions.h"
#include "storage/rocks/rocks_store.h"
#include "storage/zones/zones.h"

namespace dfsmr {
namespace {

// The wall clock, but never backwards: when it is set back, time goes on at its own pace until the
// wall clock has caught up. Any thread.
class ServerClock {
 public:
  Timestamp operator()() {
    const auto wall = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
    const auto steady = std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
    const Lock lock(mutex_);
    ahead_ = std::max(ahead_, wall - steady);
    return ahead_ + steady;
  }

 private:
  Mutex mutex_;
  // The wall clock when the steady one was at zero, as last reckoned.
  Timestamp ahead_ GUARDED(mutex_);
};

Error NotSound(const Parsed& parsed) {
  std::string message;
  for (const Diagnostic& diagnostic : parsed.diagnostics) message += Format(diagnostic) + "; ";
  return {Code::kDataLoss, Reason::kBadMachine, message};
}

// Definitions in the store were accepted once; they are compiled again at each start.
Result<Machine> CompileSource(std::string_view source) {
  Parsed parsed = ParseStored(source);
  if (parsed.ok() && parsed.definitions.size() == 1) {
    return std::move(parsed.definitions.front());
  }
  return NotSound(parsed);
}
Result<Document> ParseDocument(std::string_view source, const FindZone& zones) {
  Parsed parsed = ParseStored(source, zones);
  if (parsed.ok() && parsed.documents.size() == 1) return std::move(parsed.documents.front());
  return NotSound(parsed);
}

// gRPC's own log goes into ours.
void GrpcLog(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::warn
                     : args->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::debug
                                                               : spdlog::level::trace;
  spdlog::log(level, "grpc: {}", OneLine(args->message));
}

std::shared_ptr<const ParamsCheck> CompileSchema(std::string_view schema,
                                                 std::string_view subject) {
  std::vector<SchemaProblem> problems;
  return CompileParamsSchema(schema, subject, &problems);
}

using ReadFlags = std::function<Result<Flags>()>;

int Fail(const Error& error) {
  std::fprintf(stderr, "dsrv: %s\n", error.message.c_str());
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

int FailOn(const std::string& data, Error error) {
  error.message = data + ": " + error.message;
  return Fail(error);
}

// Nobody knows what a store holds that has failed: no answer, no clean-up, no second try.
[[noreturn]] void StopAtOnce(const Error& error) {
  spdlog::critical(
      "the store failed: {}; the outcome of what was being written is unknown, so the server stops "
      "here. Restart it when the disk is well and has room: it goes on from what is on disk",
      error.message);
  std::_Exit(1);
}

using Services = std::vector<std::unique_ptr<grpc::Service>>;

std::unique_ptr<grpc::Server> Listen(const Flags& flags, const Services& services,
                                     Acceptor* acceptor) {
  grpc::EnableDefaultHealthCheckService(true);
  if (flags.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  auto handler = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      flags.tls.empty() ? grpc::InsecureServerCredentials() : TlsCredentials(flags.tls));
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMessage));
  // Clients may ping as often as every 10 s; dead ones are noticed within 80 s.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Hang up on clients that connect and then say nothing.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits::kStreamsPerConnection));
  for (const auto& service : services) builder.RegisterService(service.get());
  auto server = builder.BuildAndStart();
  if (!server) return nullptr;
  for (const char* name : {"dfsmr.v1.RunnerService", "dfsmr.v1.ScheduleService"}) {
    server->GetHealthCheckService()->SetServingStatus(name, true);
  }
  acceptor->Serve([handler = std::shared_ptr(std::move(handler))](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    handler->HandleNewConnection(&parameters);
  });
  return server;
}

// Each connection is an open file, and shells allow few of them.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// These signals are waited for, not handled: nothing runs in a signal handler.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// The log level of the flags and their file as they are now. Certificates, tokens and keys need no
// order: they are read again when their files change.
void Reload(const ReadFlags& read) {
  auto flags = read();
  auto log = flags ? SetLogLevel(flags->log_level) : Result<Ok>(flags.error());
  if (!log) return spdlog::error("SIGHUP: all stays as it was: {}", log.error().message);
  spdlog::info("SIGHUP: the log level is {}", flags->log_level);
}

// Returns the signal that stops the server. SIGUSR1 logs what the server has done, SIGHUP reads
// again what can change while it serves.
int AwaitStop(const sigset_t& signals, const Meter& meter, const ReadFlags& read) {
  for (int signal = 0;;) {
    sigwait(&signals, &signal);
    if (signal == SIGUSR1) {
      spdlog::info("meter {}", meter.Text());
    } else if (signal == SIGHUP) {
      Reload(read);
    } else {
      return signal;
    }
  }
}

// Nothing new comes in, nothing more is handed out, what is under way is answered.
void Drain(grpc::Server& server, const Backend& backend, Web& web, Duration grace) {
  const auto until = std::chrono::steady_clock::now() + grace;
  web.Drain();
  server.GetHealthCheckService()->SetServingStatus(false);
  backend.gate.Close();
  backend.loop.Post({.run =
                         [&loop = backend.loop](Engine& engine) {
                           engine.StopHandingOut();
                           loop.HaltClock(Stopping());
                         },
                     .drop = [] {},
                     .owed = true});
  backend.watchers.EndAll();
  backend.logs.EndAll();
  backend.backups.EndAll();
  if (backend.gate.WaitEmpty(until)) return web.AwaitAnswers(until);
  spdlog::warn("some calls did not end within the grace period; they are cut off");
  server.Shutdown(std::chrono::system_clock::now());
  server.Wait();
  web.AwaitAnswers(std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
}

// Null where there is no audit trail.
Result<std::unique_ptr<Audit>> OpenAudit(const Flags& flags,
                                         const std::function<Timestamp()>& clock) {
  if (!flags.auth && flags.audit_log.empty()) return std::unique_ptr<Audit>();
  return Audit::Open(flags.audit_log, clock);
}

// The trail of who reads secrets, where there is no other: in the log.
Result<std::unique_ptr<Audit>> OpenTold(const Audit* audit,
                                        const std::function<Timestamp()>& clock) {
  return audit ? std::unique_ptr<Audit>() : Audit::Open("", clock);
}

// Null where there is no file of keys: then nothing can be sealed.
Result<SecretKeysPtr> ReadSecretKeys(const Flags& flags) {
  if (flags.secret_key_file.empty()) return SecretKeysPtr();
  auto keys = ReadSecretKeyFile(flags.secret_key_file);
  if (!keys) return keys.error();
  return SecretKeysPtr(std::make_shared<const SecretKeys>(*std::move(keys)));
}

void LogResealed(const std::map<std::string, uint64_t>& by_key) {
  std::string counts;
  for (const auto& [key, count] : by_key) {
    counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " by " + key;
  }
  spdlog::info("secrets: all were looked at and sealed anew; versions sealed: {}", counts);
}

// The job runs in the pool; what it answers goes to the engine by mail.
void Offload(Pool& pool, Mailbox& mailbox, EngineOptions::Job job) {
  pool.Post([&mailbox, job = std::move(job)] {
    auto then = job();
    if (!then) return;
    mailbox.Post(
        {.run = [then = std::move(then)](Engine&) { then(); }, .drop = [] {}, .owed = true});
  });
}

Result<std::unique_ptr<Engine>> OpenEngine(const Flags& flags, Store& store, Pool& pool,
                                           Mailbox& mailbox, Logs& logs, const FindZone& zones,
                                           Access* const& access, SecretKeysPtr keys,
                                           Timestamp now) {
  return Engine::Open(
      store,
      {.retention = flags.retention,
       .cached_instances = flags.cached_instances,
       .virtual_clock = flags.virtual_clock.has_value(),
       .compile = CompileSource,
       .parse_document = [zones](std::string_view text) { return ParseDocument(text, zones); },
       .own_machine = OwnMachine,
       .own_document = OwnDocument,
       .own_flow = OwnFlow,
       .parse_flow = ToFlow,
       .schema = CompileSchema,
       .offload = [&](EngineOptions::Job job) { Offload(pool, mailbox, std::move(job)); },
       .closed_namespaces = flags.closed_namespaces,
       .quotas = flags.quotas,
       .tokens_gone =
           [&access](const std::string& ns) {
             if (access) access->RevokeAll(ns);
           },
       .secret_keys = std::move(keys),
       .random_bytes = RandomBytes,
       .secrets_resealed = LogResealed,
       .find_for_bulk = FindForBulk,
       .removed = [&logs](const std::string& ns, const std::string& id) { logs.Removed(ns, id); }},
      flags.virtual_clock.value_or(now));
}

Result<std::unique_ptr<Access>> OpenAccess(const Flags& flags,
                                           const std::function<Timestamp()>& clock,
                                           const Engine& engine, Audit* audit, Audit* told) {
  return Access::Open({.asks = flags.auth,
                       .admin_token_file = flags.admin_token_file,
                       .mutual_tls = !flags.tls.client_ca.empty() || !flags.http.client_ca.empty(),
                       .told = told,
                       .clock = clock},
                      engine.reader().store, engine.reader().partition, audit);
}

Result<std::unique_ptr<RocksStore>> OpenStore(const Flags& flags) {
  return RocksStore::Open({.path = flags.data,
                           .verify_checksums = flags.verify,
                           .cache_mb = flags.cache_mb,
                           .memtable_mb = flags.memtable_mb});
}

Backups::Options BackupOptions(const Flags& flags, const std::function<Timestamp()>& clock,
                               PartitionId partition, uint64_t life) {
  return {.data = flags.data,
          .version = kVersion,
          .clock = clock,
          .partition = partition,
          .life = life,
          .every = flags.backup_every,
          .to = flags.backup_to,
          .keep = flags.backup_keep};
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
  const auto found = VerifyStore(path, CompileSource);
  if (!found) return FailOn(path, found.error());
  for (const std::string& problem : found->problems) std::printf("%s\n", OneLine(problem).c_str());
  std::printf(
      "%s: read %s: %s\n", path.c_str(), found->read.c_str(),
      found->wrong == 0 ? "all is well" : (std::to_string(found->wrong) + " wrong").c_str());
  return found->wrong == 0 ? 0 : 1;
}

void LogStart(const Flags& flags, int port, const Web& web, const Engine& engine,
              uint64_t incarnation) {
  spdlog::info(
      "dsrv listens on {} port={} http={} tls={} auth={} data={} epoch={} last_change={} "
      "incarnation={:x}",
      flags.addr, port, web.address(),
      flags.tls.empty()             ? "off"
      : flags.tls.client_ca.empty() ? "on"
                                    : "mutual",
      flags.auth ? "tokens" : "off", flags.data, engine.epoch(), engine.last_seq(), incarnation);
}

void LogRefusals(const Refusals& refusals) {
  for (const auto& [reason, count] : refusals.Counts()) {
    spdlog::info("refused in all: {} {}", reason, count);
  }
}

// Logs go before anything is refused for want of room.
Room Look(Disk& disk, Logs& logs) {
  const Room room = disk.Look();
  return room == Room::kScarce && logs.GiveWay() ? Room::kAmple : room;
}

int Run(const Flags& flags, const ReadFlags& read) {
  const sigset_t signals = BlockSignals();
  RaiseFileLimit();
  auto log = StartLog(flags.log_level, flags.log_format == "json");
  if (!log) return Fail(log.error());
  gpr_set_log_function(GrpcLog);

  auto clock = [clock = std::make_shared<ServerClock>()] { return (*clock)(); };
  auto tls = flags.tls.empty() ? Result<Timestamp>(kNever) : CheckTls(flags.tls, clock());
  if (!tls) return Fail(tls.error());
  auto audit = OpenAudit(flags, clock);
  if (!audit) return Fail(audit.error());
  auto told = OpenTold(audit->get(), clock);
  if (!told) return Fail(told.error());
  auto keys = ReadSecretKeys(flags);
  if (!keys) return Fail(keys.error());
  SecretKeyring ring;
  ring.Set(*keys);

  auto store = OpenStore(flags);
  if (!store) return Fail(store.error());
  Pool pool(2);
  Mailbox mailbox;
  Zones zones;
  const FindZone find_zone = [&zones](std::string_view name) { return zones.Find(name); };
  const auto reserve = flags.min_free_mb ? std::optional(*flags.min_free_mb << 20) : std::nullopt;
  Logs logs({.path = std::filesystem::path(flags.data) / "logs",
             .bytes = flags.logs_mb << 20,
             .clock = clock,
             .scarce = [&flags, reserve] { return NearlyScarce(flags.data, reserve); }});
  Access* opened = nullptr;  // the engine is there before it
  auto engine = OpenEngine(flags, **store, pool, mailbox, logs, find_zone, opened, *keys, clock());
  if (!engine) return FailOn(flags.data, engine.error());
  auto access = OpenAccess(flags, clock, **engine, audit->get(), told->get());
  if (!access) return Fail(access.error());
  opened = access->get();
  ReturnFreedMemory();  // the store's log was read into memory, and into tables from there

  const uint64_t life = (*store)->incarnation() & UINT32_MAX;  // enough to tell two lives apart
  Changes changes(**store, {(*engine)->reader().partition, (*engine)->last_seq(), life}, pool,
                  SerialiseChange);
  std::mt19937_64 entropy{std::random_device{}()};
  Disk disk(flags.data, reserve);
  std::atomic<Room> room = Room::kAmple;  // as last looked at
  Loop loop(**engine, **store, mailbox,
            {.clock = clock,
             .virtual_clock = flags.virtual_clock.has_value(),
             .entropy = [&entropy] { return entropy(); },
             .room = [&] { return room = Look(disk, logs); },
             .publish = [&changes](auto feed) { changes.Publish(std::move(feed)); },
             .trimmed = [&changes](uint64_t first) { changes.Trim(first); },
             .fail = StopAtOnce});
  Backups backups(BackupOptions(flags, clock, (*engine)->reader().partition, life), **store,
                  logs.kept());
  auto acceptor = Acceptor::Listen(flags.addr);
  if (!acceptor) return Fail(acceptor.error());
  auto web = Web::Listen(flags);
  if (!web) return Fail(web.error());
  Gate gate;
  Watchers watchers;
  Refusals refusals;
  const ServerFacts facts{kVersion, flags.addr, flags.data, clock(), *tls};
  const Backend backend{(*engine)->reader(),
                        loop,
                        changes,
                        watchers,
                        pool,
                        gate,
                        **access,
                        refusals,
                        clock,
                        find_zone,
                        logs,
                        backups,
                        ring,
                        !flags.tls.empty(),
                        life,
                        &facts};
  const Services services = MakeServices(backend, flags.compat);
  logs.Start((*engine)->reader(), loop);
  backups.Start(loop);
  auto server = Listen(flags, services, acceptor->get());
  if (!server) logs.Stop();
  if (!server) return Fail({Code::kUnavailable, Reason::kNone, "gRPC does not start"});
  LogStart(flags, (*acceptor)->port(), **web, **engine, life);
  (*web)->Serve(*server, backend, [&room] { return room.load(); });

  const TlsWatch tls_watch(flags.tls, clock);
  SetSecretKeys(loop, ring, *keys);
  const SecretKeyWatch key_watch(flags.secret_key_file, *keys, [&](SecretKeysPtr changed) {
    SetSecretKeys(loop, ring, std::move(changed));
  });
  auto supervisor = std::make_unique<Supervisor>(loop);
  const int signal = AwaitStop(signals, loop.meter(), read);
  supervisor.reset();
  spdlog::info("dsrv stops: {}; grace={}s", strsignal(signal), Seconds(flags.grace));
  Drain(*server, backend, **web, flags.grace);
  backups.Stop();
  pool.Stop();
  loop.Stop();
  logs.Stop();
  LogRefusals(refusals);
  store->reset();
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
  if (argc > 1 && std::string_view(argv[1]) == "verify") return dfsmr::RunVerify(argc, argv);
  const auto read = [argc, argv] { return dfsmr::ParseFlags(argc, argv); };
  auto flags = read();
  if (!flags) return dfsmr::Fail(flags.error());
  return flags->restore.empty() ? dfsmr::Run(*flags, read) : dfsmr::RunRestore(*flags);
}
