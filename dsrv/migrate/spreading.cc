#include "dsrv/migrate/spreading.h"

#include <algorithm>
#include <utility>

#include "dsrv/migrate/stakes.h"
#include "storage/place.h"
#include "storage/rows/machine.h"

namespace dfsmr {
namespace {

using Clock = std::chrono::steady_clock;

// In all batches together, so that each is some hundred rows at least.
constexpr size_t kRows = 40'000;
constexpr size_t kRowsOfEach = 500;
constexpr size_t kBytes = 32 << 20;
constexpr size_t kBytesOfEach = 128 << 10;
constexpr uint64_t kLookEvery = 4'096;
constexpr std::string_view kAll = "\xFF";  // after all keys of the source

}  // namespace

Result<Ok> Spreading::Prepare() {
  auto may = rows::Spread::MayMove({pair_.source(), kHome}, partitions_);
  return may ? CompileAll() : may;
}

Result<Ok> Spreading::CompileAll() {
  Result<Ok> outcome = Ok{};
  auto read = rows::ScanMachines({pair_.source(), kHome}, [&](const rows::MachineRow& row) {
    auto machine = pair_.migration().compile(row.source);
    if (!machine) outcome = machine.error();
    if (!outcome) return;
    machines_[{row.ns, row.id, row.version}] =
        std::make_unique<const Machine>(*std::move(machine));
  });
  return read ? outcome : read;
}

Result<Ok> Spreading::Pass(const char* doing, const Put& put, const Begins& begins,
                           const Next& next, Tally* tally) {
  const auto begin = Clock::now();
  const rows::Reader source{pair_.source(), kHome};
  const rows::Resolve resolve = [this](std::string_view ns, std::string_view machine,
                                       uint32_t version) -> const Machine* {
    const auto found = machines_.find({std::string(ns), std::string(machine), version});
    return found == machines_.end() ? nullptr : found->second.get();
  };
  Stakes stakes(source, partitions_, resolve,
                [&put](const Batch& batch) { rows::Spread::PutEach(batch, put); });
  rows::Spread spread(source, partitions_, resolve, put,
                      {[&stakes](const rows::Resting& resting, PartitionId place) {
                         return stakes.Take(resting, place);
                       },
                       [&stakes](const Instance& instance, PartitionId place) {
                         return stakes.Take(instance, place);
                       }});
  auto done = stakes.Begin(pair_.migration().parse);
  if (done) done = spread.Begin();
  if (!done) return done;
  const auto read =
      pair_.source().ScanOnce("", "", [&](std::string_view key, std::string_view value) {
        tally->Add(key, value);
        begins(key);
        done = spread.Take(key, value);
        if (done) done = next(key);
        if (tally->rows % kLookEvery == 0) pair_.Tell(doing, *tally, begin);
        if (done && tally->rows % kLookEvery == 0 && pair_.Interrupted()) {
          done = Pair::Interruption();
        }
        return done.has_value();
      });
  if (!read || !done) return read ? done : read;
  begins(kAll);
  stakes.Finish();
  return spread.Finish();
}

// Copying -----------------------------------------------------------------------------------------

Result<Ok> Spreading::Copy() {
  for (PartitionId id = 0; id < partitions_; ++id) {
    auto copied = rows::GetCopied({pair_.target(), id});
    if (!copied) return copied.error();
    copied_.push_back(*std::move(copied));
  }
  const auto before = copied_;
  if (before[kHome].step > 0) pair_.migration().tell("going on where it was interrupted");
  if (before[kHome].up_to == kAll) return Ok{};
  std::string at;  // the row of the source that is taken
  Sum sum;
  const Put put = [&](std::string key, std::string value) {
    sum.Add(key, value);
    const PartitionId id = PartitionIn(key);
    if (at <= before[id].up_to) return;
    ++rows_;
    bytes_ += key.size() + value.size();
    batches_[id].Put(std::move(key), std::move(value));
  };
  Tally tally;
  auto copied = Pass(
      "copied", put, [&at](std::string_view key) { at = key; },
      [this](std::string_view key) {
        return Full() ? Flush(key) : Ok{};
      },
      &tally);
  if (copied) {
    batches_[kHome];
    copied = Flush(kAll);
  }
  const auto settled = Settle();
  if (copied && sum.tally.live == tally.live && sum.tally.stopped == tally.stopped) source_ = sum;
  return copied ? settled : copied;
}

bool Spreading::Full() const {
  return rows_ >= std::max(kRows, kRowsOfEach * partitions_) ||
         bytes_ >= std::max(kBytes, kBytesOfEach * partitions_);
}

Result<Ok> Spreading::Flush(std::string_view key) {
  if (auto before = Settle(); !before) return before;
  for (auto& [id, batch] : batches_) {
    copied_[id] = {copied_[id].step + 1, std::string(key)};
    rows::PutCopied({batch, id}, copied_[id]);
  }
  sent_ = std::async(std::launch::async, [this, batches = std::exchange(batches_, {})] {
    return WriteAll(batches);
  });
  rows_ = bytes_ = 0;
  return Ok{};
}

// By two connections; home last.
Result<Ok> Spreading::WriteAll(const std::map<PartitionId, Batch>& batches) {
  const auto write = [&](PartitionId odd) {
    Result<Ok> written = Ok{};
    for (auto at = batches.upper_bound(kHome); at != batches.end() && written; ++at) {
      if (at->first % 2 == odd) written = pair_.Write(at->first, at->second);
    }
    return written;
  };
  auto others = std::async(std::launch::async, write, PartitionId{1});
  auto written = write(0);
  const auto other = others.get();
  if (!written || !other) return written ? other : written;
  const auto home = batches.find(kHome);
  return home == batches.end() ? written : pair_.Write(kHome, home->second);
}

Result<Ok> Spreading::Settle() { return sent_.valid() ? sent_.get() : Result<Ok>(Ok{}); }

Result<Ok> Spreading::DropCopied(PartitionId id) {
  if (copied_[id].step == 0) return Ok{};
  Batch batch;
  rows::DropCopied({batch, id}, copied_[id].step);
  return pair_.Write(id, batch);
}

// As long as home says that it has all, nothing is copied again.
Result<Ok> Spreading::End() {
  for (PartitionId id = 1; id < partitions_; ++id) {
    if (auto dropped = DropCopied(id); !dropped) return dropped;
  }
  if (auto ended = pair_.End(); !ended) return ended;
  (void)DropCopied(kHome);  // a server may have it by now, and leaves that row where it is
  return Ok{};
}

// Comparing ---------------------------------------------------------------------------------------

void Spreading::Sum::Add(std::string_view key, std::string_view value) {
  Digest digest;
  digest.Mix(key);
  digest.Mix(value);
  // What FNV makes of nearly the same texts is nearly the same: so would sums be.
  uint64_t hash = digest.number();
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
  hashes += hash ^ hash >> 33;
  tally.Add(key, value);
}

Result<Spreading::Sum> Spreading::ReadTarget() {
  Sum sum;
  const auto read = pair_.ReadAll(pair_.target(), "compared, of the copy",
                                  [&sum](std::string_view key, std::string_view value) {
                                    if (!rows::IsOfCopied(key)) sum.Add(key, value);
                                  });
  return read ? Result<Sum>(sum) : read.error();
}

// The source is read once more only where copying has not read all of it.
Result<Tally> Spreading::Compare() {
  if (!source_) {
    Sum sum;
    Tally tally;
    auto read = Pass(
        "compared, of the source",
        [&sum](const std::string& key, const std::string& value) { sum.Add(key, value); },
        [](std::string_view) {}, [](std::string_view) { return Ok{}; }, &tally);
    if (!read) return read.error();
    if (sum.tally.live != tally.live || sum.tally.stopped != tally.stopped) {
      return pair_.Differs(tally, sum.tally);
    }
    source_ = sum;
  }
  auto target = ReadTarget();
  if (!target) return target.error();
  return *source_ == *target ? Result<Tally>(target->tally)
                             : pair_.Differs(source_->tally, target->tally);
}

}  // namespace dfsmr
