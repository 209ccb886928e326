#include "dsrv/process.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <cstdio>

#include "dsrv/access/secret_key_file.h"
#include "dsrv/runtime/log.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

// gRPC's own log goes into ours.
void GrpcLog(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::warn
                     : args->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::debug
                                                               : spdlog::level::trace;
  spdlog::log(level, "grpc: {}", OneLine(args->message));
}

// The log level of the flags and their file as they are now. Certificates, tokens and keys need no
// order: they are read again when their files change.
void Reload(const ReadFlags& read) {
  auto flags = read();
  auto log = flags ? SetLogLevel(flags->log_level) : Result<Ok>(flags.error());
  if (!log) return spdlog::error("SIGHUP: all stays as it was: {}", log.error().message);
  spdlog::info("SIGHUP: the log level is {}", flags->log_level);
}

}  // namespace

int Fail(const Error& error) {
  std::fprintf(stderr, "dsrv: %s\n", error.message.c_str());
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

Result<Ok> StartLogs(const Flags& flags) {
  auto log = StartLog(flags.log_level, flags.log_format == "json");
  if (log) gpr_set_log_function(GrpcLog);
  return log;
}

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

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

int AwaitStop(const std::function<int()>& wait, const std::function<void()>& tell,
              const ReadFlags& read) {
  while (true) {
    const int signal = wait();
    if (signal == SIGUSR1) {
      tell();
    } else if (signal == SIGHUP) {
      Reload(read);
    } else {
      return signal;
    }
  }
}

Result<SecretKeysPtr> ReadSecretKeys(const Flags& flags) {
  if (flags.secret_key_file.empty()) return SecretKeysPtr();
  auto keys = ReadSecretKeyFile(flags.secret_key_file);
  if (!keys) return keys.error();
  return SecretKeysPtr(std::make_shared<const SecretKeys>(*std::move(keys)));
}

}  // namespace dfsmr
