#include "dsrv/migrate/place.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "fsm/base/epoch.h"
#include "storage/moved.h"
#include "storage/postgres/pg_roster.h"
#include "storage/postgres/pg_store.h"
#include "storage/rocks/rocks_store.h"

namespace dfsmr {
namespace {

class InFolder final : public UnservedStore {
 public:
  InFolder(std::string name, std::unique_ptr<RocksStore> store)
      : name_(std::move(name)), store_(std::move(store)) {}

  std::string Name() const override { return name_; }
  Store& store() override { return *store_; }
  uint16_t Partitions() const override { return 1; }
  Result<Epoch> AcquireAbove(PartitionId partition, Epoch above) override {
    return store_->AcquireAbove(partition, above);
  }
  Result<std::string> Mark() override { return store_->Mark(); }
  Result<Ok> SetMark(const std::string& mark) override { return store_->SetMark(mark); }

 private:
  const std::string name_;
  const std::unique_ptr<RocksStore> store_;
};

class InPostgres final : public UnservedStore {
 public:
  explicit InPostgres(std::shared_ptr<PgDatabase> database)
      : database_(std::move(database)), store_(database_, {.fresh = true}), roster_(database_) {}

  std::string Name() const override {
    const std::string& schema = database_->options().schema;
    return database_->shown() + (schema == "dfsmr" ? "" : " (schema " + schema + ")");
  }
  Store& store() override { return store_; }
  uint16_t Partitions() const override { return database_->cluster().partitions; }
  Result<Epoch> AcquireAbove(PartitionId partition, Epoch above) override {
    return store_.AcquireAbove(partition, above);
  }
  Result<std::string> Mark() override {
    auto cluster = roster_.Open(kAsMade);
    return cluster ? Result<std::string>(cluster->moved) : cluster.error();
  }
  Result<Ok> SetMark(const std::string& mark) override { return roster_.SetMoved(mark); }

  void GiveUp() override { store_.GiveUp(); }

  PgRoster& roster() { return roster_; }
  // kFailedPrecondition: a server lives.
  Result<Ok> CheckNobody() {
    auto seen = roster_.Renew("", false, false);
    if (!seen) return seen.error();
    for (const ServerRow& server : seen->servers) {
      if (server.dead || server.seen < seen->now - kLease) continue;
      return Error{Code::kFailedPrecondition, Reason::kNone,
                   Name() + " is served by the server at " + server.address +
                       ": stop it first, and if it was killed, wait until it has been silent for " +
                       std::to_string(kLease / std::chrono::seconds(1)) + " s"};
    }
    return Ok{};
  }

 private:
  const std::shared_ptr<PgDatabase> database_;
  PgStore store_;
  PgRoster roster_;
};

Result<std::unique_ptr<InPostgres>> OpenPostgres(const StorePlace& place, bool create,
                                                 uint16_t partitions = kAsMade) {
  auto database = PgDatabase::Open({.uri = place.where,
                                    .schema = place.schema,
                                    .partitions = partitions,
                                    .allow_loss = true,  // it is for who serves it to say
                                    .create = create,
                                    .moved_too = true});
  if (!database) return database.error();
  auto opened = std::make_unique<InPostgres>(*std::move(database));
  if (auto nobody = opened->CheckNobody(); !nobody) return nobody.error();
  return opened;
}

Error NotInPostgres(const std::string& where) {
  const bool secret = where.find('@') != where.npos || where.find("://") != where.npos;
  return {Code::kInvalidArgument, Reason::kNone,
          (secret ? "what was given" : "\"" + where + "\"") +
              " is not the URL of a store in PostgreSQL, such as "
              "postgresql://user@host/database"};
}

uint64_t Random() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

Result<std::unique_ptr<UnservedStore>> OpenUnserved(const StorePlace& place, bool create,
                                                    uint16_t partitions) {
  if (IsPgAddress(place.where)) {
    auto opened = OpenPostgres(place, create, partitions);
    if (!opened) return opened.error();
    return std::unique_ptr<UnservedStore>(*std::move(opened));
  }
  if (place.where.find("://") != place.where.npos) return NotInPostgres(place.where);
  if (partitions > 1) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "a store in a directory has one partition, not " + std::to_string(partitions)};
  }
  auto store =
      RocksStore::Open({.path = place.where, .create_if_missing = create, .marked_too = true});
  if (!store) return store.error();
  return std::unique_ptr<UnservedStore>(std::make_unique<InFolder>(
      std::filesystem::absolute(place.where).lexically_normal().string(), *std::move(store)));
}

Result<std::string> RenewStore(const StorePlace& place) {
  if (!IsPgAddress(place.where)) return NotInPostgres(place.where);
  auto opened = OpenPostgres(place, false);
  if (!opened) return opened.error();
  InPostgres& store = **opened;
  // In its upper half an epoch counts lives; which one is drawn, so that no earlier one meets it.
  uint64_t life = 0;
  for (PartitionId id = 0; id < store.Partitions(); ++id) {
    auto epoch = store.AcquireAbove(id, 0);
    if (!epoch) return epoch.error();
    life = std::max(life, LifeOfEpoch(*epoch));
  }
  life += 1 + Random() % (1U << 16);
  Epoch begun = 0;
  for (PartitionId id = 0; id < store.Partitions(); ++id) {
    auto epoch = store.AcquireAbove(id, (life << kEpochLifeShift) - 1);
    if (!epoch) return epoch.error();
    begun = *epoch;
  }
  if (auto renewed = store.roster().SetLife(Random() >> 1 | 1); !renewed) return renewed.error();
  return store.Name() + " has begun another life, under epoch " + std::to_string(begun) +
         ": claims and cursors of after that time are void";
}

Result<std::string> UnmarkStore(const StorePlace& place) {
  auto opened = OpenUnserved(place, false);
  if (!opened) return opened.error();
  auto mark = (*opened)->Mark();
  if (!mark) return mark.error();
  if (mark->empty()) return (*opened)->Name() + " has no mark: it may be served as it is";
  if (mark->starts_with(BeingMadeOf(""))) return NotHere((*opened)->Name(), *mark);
  if (auto done = (*opened)->SetMark(""); !done) return done.error();
  return (*opened)->Name() + " may be served again; its mark was: " + *mark;
}

}  // namespace dfsmr
