// Elsewhere than at home: tells home what changes of the feed here bring triggers. What home does
// not take, since the trigger is paused there, is read again.
#pragma once

#include "dsrv/engine/item_taker.h"
#include "dsrv/engine/messages.h"
#include "storage/place.h"

namespace dfsmr {

class ItemSender : public ItemTaker {
 public:
  ItemSender(OpenTurn& turn, Messages& messages) : turn_(turn), messages_(messages) {}

  bool TakesNothing() const override { return turn_.NeedsRoom(Room::kAmple).has_value(); }
  Took TakeChange(TriggerState& state, const Brought& brought) override {
    rows::Message::Item item = Of(state);
    item.seq = brought.seq;
    item.source = brought.source.name;
    item.json = brought.json;
    item.depth = brought.depth;
    /*mutant message-item-not-told*/ messages_.Send(kHome, {std::move(item)}); /*end*/
    return Took::kNoted;
  }
  void Miss(TriggerState& state, uint64_t count) override {
    rows::Message::Item item = Of(state);
    item.seq = turn_.feed_start();
    item.missed = count;
    messages_.Send(kHome, {std::move(item)});
  }

 private:
  static rows::Message::Item Of(const TriggerState& state) {
    return {.ns = state.ns,
            .trigger = state.name,
            .begins = state.row.begins,
            .round = state.row.round};
  }

  OpenTurn& turn_;
  Messages& messages_;
};

}  // namespace dfsmr
