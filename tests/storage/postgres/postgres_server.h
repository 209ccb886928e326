// A PostgreSQL of its own for a test, in a temporary folder, on a socket in it. It is the one of
// the distribution, and refuses to run as root: then it runs as the user postgres.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/postgres/connection.h"
#include "storage/postgres/database.h"

namespace dfsmr {

class PostgresServer {
 public:
  // `settings`: lines of postgresql.conf.
  explicit PostgresServer(const std::string& settings = "") {
    MakeFolder();
    Shell(As() + Program("initdb") + " -D " + Data() + " -A trust -U tester --no-sync > " +
          (folder_ / "initdb.log").string());
    Configure(settings);
    Start();
  }
  // As a standby that is promoted when `primary`, which is stopped, is gone: the same system, on a
  // timeline of its own.
  static std::unique_ptr<PostgresServer> Promoted(const PostgresServer& primary) {
    std::unique_ptr<PostgresServer> promoted(new PostgresServer(RowsOf{primary}));
    promoted->Start();
    return promoted;
  }
  ~PostgresServer() {
    if (pid_ > 0) Stop(SIGQUIT);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // Of this one and `second`.
  std::string UriWith(const PostgresServer& second) const {
    return Uri() + "," + second.folder().string();
  }
  std::string Uri(const std::string& user = "tester") const {
    return "postgresql://" + user + "@/postgres?host=" + folder_.string();
  }
  const std::filesystem::path& folder() const { return folder_; }

  void Configure(const std::string& settings) {
    std::ofstream file(folder_ / "data" / "postgresql.auto.conf");
    file << "listen_addresses = ''\nunix_socket_directories = '" << folder_.string()
         << "'\nmax_connections = 60\nshared_buffers = 32MB\n"
         << settings << "\n";
  }

  void Start() {
    std::filesystem::remove(folder_ / "data" / "postmaster.pid");
    std::vector<std::string> words{Program("postgres"), "-D", Data()};
    if (getuid() == 0) {
      words.insert(words.begin(),
                   {"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"});
    }
    const std::string log = folder_ / "log";
    pid_ = fork();
    if (pid_ == 0) {
      const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      if (dup2(file, 1) < 0 || dup2(file, 2) < 0) _exit(1);
      std::vector<char*> args;
      for (std::string& word : words) args.push_back(word.data());
      args.push_back(nullptr);
      execvp(args.front(), args.data());
      _exit(127);
    }
    const auto address = ParsePgAddress(Uri());
    REQUIRE(address);
    for (int attempt = 0; attempt < 600; ++attempt) {
      if (PgConnection::Open(*address, 0)) return;
      REQUIRE_MESSAGE(waitpid(pid_, nullptr, WNOHANG) == 0, "PostgreSQL does not start");
      usleep(20'000);
    }
    FAIL("PostgreSQL does not answer");
  }

  // SIGQUIT: as if its machine had crashed, but for the disk. SIGINT: in order.
  void Stop(int signal = SIGQUIT) {
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  // Runs statements on a connection of their own; the first column of the last row.
  std::string Sql(const std::string& text) {
    const auto address = ParsePgAddress(Uri());
    REQUIRE(address);
    auto connection = PgConnection::Open(*address, 0);
    REQUIRE_MESSAGE(connection, (connection ? "" : connection.error().message));
    const PgStatement statement{"", text};
    const PgAnswer answer =
        (*connection)->RunOnce(PgCall{statement}, std::chrono::milliseconds(10'000));
    REQUIRE_MESSAGE(!answer.failure, (answer.failure ? answer.failure->message : ""));
    const PgResult& rows = answer.results.front();
    return rows.rows() == 0 ? "" : rows.Text(rows.rows() - 1, 0);
  }

 private:
  struct RowsOf {
    const PostgresServer& primary;
  };
  explicit PostgresServer(RowsOf from) {
    MakeFolder();
    Shell(As() + "cp -r " + from.primary.Data() + " " + Data());
    Configure("restore_command = '/bin/false'");
    Shell(As() + "touch " + Data() + "/recovery.signal");
  }
  void MakeFolder() {
    std::string name = std::filesystem::temp_directory_path() / "dfsmr_pg_XXXXXX";
    folder_ = mkdtemp(name.data());
    Shell("chmod 755 " + folder_.string());
    if (getuid() == 0) Shell("chown postgres " + folder_.string());
  }
  static void Shell(const std::string& line) {
    REQUIRE_MESSAGE(std::system(line.c_str()) == 0, line);  // NOLINT: a test's own words
  }
  static std::string As() {
    return getuid() == 0 ? "cd / && setpriv --reuid=postgres --regid=postgres --clear-groups " : "";
  }
  // Debian keeps the programs of each version apart.
  static std::string Program(const std::string& name) {
    std::filesystem::path newest;
    for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql")) {
      const auto path = entry.path() / "bin" / name;
      if (std::filesystem::exists(path) && path > newest) newest = path;
    }
    REQUIRE_MESSAGE(!newest.empty(), "install the package postgresql");
    return newest;
  }
  std::string Data() const { return folder_ / "data"; }

  std::filesystem::path folder_;
  pid_t pid_ = 0;
};

// One for all tests of the program, made when it is first asked for. Each test takes a schema of
// its own.
inline PostgresServer& SharedPostgres() {
  static PostgresServer server("fsync = on\nsynchronous_commit = on");
  return server;
}

inline std::string NewSchema() {
  static int count = 0;
  return "test" + std::to_string(++count);
}

// Of one partition, if nothing else is asked for.
inline std::shared_ptr<PgDatabase> MustOpen(PgDatabase::Options options) {
  if (options.partitions == kAsMade) options.partitions = 1;
  auto database = PgDatabase::Open(std::move(options));
  REQUIRE_MESSAGE(database, (database ? "" : database.error().message));
  return *std::move(database);
}

}  // namespace dfsmr
