#include "dsrv/flags.h"

#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsrv/http/guard.h"
#include "dsrv/otlp/collector.h"
#include "dsrv/secretless.h"
#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

std::string CheckDuration(const std::string& text) {
  auto duration = ParseDuration(text);
  return duration ? "" : duration.error().message;
}

// RFC 3339, or "+DURATION" from now, to the microsecond.
Result<Timestamp> ParseTime(const std::string& text) {
  if (text.starts_with('+')) {
    auto duration = ParseDuration(text.substr(1));
    if (!duration) return duration.error();
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()) + *duration;
  }
  google::protobuf::Timestamp time;
  if (google::protobuf::util::TimeUtil::FromString(text, &time) && time.seconds() >= 0) {
    return FromMicros(google::protobuf::util::TimeUtil::TimestampToMicroseconds(time));
  }
  return Error{Code::kInvalidArgument, Reason::kNone,
               Quoted(text) + " is not a time from 1970 to 9999, such as 2026-01-31T08:00:00Z"};
}

std::string CheckTime(const std::string& text) {
  auto time = ParseTime(text);
  return time ? "" : time.error().message;
}

// "live-instances=100": one quota, 0 for none.
Result<Ok> AddQuota(const std::string& text, rows::Quotas* quotas) {
  const auto bad = [&](const std::string& why) {
    return Error{Code::kInvalidArgument, Reason::kNone, "--quota " + Quoted(text) + ": " + why};
  };
  const size_t equals = text.find('=');
  if (equals == text.npos) return bad("it is NAME=N, such as live-instances=10000");
  const std::string name = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  if (name == "retention") {
    auto duration = ParseDuration(value);
    if (!duration) return bad(duration.error().message);
    quotas->retention = *duration;
    return Ok{};
  }
  const bool digits =
      !value.empty() && value.size() <= 18 && value.find_first_not_of("0123456789.") == value.npos;
  if (name == "starts-per-second") {
    char* end = nullptr;
    const double rate = std::strtod(value.c_str(), &end);
    if (!digits || *end != '\0') return bad(Quoted(value) + " is not a number from 0");
    quotas->starts_per_second = rate;
    return Ok{};
  }
  Nearest nearest(name);
  for (const auto& [known, quota] : {std::pair("live-instances", &quotas->live_instances),
                                     {"ready-tasks", &quotas->ready_tasks},
                                     {"definitions", &quotas->definitions},
                                     {"package-bytes", &quotas->package_bytes}}) {
    nearest.Try(known);
    if (name != known) continue;
    if (!digits || value.find('.') != value.npos) {
      return bad(Quoted(value) + " is not a whole number from 0");
    }
    *quota = std::stoull(value);
    return Ok{};
  }
  nearest.Try("starts-per-second");
  nearest.Try("retention");
  return bad("there is no quota " + Quoted(name) + nearest.Hint());
}

// Adds the file's settings to `args`, except those that the command line has given.
Result<Ok> ReadFile(const std::string& path, CLI::App& app, std::vector<std::string>* args) {
  std::ifstream file(path);
  if (!file)
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "cannot read the config file " + Quoted(path)};
  std::ostringstream text;
  text << file.rdbuf();
  std::vector<Diagnostic> diagnostics;
  for (const Setting& setting : ParseSettings(text.str(), path, &diagnostics)) {
    const auto wrong = [&](std::string why) {
      diagnostics.push_back(
          {true, path, setting.at.line, setting.at.column, setting.key, std::move(why)});
    };
    if (setting.key == "config" || setting.key == "help" || setting.key == "version") {
      wrong("--" + setting.key + " is said on the command line only");
      continue;
    }
    CLI::Option* option = app.get_option_no_throw("--" + setting.key);
    if (!option) {
      Nearest nearest(setting.key);
      for (const CLI::Option* known : app.get_options()) {
        if (!known->get_lnames().empty()) nearest.Try(known->get_lnames().front());
      }
      wrong("there is no such setting" + nearest.Hint() +
            "; the settings are the flags of dsrv --help");
      continue;
    }
    if (option->count() == 0) args->push_back("--" + setting.key + "=" + setting.value);
  }
  if (!HasErrors(diagnostics)) return Ok{};
  std::string message;
  for (const Diagnostic& diagnostic : diagnostics) {
    message += (message.empty() ? "" : "\n") + Format(diagnostic);
  }
  return Error{Code::kInvalidArgument, Reason::kNone, message};
}

