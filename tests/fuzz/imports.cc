// What an import brings: files of rows, whoever wrote them. What is found sound goes on in an
// engine, where nothing of it may break anything: it is handed out, reported, paused, resumed,
// cancelled, and read again by the next engine. And the paths of an export's files.
#include "dsrv/engine/imports.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dsrv/engine/carried.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/engine.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"
#include "fsm/package/export_path.h"
#include "fsm/schema/schema.h"
#include "fsm/yaml/definitions.h"
#include "storage/memory_store.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/quiet.h"

namespace dfsmr {
namespace {

constexpr const char* kSpace = "ns";

Result<Machine> CompileSource(std::string_view source) {
  Parsed parsed = ParseStored(source);
  if (parsed.ok() && parsed.definitions.size() == 1 && parsed.documents.empty()) {
    return std::move(parsed.definitions.front());
  }
  return Error{Code::kDataLoss, Reason::kBadMachine, "not one machine"};
}

EngineOptions Options() {
  EngineOptions options;
  options.compile = CompileSource;
  options.parse_flow = ToFlow;
  options.schema = [](std::string_view schema, std::string_view subject) {
    std::vector<SchemaProblem> problems;
    return CompileParamsSchema(schema, subject, &problems);
  };
  return options;
}

// What a file of rows brings, as far as it is sound.
class Brought {
 public:
  explicit Brought(std::string_view text) {
    around_.resolve = [this](std::string_view, std::string_view id,
                             uint32_t version) -> const Machine* {
      const auto found = machines_.find({std::string(id), version});
      return found == machines_.end() ? nullptr : &found->second;
    };
    around_.is_flow = [](const std::string& flow) { return ToFlow(flow).has_value(); };
    around_.is_object = [](const std::string& value) {
      if (value.empty()) return true;
      return nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false).is_object();
    };
    rows::CarriedReader reader([this](rows::CarriedRow row) {
      Take(std::move(row));
      return Ok{};
    });
    if (reader.Feed(rows::CarriedHead())) (void)reader.Feed(text);
    End();
  }

  Import import;
  std::vector<CarriedInstance> instances;

 private:
  void Take(rows::CarriedRow row) {
    switch (row.of()) {
      case rows::CarriedRow::Of::kVersion:
        return TakeVersion(row);
      case rows::CarriedRow::Of::kGraph:
        if (!IsGraph(row.value)) return;
        around_.graphs[std::string(row.Name())] = row.value;
        import.graphs.push_back(std::move(row));
        return;
      case rows::CarriedRow::Of::kGroup:
        if (auto group = rows::GroupIn(row)) import.groups[std::string(row.Name())] = *group;
        return;
      case rows::CarriedRow::Of::kLimit:
        if (auto limit = rows::LimitIn(row)) import.limits[std::string(row.Name())] = *limit;
        return;
      case rows::CarriedRow::Of::kInstance:
        End();
        instance_.push_back(std::move(row));
        return;
      case rows::CarriedRow::Of::kPartOfInstance:
        if (!instance_.empty() && instance_.front().Name() == row.Name()) {
          instance_.push_back(std::move(row));
        }
        return;
    }
  }

  void TakeVersion(const rows::CarriedRow& row) {
    auto version = rows::VersionIn(kSpace, row);
    if (!version || !version->package.empty() || version->candidate || version->retired) return;
    auto machine = CompileSource(version->source);
    if (!machine || machine->id != version->id || version->version == 0) return;
    if (version->version > 100) return;
    const auto last = machines_.upper_bound({version->id, UINT32_MAX});
    const bool later = last == machines_.begin() || std::prev(last)->first.first != version->id ||
                       std::prev(last)->first.second < version->version;
    if (!later) return;
    machines_.emplace(std::pair(version->id, version->version), *machine);
    import.versions.push_back({*std::move(version), *std::move(machine), nullptr});
  }

