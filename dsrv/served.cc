#include "dsrv/served.h"

#include <spdlog/spdlog.h>

#include "dfsmr/v1/cluster.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/own_names.h"
#include "dsrv/calls/secrets.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/packages.h"
#include "dsrv/wire/bulks.h"
#include "dsrv/wire/replies.h"
#include "fsm/schema/schema.h"
#include "fsm/yaml/definitions.h"
#include "storage/backup/manifest.h"

namespace dfsmr {
namespace {

Error NotSound(const Parsed& parsed) {
  std::string message;
  for (const Diagnostic& diagnostic : parsed.diagnostics) message += Format(diagnostic) + "; ";
  return {Code::kDataLoss, Reason::kBadMachine, message};
}

Result<Document> ParseDocument(std::string_view source, const FindZone& zones) {
  Parsed parsed = ParseStored(source, zones);
  if (parsed.ok() && parsed.documents.size() == 1) return std::move(parsed.documents.front());
  return NotSound(parsed);
}

std::shared_ptr<const ParamsCheck> CompileSchema(std::string_view schema,
                                                 std::string_view subject) {
  std::vector<SchemaProblem> problems;
  return CompileParamsSchema(schema, subject, &problems);
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

std::optional<uint64_t> Reserve(const Flags& flags) {
  return flags.min_free_mb ? std::optional<uint64_t>(*flags.min_free_mb << 20) : std::nullopt;
}

// nullopt: the disk is not ours, or any number of bytes may come.
std::optional<uint64_t> SpareRoomOf(const Flags& flags, const RocksStore* embedded) {
  if (!embedded) return std::nullopt;
  return SpareRoom(flags.data, Reserve(flags), RocksStore::WorkingBytes(flags.memtable_mb));
}

Logs::Options LogOptions(const Flags& flags, const std::function<Timestamp()>& clock,
                         const RocksStore* embedded) {
  Logs::Options options{.bytes = flags.logs_mb << 20, .clock = clock};
  if (!embedded) return options;
  options.path = std::filesystem::path(flags.data) / "logs";
  options.scarce = [&flags] { return NearlyScarce(flags.data, Reserve(flags)); };
  return options;
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

// Null without --otlp.
std::unique_ptr<otlp::Exporter> Export(const Flags& flags, const Reader& reader, Changes& changes) {
  if (flags.trace.otlp.empty()) return nullptr;
  otlp::ExporterOptions options{.version = kVersion};
  options.post = [to = *otlp::ParseCollector(flags.trace.otlp)](
                     const std::string& json, auto most) { return otlp::Post(to, json, most); };
  return std::make_unique<otlp::Exporter>(std::move(options), reader, changes);
}

}  // namespace

Result<Machine> CompileStored(std::string_view source) {
  Parsed parsed = ParseStored(source);
  if (parsed.ok() && parsed.definitions.size() == 1) {
    return std::move(parsed.definitions.front());
  }
  return NotSound(parsed);
}

Served::Served(Options options, Opened opened)
    : options_(std::move(options)),
      flags_(options_.flags),
      store_(std::move(opened.store)),
      embedded_(opened.embedded),
      name_(std::move(opened.name)),
      room_of_store_(std::move(opened.room)),
      life_(opened.life & UINT32_MAX),  // enough to tell two lives apart
      partition_(opened.partition),
      partitions_(opened.partitions),
      pool_(options_.pool ? Pool(*options_.pool) : Pool(2)),
      find_zone_([this](std::string_view name) { return zones_.Find(name); }),
      logs_(LogOptions(flags_, options_.clock, embedded_), std::move(opened.logs)),
      disk_(flags_.data, Reserve(flags_)),
      facts_{kVersion, flags_.addr, flags_.data, options_.clock(), options_.tls_expiry} {
  ring_.Set(options_.keys);
}

Served::~Served() = default;

Result<std::unique_ptr<Served>> Served::Open(Options options, Opened opened) {
  std::unique_ptr<Served> served(new Served(std::move(options), std::move(opened)));
  if (auto engine = served->OpenEngine(); !engine) return engine.error();
  auto access =
      Access::Open({.asks = served->flags_.auth,
                    .admin_token_file = served->flags_.admin_token_file,
                    .mutual_tls = !served->flags_.tls.client_ca.empty() ||
                                  !served->flags_.http.client_ca.empty(),
                    .told = served->options_.trails.told.get(),
                    .clock = served->options_.clock},
                   *served->store_, kHome, served->options_.trails.audit.get());
  if (!access) return access.error();
  served->access_ = *std::move(access);
  served->MakeLoop();
  served->MakeBackend();
  return served;
}

Result<Trails> Trails::Open(const Flags& flags, const std::function<Timestamp()>& clock) {
  Trails trails;
  const bool changes = flags.auth || !flags.audit_log.empty();
  auto opened = Audit::Open(changes ? flags.audit_log : "", clock);
  if (!opened) return opened.error();
  (changes ? trails.audit : trails.told) = *std::move(opened);
  return trails;
}

Result<Ok> Served::OpenEngine() {
  auto engine = Engine::Open(
      *store_,
      {.partition = partition_,
       .partitions = partitions_,
       .home = kHome,
       .retention = flags_.retention,
       .early_begins = embedded_ != nullptr,
       .cached_instances = flags_.cached_instances,
       .virtual_clock = flags_.virtual_clock.has_value(),
       .metrics_series = flags_.http.metrics_series,
       .compile = CompileStored,
       .parse_document = [this](std::string_view text) { return ParseDocument(text, find_zone_); },
       .own_machine = OwnMachine,
       .own_document = OwnDocument,
       .own_flow = OwnFlow,
       .parse_flow = ToFlow,
       .schema = CompileSchema,
       .offload = [this](EngineOptions::Job job) { Offload(pool_, mailbox_, std::move(job)); },
       .closed_namespaces = flags_.closed_namespaces,
       .quotas = flags_.quotas,
       .tokens_gone =
           [this](const std::string& ns) {  // the engine is there before the access
             if (access_) access_->RevokeAll(ns);
           },
       .secret_keys = options_.keys,
       .random_bytes = RandomBytes,
       .secrets_resealed = LogResealed,
       .find_for_bulk = FindForBulk,
       .trace_sample = flags_.trace.sample,
       .removed = [this](const std::string& ns, const std::string& id) { logs_.Removed(ns, id); }},
      flags_.virtual_clock.value_or(options_.clock()));
  if (!engine) {
    Error error = engine.error();
    error.message = name_ + ": " + error.message;
    return error;
  }
  engine_ = *std::move(engine);
  engine_->packages().LookForRoom([this] { return SpareRoomOf(flags_, embedded_); });
  return Ok{};
}

// Logs go before anything is refused for want of room.
Room Served::Look() {
  if (room_of_store_) return room_ = room_of_store_();
  const Room room = disk_.Look();
  room_ = room == Room::kScarce && logs_.GiveWay() ? Room::kAmple : room;
  return room_;
}

void Served::MakeLoop() {
  changes_ = std::make_unique<Changes>(
      *store_, FeedEnd{engine_->reader().partition, engine_->last_seq(), life_}, pool_,
      SerialiseChange);
  loop_ = std::make_unique<Loop>(
      *engine_, *store_, mailbox_,
      Loop::Outside{.clock = options_.clock,
                    .virtual_clock = flags_.virtual_clock.has_value(),
                    .entropy = [this] { return entropy_(); },
                    .room = [this] { return Look(); },
                    .publish = [this](auto feed) { changes_->Publish(std::move(feed)); },
                    .trimmed = [this](uint64_t first) { changes_->Trim(first); },
                    .fail = options_.fail});
  backups_ = std::make_unique<Backups>(
      BackupOptions(flags_, options_.clock, engine_->reader().partition, life_), embedded_,
      logs_.kept());
}

void Served::MakeBackend() {
  adopter_ = std::make_unique<Adopter>(engine_->reader(), *loop_, pool_, *access_);
  backend_.emplace(Backend{engine_->reader(), *loop_, *changes_, watchers_, pool_, gate_, *access_,
                           refusals_, options_.clock, find_zone_, logs_, *backups_, ring_,
                           !flags_.tls.empty(), life_, &facts_, &calls_, options_.cluster,
                           /*shared=*/options_.cluster != nullptr, options_.others});
  if (!backend_->cluster) {
    backend_->cluster = [this](v1::Cluster* cluster) { ShowAlone(cluster); };
  }
  direct_ = std::make_unique<DirectRows>(*backend_);
  services_ = MakeServices(*backend_, flags_.compat, direct_.get());
}

void Served::ShowAlone(v1::Cluster* cluster) const {
  cluster->set_store("rocksdb");
  cluster->set_database(RocksStore::Version());
  cluster->set_durability("single");
  cluster->set_level(kBackupLevel);
  cluster->set_life(life_);
  cluster->set_answered_by(id_);
  v1::Server& server = *cluster->add_servers();
  server.set_id(id_);
  server.set_address(flags_.addr);
  server.set_version(kVersion);
  server.set_level(kBackupLevel);
  server.set_state(v1::Server::UP);
  ToProto(facts_.start_time, server.mutable_start_time());
  server.mutable_silent();
  server.set_partitions(1);
  server.set_reachable(true);
  v1::Partition& partition = *cluster->add_partitions();
  partition.set_id(engine_->reader().partition);
  partition.set_state(v1::Partition::SERVING);
  partition.set_server(id_);
  partition.set_epoch(engine_->epoch());
  partition.set_last_change(changes_->head());
  *partition.mutable_owned_since() = server.start_time();
}

void Served::Start() {
  if (options_.carrier) {
    options_.carrier->Join(partition_, engine_->messages().outgoing(), *loop_);
  }
  exporter_ = Export(flags_, engine_->reader(), *changes_);
  logs_.Start(engine_->reader(), *loop_);
  backups_->Start(*loop_);
  SetSecretKeys(*loop_, ring_, options_.keys);
  key_watch_ = std::make_unique<SecretKeyWatch>(
      flags_.secret_key_file, options_.keys,
      [this](SecretKeysPtr changed) { SetSecretKeys(*loop_, ring_, std::move(changed)); });
}

void Served::Drain(bool moves) {
  gate_.Close();
  loop_->Post({.run =
                   [this, moves](Engine& engine) {
                     engine.StopHandingOut(moves);
                     loop_->HaltClock(Stopping());
                   },
               .drop = [] {},
               .owed = true});
  watchers_.EndAll();
  logs_.EndAll();
  backups_->EndAll();
}

void Served::Stop() {
  key_watch_.reset();
  backups_->Stop();
  adopter_->Stop();
  if (options_.carrier) options_.carrier->Leave(partition_);
  pool_.Stop();
  loop_->Stop();
  if (exporter_) exporter_->Stop();
  logs_.Stop();
  for (const auto& [reason, count] : refusals_.Counts()) {
    spdlog::info("refused in all: {} {}", reason, count);
  }
  store_.reset();
}

}  // namespace dfsmr
