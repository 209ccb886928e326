// Messages to and from other partitions: what happens in one because of what happened in another.
// A message is durable with what caused it, and each is applied exactly once, in the order of its
// pair of partitions: the receiver notes the number of the last one in the batch that applies it.
// A message to the own partition is applied in the turn that sends it, and writes no row.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/outgoing.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"
#include "storage/rows/message.h"

namespace dfsmr {

class Messages : public Part {
 public:
  Messages(OpenTurn& turn, const EngineOptions& options);

  // Sets what applies a message. False: there is no room for it now, and nothing has happened; only
  // where it begins an instance. Call it once, before the first message.
  using Apply = std::function<bool(PartitionId from, const rows::Message&)>;
  void SetApply(Apply apply) { apply_ = std::move(apply); }
  // At start. All that is not known to be applied is there to be fetched again.
  Result<Ok> Recover();

  // Tells another partition, or this one, in this turn. REQUIRES, of this one: it needs no room.
  void Send(PartitionId to, rows::Message message);
  // A message has come. Applies it if it is the next of `from`. Returns up to which number all of
  // `from` are applied; that holds once this turn is durable. An error: nobody here can read it,
  // and nothing has happened.
  Result<uint64_t> Deliver(PartitionId from, uint64_t number, std::string_view text);
  // Another partition has applied all up to `up_to`, durably: their rows need not rest any longer.
  void Applied(PartitionId to, uint64_t up_to);
  // Applies one that was sent to the own partition.
  bool Work() override;
  // At the end of the turn: notes what was applied.
  void Write();

  // For whoever carries messages, on any thread, also when the engine is gone.
  const std::shared_ptr<Outgoing>& outgoing() const { return outgoing_; }

 private:
  struct Way {
    uint64_t last = 0;     // that was sent
    uint64_t applied = 0;  // all up to here
    uint64_t dropped = 0;  // the rows up to here are gone
  };
  void Drop(PartitionId to, Way* way);

  OpenTurn& turn_;
  const EngineOptions& options_;
  const std::shared_ptr<Outgoing> outgoing_;
  Apply apply_;
  std::deque<rows::Message> own_;
  std::map<PartitionId, Way> ways_;
  std::map<PartitionId, uint64_t> ins_;      // all up to here are applied
  std::map<PartitionId, uint64_t> changed_;  // of these, in this turn
  std::shared_ptr<std::vector<Outgoing::Sent>> sent_;  // in this turn; null: nothing
  uint64_t sent_in_ = 0;                               // that turn
};

}  // namespace dfsmr
