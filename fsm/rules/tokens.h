// Where an instance stands: its tokens, and what has arrived at the joins of its plan.
//
// A plain machine has a handful of tokens; a plan may have a hundred thousand. So a plan's tokens
// are found through indexes, and each change is noted, so that the engine acts on the changes alone
// and writes nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fsm/base/boxed.h"
#include "fsm/base/time.h"
#include "fsm/condition/outcome.h"
#include "fsm/machine/limit.h"
#include "fsm/machine/machine.h"
#include "fsm/machine/runs_on.h"

namespace dfsmr {

enum class TokenState : uint8_t { kNone, kReady, kClaimed, kWaiting, kHeld, kDone };

// Unique in a partition for ever: serials start anew under each epoch, epochs never repeat.
struct ClaimId {
  uint64_t epoch = 0;
  uint64_t serial = 0;
  friend auto operator<=>(const ClaimId&, const ClaimId&) = default;
  explicit operator bool() const { return serial != 0; }
};

// What is known of an attempt besides, when its claim was made in two stages, or a worker's session
// keeps it.
struct Operation {
  Duration begin_within{};  // zero: it began when it was handed out
  Timestamp begin_time;     // Timestamp(): it has not begun
  std::string session;      // the worker's process that keeps it; empty: none does
  Duration keep_for{};      // how long, after the session's stream has ended
  std::string agent = {};   // the session is of this agent; empty: of a worker that is none
  bool lost = false;        // the session's stream has ended
  bool abandoned = false;   // it was lost with its worker
  std::string note = {};    // the worker's last, for people
  Timestamp signal_time;    // when the agent said that it has the order to stop

  friend bool operator==(const Operation&, const Operation&) = default;
};

struct Claim {
  ClaimId id;
  std::string worker;
  uint32_t attempt = 0;
  Timestamp claim_time;
  Timestamp deadline = kNever;
  bool timed_out = false;
  bool given_back = false;  // void; kept so that it is void after a restart, too
  bool retry = false;       // an earlier claim of the visit had timed out
  double progress = 0;
  Duration sampled{};       // not zero: counted as having lasted at least this long
  uint64_t session = 0;     // the stream that it was handed out on; 0: none; not kept on disk
  bool ended = false;       // its worker has ended, and has not said how it went

  // Null: it began when it was handed out, and is given back when its stream ends.
  Boxed<Operation> operation = {};

  bool Live() const { return !timed_out && !given_back && !ended; }
  // Until a claim has begun, `deadline` says until when it must have.
  bool Begun() const { return !operation || operation->begin_time != Timestamp(); }
  // REQUIRES: it has begun.
  Timestamp BeginTime() const { return operation ? operation->begin_time : claim_time; }
  friend bool operator==(const Claim&, const Claim&) = default;
};

// The instances that a step has started and waits for.
struct ChildCounts {
  uint64_t generation = 0;  // the visit that started them: others are of an earlier visit
  uint64_t total = 0;
  uint64_t started = 0;      // the numbers 0 to started - 1 have been given out
  uint64_t running = 0;      // neither stopped nor paused
  uint64_t paused = 0;
  uint64_t success = 0;
  uint64_t failed = 0;       // stopped with ERROR, CANCELLED or ABORTED, or could not be started
  uint64_t cancelled = 0;    // of the failed
  uint64_t unplanned = 0;    // of the failed: never had a step ready
  uint64_t first = 0;        // the number of the first child
  uint32_t concurrency = 0;  // 0: no limit
  bool counted = false;      // total is known
  bool restart = false;      // the unplanned ones are to be started again
  uint64_t restart_at = 0;   // children with lower numbers have been looked at
  bool told = false;         // the worker that asked for them was told that all have ended
  bool cancelled_all = false;  // those that run are cancelled: their step's section ends
  std::string error;         // why one could not be started

