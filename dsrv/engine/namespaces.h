// Namespaces: which there are, their settings and states, and their quotas. A namespace is made by
// name or when it is first used. All of them are in memory, with what the quotas count; each is a
// row, written in the turn that changes it.
//
// Starts from outside ask MayStart. What starts inside counts as well, and asks nobody. A namespace
// without quotas counts nothing as it goes: its use is added up from the catalog when somebody asks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/space_views.h"
#include "dsrv/engine/types.h"

namespace dfsmr {

// NO_SUCH_NAMESPACE.
Error NoSuchNamespace(const std::string& ns);

// Where a namespace stands that quotas count.
struct SpaceStand {
  SpaceCounts here;       // in this partition
  uint64_t live = 0;      // in all, as far as is known here
  uint64_t ready = 0;     // the same
  uint64_t most_live = 0;   // 0: as many as there are
  uint64_t most_ready = 0;  // the same
  uint64_t started = 0;   // here from outside, since the engine was opened
  double saved = 0;       // starts
};

class Spaces {
 public:
  static constexpr size_t kMost = 10'000;

  Spaces(OpenTurn& turn, Catalog& catalog, Documents& documents, const EngineOptions& options)
      : turn_(turn), catalog_(catalog), documents_(documents), options_(options) {}
  Spaces(const Spaces&) = delete;
  Spaces& operator=(const Spaces&) = delete;

  // At start, before anything else is read. Namespaces that are in use and have no row get one.
  Result<Ok> Recover();
  // Takes over its settings and state from home. True: it rests now, or rests no longer.
  bool Adopt(const std::string& ns, rows::SpaceRow row);
  // At start, when all instances are there: from now on quotas count.
  void Loaded();

  // The verb for whatever makes a namespace by its first use: it is there from now on. An error:
  // NO_SUCH_NAMESPACE with closed namespaces, NAMESPACE_DELETING, or there are too many.
  Result<Ok> Use(const std::string& ns);
  // The same, and changes nothing.
  Result<Ok> MayUse(const std::string& ns) const;
  // NAMESPACE_DELETING.
  Result<Ok> MayChange(const std::string& ns) const;

  // Whether an instance may be started from outside. `before`: so many starts of the same report
  // come first. NAMESPACE_FROZEN, QUOTA_EXCEEDED, and as MayUse.
  Result<Ok> MayStart(const std::string& ns, bool dry_run, uint64_t before);
  // One was.
  void Started(const std::string& ns);
  // Whether `more` ids may be defined. QUOTA_EXCEEDED.
  Result<Ok> MayDefine(const std::string& ns, uint64_t more);
  // For the registry: whether an archive of so many bytes has room, and that one came (or went).
  // What there is at start it tells by the second.
  Result<Ok> MayPut(const std::string& ns, uint64_t bytes) const;
  void AddPackageBytes(const std::string& ns, int64_t bytes);
  // For secrets: how many names there are.
  void AddSecrets(const std::string& ns, int64_t names);
  bool RequiresSignatures(const std::string& ns) const;

  // For space_shares.h: those that quotas count as they go, and what the others have of them;
  // `started`: so many have been started there since.
  void ForEachCounted(const std::function<void(const std::string&, const SpaceStand&)>& visit);
  void SetOthers(const std::string& ns, uint64_t live, uint64_t ready, uint64_t started);
  // Counts up whenever quotas are others.
  uint64_t changes() const { return changes_; }

  // For what rests while its namespace is frozen, or goes.
  bool Frozen(const std::string& ns) const {
    if (resting_ == 0) return false;
    const Space* space = Find(ns);
    return space && space->Rests();
  }
  // Records of the feed up to it are not of this namespace; 0: all are.
  uint64_t FeedFloor(const std::string& ns) const;
  // At most for so long what stopped at `time` is kept; nullopt: as long as its machine says.
  std::optional<Duration> RetentionCap(const std::string& ns, Timestamp time) const;

  // Calls --------------------------------------------------------------------------------------

  // NAMESPACE_EXISTS.
  Result<SpaceView> Create(const std::string& ns, const SpaceChange& settings,
                           const std::string& client);
  Result<SpaceView> Update(const std::string& ns, const SpaceChange& change,
                           const std::string& client);
  Result<SpaceView> Get(const std::string& ns);
  // By name after `after`, those that `visible` lets through, at most `limit`.
  std::vector<SpaceView> List(const std::string& after, size_t limit,
                              const std::function<bool(const std::string& ns)>& visible);

  // For Engine::Freeze and deletions.h ---------------------------------------------------------

  // kNone: there is none.
  rows::SpaceState StateOf(const std::string& ns) const;
  // When it was made; zero: nobody knows of it.
  Timestamp MadeAt(const std::string& ns) const;
  Timestamp DrainUntil(const std::string& ns) const;
  void SetState(const std::string& ns, rows::SpaceState state, Timestamp drain_until,
                const std::string& client);
  // Those that are frozen, or go.
  std::vector<std::string> Frozen() const;
  // Those in one of the states of a deletion.
  std::vector<std::string> Going() const;
  // What is left of it is where the feed of the next one of its name begins. Tells of it.
  void Forget(const std::string& ns, const std::string& client);
  // A bounded number of steps, counted by what is in memory: instances that have not stopped.
  uint64_t LiveIn(const std::string& ns) const;

 private:
  struct Space {
    rows::SpaceRow row;
    rows::Quotas effective;
    std::unique_ptr<SpaceCounts> counts;  // null: no quota needs them
    SpaceCounts others;                   // of other partitions, as these have told
    uint64_t outside = 0;                 // starts, while a quota counts them
    double saved = 0;                     // starts, of starts-per-second
    Timestamp saved_at{};
    std::array<uint32_t, 10> started{};  // in the last seconds, by second
    int64_t second = 0;                  // of the newest of these
    uint64_t package_bytes = 0;
    uint64_t secrets = 0;

    bool Gone() const { return row.state == rows::SpaceState::kDeleted; }
    bool Deleting() const {
      return row.state == rows::SpaceState::kDraining || row.state == rows::SpaceState::kDropping;
    }
    bool Rests() const { return Deleting() || row.state == rows::SpaceState::kFrozen; }
  };

  const Space* Find(const std::string& ns) const;  // null: there is none
  Space* Find(const std::string& ns);
  Space& Make(const std::string& ns, const std::string& client);
  void Put(const std::string& ns, const Space& space);
  void Apply(Space& space, const SpaceChange& change);
  // Has the quotas in force, from now on.
  void Enforce(const std::string& ns, Space& space);
  void Rate(Space& space) const;
  Result<Ok> MayStartMore(const std::string& ns, Space& space, bool dry_run, uint64_t before);
  void Advance(Space& space) const;
  SpaceUsage UsageOf(const std::string& ns, const Space* space);
  SpaceView ViewOf(const std::string& ns, Space& space);
  void Tell(ChangeKind kind, const std::string& ns, const std::string& client,
            std::string_view note);

  OpenTurn& turn_;
  Catalog& catalog_;
  Documents& documents_;
  const EngineOptions& options_;
  std::map<std::string, Space> spaces_;  // deleted ones, too, as long as the feed has them
  size_t there_ = 0;                     // that are not deleted
  size_t resting_ = 0;                   // frozen, or going
  bool loaded_ = false;
  uint64_t changes_ = 0;
};

}  // namespace dfsmr
