#include "dsrv/engine/turn.h"

#include <algorithm>

#include "storage/rows/clock.h"
#include "storage/rows/feed.h"

namespace dfsmr {

void OpenTurn::Recover(uint64_t epoch, uint64_t first_seq, uint64_t last_seq, Timestamp clock,
                       Timestamp last) {
  epoch_ = epoch;
  feed_start_ = first_seq;
  /*mutant recover-feed-gap*/ last_seq_ = last_seq; /*end*/
  clock_ = clock;
  now_ = std::max(clock, last);
}

void OpenTurn::Begin(Timestamp clock, uint64_t random, Timestamp real) {
  Resume(clock, random, real);
  began_ = this->clock();
  turn_.number++;
  turn_.after.clear();
  turn_.feed_start = 0;
  turn_.feed = std::make_shared<std::vector<rows::FeedPage>>();
}

void OpenTurn::Resume(Timestamp clock, uint64_t random, Timestamp real) {
  now_ = std::max(clock, now_);
  if (virtual_) {
    clock_ = std::max(clock, clock_);
    real_ = std::max(real, real_);
  }
  random_ = random;
  more_ = false;
  rows_.Committed(committed_.load(std::memory_order_acquire));
}

Turn OpenTurn::End() {
  rows::PutPages(writer(), *turn_.feed);
  const std::pair times(clock_, now_);
  if (virtual_ && std::exchange(kept_, times) != times) rows::PutClock(writer(), {clock_, now_});
  Turn turn = std::move(turn_);
  turn.batch = rows_.Seal(turn.number);
  turn_.number = turn.number;
  return turn;
}

void OpenTurn::Append(Event* event) {
  event->seq = ++last_seq_;
  rows::AddEvent(turn_.feed.get(), *event);
}

std::optional<Event> OpenTurn::FindRecord(uint64_t seq) const {
  std::optional<Event> found;
  for (const rows::FeedPage& page : *turn_.feed) {
    if (seq < page.first || seq > page.last) continue;
    (void)rows::ReadPage(page, seq, [&found](Event event) {
      found = std::move(event);
      return false;
    });
  }
  return found;
}

std::optional<Error> OpenTurn::NeedsRoom(Room least) const {
  if (room_ <= least) return std::nullopt;
  return Error{Code::kResourceExhausted, Reason::kDiskFull,
               std::string("the server's disk is nearly full: ") +
                   (room_ == Room::kNone ? "no work is handed out and no reports are taken"
                                         : "nothing new is taken, only what is under way goes on") +
                   " until there is room; try again then"};
}

}  // namespace dfsmr
