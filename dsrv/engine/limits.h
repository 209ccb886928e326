// Limits: who holds the keys, who waits for them and who is next; instances as a whole, and the
// steps and nodes that workers are given. What counts for a key says limit_numbers.h, what is asked
// limit_asks.h, and what the built-in keys hold limit_counts.h.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/limit_ancestors.h"
#include "dsrv/engine/limit_asks.h"
#include "dsrv/engine/limit_census.h"
#include "dsrv/engine/limit_counts.h"
#include "dsrv/engine/limit_envoy.h"
#include "dsrv/engine/limit_guests.h"
#include "dsrv/engine/limit_judge.h"
#include "dsrv/engine/limit_lines.h"
#include "dsrv/engine/limit_numbers.h"
#include "dsrv/engine/limit_places.h"
#include "dsrv/engine/limit_reader.h"
#include "dsrv/engine/limit_stake.h"
#include "dsrv/engine/limit_views.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "fsm/derived/limit_table.h"
#include "fsm/when/launch.h"

namespace dfsmr {

class Limits : public Part, public DocumentKeeper, private LimitGate {
 public:
  Limits(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer, Values& values,
         Documents& documents, Agenda& agenda, Messages& messages, const EngineOptions& options);

  // Numbers for a key from now on, in place of what documents and askers say. Kept over restarts.
  // LIMIT_SET in the feed tells of it. Raised numbers let in those that wait in this commit.
  Result<Ok> Override(const std::string& ns, const std::string& key, const LimitChange& change);
  // The same of an export, unless the key has such numbers already.
  void Import(const std::string& ns, const std::string& key, const rows::LimitOverride& row);
  // What a schedule or trigger starts overlaps with nothing else that it has started, or may. Where
  // it may not, and there are several partitions, home counts also what runs without having asked.
  void SetOverlap(const std::string& ns, const std::string& cause, Overlap overlap);
  // Forgets all numbers of a namespace without instances and documents.
  void ForgetNamespace(const std::string& ns);
  // What there is to see of them. Look: when what is ready has asked, too.
  const LimitReader& reader() const { return reader_; }
  const LimitReader& Look() {
    LetAsk();
    return reader_;
  }
  // The numbers that count for a key.
  LimitNumbers NumbersOf(const std::string& ns, const std::string& key) const {
    return numbers_.StandingOf(ns, key).numbers;
  }
  // Whether a queue or an action has a limit by itself: then what is ready may wait for it.
  bool TasksLimited() const { return counts_.TasksLimited(); }

  // Whether an instance that is to begin at once would be left out. Its begin asks again. Starts of
  // one report share `reserved`: the places that those before are to take, by ns\0key.
  using Reserved = std::map<std::string, uint64_t>;
  Result<Ok> MayStart(const StartArgs& args, VersionState& version, Reserved* reserved);
  // What is to be asked of home before one is started elsewhere that limits may leave out; nullopt:
  // they will not.
  std::optional<rows::Message::Stake> QuestionOf(const StartArgs& args, VersionState& version);
  // At home: MayStart for such a question. `cause`: the schedule or trigger that starts it; empty:
  // a caller does.
  Result<Ok> Reserve(rows::Message::Stake question, std::string_view cause);
  Result<Ok> Reserve(std::string_view question);  // the same of another partition's caller
  // Elsewhere: one for which home has kept a place does not start.
  void GiveUp(const std::string& ns, const std::string& id) { envoy_.GiveUp(ns, id); }
  // A group that is closed lets no member begin, whatever has room.
  void CloseGroup(const std::string& ns, const std::string& group, bool closed) {
    table_.SetClosed(ns, group, closed);
  }
  // Cancels at once what is to make room for an instance, and lets the next ones in.
  void Settle();
  // Whether a paused or stopped instance may go on: it gave its limits' keys back.
  Result<Ok> MayResume(Resident& resident, const std::string& node);
  // An instance of a plan that was moved before its steps began asks anew. False: it does not go on
  // now.
  bool MayPlan(Resident& resident);

  // The keys that a ready token takes when it is handed out: `now`, or later. nullopt: limits have
  // no room for it, and it waits, has failed or is left out.
  std::optional<std::vector<LimitKey>> Admit(Resident& resident, const Token& token,
                                             bool now = true);
  // Whether limits of tasks keep a ready token back: of its queue, or of its action.
  bool KeepsBack(const Resident& resident, const Token& token) const;
  // The order of one that starts now.
  uint64_t NextOrder();
  // At home: one that lives elsewhere tells what it has of limits.
  void TakeStake(const rows::Message::Stake& stake);
  // Elsewhere: home's answer to one that asked, and who is to give way to another one.
  void HearVerdict(const rows::Message::Verdict& verdict);
  void MakeWay(const rows::Message::Yield& yield);
  // What several partitions tell each other of built-in keys, and of places for tasks.
  LimitCensus& census() { return census_; }
  LimitPlaces& places() { return places_; }
  // At the end of a turn: what there is to tell of built-in keys.
  void Tell();
  // The token was handed out, and holds its keys.
  void Claimed(Resident& resident, uint64_t visit);