  bool AllEnded() const { return counted && !restart && started >= total && running == 0; }
  // Whether the step still waits for them.
  bool Awaited() const { return !told; }
  friend bool operator==(const ChildCounts&, const ChildCounts&) = default;
};

// What a token on a step of a plan carries from visit to visit of the step's nodes.
struct StepState {
  Timestamp start_time;          // first claimed, or entered when nobody claims it
  std::string event;             // what woke it; empty: its first run, or one after a failure
  std::string event_data;        // JSON object
  std::vector<std::pair<std::string, std::string>> inbox;  // events that wait, oldest first
  uint32_t tries = 0;            // that failed since it began, or was last retried
  uint32_t tries_limit = 1;
  uint32_t polls = 0;
  uint32_t poll_failures = 0;    // in a row
  std::string wake;              // suspended: the event that comes at available_at
  double progress = 0;
  std::string worker;            // that had it last, in a visit or try before this one
  uint64_t next_child = 0;       // the number of the next child that it starts
  Boxed<ChildCounts> children;
  friend bool operator==(const StepState&, const StepState&) = default;
};

// What has gone wrong at a node of a machine; a step's tries are in its StepState.
struct Failures {
  uint32_t tries = 0;  // that failed
  friend bool operator==(const Failures&, const Failures&) = default;
};

// The limits' keys that a token holds, or waits for.
struct TokenLimits {
  enum class State : uint8_t {
    kWaits,   // WAITING, until it is its turn
    kCalled,  // READY, and its places are kept for it
    kHolds,   // from the hand-out on
  };
  State state = State::kWaits;
  std::vector<LimitKey> keys;
  uint64_t order = 0;     // of its instance's start
  Timestamp since;        // in this state
  Timestamp ready_since;  // when it became ready, for its place in the queue when it is called
  friend bool operator==(const TokenLimits&, const TokenLimits&) = default;
};

// What workers have left with a token besides reports.
struct Handling {
  struct Refusal {
    std::string worker;
    Timestamp time;
    std::string reason;
    friend bool operator==(const Refusal&, const Refusal&) = default;
  };
  std::string checkpoint;         // JSON object, for later attempts; empty: none
  std::vector<Refusal> refusals;  // the last ten of the visit, oldest first
  uint32_t abandoned = 0;         // attempts of the visit that were lost with their workers
  friend bool operator==(const Handling&, const Handling&) = default;
};

// A report that came when its instance had stopped. It was refused, and counts at the resume.
struct LateReport {
  ClaimId claim;
  Timestamp time;
  std::string transition;
  std::string params;
  std::string output;
  std::string error;
  std::string client;
  std::optional<Duration> wake_after;
  uint64_t children = 0;  // instances to start: their rows are those of a suspended step
  uint32_t concurrency = 0;
  std::string checkpoint;
  std::string error_kind = {};
  bool fatal = false;
  std::optional<Duration> retry_after = {};
  std::string starts = {};  // what it starts besides, as the rows have it; empty: nothing
  friend bool operator==(const LateReport&, const LateReport&) = default;
};

// One node where an instance stands.
struct Token {
  NodeIndex node = kNoNode;
  uint64_t visit = 0;
  TokenState state = TokenState::kNone;
  uint32_t attempt = 0;  // claims of this visit so far
  std::string params;    // JSON object, given by the transition that led here; empty means {}
  std::vector<Claim> claims;
  Timestamp available_at;  // ready: since when; waiting: until when (kNever: until someone acts)
  std::string error;
  uint64_t forgotten_epoch = 0;  // unlisted claims of this epoch and of earlier ones are void
  NodeIndex home = kNoNode;      // of a plan: the node's home
  Boxed<StepState> step;         // of a plan
  Boxed<TokenLimits> limits;     // null: it holds none and waits for none
  Boxed<Handling> handling;      // null: nothing of it
  Boxed<RunsOn> runs_on;         // resolved; null: not yet, or any worker may take it
  // Held, because it runs at most once, and its worker has ended without saying how it went: only a
  // call that names the node hands it out again, or one with force.
  bool unsaid = false;
  Boxed<LateReport> late;  // of what is left: null: nobody has reported
  Boxed<Failures> failures;      // null: nothing has gone wrong

