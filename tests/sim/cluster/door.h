// The shared store as the owner of a partition sees it, from when it took that. Reads may
// be answered by a primary that was deposed; what is older than the server knows of is dropped, and
// read again. Commits go another way: they take time.
#pragma once

#include <memory>

#include "storage/fate.h"
#include "tests/sim/cluster/database.h"
#include "tests/sim/random.h"

namespace dfsmr::cluster_sim {

class Door final : public Store {
 public:
  // `stale`: percent of reads that a deposed primary answers.
  Door(Database& database, Random& random, PartitionId partition, const Holding& held, int stale)
      : database_(database),
        random_(random),
        partition_(partition),
        known_(held),
        stale_(stale) {}

  // A commit of this server has arrived.
  void Knows(const Holding& held) { known_ = held; }
  const Holding& known() const { return known_; }
  uint64_t stale_reads() const { return stale_reads_; }

  Result<Epoch> Acquire(PartitionId) override { return known_.epoch; }
  Result<Ok> Write(PartitionId, Epoch, const Batch&) override {
    Check(false, "commits are sent, not called");
    return Ok{};
  }
  std::unique_ptr<const View> Snapshot() const override {
    if (const auto* past = Old()) return std::make_unique<const Same>(past->view);
    return database_.rows().Snapshot();
  }
  Result<std::optional<std::string>> Get(std::string_view key) const override {
    if (const auto* past = Old()) return past->view->Get(key);
    return database_.rows().Get(key);
  }
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override {
    if (const auto* past = Old()) return past->view->Scan(begin, end, visit, reverse);
    return database_.rows().Scan(begin, end, visit, reverse);
  }

 private:
  class Same final : public View {
   public:
    explicit Same(std::shared_ptr<const View> view) : view_(std::move(view)) {}
    Result<std::optional<std::string>> Get(std::string_view key) const override {
      return view_->Get(key);
    }
    Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                    bool reverse) const override {
      return view_->Scan(begin, end, visit, reverse);
    }

   private:
    const std::shared_ptr<const View> view_;
  };

  // What answers in place of the database; null: the database does.
  const Database::Past* Old() const {
    const auto& pasts = database_.pasts();
    if (pasts.empty() || !random_.Chance(stale_)) return nullptr;
    const Database::Past& past = pasts[random_.Below(pasts.size())];
    ++stale_reads_;
    return Outdated(known_, past.held[partition_]) ? nullptr : &past;
  }

  Database& database_;
  Random& random_;
  const PartitionId partition_;
  Holding known_;
  const int stale_;
  mutable uint64_t stale_reads_ = 0;
};

}  // namespace dfsmr::cluster_sim