void AddSecurity(CLI::App& app, Flags& flags) {
  app.add_option("--tls-cert", flags.tls.cert,
                 "a PEM file with the server's certificate: with it, TLS only; read again when it "
                 "changes, as are the next two");
  app.add_option("--tls-key", flags.tls.key, "a PEM file with its key");
  app.add_option("--tls-client-ca", flags.tls.client_ca,
                 "a PEM file: clients must have a certificate signed by one of these (mutual TLS)");
  app.add_option_function<std::string>(
         "--auth", [&flags](const std::string& auth) { flags.auth = auth == "tokens"; },
         "tokens: every call needs a token; off: calls are not asked for one")
      ->check(CLI::IsMember({"off", "tokens"}))
      ->default_str("off");
  app.add_option("--admin-token-file", flags.admin_token_file,
                 "a file with a secret of 32 characters or more, which is an admin's token; read "
                 "again when it changes");
  app.add_option(
      "--audit-log", flags.audit_log,
      "a file to append refusals and changes by hand to, with their callers, as lines of "
      "JSON; with --auth tokens and without this they are logged");
  app.add_option("--secret-key-file", flags.secret_key_file,
                 "a file with keys that seal secrets, each a line of 64 hex digits: the first "
                 "seals, all open; nobody else may read it; read again when it changes");
  app.add_flag("--insecure{true}", flags.insecure,
               "listen beyond this machine without both TLS and tokens");
}

Result<Ok> CheckAddr(const std::string& flag, const std::string& addr) {
  const size_t colon = addr.rfind(':');
  const std::string port = colon == addr.npos ? "" : addr.substr(colon + 1);
  const std::string host = addr.substr(0, colon);
  const bool number = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == port.npos;
  const bool bare = host.find(':') != host.npos && !host.starts_with('[');  // IPv6 has brackets
  if (number && !bare && std::stoul(port) <= 65'535) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kNone,
               flag + " " + Quoted(addr) +
                   " is not HOST:PORT, such as localhost:3004, with a port from 0 to 65535"};
}

// Callers from other machines must show a token, over a connection that nobody can listen in to.
Result<Ok> CheckSecurity(const Flags& flags, const std::string& flag, const std::string& addr) {
  if (IsLoopback(addr) || flags.insecure || (!flags.tls.empty() && flags.auth)) return Ok{};
  std::string missing;
  if (flags.tls.empty()) missing = "--tls-cert FILE --tls-key FILE";
  if (!flags.auth) missing += (missing.empty() ? "" : " ") + std::string("--auth tokens");
  return Error{Code::kInvalidArgument, Reason::kNone,
               flag + " " + addr +
                   " can be reached from other machines, so it takes TLS and tokens: add " +
                   missing + "; or stay on this machine with " + flag +
                   " localhost:PORT; or say --insecure, and "
                   "anyone who reaches the port may do everything"};
}

// Flags as text, before they are parsed.
struct Texts {
  std::string http;
  std::string http_base = "/";
  std::string http_client_ca;
  std::string config;
  std::string grace = "10s";
  std::string retention = "7d";
  std::string virtual_clock;
  std::vector<std::string> quotas;
  std::string backup_every;
  std::string trace_sample;
};