  void End() {
    if (instance_.empty()) return;
    const std::string id(instance_.front().Name());
    const bool fresh = std::ranges::none_of(
        instances, [&](const CarriedInstance& one) { return one.front().Name() == id; });
    if (fresh && CheckCarried(instance_, around_)) instances.push_back(std::move(instance_));
    instance_.clear();
  }

  std::map<std::pair<std::string, uint32_t>, Machine> machines_;
  CarriedSurroundings around_;
  CarriedInstance instance_;
};

// An engine and its store; each turn is written at once.
class Server {
 public:
  Server() { Open(); }

  void Open() {
    auto opened = Engine::Open(store_, Options(), now_);
    Check(opened.has_value(), "the next engine reads what was imported");
    engine_ = *std::move(opened);
  }

  template <typename Commands>
  void Do(Commands commands) {
    now_ += std::chrono::seconds(1);
    engine_->BeginTurn(now_, ++random_);
    commands(*engine_);
    engine_->Work();
    for (auto& tell : engine_->TakeAnswers()) tell();
    Turn turn = engine_->EndTurn();
    Check(!engine_->broken(), "what was imported breaks nothing");
    Check(store_.Write(0, engine_->epoch(), *turn.batch).has_value(), "memory is kept");
    engine_->Committed(turn.number);
    for (auto& tell : turn.after) tell();
  }

  std::vector<Task> Poll() {
    std::vector<Task> tasks;
    Do([&](Engine& engine) {
      PollArgs args;
      args.filter.ns = kSpace;
      args.worker = "w";
      args.max_tasks = 100;
      (void)engine.Poll(args, [&](std::vector<Task> taken) { tasks = std::move(taken); });
    });
    return tasks;
  }

 private:
  MemoryStore store_;
  std::unique_ptr<Engine> engine_;
  Timestamp now_ = FromMicros(1'800'000'000'000'000);
  uint64_t random_ = 1;
};

void Report(Server& server, const Task& task, const char* transition) {
  server.Do([&](Engine& engine) {
    ReportArgs args;
    args.claim = ClaimRef(task.claim);
    args.transition = transition;
    (void)engine.Report(kSpace, task.instance, std::move(args));
  });
}

void GoOn(Server& server, const std::vector<std::string>& ids) {
  bool good = false;
  for (int round = 0; round < 3; ++round) {
    for (const Task& task : server.Poll()) Report(server, task, (good = !good) ? "ok" : "error");
    for (const std::string& id : ids) {
      server.Do([&](Engine& engine) {
        if (round == 0) (void)engine.Pause(kSpace, id);
        (void)engine.Settle(kSpace, id);
        (void)engine.Resume(kSpace, id, "", round > 0);
        if (round == 1) (void)engine.Skip(kSpace, id, "");
      });
    }
  }
  for (const std::string& id : ids) {
    server.Do([&](Engine& engine) { (void)engine.Cancel(kSpace, id, CancelMode::kForce); });
  }
}

void TryPath(const std::string& path) {
  const auto parsed = ParseExportPath(path);
  if (!parsed) return;
  Check(!path.starts_with('/') && path.find("..") != 0, "a path stays within the export");
  Check(SentBefore(*parsed, path, *parsed, path) == false, "no path comes before itself");
  if (parsed->kind != ExportPath::Kind::kDefinition) return;
  Check(DefinitionPath(parsed->definition, parsed->id) == path, "a definition has one path");
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  TryPath(std::string(bytes.Line()));
  Brought brought(bytes.Rest());
  if (brought.instances.empty()) return 0;
  Server server;
  std::vector<std::string> ids;
  for (const CarriedInstance& one : brought.instances) ids.emplace_back(one.front().Name());
  server.Do([&](Engine& engine) {
    Compiled compiled;
    compiled.under = engine.DefinitionsOf(kSpace);
    brought.import.ns = kSpace;
    auto done = engine.imports().Bring(&brought.import, compiled);
    Check(done && *done, "what is sound is taken");
    auto came = engine.imports().Restore(kSpace, "", {}, brought.instances);
    Check(came.has_value(), "what is sound is taken");
  });
  server.Open();
  GoOn(server, ids);
  server.Open();
  return 0;
}
