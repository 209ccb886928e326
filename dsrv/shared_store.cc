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

}  // namespace

Result<SharedStore> OpenShared(const Flags& flags) {
  auto opened =
      PgDatabase::Open({.uri = flags.store.url,
                        .schema = flags.store.schema,
                        .partitions = flags.store.partitions,
                        .allow_loss = flags.store.allow_loss,
                        .tell = [](bool bad, const std::string& what) {
                          spdlog::log(bad ? spdlog::level::warn : spdlog::level::info, "{}", what);
                        }});
  if (!opened) return opened.error();
  const std::shared_ptr<const PgDatabase> database = *std::move(opened);
  const PgStore::Options options{.writers = flags.store.writers, .readers = flags.store.readers};
  const auto open = [database, options](const PartRow& mine) -> Result<Served::Opened> {
    auto store = std::make_unique<PgStore>(database, options);
    store->Hold(mine.id, mine.held);
    PgStore* const raw = store.get();
    auto logs = database->has_logs()
                    ? std::make_unique<PgLogTable>(database, mine.id, mine.held.epoch)
                    : nullptr;
    return Served::Opened{.store = std::move(store),
                          .life = database->cluster().life,
                          .name = database->shown(),
                          .logs = std::move(logs),
                          .room = [raw] { return raw->full() ? Room::kNone : Room::kAmple; },
                          .waits = [raw] { return raw->waiting(); },
                          .give_up = [raw] { raw->GiveUp(); },
                          .use = [raw] { return UseOf(raw->counts()); }};
  };
  return SharedStore{
      .name = database->shown(), .roster = std::make_unique<PgRoster>(database), .open = open};
}

}  // namespace dfsmr