void AddStore(CLI::App& app, StoreFlags& store) {
  app.add_option("--store", store.url,
                 "a database that holds the store, in place of --data: postgresql://…, as libpq "
                 "takes it. Servers that are given the same one share it");
  app.add_option("--store-schema", store.schema, "the schema in it")->capture_default_str();
  app.add_option("--partitions", store.partitions,
                 "of how many the store is made when it is (default: " + std::to_string(kMadeOf) +
                     ")")
      ->check(CLI::Range(1, 1'024));
  app.add_option("--advertise", store.advertise,
                 "where the other servers of the store reach this one, HOST:PORT (default: as "
                 "--addr, with this host's name where that names none)");
  app.add_option("--store-writers", store.writers,
                 "connections that write; there is one more for the lease, and one for logs")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--store-readers", store.readers, "connections that read")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--peer-ca", store.peer_ca,
                 "a PEM file: who signs the other servers' certificates (default: as "
                 "--tls-client-ca)");
  app.add_flag("--allow-loss{true}", store.allow_loss,
               "start although the database may lose what it has acknowledged");
}

// What is in a database is the database's to keep.
Result<Ok> CheckStore(const CLI::App& app, const Flags& flags) {
  const auto bad = [](const std::string& why) {
    return Error{Code::kInvalidArgument, Reason::kNone, why};
  };
  const auto given = [&app](const char* flag) { return app.count(flag) != 0; };
  if (flags.store.url.empty()) {
    if (given("--store")) {
      return bad("--store is empty: it takes postgresql://…; without it the store is in --data");
    }
    for (const char* flag : {"--store-schema", "--partitions", "--advertise", "--store-writers",
                             "--store-readers", "--peer-ca", "--allow-loss"}) {
      if (given(flag)) return bad(std::string(flag) + " goes with --store");
    }
    return Ok{};
  }
  for (const char* flag :
       {"--data", "--cache-mb", "--memtable-mb", "--verify", "--min-free-mb", "--backup-every",
        "--backup-to", "--backup-keep", "--restore", "--virtual-clock"}) {
    if (given(flag)) {
      return bad(std::string(flag) + " is of a store in a directory: it does not go with --store");
    }
  }
  if (flags.store.advertise.empty()) return Ok{};
  auto advertise = CheckAddr("--advertise", flags.store.advertise);
  if (!advertise) return advertise;
  if (NamesNoHost(flags.store.advertise)) {
    return bad("--advertise " + flags.store.advertise +
               " is every interface: say by which name or address the other servers reach this one");
  }
  if (IsLoopback(flags.store.advertise) || flags.insecure || !flags.tls.empty()) return Ok{};
  return bad("--advertise " + flags.store.advertise +
             " is reached from other machines, so it takes TLS: add --tls-cert FILE --tls-key "
             "FILE, or say --insecure");
}

void AddBackups(CLI::App& app, Flags& flags, Texts& texts) {
  app.add_option("--restore", flags.restore,
                 "a backup, FILE or FOLDER: check it, make the store in --data of it, and end; the "
                 "directory must be empty or missing");
  app.add_option("--backup-every", texts.backup_every,
                 "back the store up so often, a duration of 1m or more (default: never)")
      ->check(CheckDuration);
  app.add_option("--backup-to", flags.backup_to,
                 "the directory for these backups, each a directory dfsmr-TIME in it");
  app.add_option("--backup-keep", flags.backup_keep,
                 "how many of them are kept: then the oldest goes")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
}

Result<Ok> CheckBackups(const std::string& every, Flags* flags) {
  const auto bad = [](const char* why) {
    return Error{Code::kInvalidArgument, Reason::kNone, why};
  };
  if (!every.empty()) flags->backup_every = *ParseDuration(every);
  if (every.empty() != flags->backup_to.empty()) {
    return bad("--backup-every DURATION and --backup-to DIR go together");
  }
  if (!every.empty() && flags->backup_every < std::chrono::minutes(1)) {
    return bad("--backup-every must be at least 1m");
  }
  return Ok{};
}

void AddNamespaces(CLI::App& app, Flags& flags, Texts& texts) {
  app.add_option_function<std::string>(
         "--namespaces",
         [&flags](const std::string& word) { flags.closed_namespaces = word == "closed"; },
         "open: a namespace is made when it is first used; closed: only by dcli namespace create")
      ->check(CLI::IsMember({"open", "closed"}))
      ->default_str("open");
  app.add_option("--quota", texts.quotas,
                 "a quota of namespaces that have no other, its NAME, an equals sign and N: "
                 "live-instances, ready-tasks, starts-per-second, definitions, package-bytes, or "
                 "retention (a duration); may be given several times (default: none)")
      ->delimiter(',')
      ->take_all();
}

void AddHttp(CLI::App& app, HttpFlags& http, Texts& texts) {
  app.add_option("--http", texts.http,
                 "where to serve HTTP, HOST:PORT, or off (default: localhost:3005 where --addr has "
                 "the port 3004, else off)");
  const auto list = [&app](const char* flag, std::vector<std::string>& names, const char* help) {
    app.add_option(flag, names, help)->delimiter(',')->take_all();
  };
  list("--http-host", http.hosts,
       "a further name of this server in the header Host; may be given several times (default: "
       "none)");
  list("--http-origin", http.origins,
       "whose pages may call with a bearer token, such as https://ops.example.org; may be given "
       "several times (default: none)");
  list("--http-proxy", http.proxies,
       "ADDRESS or ADDRESS/BITS of a proxy whose X-Forwarded-For, -Proto and -Host count; may be "
       "given several times (default: none)");
  app.add_option("--http-base", texts.http_base,
                 "a path in front of all routes and links, for a proxy that passes it on")
      ->capture_default_str();
  app.add_option("--http-connections", http.connections,
                 "how many connections there may be over HTTP: beyond it the one that is idle for "
                 "longest is closed")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--metrics-series", http.metrics_series,
                 "how many nodes have series of their own in GET /metrics; the rest counts as _other")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--http-tls-client-ca", texts.http_client_ca,
                 "as --tls-client-ca, for HTTP; off: clients need no certificate there (default: "
                 "as --tls-client-ca)");
  app.add_flag("--console{true},!--no-console", http.console,
               "serve the console's pages over HTTP (default: yes)");
  app.add_option("--console-dir", http.console_dir,
                 "serve the console's pages from this folder (default: those of this build)");
}

