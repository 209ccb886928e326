// The numbers of limits: those that operators have set, those of limit documents, and those of the
// askers; which of them count; and what is kept of rates over a restart.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/document_keeper.h"
#include "dsrv/engine/limit_views.h"
#include "dsrv/engine/names.h"
#include "fsm/derived/limit_table.h"
#include "fsm/when/check.h"
#include "fsm/when/limit.h"
#include "storage/rows/limit.h"

namespace dfsmr {

// The built-in key of the schedule or trigger that started an instance; nullopt: of none, or it is
// of a backfill, which does not count.
std::optional<std::string_view> CountedCause(const Provenance& provenance);

class LimitNumbersBook : public DocumentKeeper {
 public:
  LimitNumbersBook(OpenTurn& turn, Documents& documents, LimitTable& table)
      : turn_(turn), documents_(documents), table_(table) {}

  // At start: reads overrides, documents and rates.
  Result<Ok> Recover();

  LimitStanding StandingOf(const std::string& ns, const std::string& key) const;
  const rows::LimitOverride* OverrideOf(const std::string& ns, const std::string& key) const;
  Result<Ok> Override(const std::string& ns, const std::string& key, const LimitChange& change);

  // Of an export: where there is no override yet.
  void Import(const std::string& ns, const std::string& key, const rows::LimitOverride& row);

  // Forgets those of a namespace, and what was spent of its rates.
  void Forget(const std::string& ns);

  // Somebody asks for a key: its numbers stand in the table from now on. Those of the last that
  // asked count as long as somebody holds the key or waits for it.
  // They are kept over restarts.
  void Asked(const std::string& ns, const LimitKey& key);
  // One that has asked for a key stands for it.
  void Stands(const std::string& ns, const LimitKey& key);
  // One does not hold a key any more, or does not wait for it.
  void Left(const std::string& ns, const std::string& key);
  // At the first turn: forgets the askers of keys that nobody stands for any more.
  void DropAskers();
  // The first key from `from` on that has numbers of its own: overridden, or in a document.
  std::optional<std::string> NextKey(const std::string& ns, const std::string& from) const;
  // Goes on with the keys of a document that has changed. False: all have its numbers.
  bool RefreshMore();
  // The built-in keys that have a number or a rate, whoever asks, or are followed; by ns\0key.
  const std::set<std::string>& tracked() const { return tracked_; }
  bool HasNumber(const std::string& full) const { return numbered_.contains(full); }
  // Followed: a key has no number, but a schedule or trigger asks for it, and all that run count.
  bool IsFollowed(const std::string& full) const {
    return asked_for_.contains(full) && !HasNumber(full);
  }
  bool AnyNumber() const { return !numbered_.empty(); }
  void Follow(const std::string& ns, const std::string& key, bool follow);
  // Elsewhere than at home: what a key is there.
  void Track(const std::string& ns, const std::string& key, bool has_number, bool followed = false);
  // Counts up whenever `tracked` changes.
  uint64_t tracked_changes() const { return tracked_changes_; }

  // A key of a rate that more have begun under: to be kept.
  void Spent(const std::string& ns, const std::string& key);
  // By the machine's own clock; by the clock that rates go by there may be something before.
  Timestamp Due() const { return unsaved_.empty() ? kNever : due_; }
  bool IsDue() const;
  void Save();

  // Adds which limits govern keys, but for those among `documents`, which are defined anew.
  void AddOwners(const std::string& ns, const std::vector<Document>& documents,
                 Owners* owners) const;
  // Their numbers, from now on.
  void Defined(const DocumentVersion& version, bool first) override;
  void Deleted(const std::string& ns, const std::string& name) override;

 private:
  struct Governing {
    std::string name;
    std::shared_ptr<const LimitSource> source;
  };

  const Governing* DocumentOf(const std::string& ns, const std::string& key) const;
  // The numbers of a key, or of all that a document governs, may have changed.
  void Refresh(const std::string& ns, const std::string& key);
  // Those that are known: some at once, the others by RefreshMore.
  void RefreshGoverned(const std::string& ns, const LimitSource& source);
  // False: all keys of the root from `from` on are refreshed; else `from` is the next.
  bool RefreshSome(const std::string& ns, const std::string& root, std::string* from);
  void Govern(const std::string& ns, const std::string& name,
              std::shared_ptr<const LimitSource> source);
  // What the document said; null: nothing. Its keys are to be refreshed.
  std::shared_ptr<const LimitSource> Ungovern(const std::string& ns, const std::string& name);
  void SetAsker(const std::string& ns, const LimitKey& key);
  // Puts a key into the sets of `tracked`, or takes it out.
  void SetTracked(const std::string& full, bool has_number, bool asked_for);
  void SetNumbers(const std::string& ns, const std::string& key, const LimitNumbers& numbers);
  void SaveLater(const std::string& ns, const std::string& key);
  void Keep(const std::string& full, Timestamp at);
  void Unkeep(const std::string& full);

  OpenTurn& turn_;
  Documents& documents_;
  LimitTable& table_;
  std::map<std::string, rows::LimitOverride> overrides_;  // by ns\0key
  std::map<std::string, Governing> documents_by_root_;    // by ns\0root of the keys
  std::set<std::string> document_keys_;                   // with numbers of their own, by ns\0key
  std::map<std::string, std::string> roots_;              // by ns\0name of a document: its root
  std::set<std::string> askers_;  // keys whose last asker has a row, by ns\0key
  bool unswept_ = false;          // these are as they were read
  std::set<std::string> numbered_;   // built-in keys that have a number or a rate, by ns\0key
  std::set<std::string> asked_for_;  // by a schedule or trigger
  std::set<std::string> tracked_;    // both
  uint64_t tracked_changes_ = 0;
  struct Rest {
    std::string ns;
    std::string root;
    std::string from;
  };
  std::deque<Rest> to_refresh_;
  std::set<std::string> unsaved_;  // keys of rates
  Timestamp due_;
  Timestamp clock_due_;
  // The rows of rates: when they are full again, by key and by that time.
  std::map<std::string, Timestamp> kept_;
  std::set<std::pair<Timestamp, std::string>> kept_until_;
};

}  // namespace dfsmr
