// The messages of one partition that are durable and wait for others to apply them: what whoever
// carries messages works with, whatever way they go. It is told that there is something for a
// partition, fetches the next ones, has them delivered there, and comes back with the answer:
//
//   outgoing->Notify([&](PartitionId to) { wake the way to `to`; });
//   auto portion = outgoing->Next(to, sent, kMost);          sent: 0 at first, and on a new way
//   … at `to`, as mail of its loop, for each in order:
//   auto up_to = engine.messages().Deliver(from, one.number, one.text);
//   engine.AfterCommit([=] { the way back says *up_to; });
//   … here, as mail of this loop:
//   engine.messages().Applied(to, up_to);
//
// A message may be lost, come twice, or before an earlier one: the answer says up to where all are
// applied. If that is less than what was sent, go on behind it, at once if it has risen since the
// last answer; else after a while, since there is no room for the next one now.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fsm/base/mutex.h"
#include "storage/store.h"

namespace dfsmr {

// Any thread. What it has in memory is bounded: the newest messages to each partition; what lies
// before them is read from the store, in portions.
class Outgoing {
 public:
  struct Numbered {
    uint64_t number = 0;
    std::string text;  // as rows::EncodeMessage has made it
  };
  using Tell = std::function<void(PartitionId to)>;

  // `store` must outlive it.
  Outgoing(const Store& store, PartitionId from) : store_(store), from_(from) {}

  // Has `tell` called whenever there is more for a partition, on the thread that has written it,
  // and at once for each that something waits for.
  void Notify(Tell tell);
  // The next messages to `to`, in order and without gaps: after number `after`, or the first that
  // is not applied, if that is later. At most `most`, and of more than 1 MiB together only one.
  // None: nothing waits. An error of the store may be over soon.
  Result<std::vector<Numbered>> Next(PartitionId to, uint64_t after, size_t most) const;
  // How many are not applied, as far as is known here.
  uint64_t waiting() const;

 private:
  friend class Messages;  // which numbers them, and hears what is applied
  struct Sent {
    PartitionId to = 0;
    Numbered one;
  };
  struct Way {
    uint64_t applied = 0;  // all up to here
    uint64_t last = 0;     // that is durable
    std::deque<Numbered> newest;
    size_t bytes = 0;  // of them
  };
  // At start: from the first to the last of what rests.
  void Restore(PartitionId to, uint64_t first, uint64_t last);
  // They are durable, and in order.
  void Add(std::vector<Sent> sent);
  void Applied(PartitionId to, uint64_t up_to);

  const Store& store_;
  const PartitionId from_;
  mutable Mutex mutex_;
  std::map<PartitionId, Way> ways_ GUARDED(mutex_);
  Tell tell_ GUARDED(mutex_);
};

}  // namespace dfsmr