  bool WaitsForLimits() const { return limits && limits->state == TokenLimits::State::kWaits; }
  std::string_view Checkpoint() const {
    return handling ? std::string_view(handling->checkpoint) : std::string_view();
  }
  const Claim* FindClaim(ClaimId id) const;
  bool HasLiveClaim() const;
  bool TimedOutBefore() const;
  const std::string& LastWorker() const;  // that has it, or had it last; empty: nobody had
  friend bool operator==(const Token&, const Token&) = default;
};

// How many tries of its work have failed since it began, or was offered anew.
uint32_t TriesOf(const Token& token);
// How many there may be; 0: it stands on no work. A step knows it without its machine.
uint32_t TriesLimitOf(const Machine* machine, const Token& token);

// How a step's phase ended.
struct Ended {
  bool skipped = false;
  uint64_t visit = 0;
  Timestamp start_time;
  Timestamp end_time;
  Boxed<ChildCounts> children;
  std::string note = {};  // why it was skipped
  uint32_t tries = 0;     // that had failed
  std::string worker = {};  // that had it last
  friend bool operator==(const Ended&, const Ended&) = default;
};

// How a place of a plan has settled, where that is more than being done. What is settled for
// conditions may still lead on later: a step that is held, or blocked behind one that is.
struct Settling {
  enum class Decision : uint8_t {
    kOpen,    // not yet
    kRuns,    // its `if` was true
    kStays,   // it was false, and those before have not all led on: nor does this one
    kPassed,  // it was false, and this one has led on
  };
  uint32_t early = 0;    // how many of those before have settled, and not led on
  bool settled = false;  // those behind have been told that it has, though it has not led on
  bool dropped = false;  // it had begun when its plan stopped
  Decision decision = Decision::kOpen;
  StepOutcome outcome = StepOutcome::kNone;  // kNone: by its token, else it succeeded
  std::string note;                          // why it failed or was skipped
  friend bool operator==(const Settling&, const Settling&) = default;
};

// How a section of a plan stands.
struct SectionState {
  enum class Phase : uint8_t {
    kRuns,         // its steps do as ever, also before it has begun and when it is over
    kEnds,         // a step has failed: what has begun ends
    kCompensates,  // its compensation runs
    kUndone,       // its compensation is over, and what comes then has not begun
    kCompensated,  // it is held: retry or skip it
    kResets,       // its steps are being put back to where nothing had begun
  };
  // What comes after its compensation.
  enum class Then : uint8_t { kAgain, kAtOnce, kHeld, kSkip };
  Phase phase = Phase::kRuns;
  Then then = Then::kAgain;
  uint32_t tries = 0;   // that failed
  bool swept = false;   // kEnds: all of its steps have been told to end
  std::string error;    // why the last try failed: "step create: no room"
  double done = 0;      // of the plan's done_weight, what its own steps have
  bool warned = false;  // a step was skipped, but not by its `if`
  // Steps that were skipped. Their readers outside are skipped once the section is over.
  std::vector<uint32_t> skipped;
  friend bool operator==(const SectionState&, const SectionState&) = default;
};

// What a place in a section, or one that a section leads to, keeps when the section begins anew.
struct Keepsake {
  // How often a place outside of its section has led here: by the innermost section that both of
  // them are in, kNoSection for none.
  std::vector<std::pair<uint32_t, uint32_t>> led;
  std::vector<NodeIndex> led_from;  // the homes of those places, for conditions; else empty
  uint32_t doomed_in = kNoSection;  // it is skipped because of what happened in this section
  uint64_t next_child = 0;          // the number for its next child
  Boxed<SectionState> section;      // of the gate behind a section
  friend bool operator==(const Keepsake&, const Keepsake&) = default;
};

class Tokens {
 public:
  using const_iterator = std::vector<Token>::const_iterator;

  size_t size() const { return tokens_.size(); }
  bool empty() const { return tokens_.empty(); }
  const Token& front() const { return tokens_.front(); }
  const Token& operator[](size_t slot) const { return tokens_[slot]; }
  const_iterator begin() const { return tokens_.begin(); }
  const_iterator end() const { return tokens_.end(); }

  // Slots stay as they are until a token is removed: then the last one takes its place.
  std::optional<size_t> SlotOf(uint64_t visit) const;
  const Token* Find(uint64_t visit) const;
  std::optional<size_t> SlotOfHome(NodeIndex home) const;  // of a plan
  size_t Count(TokenState state) const;

  // To change a token in other ways than its node, visit and home.
  Token& Mutable(size_t slot);
  Token* FindMutable(uint64_t visit);
  Token& front() { return Mutable(0); }
  Token& operator[](size_t slot) { return Mutable(slot); }

  Token& Add(Token token);
  void Replace(size_t slot, Token token);
  void Remove(size_t slot);
  void Clear();  // tokens and arrivals, and what is left

  // What is left: tokens that were taken away because their instance is cancelled or stops, as they
  // were, for its resume. A home has one of them at most.
  using Left = std::map<std::pair<NodeIndex, uint64_t>, Token>;  // by home and visit
  const Left& left() const;
  void Leave(size_t slot);
  void LeaveAll();
  // To change one; null: there is none. In a stopped plan only those that were restored are found.
  Token* LeftOf(uint64_t visit);
  Token* LeftAt(NodeIndex home);
  // They stand again where they stood, in place of the DONE token of a stopped instance.
  void TakeUp();
  // The store has what is left of a stopped plan: memory need not.
  void ForgetLeft();