// "/" is no base; "/ops/" is "/ops".
Result<std::string> ToBase(const std::string& text) {
  std::string base = text;
  while (base.ends_with('/')) base.pop_back();
  const bool fine = base.empty() || (base.front() == '/' && base.find("//") == base.npos &&
                                     std::ranges::all_of(base, [](char c) {
                                       return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                                              c == '/' || c == '-' || c == '_' || c == '.';
                                     }));
  if (fine && !text.empty()) return base;
  return Error{Code::kInvalidArgument, Reason::kNone,
               "--http-base " + Quoted(text) + " is not a path such as /dfsmr"};
}

// What a browser sends as Origin, and what stands in the header Host: anything else would never
// match, and nobody would know why.
Result<Ok> CheckNames(const HttpFlags& door) {
  const auto bad = [](const std::string& flag, const std::string& text, const std::string& what) {
    return Error{Code::kInvalidArgument, Reason::kNone, flag + " " + Quoted(text) + " is no " + what};
  };
  const auto is_host = [](std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
             std::string_view("-._:[]").find(c) != std::string_view::npos;
    });
  };
  for (const std::string& origin : door.origins) {
    const size_t end = origin.find("://");
    const std::string_view scheme = std::string_view(origin).substr(0, std::min(end, origin.size()));
    const bool known = scheme == "http" || scheme == "https";
    if (!known || !is_host(std::string_view(origin).substr(end + 3))) {
      return bad("--http-origin", origin, "origin such as https://ops.example.org, without a path");
    }
  }
  for (const std::string& host : door.hosts) {
    const bool port = host.find(':') != host.npos && !host.ends_with(']');
    if (!is_host(host) || port) {
      return bad("--http-host", host, "name of a host such as ops.example.org, without a port");
    }
  }
  std::error_code failed;
  if (!door.console_dir.empty() &&
      !std::filesystem::is_regular_file(std::filesystem::path(door.console_dir) / "index.html",
                                        failed)) {
    return bad("--console-dir", door.console_dir, "folder with an index.html in it");
  }
  return Ok{};
}

