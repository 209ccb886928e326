// What limits must do, worked out slowly: an account of instances with the keys that they ask for,
// which hears of each command and says what must come of it. It goes through all instances for each
// question, lets one in at a time, the first whose keys all have room, and knows nothing of lines,
// tables or rows.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fsm/machine/limit.h"

namespace dfsmr {

class LimitsAudit {
 public:
  enum class Outcome : uint8_t { kNone, kSuccess, kCancelled, kError };
  enum class Task : uint8_t { kNone, kReady, kWaits, kCalled, kClaimed };

  // An instance of a machine with one node, which is worked on once.
  struct One {
    // As it was started.
    std::string id;
    std::string machine;
    std::string group;
    std::string cause;
    std::string queue;
    int32_t priority = 0;
    std::optional<OnConflict> word;
    LimitAsks asks;   // of its machine
    LimitAsks given;  // with its start
    LimitAsks node;   // of its node
    bool force = false;
    bool hold = false;
    Timestamp start_at;

    // As it is.
    uint64_t order = 0;
    Outcome outcome = Outcome::kNone;
    bool stopped = false;
    bool begun = false;
    bool paused = false;   // by a call
    bool waits = false;    // for its turn, to begin or to go on
    bool holds = false;    // what it asked for
    uint64_t cancel = 0;   // 0: nobody asked for it; 1: to be cancelled; 2: with force
    std::set<std::string> keys;  // that it holds or waits for
    uint64_t since = 0;          // that it holds or waits
    uint64_t begun_at = 0;
    bool may_begin = false;  // its start_at has come
    Task task = Task::kNone;
    std::set<std::string> task_keys;
    uint64_t task_since = 0;

    // Stopped: how a resume finds it.
    bool resumable = false;
    bool in_hand = false;             // its task was claimed
    std::set<std::string> left_keys;  // that its task held
    bool late = false;                // its worker has reported since
    bool done = false;                // its worker's report came with the cancel

    bool Runs() const { return begun && !stopped && !paused && !waits; }
    bool InLine() const { return waits && !paused && !hold && !stopped; }
  };
  // What came of a command.
  enum class Answer : uint8_t { kDone, kLeftOut, kSingleton, kCancelling, kStopped };

  // The numbers that operators and documents give.
  struct Override {
    LimitNumbers numbers;
    bool no_max = false;
    bool no_rate = false;
  };
  struct Document {
    std::string root;
    LimitNumbers numbers;
    std::map<std::string, LimitNumbers> keys;
  };
  std::map<std::string, Override> overrides;  // by key
  std::map<std::string, Document> documents;  // by name

  // A pass of a turn begins: those come in that a rate lets in by now.
  void Begin(Timestamp now);
  // The pass is over: whose time has come, begins, and all is done that follows.
  void End(Timestamp now);

  Answer Start(One one);
  void Pause(const std::string& id);
  Answer Resume(const std::string& id);
  void Cancel(const std::string& id, bool force);
  void Finish(const std::string& id);
  // The same of one that has stopped: it counts when that is resumed.
  void FinishLate(const std::string& id);
  // A task is handed out. Empty: so it may be.
  std::string Claim(const std::string& id);
  // Of one that must have been handed out; empty: there is none.
  std::string Overlooked() const;

  std::set<std::string> HoldersOf(const std::string& key) const;
  LimitNumbers NumbersOf(const std::string& key) const;
  // The rate's bucket, when it is full; and when it would be without what has begun since `since`.
  Timestamp FullAt(const std::string& key) const;
  Timestamp FullAtWithout(const std::string& key, Timestamp since) const;
  void SetFullAt(const std::string& key, Timestamp at);
  std::set<std::string> RateKeys() const;
  // Whether a rate lets one more in at about `now`, the next or one after it.
  bool AtTheEdge(Timestamp now, Duration edge) const;
  // More than a rate allows have begun; empty: no.
  std::string TooMany() const;

  const std::map<std::string, One>& ones() const { return ones_; }
  std::map<std::string, One>& ones() { return ones_; }
  // Cancelled in favour of others: of whom, and because of which key.
  const std::map<std::string, std::pair<std::string, std::string>>& gave_way() const {
    return gave_way_;
  }

 private:
  enum class Kind : uint8_t { kRoom, kWaits, kLeftOut, kFails };
  struct Verdict {
    Kind kind = Kind::kRoom;
    bool singleton = false;
    std::set<std::string> keys;
    std::deque<std::pair<std::string, uint64_t>> victims;  // and how they are to be cancelled
  };
  struct Bucket {
    Timestamp before;  // when it was full, before all that follows
    std::vector<std::pair<Timestamp, Duration>> begun;
    bool forced = false;  // some began past it
  };

  LimitAsks AsksOf(const One& one) const;
  bool Limited(const std::string& key) const;
  static bool Counts(const One& one, const std::string& key);
  static bool HoldsKey(const One& one, const std::string& key);
  uint64_t InLineFor(const std::string& key) const;
  bool HasPlace(const std::string& key) const;
  bool RateLets(const std::string& key) const;
  bool HasRoom(const One& one, const std::string& key) const;
  bool HasRoom(const One& one, const LimitAsk& ask, bool in_line) const;
  bool Lacks(const One& one, const LimitAsk& ask) const;
  Verdict Judge(const One& one, const LimitAsks& asks, bool in_line);
  void AddVictims(const One& one, const LimitAsk& ask, Verdict* verdict);
  uint64_t SinceOf(const One& one, const std::string& key) const;

  void AskToBegin(One& one);
  LimitAsks AsksToGoOn(const One& one) const;
  Answer MayGoOn(One& one);
  void AskToGoOn(One& one);
  Answer ResumeStopped(One& one);
  void Note(One& one, const Verdict& verdict, bool holds);
  void LetBegin(One& one);
  void GoOn(One& one);
  void TakeTask(One& one, Task task);
  void Stop(One& one, Outcome outcome);
  void GiveWay(std::deque<std::pair<std::string, uint64_t>> victims);
  void Spend(const std::string& key);
  void Settle();
  bool Awaited(const std::string& key) const;
  bool TurnTaskAway();
  bool LetOneIn();

  std::map<std::string, One> ones_;
  std::map<std::string, LimitNumbers> askers_;
  std::map<std::string, Bucket> buckets_;
  std::map<std::string, std::pair<std::string, std::string>> gave_way_;
  bool gathers_ = false;  // those that are to give way do so later
  std::deque<std::pair<std::string, uint64_t>> give_way_;
  uint64_t clock_ = 0;  // counts what happens
  uint64_t orders_ = 0;
  Timestamp now_;
};

}  // namespace dfsmr
