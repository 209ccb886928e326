// The turn that is being decided: its times and randomness, the rows that it writes, the records
// that it adds to the feed, and the answers that wait for its commit. Every part of the engine
// writes through it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/types.h"
#include "storage/rows/reader.h"
#include "storage/workspace.h"

namespace dfsmr {

// The finaliser of MurmurHash3: spreads the little entropy of a counter over all bits.
inline uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  return x;
}

// Hears of records of the feed as they are added to it, in the middle of a change: it only notes
// them.
class FeedListener {
 public:
  virtual ~FeedListener() = default;
  virtual void Appended(const Event& event) = 0;
};

class OpenTurn {
 public:
  OpenTurn(const Store& store, PartitionId partition, PartitionId home, bool virtual_clock = false)
      : store_(store),
        partition_(partition),
        home_(home),
        virtual_(virtual_clock),
        rows_(store) {}
  OpenTurn(const OpenTurn&) = delete;
  OpenTurn& operator=(const OpenTurn&) = delete;

  // At start, from the store: the owner's epoch, and where the feed begins and ends. `last`: the
  // time of the last change, of which the clock may be short.
  void Recover(uint64_t epoch, uint64_t first_seq, uint64_t last_seq, Timestamp clock,
               Timestamp last = {});

  // A turn has one or more passes, each with its own times and randomness.
  void Begin(Timestamp clock, uint64_t random, Timestamp real);
  void Resume(Timestamp clock, uint64_t random, Timestamp real);
  // The batch to write, and the answers that follow the write. The next turn may begin at once.
  Turn End();

  // The time of the next change. While the clock goes back, it stands still. It is a little later
  // with each change, so that no two changes have the same time and "oldest first" needs no second
  // key.
  Timestamp now() const { return now_; }
  // What the clock shows: the time from which deadlines count, and with which they are compared. A
  // virtual clock stands while changes go on, and what is to last an hour ends an hour later by the
  // clock. Any other shows `now`.
  Timestamp clock() const { return virtual_ ? clock_ : now_; }
  // For what lasts as long as it does whatever the clock shows: callers wait in real time, and rows
  // are written late by real time. It is `now` unless the clock is virtual.
  Timestamp real() const { return virtual_ ? real_ : now_; }
  bool has_virtual_clock() const { return virtual_; }
  // What the clock showed when the turn began.
  Timestamp began() const { return began_; }
  uint64_t random() const { return random_; }
  void NextChange() {
    random_ = Mix(random_ + 0x9e3779b97f4a7c15ull);
    now_ += Duration(1);
  }

  // Numbers that this owner of the partition has not given before: for claims, and for other things
  // that need a name within the engine.
  ClaimId NextClaim() { return {epoch_, next_claim_++}; }
  ClaimId LastClaim() const { return {epoch_, next_claim_ - 1}; }
  uint64_t NextId() { return next_id_++; }

  // The rows that are written. Any thread.
  const Store& store() const { return store_; }
  PartitionId partition() const { return partition_; }
  uint64_t epoch() const { return epoch_; }

  // The partition's rows as they will be once everything that was decided is written, and where to
  // put this turn's. The deciding thread only.
  rows::Reader reader() const { /*mutant own-writes-unread*/
    return {rows_, partition_}; /*end*/
  }
  // The rows of what belongs to all partitions.
  rows::Reader home() const { return {rows_, home_}; }
  bool at_home() const { return partition_ == home_; }
  rows::Writer writer() { return {rows_.batch(), partition_}; }
  // Gives the record the next number of the feed, and appends it to the feed.
  void Append(Event* event);
  // Tells `listener` of records of these kinds, one bit for each, from now on.
  void Listen(FeedListener* listener, uint64_t kinds) {
    listener_ = listener;
    listens_ = kinds;
  }
  uint64_t last_seq() const { return last_seq_; }
  uint64_t number() const { return turn_.number; }
  size_t records() const { return turn_.records(); }
  // The lowest number that the feed holds once all turns are written.
  uint64_t feed_start() const { return feed_start_; }
  void TrimFeed(uint64_t first) { turn_.feed_start = feed_start_ = first; }

  // The turn and those before it are durable. Any thread.
  void Committed(uint64_t turn) { committed_.store(turn, std::memory_order_release); }
  bool Durable(uint64_t turn) const { return turn <= committed_.load(std::memory_order_acquire); }
  // A record of this turn, whose pages are put when the turn ends; nullopt when `seq` is older.
  std::optional<Event> FindRecord(uint64_t seq) const;
  // This turn's records from `first` on, ascending, until `visit` returns false.
  void ReadRecords(uint64_t first, const std::function<bool(Event)>& visit) const;

  // Runs `tell` once the turn is durable. `durable`: at the end of the pass, because the answer
  // depends on nothing unwritten.
  void Answer(bool durable, std::function<void()> tell) {
    (durable ? answers_ : turn_.after).push_back(std::move(tell));
  }
  void AfterCommit(std::function<void()> tell) {
    /*mutant answers-before-commit*/ Answer(false, std::move(tell)); /*end*/
  }
  std::vector<std::function<void()>> TakeAnswers() { return std::exchange(answers_, {}); }

  // Some background work is left that did not fit into this pass.
  void WantMore() { more_ = true; }
  bool more() const { return more_; }

  // Keeps the store's first error, after which the process must stop. False: `result` is an error.
  template <typename T>
  bool Trust(const Result<T>& result) {
    if (!result && !broken_) broken_ = result.error();
    return result.has_value();
  }
  const std::optional<Error>& broken() const { return broken_; }

  void SetRoom(Room room) { room_ = room; }
  Room room() const { return room_; }
  // The refusal for work that needs at least the room `least`; nullopt when there is enough.
  std::optional<Error> NeedsRoom(Room least) const;

 private:
  const Store& store_;
  const PartitionId partition_;
  const PartitionId home_;
  const bool virtual_;
  uint64_t epoch_ = 0;
  uint64_t last_seq_ = 0;
  uint64_t feed_start_ = 1;
  uint64_t next_claim_ = 1;
  uint64_t next_id_ = 1;
  FeedListener* listener_ = nullptr;
  uint64_t listens_ = 0;
  std::atomic<uint64_t> committed_{0};

  Workspace rows_;
  Timestamp now_;
  Timestamp clock_;
  Timestamp real_;
  Timestamp began_;
  std::pair<Timestamp, Timestamp> kept_;  // `clock_` and `now_` as a virtual clock's row has them
  uint64_t random_ = 0;
  Turn turn_;
  std::vector<std::function<void()>> answers_;
  bool more_ = false;
  std::optional<Error> broken_;
  Room room_ = Room::kAmple;
};

}  // namespace dfsmr
