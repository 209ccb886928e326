// Triggers: each is brought items by changes of the feed (listening.h), by polls (polling.h), by
// webhooks and by hand, and what it takes (intake.h) starts or sends something.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/document_keeper.h"
#include "dsrv/engine/intake.h"
#include "dsrv/engine/item_sender.h"
#include "dsrv/engine/launch_keeper.h"
#include "dsrv/engine/listening.h"
#include "dsrv/engine/live_count.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/polling.h"
#include "dsrv/engine/trigger_state.h"
#include "fsm/when/check.h"
#include "storage/rows/message.h"
#include "storage/rows/occurrence.h"

namespace dfsmr {

// A trigger as clients see it.
struct TriggerView {
  DocumentVersion definition;
  rows::TriggerRow row;
  rows::OccurrenceHead occurrences;
  std::optional<Occurrence> last;
  LaunchCounts counts;
  uint64_t open_gatherings = 0;
  bool listens = false;  // to changes; else the two below mean nothing
  // By partition: all records of its feed up to there have been looked at. Empty: not all have said.
  std::vector<uint64_t> positions;
  uint64_t lag = 0;  // how many are behind these
};

// The trigger that a path of a namespace belongs to, and how a caller proves who it is.
struct Hook {
  std::string trigger;
  WebhookSource source;
  bool paused = false;
};

class Triggers : public Part, public DocumentKeeper, public LaunchKeeper {
 public:
  struct Below {  // what it is built on
    OpenTurn& turn;
    Documents& documents;
    Occurrences& occurrences;
    Residents& residents;
    Changer& changer;
    Starter& starter;
    Launcher& launcher;
    Limits& limits;
    Retention& retention;
    const Spaces& spaces;
    Messages& messages;
    const EngineOptions& options;
  };
  explicit Triggers(const Below& below);
  Triggers(const Triggers&) = delete;
  Triggers& operator=(const Triggers&) = delete;

  // At start, when the instances are there.
  Result<Ok> Recover();

  // For calls. NO_SUCH_TRIGGER. `version` 0: the latest. Of those that are retired, too: their row
  // is a deleted one.
  Result<TriggerView> Get(const std::string& ns, const std::string& name, uint32_t version);
  // In order of name after `after`, until `visit` returns false. With those that are retired.
  Result<Ok> List(const std::string& ns, const std::string& after,
                  const std::function<bool(const TriggerView&)>& visit);
  // How far each trigger that listens to changes has read this partition's feed.
  void VisitPlaces(const std::function<void(const std::string& ns, FeedPlace place)>& visit) const;
  // What another partition says of that; it is shown until it is forgotten.
  void AddElsewhere(const std::string& ns, const FeedPlace& place) {
    elsewhere_[{ns, place.trigger}].push_back(place);
  }
  void ForgetElsewhere() { elsewhere_.clear(); }
  // An item by hand. `on` may be empty when there is one source. BAD_REQUEST: there is no such
  // source, or `item` is no JSON. DISK_FULL.
  Result<Occurrence> Fire(const std::string& ns, const std::string& name, const std::string& on,
                          const std::string& item,
                          const std::optional<TraceContext>& trace = {});
  // Pausing what is paused changes the note; resuming what is not changes nothing. `skip`: what
  // came while it was paused is passed over.
  Result<Ok> Pause(const std::string& ns, const std::string& name, const std::string& note,
                   const std::string& client);
  Result<Ok> Resume(const std::string& ns, const std::string& name, bool skip);
  // A namespace is frozen from now on, or not any more: its triggers do as when paused.
  void FreezeChanged(const std::string& ns);
  // A dead letter again. NO_SUCH_TRIGGER, and as Occurrences::ToRetry.
  Result<Occurrence> Retry(const std::string& ns, const std::string& name, const std::string& id,
                           const std::optional<TraceContext>& trace = {});

  // nullopt: no webhook has this path.
  std::optional<Hook> HookOf(const std::string& ns, const std::string& path) const;
  // An item of a webhook. NO_SUCH_TRIGGER: no webhook has this path. NOT_READY: it is paused.
  // DISK_FULL.
  Result<Occurrence> Receive(const std::string& ns, const std::string& path,
                             const std::string& item,
                             const std::optional<TraceContext>& trace = {});
  // Adds who has the paths of webhooks, but for triggers among `documents`, which are defined anew.
  void AddOwners(const std::string& ns, const std::vector<Document>& documents,
                 Owners* owners) const;

  // Over several partitions (triggers_apart.cc). Elsewhere: takes over what home has of a
  // namespace, or of all (empty). At home: an item of another partition has come; false: there is
  // no room for it. Elsewhere: home has not taken one. At home: the instance of a poll has stopped
  // elsewhere.
  void Adopt(const std::string& ns, const std::vector<AdoptedTrigger>& triggers);
  bool TakeItem(PartitionId from, const rows::Message::Item& item);
  void ReadAgain(const rows::Message::Reread& reread);
  void HearOfPoll(const rows::Message::Polled& polled) { polling_.Hear(polled); }

  void Defined(const DocumentVersion& version, bool first) override;
  void Deleted(const std::string& ns, const std::string& name) override;
  void LaunchEnded(const std::string& ns, const std::string& name, const std::string& instance,
                   bool failed, Timestamp time) override;
  void LaunchDecided(const std::string& ns, const std::string& name, uint64_t number,
                     const Launched& launched) override;

  void Absorb(const Change& change) override { polling_.Absorb(change); }
  void BeginPass() override;
  bool Work() override;
  Timestamp Due() const;
  // At the end of a turn, when its records are there: puts the rows of what has changed.
  void Stage();

 private:
  using HookName = std::pair<std::string, std::string>;  // namespace and path

  Result<TriggerState*> Find(const std::string& ns, const std::string& name);
  Result<Ok> RecoverOne(rows::TriggerName name, rows::TriggerRow row);
  TriggerView ViewOf(const TriggerState& state, DocumentVersion definition);
  FeedPlace PlaceOf(const TriggerState& state) const;
  void AddPlaces(const TriggerState& state, TriggerView* view) const;
  Result<TriggerView> RetiredView(const std::string& ns, const std::string& name,
                                  uint32_t version);
  void AddPast(TriggerView* view);  // what has occurred, and what of it is left
  rows::TriggerRow FirstRow(const std::string& ns, const Document& document);
  bool AdoptOne(const AdoptedTrigger& one);
  void BeginAnew(const AdoptedTrigger& one, TriggerState& state, bool known);
  // Those that listen elsewhere are to know. `anew`: and begin anew.
  void Changed(TriggerState& state, bool anew = false);
  void Begin(TriggerState& state);  // its sources bring items, unless it is paused
  void End(TriggerState& state);
  void PausedByFailures(TriggerState& state);

  OpenTurn& turn_;
  Documents& documents_;
  Occurrences& occurrences_;
  Launcher& launcher_;
  Limits& limits_;
  const Spaces& spaces_;
  Messages& messages_;
  const EngineOptions& options_;
  TriggerStates states_;
  Intake intake_;
  ItemSender sender_;
  Listening listening_;
  Polling polling_;
  std::map<HookName, std::pair<TriggerState*, std::string>> hooks_;  // the trigger, its source
  std::map<TriggerStates::Name, std::vector<FeedPlace>> elsewhere_;
  size_t pieces_left_ = 0;                                           // of this pass
  Timestamp waits_until_;                                            // for room on the disk
};

}  // namespace dfsmr
