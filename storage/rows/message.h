// What one partition tells another, and how far each has come with what it was told. A message is
// written in the batch of what causes it, and has a number: from 1 for each pair of partitions. The
// other applies it in a batch that notes the number. What it has applied need not rest any longer,
// except the last one, which tells where the numbers go on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fsm/derived/agenda.h"
#include "fsm/derived/breaker.h"
#include "fsm/derived/latency.h"
#include "fsm/rules/rules.h"
#include "fsm/when/occurrence.h"
#include "storage/rows/group.h"
#include "storage/rows/plan.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct Message {
  // On whose behalf something is started or moved: an occurrence, or an instance that was reported
  // on. What became of it is told to the partition that the message comes from.
  struct Asker {
    std::string ns;
    std::string cause;    // of an occurrence: its schedule or trigger
    uint64_t number = 0;  // of the occurrence
    std::string instance;
    friend bool operator==(const Asker&, const Asker&) = default;
  };
  // `follower` begins after `instance`, which lives where this goes to.
  struct Follow {
    std::string ns;
    std::string instance;
    std::string follower;
    uint64_t born = 0;  // the follower's first record: another one of that id is not meant
  };
  // To a follower: what it was to begin after has stopped.
  struct Ended {
    std::string ns;
    std::string instance;
    std::string follower;
    uint64_t born = 0;
    std::optional<InstanceResult> result;  // nullopt: there is no such instance
  };
  // An instance is to be started.
  struct Begin {
    Asker asker;
    KeptStart start;
    Boxed<Provenance> provenance;  // with its group
    LimitAsks asks;
    std::string client;
    bool inside = false;  // as in StartArgs
    bool outside = false;
    bool follows = false;
  };
  // An instance is to make a transition.
  struct Move {
    Asker asker;
    std::string ns;
    std::string instance;
    std::string transition;
    std::string node;
    std::string params;
    uint32_t depth = 0;  // in a chain of change triggers
  };
  // What became of Begin or Move.
  struct Decided {
    Asker asker;
    OccurrenceOutcome outcome = OccurrenceOutcome::kFailed;
    std::string error;
    std::string instance;
  };
  // To the keeper of a schedule or trigger: what it started has ended, as LaunchKeeper has it.
  struct Finished {
    std::string ns;
    std::string cause;
    std::string instance;
    bool failed = false;
    Timestamp time;
  };

  // To home: what an instance, or a token of it, has of limits from now on.
  struct Stake {
    enum class Kind : uint8_t {
      kNone,
      kAsks,    // and is answered
      kWaits,   // in its line, where it stood before
      kPaused,  // the same, and is not let in
      kHolds,   // whether there is room or not
    };
    std::string ns;
    std::string instance;
    uint64_t visit = 0;  // of the token; 0: the instance as a whole
    uint64_t ask = 0;    // the answer names it
    Kind kind = Kind::kNone;
    LimitAsks asks;
    int32_t priority = 0;
    uint64_t order = 0;  // of its start among those of all partitions
    Timestamp since;
    bool forced = false;
    std::vector<std::string> above;  // its parent and those above
    std::string group;               // that holds it back while it is closed; empty: none does
    bool in_line = false;            // kAsks: it has waited already, for fewer keys
  };
  // Home's answer to one that asked, when there is one: it holds the keys, or has no part in them.
  struct Verdict {
    std::string ns;
    std::string instance;
    uint64_t visit = 0;
    uint64_t ask = 0;
    LimitAnswer::Kind kind = LimitAnswer::Kind::kRoom;
    std::string key;  // unless kRoom: as in LimitAnswer
    std::string why;
    bool singleton = false;
    bool for_ever = false;  // only its ancestors hold what it lacks
  };
  // An instance is to be cancelled in favour of another one.
  struct Yield {
    std::string ns;
    std::string instance;
    CancelMode mode = CancelMode::kCancel;
    std::string why;
  };

  // To home: nothing is left here of a namespace that is being deleted. `made`: which one of that
  // name.
  struct Emptied {
    std::string ns;
    Timestamp made;
  };
  // From home: the namespace is gone, and may be made anew.
  struct Gone {
    std::string ns;
    Timestamp made;
  };

  // To home: what a change elsewhere brings a trigger. `begins` and `round` say for which reading
  // of the feed, as in TriggerRow.
  struct Item {
    std::string ns;
    std::string trigger;
    uint64_t begins = 0;
    uint64_t round = 0;
    uint64_t seq = 0;  // of the change
    std::string source;
    std::string json;
    uint32_t depth = 0;
    uint64_t missed = 0;  // so many changes were gone before it looked, in place of one
  };
  // From home: the item was not taken. Changes from it on are read again.
  struct Reread {
    std::string ns;
    std::string trigger;
    uint64_t begins = 0;
    uint64_t round = 0;  // from now on
    uint64_t seq = 0;
    uint64_t changes = 0;
    bool paused = false;  // as of so many changes
  };
  // To home: the instance of a poll has stopped.
  struct Polled {
    std::string ns;
    std::string trigger;
    std::string instance;
    std::string output;  // of one that has brought no items, and is gone
    bool nothing = false;
  };

  // To home: how the members of a group have changed here.
  struct Tally {
    std::string ns;
    std::string group;
    GroupCounts by;          // modulo 2^64
    uint64_t failed = 0;     // so many have, and so many go on again
    uint64_t recovered = 0;
    std::string last;        // of those that failed, and why
    Timestamp ended;         // when one stopped last; zero: none has
    uint64_t launched = 0;   // by home, for a backfill: they are in `by`, or never will be
  };
  // From home: what the members of a group are to do, and those to come, as in ControlGroup.
  struct Ordered {
    std::string ns;
    std::string group;
    GroupOrder::Action action = GroupOrder::Action::kNone;
    bool members = false;
  };

  // What quotas of namespaces count. To home: in this partition; from home: in all others.
  struct Use {
    std::string ns;
    uint64_t live = 0;
    uint64_t ready = 0;
    uint64_t started = 0;  // since it was told last
    friend bool operator==(const Use&, const Use&) = default;
  };
  struct Uses {
    std::vector<Use> uses;
    bool anew = false;  // who sends it does not know what the other one has
  };

  // From home: a built-in key of limits has a number, or has none any more. `followed`: it has
  // none, but is that of a schedule or trigger whose instances do not overlap.
  struct Counted {
    std::string ns;
    std::string key;
    bool counts = false;
    bool followed = false;
    uint64_t round = 0;  // that an answer names, when all that hold it here are told; 0: none does
  };
  // To home: so many more hold it here without having asked.
  struct Held {
    std::string ns;
    std::string key;
    int64_t by = 0;
    uint64_t answers = 0;  // a round; 0: none
  };
  // To home, of a queue or action: so many places more are wanted for tasks; so many are given back.
  struct Wanted {
    std::string ns;
    std::string key;
    int64_t by = 0;
    uint64_t back = 0;
    std::vector<Agenda::Turn> first = {};  // those that want a place, the next first
  };
  // From home: so many tasks more may be handed out.
  struct Places {
    std::string ns;
    std::string key;
    uint64_t more = 0;
  };

  // To home: how long attempts have taken here.
  struct Learned {
    struct Node {
      std::string ns;
      std::string machine;
      std::string node;
      uint64_t under_way = 0;  // that are claimed here
      std::vector<Latency::Sample> samples;
    };
    std::vector<Node> nodes;
  };
  // From home: what is known of all partitions.
  struct Paced {
    struct Node {
      std::string ns;
      std::string machine;
      std::string node;
      Pace pace;
    };
    std::vector<Node> nodes;
  };

  // To home: what was handed out of a machine, and has come back.
  struct Braked {
    std::string ns;
    std::string machine;
    bool waits = false;  // retries are held back here
    Breaker::State believes = Breaker::State::kClosed;  // the breaker to be
    Breaker::Spent spent;
  };
  // From home: what has become of the breaker of a machine.
  struct Brake {
    std::string ns;
    std::string machine;
    Breaker::Told stand;
    bool counts = false;  // home is to be told of all that is handed out
  };

  std::variant<Follow, Ended, Begin, Move, Decided, Finished, Stake, Verdict, Yield, Emptied, Gone,
               Item, Reread, Polled, Tally, Ordered, Uses, Counted, Held,
               Wanted, Places, Learned, Paced, Braked, Brake>
      of;
};

