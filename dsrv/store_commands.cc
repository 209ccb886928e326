#include "dsrv/store_commands.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>

#include "dsrv/migrate/migrate.h"
#include "dsrv/secretless.h"
#include "dsrv/served.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

std::atomic<bool> interrupted = false;

int StatusOf(const Error& error) {
  std::fprintf(stderr, "dsrv: %s\n", error.message.c_str());
  if (error.code == Code::kCancelled) return kInterrupted;
  return error.code == Code::kInvalidArgument ? kUsage : 1;
}

int Report(const Result<std::string>& done) {
  if (!done) return StatusOf(done.error());
  std::printf("%s\n", done->c_str());
  return 0;
}

// Of limits, which know no time zones.
Result<Document> ParseStoredDocument(std::string_view source) {
  Parsed parsed = ParseStored(source);
  if (parsed.ok() && parsed.documents.size() == 1) return std::move(parsed.documents.front());
  return Error{Code::kDataLoss, Reason::kStoreFailed,
               "the store holds a limit that is not accepted any more"};
}

// nullopt: go on.
std::optional<int> Parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "dsrv: %s; see dsrv %s --help\n", Secretless(error.what()).c_str(),
                 app.get_name().c_str());
    return kUsage;
  }
  return std::nullopt;
}

}  // namespace

int RunMigrate(int argc, char** argv) {
  Migration migration;
  CLI::App app{
      "Copies a store that nobody serves into an empty one, and compares them. The source is "
      "marked: "
      "dsrv refuses it, and says where it went. Interrupted, the same command goes on.",
      "migrate"};
  app.add_option("--from", migration.from.where, "a directory, or a URL of PostgreSQL")->required();
  app.add_option("--to", migration.to.where, "a directory, or a URL of PostgreSQL")->required();
  app.add_option("--from-schema", migration.from.schema, "the schema of its tables")
      ->capture_default_str();
  app.add_option("--to-schema", migration.to.schema, "the schema of its tables")
      ->capture_default_str();
  app.add_option("--partitions", migration.partitions,
                 "into how many parts; by default as many as there are, in a directory one")
      ->check(CLI::Range(1, 1'024));
  if (const auto over = Parse(app, argc - 1, argv + 1)) return *over;
  const auto interrupt = [](int) { interrupted = true; };
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  migration.interrupted = &interrupted;
  migration.tell = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  migration.compile = CompileStored;
  migration.parse = ParseStoredDocument;
  return Report(Migrate(migration));
}

int RunStoreCommand(int argc, char** argv) {
  StorePlace place;
  CLI::App app{"Changes a store that nobody serves.", "store"};
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* const command = app.add_subcommand(name, help);
    command->add_option("store", place.where, "a URL of PostgreSQL, or for unmark a directory, too")
        ->required();
    command->add_option("--store-schema", place.schema, "the schema of its tables")
        ->capture_default_str();
    return command;
  };
  const CLI::App* const renew =
      add("renew",
          "once its database was restored to an earlier time: claims and cursors of after "
          "that time are void from now on");
  add("unmark", "have a store served again that dsrv migrate has copied elsewhere");
  if (const auto over = Parse(app, argc - 1, argv + 1)) return *over;
  return Report(renew->parsed() ? RenewStore(place) : UnmarkStore(place));
}

}  // namespace dfsmr
