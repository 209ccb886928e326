// As dsrv migrate does it: all partitions become one, which goes on. The model does not change: what
// was counted, held and read is as before, and what was open is done once.
#include "storage/rows/joined.h"

#include <algorithm>

#include "tests/sim/messages/message_sim.h"

namespace dfsmr::message_sim {

void MessageSim::Join() {
  // Unless they crash, engines write what they have counted when they end.
  const bool in_order = random_.Chance(80);
  for (bool any = true; any && Good();) {
    for (PartitionId id = 0; id < parted_->size(); ++id) {
      at(id).Drain();
      if (in_order) at(id).Do([](Engine& e) { return e.Flush(), true; });
    }
    any = CarryAll();
  }
  rows::Joined joined(*below_, parted_->size());
  if (const auto begun = joined.Begin(); !begun) {
    if (in_order) Wrong("a store that has come to rest cannot be joined: " + begun.error().message);
    ++hits_["a store cannot be joined yet"];
    return;
  }
  auto one = std::make_unique<MemoryStore>();
  Epoch above = 0;
  for (PartitionId id = 0; id < parted_->size(); ++id) {
    above = std::max(above, at(id).engine().epoch());
  }
  Epoch epoch = 0;
  while (epoch <= above) epoch = *one->Acquire(kHome);
  Batch batch;
  const auto read = joined.ScanOnce("", "", [&batch](std::string_view key, std::string_view value) {
    batch.Put(std::string(key), std::string(value));
    return true;
  });
  if (!read) return Wrong("a store cannot be joined: " + read.error().message);
  if (!one->Write(kHome, epoch, batch)) return Wrong("a joined store cannot be written");
  const Timestamp now = at(kHome).now();
  parted_.reset();
  below_ = std::move(one);
  wire_.clear();
  answers_.clear();
  former_.clear();
  sent_.clear();
  applied_.clear();
  texts_.clear();
  known_.clear();
  Open(1);
  at(kHome).Advance(std::max<Duration>(now - at(kHome).now(), Duration()));
  for (const Event& event : at(kHome).Feed()) known_.emplace(kHome, event.seq);
  ++hits_["a store is joined"];
}

}  // namespace dfsmr::message_sim
