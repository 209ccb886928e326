#include "dsrv/migrate/migrate.h"

#include <chrono>
#include <thread>
#include <utility>

#include "dsrv/migrate/copying.h"
#include "dsrv/migrate/pair.h"
#include "dsrv/migrate/spreading.h"
#include "storage/place.h"
#include "storage/postgres/address.h"
#include "storage/rows/joined.h"
#include "storage/rows/spread.h"

namespace dfsmr {
namespace {

// Has both stores wait for their databases no more once a signal has come.
class Release {
 public:
  Release(const std::atomic<bool>* interrupted, UnservedStore& from, UnservedStore& to) {
    if (!interrupted) return;
    thread_ = std::jthread([interrupted, &from, &to](const std::stop_token& over) {
      while (!*interrupted && !over.stop_requested()) std::this_thread::sleep_for(kLook);
      if (!*interrupted) return;
      from.GiveUp();
      to.GiveUp();
    });
  }

 private:
  static constexpr std::chrono::milliseconds kLook{50};
  std::jthread thread_;
};

// As the rows are, or as those of a source that is read as one of a single partition.
Result<Tally> Copy(Pair& pair) {
  if (auto begun = pair.Begin(); !begun) return begun.error();
  Copying copying(pair);
  if (auto copied = copying.Copy(); !copied) return copied.error();
  auto tally = copying.Compare();
  if (!tally) return tally;
  auto ended = pair.End();
  return ended ? tally : ended.error();
}

Result<Tally> SpreadOut(Pair& pair, uint16_t partitions) {
  Spreading spreading(pair, partitions);
  if (auto may = spreading.Prepare(); !may) return may.error();
  if (auto begun = pair.Begin(); !begun) return begun.error();
  if (auto copied = spreading.Copy(); !copied) return copied.error();
  auto tally = spreading.Compare();
  if (!tally) return tally;
  auto ended = spreading.End();
  return ended ? tally : ended.error();
}

Result<Tally> Change(Pair& pair, uint16_t has, uint16_t wanted) {
  if (has == 1) return SpreadOut(pair, wanted);
  rows::Joined joined(pair.source(), has);
  pair.migration().tell("reading the feeds of " + Count(has, "partitions"));
  if (auto begun = joined.Begin(); !begun) return begun.error();
  pair.ReadAs(joined);
  if (wanted > 1) return SpreadOut(pair, wanted);
  auto may = rows::Spread::MayMove({pair.source(), kHome}, wanted);
  return may ? Copy(pair) : may.error();
}

}  // namespace

Result<std::string> Migrate(const Migration& migration) {
  auto from = OpenUnserved(migration.from, false);
  if (!from) return from.error();
  const uint16_t has = (*from)->Partitions();
  const bool into_folder = !IsPgAddress(migration.to.where);
  const uint16_t as_made = into_folder ? uint16_t{1} : has;
  const uint16_t wanted = migration.partitions == kAsMade ? as_made : migration.partitions;
  auto to = OpenUnserved(migration.to, true, wanted);
  if (!to) return to.error();
  Pair pair(migration, **from, **to);
  const Release release(migration.interrupted, **from, **to);
  const auto tally = wanted == has ? Copy(pair) : Change(pair, has, wanted);
  if (!tally) return pair.Interrupted() ? Pair::Interruption() : tally.error();
  const std::string parts =
      wanted == has ? "" : " in " + Count(wanted, wanted == 1 ? "partition" : "partitions");
  return (*from)->Name() + " has moved to " + (*to)->Name() + parts + ": " +
         Count(tally->rows, "rows, ") + Count(tally->live, "live and ") +
         Count(tally->stopped, "stopped instances, compared");
}

}  // namespace dfsmr