Result<Ok> ReadHttp(const Texts& texts, Flags* flags) {
  HttpFlags& door = flags->http;
  door.given = !texts.http.empty() && texts.http != "off";
  if (door.given) {
    door.addr = texts.http;
  } else if (texts.http.empty() && flags->addr.ends_with(":3004")) {
    door.addr = "localhost:3005";
  }
  auto base = ToBase(texts.http_base);
  if (!base) return base.error();
  door.base = *std::move(base);
  door.client_ca = texts.http_client_ca.empty()    ? flags->tls.client_ca
                   : texts.http_client_ca == "off" ? ""
                                                   : texts.http_client_ca;
  for (const std::string& proxy : door.proxies) {
    auto range = http::ToAddressRange(proxy);
    if (!range) {
      return Error{Code::kInvalidArgument, Reason::kNone, "--http-proxy " + range.error().message};
    }
  }
  if (auto names = CheckNames(door); !names) return names;
  if (door.addr.empty()) return Ok{};
  auto addr = CheckAddr("--http", door.addr);
  return addr ? CheckSecurity(*flags, "--http", door.addr) : addr;
}

void AddTraces(CLI::App& app, TraceFlags& trace, Texts& texts) {
  app.add_option("--otlp", trace.otlp,
                 "where to send spans of what goes on, as OTLP/HTTP in JSON: a collector such as "
                 "http://localhost:4318 (default: nowhere)");
  app.add_option("--trace-sample", texts.trace_sample,
                 "the share, 0 to 1, of starts without a traceparent that get one (default: 1 with "
                 "--otlp, else 0)");
  app.add_option("--trace-url", trace.url,
                 "where people see a trace, for the console's link: such as "
                 "https://traces.example.org/trace/{trace_id}");
}

Result<Ok> ReadTraces(const Texts& texts, TraceFlags* trace) {
  trace->sample = trace->otlp.empty() ? 0 : 1;
  if (!texts.trace_sample.empty()) {
    char* end = nullptr;
    trace->sample = std::strtod(texts.trace_sample.c_str(), &end);
    if (*end != '\0' || !(trace->sample >= 0 && trace->sample <= 1)) {  // nan is neither
      return Error{Code::kInvalidArgument, Reason::kNone,
                   "--trace-sample " + Quoted(texts.trace_sample) + " is not a number from 0 to 1"};
    }
  }
  if (!trace->otlp.empty()) {
    auto url = otlp::ParseCollector(trace->otlp);
    if (!url) return url.error();
  }
  const std::string& link = trace->url;
  const bool web = link.starts_with("http://") || link.starts_with("https://");
  if (link.empty() || (web && link.find("{trace_id}") != link.npos)) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kNone,
               "--trace-url " + Quoted(link) +
                   " is not a link such as https://traces.example.org/trace/{trace_id}, with "
                   "{trace_id} in it"};
}

