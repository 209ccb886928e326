// What instances have of limits, when a store of one partition becomes one of several: home decides
// for all, so its rows say what those elsewhere hold and wait for, and theirs that it knows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fsm/machine/machine.h"
#include "fsm/when/document.h"
#include "storage/rows/instance.h"
#include "storage/rows/message.h"
#include "storage/rows/resting.h"

namespace dfsmr {

class Stakes {
 public:
  using Parse = std::function<Result<Document>(std::string_view source)>;
  // Takes rows of the target.
  using Put = std::function<void(const Batch& batch)>;

  Stakes(const rows::Reader& source, uint16_t partitions, rows::Resolve resolve, Put put)
      : source_(source),
        partitions_(partitions),
        resolve_(std::move(resolve)),
        put_(std::move(put)) {}

  // Reads which built-in keys are counted: by documents, which are parsed, and by overrides.
  Result<Ok> Begin(const Parse& parse);
  // All that live, and where they will.
  Result<Ok> Take(const rows::Resting& resting, PartitionId place);
  Result<Ok> Take(const Instance& instance, PartitionId place);
  // When there are no more.
  void Finish();

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, key

  void PutStake(rows::Message::Stake stake, PartitionId place);
  void Count(const std::string& ns, const std::string& key, PartitionId place, int64_t by);
  Result<Ok> CountTasks(const Instance& instance, PartitionId place);
  Result<std::shared_ptr<const Machine>> NodesOf(const Instance& instance);

  const rows::Reader source_;
  const uint16_t partitions_;
  const rows::Resolve resolve_;
  const Put put_;
  std::map<Key, bool> counted_;  // built-in keys; whether they have a number, or are followed
  bool tasks_ = false;           // queues or actions are among them
  uint64_t told_ = 0;            // the number of the last stake
  std::map<Key, std::map<PartitionId, int64_t>> held_;  // without having asked, elsewhere
  std::pair<Key, std::shared_ptr<const Machine>> nodes_;  // of the shared graph that came last
};

}  // namespace dfsmr