  // When there is something to do by the clock, and when by real time: what is kept of rates is to
  // be saved, or other partitions are to be told.
  Timestamp Due() const;
  Timestamp SaveDue() const {
    return std::min({numbers_.Due(), places_.Due(), guests_.Due(), census_.Due()});
  }
  // Keeps what is to be kept of rates.
  void Save() { numbers_.Save(); }

  // At start: reads the numbers, before instances are loaded.
  Result<Ok> Recover();
  void Load(Resident& resident) override;
  // Of a plain machine's instance that runs, and is not brought into memory.
  void LoadResting(std::string_view ns, std::string_view id, std::string_view machine,
                   Timestamp since);
  void LoadReady(std::string_view ns, std::string_view id, uint64_t visit);
  // At start, when all instances are loaded.
  void Loaded();

  // Lets a rule ask whether the instance may begin or go on.
  void Advise(Resident& resident, Scene* scene);
  void Absorb(const Change& change) override;
  void BeginPass() override;
  bool Work() override;
  // As LimitNumbersBook.
  void AddOwners(const std::string& ns, const std::vector<Document>& documents,
                 Owners* owners) const {
    numbers_.AddOwners(ns, documents, owners);
  }
  void Defined(const DocumentVersion& version, bool first) override;
  void Deleted(const std::string& ns, const std::string& name) override;

 private:
  using Turn = LimitTable::Turn;
  using Stand = LimitTable::Standing;
  // A token by its instance's ns\0id and its visit; 0: the instance as a whole.
  using TokenName = std::pair<std::string, uint64_t>;

  using Stake = LimitStake;

  LimitAnswer Ask(const Instance& instance) override;  // of a rule
  LimitAnswer WouldAnswer(const Instance& instance) override;
  LimitVerdict VerdictOn(const Instance& instance);
  LimitAnswer AskHome(const Instance& instance);
  std::optional<std::vector<LimitKey>> AdmitElsewhere(Resident& resident, const Token& token);
  void HearOfToken(Resident& resident, const rows::Message::Verdict& verdict);
  void TellHome(const Instance& instance, uint64_t visit, const Stake& before, const Stake& after);
  void CountAsked(const Instance& instance, const Stake& before, const Stake& after);
  std::vector<std::string> ChainAbove(const Instance& instance);
  LimitRequest AskerOf(Resident& resident);
  void Take(const Instance& instance, uint64_t visit, const Stake& stake);
  void GiveBack(const Instance& instance, uint64_t visit, const Stake& before, const Stake& after);
  void Move(const Instance& instance, uint64_t visit, const Stake& before, const Stake& after);
  void AbsorbTokens(const Change& change);
  void AbsorbToken(const Change& change, const Token* before, const Token* now, uint64_t visit);
  // One that was given before a start is not given again, however the clock stands.
  void NoteOrder(uint64_t order);
  void Enlist(const Instance& instance, uint64_t visit);
  void Forget(const TokenName& name);

  bool HoldUnasked();
  bool EnrolSome();
  bool AskForOld();
  bool Register();
  void LetAsk();
  bool GiveWay();
  bool Recheck();
  bool RecheckOne(Resident& resident, uint64_t visit);
  bool Displace();
  void StandAgain();
  bool TurnOneAway();
  bool LetOneIn();
  void LetSomeIn();
  void TurnAway(Resident& resident, uint64_t visit, const LimitVerdict& verdict);

  OpenTurn& turn_;
  Residents& residents_;
  Changer& changer_;
  LimitTable table_;
  LimitNumbersBook numbers_;
  LimitAskers askers_;
  LimitCounts counts_;
  LimitJudge judge_;
  const EngineOptions& options_;
  Messages& messages_;
  LimitGuests guests_;               // at home
  LimitEnvoy envoy_;                 // elsewhere
  LimitPlaces places_;
  LimitCensus census_;
  LimitReader reader_;
  LimitLines lines_;
  LimitAncestors ancestors_;
  uint64_t last_moment_ = 0;         // of NextOrder
  std::optional<LimitAnswer> told_;  // what home has answered, while a rule hears of it
  Resident* asking_now_ = nullptr;  // of the rule that runs
  struct Asking {
    Turn turn;
    std::vector<LimitKey> keys;
  };
  std::map<TokenName, Asking> asking_;  // ready tokens, registered in the table
  std::deque<TokenName> to_ask_;        // ready tokens to be registered
  std::deque<TokenName> again_;   // that wait and stand in no line
  // Instances in whose favour more are to be cancelled, by ns\0id, and how far that has come.
  std::deque<std::pair<std::string, std::optional<LimitGathering>>> displacing_;
  std::deque<LimitVictim> victims_;
  // What runs without having asked for its limits: an instance on another version, a token whose
  // claim a crash had lost.
  std::deque<TokenName> unasked_;
  std::deque<std::string> old_;  // ns\0id: it waits, and its row does not say for which keys
  size_t left_ = 0;              // of this pass
  bool loading_ = true;
};

}  // namespace dfsmr