void AddMemory(CLI::App& app, Flags& flags) {
  app.add_option("--cache-mb", flags.cache_mb, "memory for what is read from disk, MiB")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  app.add_option("--memtable-mb", flags.memtable_mb,
                 "memory for what is being written, MiB; up to three times that is in use, and a "
                 "restart replays as much")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--cached-instances", flags.cached_instances,
                 "how many instances at rest are kept in memory")
      ->check(CLI::Range(1'000, 100'000'000))
      ->capture_default_str();
}

void AddFlags(CLI::App& app, Flags& flags, Texts& texts) {
  app.set_version_flag("--version", std::string("dsrv ") + kVersion);
  app.add_option("--addr", flags.addr,
                 "where to listen, HOST:PORT; ':PORT' is every interface, port 0 any free one")
      ->capture_default_str();
  app.add_option("--data", flags.data, "the directory that holds the store; made when missing")
      ->capture_default_str();
  app.add_option("--config", texts.config,
                 "a YAML file with these flags as keys; flags given here win");
  app.add_option("--grace", texts.grace, "how long a stop waits for what is under way")
      ->check(CheckDuration)
      ->capture_default_str();
  app.add_option("--retention", texts.retention,
                 "how long stopped instances, their history and the feed stay readable; a machine "
                 "may say otherwise for its own")
      ->check(CheckDuration)
      ->capture_default_str();
  AddMemory(app, flags);
  app.add_option("--logs-mb", flags.logs_mb,
                 "MiB of logs of operations that are kept: those that stopped first lose theirs "
                 "first; 0: none are kept")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--min-free-mb", flags.min_free_mb,
                 "MiB of the disk that stay free: with less, nothing new is accepted (default: 5 % "
                 "of the disk, at most 256; 0: never refuse)")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--virtual-clock", texts.virtual_clock,
                 "for tests: a TIME such as 2026-01-31T08:00:00Z at which the server's time stands "
                 "until dcli clock advance; the data directory must have been begun so (default: "
                 "the machine's clock)")
      ->check(CheckTime);
  AddNamespaces(app, flags, texts);
  AddBackups(app, flags, texts);
  AddStore(app, flags.store);
  app.add_flag("--verify{true}", flags.verify, "check every block of the store before serving");
  app.add_flag("--compat{true},!--no-compat", flags.compat,
               "serve the original DistributedFSMRunner, too (default: yes)");
  app.add_flag("--reflection{true},!--no-reflection", flags.reflection,
               "serve gRPC reflection (default: yes)");
  AddSecurity(app, flags);
  AddHttp(app, flags.http, texts);
  AddTraces(app, flags.trace, texts);
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error or off")
      ->capture_default_str();
  app.add_option("--log-format", flags.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.footer(
      "Commands:\n"
      "  dsrv verify DIR|FILE  read all of a store that is not served, or of a backup, and say "
      "what is wrong\n"
      "  dsrv migrate          copy a store that nobody serves into an empty one\n"
      "  dsrv store            once a database was restored, or a store that was copied is to be "
      "served again\n\n"
      "Example:\n  dsrv --data /var/lib/dfsmr --retention 30d");
}

}  // namespace

Result<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  Texts texts;
  CLI::App app{"dsrv: the server of dfsmr, the distributed finite state machine runner", "dsrv"};
  AddFlags(app, flags, texts);

  // One dash is enough, as for the flags of the original.
  std::vector<std::string> args;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg.size() > 2 && arg[0] == '-' && arg[1] != '-') arg.insert(0, "-");
    args.push_back(std::move(arg));
  }
  try {
    auto parse = [&app](std::vector<std::string> all) {
      std::reverse(all.begin(), all.end());  // CLI11 takes them from the end
      app.parse(std::move(all));
    };
    parse(args);
    if (!texts.config.empty()) {
      auto read = ReadFile(texts.config, app, &args);
      if (!read) return read.error();
      app.clear();
      parse(args);
    }
  } catch (const CLI::Success& done) {
    std::exit(app.exit(done));
  } catch (const CLI::ParseError& error) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 Secretless(error.what()) + "; see dsrv --help"};
  }
  flags.grace = *ParseDuration(texts.grace);
  flags.retention = *ParseDuration(texts.retention);
  if (!texts.virtual_clock.empty()) flags.virtual_clock = *ParseTime(texts.virtual_clock);
  if (flags.retention < std::chrono::seconds(1)) {
    return Error{Code::kInvalidArgument, Reason::kNone, "--retention must be at least 1s"};
  }
  for (const std::string& text : texts.quotas) {
    if (auto added = AddQuota(text, &flags.quotas); !added) return added.error();
  }
  if (auto backups = CheckBackups(texts.backup_every, &flags); !backups) return backups.error();
  auto addr = CheckAddr("--addr", flags.addr);
  if (!addr) return addr.error();
  auto secure = CheckSecurity(flags, "--addr", flags.addr);
  if (!secure) return secure.error();
  auto http = ReadHttp(texts, &flags);
  if (!http) return http.error();
  auto store = CheckStore(app, flags);
  if (!store) return store.error();
  if (!flags.store.url.empty()) flags.data.clear();
  auto traces = ReadTraces(texts, &flags.trace);
  if (!traces) return traces.error();
  return flags;
}

}  // namespace dfsmr
