#include "dcli/call/context.h"

#include <pwd.h>
#include <unistd.h>

#include "dcli/text/json.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

struct Hint {
  Reason reason;
  std::string_view text;
};

constexpr Hint kHints[] = {
    {Reason::kNoSuchMachine, "dcli machines lists what is defined"},
    {Reason::kNoSuchInstance,
     "dcli instances lists what there is; --namespace names another namespace"},
    {Reason::kNoSuchNode, "dcli show INSTANCE and dcli machines MACHINE list what there is"},
    {Reason::kIllegalTransition, "dcli show INSTANCE says where it stands and what leads on"},
    {Reason::kStaleClaim,
     "a report, a timeout or an operator was first; dcli history INSTANCE tells"},
    {Reason::kNotHeld, "dcli show INSTANCE tells what is held, and how it goes on"},
    {Reason::kInstanceStopped, "dcli history INSTANCE tells how it ended"},
    {Reason::kCancelling,
     "dcli show INSTANCE says what it waits for; cancel --force does not wait"},
    {Reason::kInstanceExists, "dcli show INSTANCE shows the one that has this id"},
    {Reason::kAmbiguousNode, "say which with --node; dcli show INSTANCE lists where it stands"},
    {Reason::kSupersededVersion, "start the latest version: leave out @VERSION"},
    {Reason::kCursorExpired, "--after 0 reads from the oldest change that is kept"},
    {Reason::kOverloaded, "the server has too much to do: try again a little later"},
    {Reason::kDiskFull, "make room on the server's disk; it goes on by itself then"},
    {Reason::kNotReady, "the server is starting or stopping: try again a little later"},
    {Reason::kStoreFailed, "the server could not write to its disk: look at its log"},
    {Reason::kTooLarge, "the message names the limit"},
    {Reason::kBadToken,
     "--token-file FILE, DFSMR_TOKEN_FILE or DFSMR_TOKEN give it; an admin makes one: "
     "dcli token create"},
    {Reason::kNotAllowed, "dcli token whoami says what your token may do"},
    {Reason::kNoSuchToken, "dcli token list shows their ids"},
    {Reason::kNoSuchSchedule, "dcli schedules lists what is defined"},
    {Reason::kNoSuchNamespace, "dcli namespace list shows those that you may see"},
    {Reason::kNamespaceExists, "dcli namespace set changes its settings"},
    {Reason::kNamespaceFrozen, "dcli namespace thaw NAME lets it go on"},
    {Reason::kNotFrozen, "dcli namespace freeze NAME --wait"},
    {Reason::kNamespaceDeleting, "dcli namespace show NAME says how far it is"},
    {Reason::kNoSuchSecret, "dcli secret list shows their names and versions"},
    {Reason::kSecretsLocked, "dsrv --secret-key-file FILE names the file with the keys"},
    {Reason::kQuotaExceeded, "dcli namespace show NAME prints use and quotas"},
    {Reason::kNoSuchTrigger, "dcli triggers lists what is defined"},
    {Reason::kNoSuchLimit, "dcli limits lists what there is"},
    {Reason::kNoSuchGroup, "dcli groups lists what there is"},
    {Reason::kNoSuchAgent, "dcli agents lists those that there are"},
    {Reason::kNotVirtual, "start dsrv with --virtual-clock TIME and a data directory of its own"},
    {Reason::kAuditFailed, "the server cannot write its audit log: look at its log"},
};

constexpr size_t kStatusColumns = 79;

std::string HostName() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

}  // namespace

Result<Ok> Context::Apply(const Globals& globals) {
  const auto wanted = ParseFormat(globals.output);
  if (!wanted) return wanted.error();
  const auto timeout = ParseDuration(globals.timeout);
  if (!timeout) return timeout.error();
  if (globals.server.empty()) return BadUsage("--server is empty: it takes HOST:PORT");
  format = *wanted;
  name_space = globals.name_space;
  look = LookOf(STDOUT_FILENO, globals.no_color);
  err_look = LookOf(STDERR_FILENO, globals.no_color);
  const auto credentials = CheckCredentials(globals.credentials, globals.server);
  if (!credentials) return credentials.error();
  client = std::make_unique<Client>(globals.server, *timeout, globals.credentials);
  return Ok{};
}

bool Context::Print(const google::protobuf::Message& message) {
  if (format != OutputFormat::kJson && format != OutputFormat::kYaml) return false;
  const auto json = JsonOf(message);
  if (!json) {
    incomplete = true;
    Fail(kRefused, json.error().message, "-o table shows it");
  } else if (format == OutputFormat::kJson) {
    out << *json << '\n';
  } else {
    out << YamlOf(*json);
  }
  return true;
}

bool Context::PrintOne(const google::protobuf::Message& message) {
  if (format == OutputFormat::kYaml) out << "---\n";
  return Print(message);
}

int Context::Fail(int status, std::string_view message, std::string_view hint,
                  std::string_view details) {
  const Lock lock(err_mutex_);
  out.flush();
  Wipe();
  err << "dcli: ";
  for (const std::string& line : Split(message, '\n')) err << Escaped(line) << '\n';
  err << details;
  if (!hint.empty()) {
    err << "hint: " << hint << '\n';
  } else if (!command.empty()) {
    err << "hint: dcli " << command << " --help shows an example\n";
  } else {
    err << "hint: dcli --help lists the commands\n";
  }
  err.flush();
  return status;
}

int Context::Fail(const Error& error, std::string_view hint) {
  if (Unreached(error)) {
    return Fail(kUnreached, "cannot reach the server at " + client->server() + ": " + Cause(error),
                "is dsrv running there? --server HOST:PORT or DFSMR_SERVER say where it is");
  }
  if (error.code == Code::kCancelled) return kInterrupted;
  for (const Hint& known : kHints) {
    if (hint.empty() && known.reason == error.reason) hint = known.text;
  }
  const std::string_view name = Name(error.reason);
  const std::string reason = name.empty() ? "" : " (" + std::string(name) + ")";
  return Fail(kRefused, error.message + reason, hint);
}

void Context::Note(std::string_view message) {
  const std::string one(message);
  Note(std::span(&one, 1));
}

void Context::Note(std::span<const std::string> messages) {
  std::string lines;
  for (const std::string& message : messages) lines += "dcli: " + Escaped(message) + '\n';
  const Lock lock(err_mutex_);
  out.flush();
  Wipe();
  err << lines;  // one write of standard error, which has no buffer
  Draw();
}

void Context::Status(std::string_view line) {
  if (!err_look.relative) return;  // a program is reading
  const Lock lock(err_mutex_);
  const size_t width = err_look.width > 1 ? err_look.width - 1 : kStatusColumns;
  const std::string fitting = Shortened(Escaped(line), width);
  if (fitting == status_) return;
  Wipe();
  status_ = fitting;
  Draw();
}

void Context::Wipe() {
  if (!status_.empty()) err << '\r' << std::string(Columns(status_), ' ') << '\r';
}

void Context::Draw() { err << status_ << std::flush; }

std::string UserName() {
  const passwd* user = getpwuid(getuid());
  return std::string(user != nullptr ? user->pw_name : "dcli") + "@" + HostName();
}

std::string WorkerName() { return HostName() + ":" + std::to_string(getpid()); }

}  // namespace dfsmr::cli
