#include "dsrv/migrate/spreading.h"

#include <optional>
#include <utility>

#include "dsrv/migrate/stakes.h"
#include "storage/place.h"
#include "storage/rows/machine.h"

namespace dfsmr {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRows = 40'000;  // in all batches together
constexpr size_t kBytes = 32 << 20;
constexpr uint64_t kLookEvery = 4'096;
constexpr std::string_view kAll = "\xFF";  // after all keys of the source

// Of rows in any order.
struct Sum {
  Tally tally;
  uint64_t hashes = 0;

  void Add(std::string_view key, std::string_view value) {
    Digest digest;
    digest.Mix(key);
    digest.Mix(value);
    // Sums of what FNV makes of nearly the same texts are nearly the same.
    uint64_t hash = digest.number();
    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
    hashes += hash ^ hash >> 33;
    tally.Add(key, value);
  }
  friend bool operator==(const Sum&, const Sum&) = default;
};

}  // namespace

Result<Ok> Spreading::MayMove(const Store& source) {
  return rows::Spread::MayMove({source, kHome});
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
  Stakes stakes(source, partitions_, resolve, [&put](const Batch& batch) {
    for (const Batch::Operation& one : batch.operations()) {
      if (one.kind == Batch::Operation::Kind::kPut) put(one.key, one.value);
    }
  });
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
  if (auto compiled = CompileAll(); !compiled) return compiled;
  if (before[kHome].up_to == kAll) return Ok{};
  std::string at;  // the row of the source that is taken
  const Put put = [&](std::string key, std::string value) {
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
        return rows_ >= kRows || bytes_ >= kBytes ? Flush(key) : Ok{};
      },
      &tally);
  if (copied) {
    batches_[kHome];
    copied = Flush(kAll);
  }
  const auto settled = Settle();
  return copied ? settled : copied;
}

Result<Ok> Spreading::Flush(std::string_view key) {
  if (auto before = Settle(); !before) return before;
  for (auto& [id, batch] : batches_) {
    copied_[id] = {copied_[id].step + 1, std::string(key)};
    rows::PutCopied({batch, id}, copied_[id]);
  }
  sent_ = std::async(std::launch::async, [this, batches = std::exchange(batches_, {})] {
    Result<Ok> written = Ok{};
    for (auto at = batches.rbegin(); at != batches.rend() && written; ++at) {
      written = pair_.Write(at->first, at->second);
    }
    return written;
  });
  rows_ = bytes_ = 0;
  return Ok{};
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

Result<Tally> Spreading::Compare() {
  Sum source;
  Tally read_rows;
  auto read = Pass(
      "compared, of the source",
      [&source](const std::string& key, const std::string& value) { source.Add(key, value); },
      [](std::string_view) {}, [](std::string_view) { return Ok{}; }, &read_rows);
  if (!read) return read.error();
  Sum target;
  const auto begin = Clock::now();
  bool interrupted = false;
  read = pair_.target().ScanOnce("", "", [&](std::string_view key, std::string_view value) {
    if (rows::IsOfCopied(key)) return true;
    target.Add(key, value);
    if (target.tally.rows % kLookEvery != 0) return true;
    pair_.Tell("compared, of the copy", target.tally, begin);
    interrupted = pair_.Interrupted();
    return !interrupted;
  });
  if (!read) return read.error();
  if (interrupted) return Pair::Interruption();
  const bool same = source == target && read_rows.live == target.tally.live &&
                    read_rows.stopped == target.tally.stopped;
  return same ? Result<Tally>(target.tally) : pair_.Differs(source.tally, target.tally);
}

}  // namespace dfsmr
