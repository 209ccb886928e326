#include "dsrv/shared_store.h"

#include <spdlog/spdlog.h>

#include "storage/postgres/database.h"
#include "storage/postgres/pg_logs.h"
#include "storage/postgres/pg_roster.h"
#include "storage/postgres/pg_store.h"

namespace dfsmr {

namespace {

StoreUse UseOf(const PgStore::Counts& counts) {
  return {.fenced = counts.fenced,
          .idle = counts.writers.idle + counts.readers.idle,
          .busy = counts.writers.busy + counts.readers.busy};
}

// The store, as one of the partitions has it that this server owns. All of them share the store's
// connections.
class Shared final : public Store {
 public:
  Shared(std::shared_ptr<PgStore> store, const PartRow& mine)
      : store_(std::move(store)), mine_(mine) {
    store_->Hold(mine_.id, mine_.held);
  }
  ~Shared() override { store_->Release(mine_.id, mine_.held.epoch); }

  std::unique_ptr<const View> Snapshot() const override { return store_->Snapshot(); }
  Result<Epoch> Acquire(PartitionId partition) override { return store_->Acquire(partition); }
  Result<std::optional<std::string>> Get(std::string_view key) const override {
    return store_->Get(key);
  }
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override {
    return store_->Scan(begin, end, visit, reverse);
  }
  Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                      const Visit& visit) const override {
    return store_->ScanOnce(begin, end, visit);
  }
  Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) override {
    return store_->Write(partition, epoch, batch);
  }

 private:
  const std::shared_ptr<PgStore> store_;
  const PartRow mine_;
};

}  // namespace

Result<SharedStore> OpenShared(const Flags& flags, const std::string& known) {
  auto opened =
      PgDatabase::Open({.uri = flags.store.url,
                        .schema = flags.store.schema,
                        .partitions = flags.store.partitions,
                        .allow_loss = flags.store.allow_loss,
                        .known = known,
                        .tell = [](bool bad, const std::string& what) {
                          spdlog::log(bad ? spdlog::level::warn : spdlog::level::info, "{}", what);
                        }});
  if (!opened) return opened.error();
  const std::shared_ptr<const PgDatabase> database = *std::move(opened);
  auto store = std::make_shared<PgStore>(
      database,
      PgStore::Options{.writers = flags.store.writers, .readers = flags.store.readers});
  const auto connections = std::make_shared<PgLogConnections>(database);
  const auto open = [database, store, connections](const PartRow& mine) -> Result<Served::Opened> {
    auto logs = database->has_logs()
                    ? std::make_unique<PgLogTable>(connections, mine.id, mine.held.epoch)
                    : nullptr;
    return Served::Opened{.store = std::make_unique<Shared>(store, mine),
                          .life = database->cluster().life,
                          .name = database->shown(),
                          .partition = mine.id,
                          .partitions = database->cluster().partitions,
                          .logs = std::move(logs),
                          .room = [store] { return store->full() ? Room::kNone : Room::kAmple; }};
  };
  return SharedStore{.name = database->shown(),
                     .known = [database] { return database->known(); },
                     .roster = std::make_unique<PgRoster>(database),
                     .open = open,
                     .waits = [store] { return store->waiting(); },
                     .give_up = [store] { store->GiveUp(); },
                     .use = [store] { return UseOf(store->counts()); }};
}

}  // namespace dfsmr
