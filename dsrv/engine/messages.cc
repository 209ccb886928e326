#include "dsrv/engine/messages.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/turn.h"
#include "fsm/base/result.h"

namespace dfsmr {
namespace {

// So many rows of messages that are applied may rest, until there is another one to send.
constexpr uint64_t kAppliedRows = 16;

}  // namespace

Messages::Messages(OpenTurn& turn, const EngineOptions& options)
    : turn_(turn),
      options_(options),
      outgoing_(std::make_shared<Outgoing>(turn.store(), options.partition)) {}

Result<Ok> Messages::Recover() {
  if (options_.partitions == 1) return Ok{};
  std::map<PartitionId, uint64_t> first;
  auto scanned = rows::ScanOut(turn_.reader(), [&](PartitionId to, uint64_t number) {
    first.emplace(to, number);
    ways_[to].last = number;
  });
  if (!scanned) return scanned;
  for (const auto& [to, number] : first) {
    Way& way = ways_[to];
    way.applied = way.dropped = number - 1;
    /*mutant message-not-told-again*/ outgoing_->Restore(to, number, way.last); /*end*/
  }
  auto ins = rows::GetIns(turn_.reader());
  if (!ins) return ins.error();
  ins_ = *std::move(ins);
  return Ok{};
}

void Messages::Send(PartitionId to, rows::Message message) {
  if (to == options_.partition) return own_.push_back(std::move(message));
  Way& way = ways_[to];
  const uint64_t number = ++way.last;
  std::string text = rows::EncodeMessage(message);
  rows::PutOut(turn_.writer(), to, number, text);
  Drop(to, &way);
  if (!sent_ || sent_in_ != turn_.number()) {
    sent_ = std::make_shared<std::vector<Outgoing::Sent>>();
    sent_in_ = turn_.number();
    turn_.AfterCommit([outgoing = outgoing_, sent = sent_] { outgoing->Add(std::move(*sent)); });
  }
  /*mutant message-told-before-commit*/ sent_->push_back({to, {number, std::move(text)}}); /*end*/
}

Result<uint64_t> Messages::Deliver(PartitionId from, uint64_t number, std::string_view text) {
  const auto known = ins_.find(from);
  const uint64_t in = known == ins_.end() ? 0 : known->second;
  if (/*mutant message-applied-twice*/ number <= in /*end*/) return in;
  if (/*mutant message-gap-skipped*/ number > in + 1 /*end*/) return in;
  auto message = rows::DecodeMessage(text);
  if (!message) return message.error();
  const bool applied = apply_(from, *message);
  if (/*mutant message-without-room-lost*/ !applied /*end*/) return in;
  changed_[from] = ins_[from] = number;
  return number;
}

void Messages::Applied(PartitionId to, uint64_t up_to) {
  const auto found = ways_.find(to);
  if (found == ways_.end()) return;
  Way& way = found->second;
  way.applied = std::max(way.applied, std::min(up_to, way.last));
  outgoing_->Applied(to, way.applied);
  if (way.applied - way.dropped > kAppliedRows) Drop(to, &way);
}

// The last row stays: it tells where numbers go on.
void Messages::Drop(PartitionId to, Way* way) {
  const uint64_t up_to =
      /*mutant message-last-row-dropped*/ std::min(way->applied, way->last - 1) /*end*/;
  while (way->dropped < up_to) rows::DropOut(turn_.writer(), to, ++way->dropped);
}

bool Messages::Work() {
  if (own_.empty()) return false;
  const rows::Message message = std::move(own_.front());
  own_.pop_front();
  Check(apply_(options_.partition, message), "a message to the own partition needs no room");
  return true;
}

void Messages::Write() {
  for (const auto& [from, number] : std::exchange(changed_, {})) {
    /*mutant message-number-not-kept*/ rows::PutIn(turn_.writer(), from, number); /*end*/
  }
}

}  // namespace dfsmr