  // Joins. Arrive answers how many arrivals the node has had, with this one; Open resets it.
  uint32_t Arrive(NodeIndex node);
  void Open(NodeIndex node);
  const std::unordered_map<NodeIndex, uint32_t>& arrived() const { return InPlan().arrived; }
  // Steps that are skipped, by home: the walk passes them when it reaches them, or has passed them.
  void Doom(NodeIndex home);
  bool Doomed(NodeIndex home) const { return InPlan().doomed.contains(home); }
  void End(NodeIndex home, Ended ended);
  // Of sections. Null: nothing is kept that would differ from a default one.
  const Keepsake* KeptAt(NodeIndex home) const;
  Keepsake& Keep(NodeIndex home);
  const std::map<NodeIndex, Keepsake>& kept() const { return InPlan().kept; }
  // The same after Clear, for the rows.
  const Keepsake* LastKeptAt(NodeIndex home) const;
  // Forgets that the place was reached, and how it ended. What is kept, and a new input, stay.
  // REQUIRES: no token stands there.
  void Reset(NodeIndex home);
  // Homes that were reset, whose outputs have to be dropped, since it was called last.
  std::vector<NodeIndex> TakeResets();
  bool HasResets() const { return plan_ && !plan_->resets.empty(); }
  // Sections, by their entries, that may have ended: a token has left them.
  void CheckSection(NodeIndex entry) { OfPlan().to_check.push_back(entry); }
  bool ToCheck() const { return plan_ && !plan_->to_check.empty(); }
  std::optional<NodeIndex> NextToCheck();
  // Up to here no token is left in a section that ends.
  NodeIndex& CursorOf(NodeIndex entry) { return OfPlan().cursors[entry]; }
  // A template that takes the place of the step's own input from now on; null: there is none.
  void Patch(NodeIndex home, std::string input);
  const std::string* Patched(NodeIndex home) const;
  // Null: nothing is known that would differ from a default one.
  const Settling* SettlingOf(NodeIndex home) const;
  Settling& Settle(NodeIndex home);
  const std::map<NodeIndex, Settling>& settlings() const { return InPlan().settlings; }

  // The tokens that have changed since the last Forget, each once, as they were before; nullopt:
  // the token is new. When Find no longer knows the visit, the token has left it.
  struct Touched {
    uint64_t visit;
    std::optional<Token> before;
  };
  const std::vector<Touched>& touched() const { return touched_; }
  void Forget();

  // Homes whose rows have to be written, changed or ended since the last ForgetRows.
  const std::set<NodeIndex>& dirty() const { return InPlan().dirty; }
  const Ended* EndedAt(NodeIndex home) const;
  void ForgetRows();

  // For reading from the store: what is restored does not count as changed.
  void Restore(Token token);
  void RestoreLeft(Token token);
  // Whether all nodes and homes in it are below `nodes`.
  bool Within(size_t nodes) const;
  void RestoreArrived(NodeIndex node, uint32_t count) { OfPlan().arrived[node] = count; }
  void RestoreDoomed(NodeIndex home) { OfPlan().doomed.insert(home); }
  void RestorePatched(NodeIndex home, std::string input) {
    OfPlan().patched[home] = std::move(input);
  }

  void RestoreKept(NodeIndex home, Keepsake kept) { OfPlan().kept[home] = std::move(kept); }
  void RestoreSettling(NodeIndex home, Settling settling) {
    OfPlan().settlings[home] = std::move(settling);
  }

  friend bool operator==(const Tokens& a, const Tokens& b) {
    return a.tokens_ == b.tokens_ && a.left() == b.left() && a.arrived() == b.arrived() &&
           a.settlings() == b.settlings() &&
           a.InPlan().doomed == b.InPlan().doomed && a.InPlan().patched == b.InPlan().patched &&
           a.kept() == b.kept();
  }

 private:
  // What only the tokens of a plan have.
  struct Plan {
    std::unordered_map<uint64_t, size_t> by_visit;
    std::unordered_map<NodeIndex, size_t> by_home;
    std::unordered_map<NodeIndex, uint32_t> arrived;
    std::set<NodeIndex> doomed;
    std::map<NodeIndex, std::string> patched;
    std::map<NodeIndex, Settling> settlings;
    std::map<NodeIndex, Keepsake> kept;
    std::map<NodeIndex, Keepsake> last_kept;  // when it was cleared
    std::vector<NodeIndex> resets;
    std::vector<NodeIndex> to_check;
    std::map<NodeIndex, NodeIndex> cursors;
    std::unordered_set<uint64_t> touched;  // visits in touched_
    std::set<NodeIndex> dirty;
    std::map<NodeIndex, Ended> ended;
  };
  const Plan& InPlan() const;
  Plan& OfPlan();

  bool NoteFirst(const Token& token);
  void Note(const Token& token);
  void NoteNew(uint64_t visit);
  void Index(size_t slot);
  void Unindex(size_t slot);

  std::vector<Token> tokens_;
  std::vector<Touched> touched_;
  std::array<size_t, 6> counts_{};  // by state, before what is in touched_
  Boxed<Plan> plan_;
  Boxed<Left> left_;
};

}  // namespace dfsmr