std::string EncodeMessage(const Message& message);
// kDataLoss: it is none, or one of a later version.
Result<Message> DecodeMessage(std::string_view text);

void PutOut(const Writer& writer, PartitionId to, uint64_t number, std::string message);
void DropOut(const Writer& writer, PartitionId to, uint64_t number);
// All that rest, by partition and number.
Result<Ok> ScanOut(const Reader& reader,
                   const std::function<void(PartitionId to, uint64_t number)>& visit);
// Those to one partition after a number, ascending, until `visit` returns false.
Result<Ok> ReadOut(const Reader& reader, PartitionId to, uint64_t after,
                   const std::function<bool(uint64_t number, std::string_view message)>& visit);

// All messages of `from` up to a number are applied.
void PutIn(const Writer& writer, PartitionId from, uint64_t number);
Result<std::map<PartitionId, uint64_t>> GetIns(const Reader& reader);

// One that lives elsewhere, and begins after an instance that lives here.
struct FollowerRow {
  std::string ns;
  std::string instance;
  std::string follower;
  PartitionId from = 0;
  uint64_t born = 0;
};
void PutFollower(const Writer& writer, const FollowerRow& row);
void DropFollower(const Writer& writer, const FollowerRow& row);
Result<Ok> ScanFollowers(const Reader& reader, const std::function<void(FollowerRow)>& visit);

}  // namespace dfsmr::rows
