#include "dsrv/engine/deletions.h"

#include <algorithm>

#include "dsrv/engine/agents.h"
#include "dsrv/engine/bulks.h"
#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/measures.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/retention.h"
#include "dsrv/engine/secrets.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/throttle.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/upgrades.h"
#include "dsrv/engine/workers.h"
#include "fsm/base/names.h"
#include "storage/rows/credential.h"
#include "storage/rows/instance.h"
#include "storage/rows/occurrence.h"
#include "storage/rows/space.h"

namespace dfsmr {
namespace {

using rows::SpaceState;

constexpr size_t kCancelledPerPass = 100;
constexpr size_t kScannedPerPass = 1'000;
constexpr size_t kDroppedPerPass = 100;
constexpr size_t kOccurrencesPerPass = 200;
constexpr Duration kLookAgain = std::chrono::milliseconds(50);
constexpr Duration kSweepAgain = std::chrono::seconds(1);

}  // namespace

Result<SpaceView> Deletions::Preview(const std::string& ns) const {
  if (ns == "default") {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 "namespace \"default\" is always there, and cannot be deleted"};
  }
  if (b_.spaces.StateOf(ns) != SpaceState::kNone) return b_.spaces.Get(ns);
  SpaceView gone{.ns = ns, .row = {}, .effective = {}, .usage = {}};
  gone.row.state = SpaceState::kDeleted;
  return gone;
}

Result<SpaceView> Deletions::Begin(const std::string& ns, Duration drain,
                                   const std::string& client) {
  auto view = Preview(ns);
  if (!view || view->row.state == SpaceState::kDeleted) return view;
  if (!going_.contains(ns)) {
    /*mutant deletion-not-durable*/ b_.spaces.SetState(
        ns, SpaceState::kDraining, After(b_.turn.clock(), drain), client); /*end*/
    going_[ns].client = client;
    b_.agenda.SetFrozen(ns, true);
    b_.groups.CancelToCome(ns);
    look_again_ = b_.turn.real();
  }
  return b_.spaces.Get(ns);
}

Result<Ok> Deletions::Recover() {
  for (const std::string& ns : b_.spaces.Going()) {
    /*mutant deletion-not-carried-on*/ going_[ns]; /*end*/
    b_.agenda.SetFrozen(ns, true);
  }
  if (b_.options.partitions == 1 || !b_.turn.at_home()) return Ok{};
  return rows::ScanEmptied(b_.turn.reader(),
                           [this](const std::string& ns, PartitionId from, Timestamp made) {
                             emptied_[{ns, made}].insert(from);
                           });
}

void Deletions::Emptied(PartitionId from, const rows::Message::Emptied& emptied) {
  if (!going_.contains(emptied.ns) || b_.spaces.MadeAt(emptied.ns) != emptied.made) return;
  emptied_[{emptied.ns, emptied.made}].insert(from);
  rows::PutEmptied(b_.turn.writer(), emptied.ns, from, emptied.made);
}

bool Deletions::AllEmptied(const std::string& ns) const {
  const size_t others = b_.options.partitions - size_t{1};
  if (others == 0 || !b_.turn.at_home()) return true;
  const auto found = emptied_.find({ns, b_.spaces.MadeAt(ns)});
  return found != emptied_.end() && found->second.size() >= others;
}

void Deletions::Gone(const rows::Message::Gone& gone) {
  const auto found = going_.find(gone.ns);
  if (found == going_.end() || b_.spaces.MadeAt(gone.ns) != gone.made) return;
  ForgetMachines(gone.ns);  // that were adopted again meanwhile
  b_.spaces.Forget(gone.ns, found->second.client);
  going_.erase(found);
}

Timestamp Deletions::Due() const {
  Timestamp due = kNever;
  for (const auto& [ns, going] : going_) {
    if (going.forced || !Drains(ns, going)) continue;
    due = std::min(due, b_.spaces.DrainUntil(ns));
  }
  return due;
}

void Deletions::Work() {
  if (going_.empty()) return;
  look_again_ = After(b_.turn.real(), kLookAgain);
  for (auto it = going_.begin(); it != going_.end();) {
    if (WorkOn(it->first, it->second)) {
      ++it;
    } else {
      it = going_.erase(it);
    }
  }
}

bool Deletions::WorkOn(const std::string& ns, Going& going) {
  if (going.emptied) return true;
  if (Drains(ns, going)) {
    Drain(ns, going);
    return true;
  }
  return Drop(ns, going);
}

bool Deletions::Drains(const std::string& ns, const Going& going) const {
  if (b_.spaces.StateOf(ns) == SpaceState::kDraining) return true;
  return !b_.turn.at_home() && !going.drained;
}

// Draining ----------------------------------------------------------------------------------------

void Deletions::Drain(const std::string& ns, Going& going) {
  if (!going.forced && b_.turn.clock() >= b_.spaces.DrainUntil(ns)) {
    going = {.client = going.client, .forced = true};
  }
  if (!going.sweeping) {
    // What a sweep has not seen was started by what it cancelled, or waits for a worker.
    if (b_.spaces.LiveIn(ns) > 0 && b_.turn.real() < going.next_sweep) return;
    going.sweeping = true;
    going.found = false;
  }
  if (Sweep(ns, going)) return b_.turn.WantMore();
  going.sweeping = false;
  going.next_sweep = After(b_.turn.real(), going.forced ? kLookAgain : kSweepAgain);
  if (going.found || b_.spaces.LiveIn(ns) > 0 || HasUnwritten(ns)) return;
  going.drained = true;
  // The time that is left counts for other partitions.
  b_.spaces.SetState(ns, SpaceState::kDropping, b_.spaces.DrainUntil(ns), going.client);
  b_.turn.WantMore();
}

bool Deletions::Sweep(const std::string& ns, Going& going) {
  std::vector<std::string> ids;
  size_t scanned = 0;
  bool more = false;
  auto outcome = rows::ScanInstances(
      b_.turn.reader(), /*stopped=*/false, {ns, going.swept}, b_.catalog.resolve(),
      [&](const Instance& instance) {
        if (ids.size() == kCancelledPerPass || ++scanned == kScannedPerPass) {
          more = true;
          return false;
        }
        going.found = true;
        going.swept = instance.id;
        if (going.forced || !instance.Cancelling()) ids.push_back(instance.id);
        return true;
      },
      {.tokens = false});
  if (!b_.turn.Trust(outcome)) return false;
  const CancelMode mode = going.forced ? CancelMode::kForce : CancelMode::kCancel;
  for (const std::string& id : ids) {
    auto touched = b_.changer.Touch(ns, id);
    if (!touched || (*touched)->instance.Stopped()) continue;
    (void)b_.changer.Apply(**touched, [&](Scene& scene) { return rules::Cancel(scene, mode); });
  }
  if (!more) going.swept.clear();
  return more;
}

// What this turn has started or stopped is not among the rows yet.
bool Deletions::HasUnwritten(const std::string& ns) const {
  return std::ranges::any_of(b_.residents.dirty(),
                             [&](const Resident* resident) { return resident->instance.ns == ns; });
}

// Dropping ----------------------------------------------------------------------------------------

bool Deletions::Drop(const std::string& ns, Going& going) {
  if (!std::exchange(going.tokens, true)) {
    DropTokens(ns);
    b_.agents.Forget(ns);
  }
  if (HasUnwritten(ns) || DropDocuments(ns) || DropStopped(ns)) {
    b_.turn.WantMore();
    return true;
  }
  if (!AllEmptied(ns)) return true;
  const Timestamp made = b_.spaces.MadeAt(ns);
  DropRest(ns);
  if (!b_.turn.at_home()) {
    going.emptied = true;
    b_.messages.Send(kHome, {rows::Message::Emptied{ns, made}});
    return true;
  }
  b_.spaces.Forget(ns, going.client);
  emptied_.erase({ns, made});
  for (PartitionId id = 1; id < b_.options.partitions; ++id) {
    b_.messages.Send(id, {rows::Message::Gone{ns, made}});
  }
  return false;
}

void Deletions::DropTokens(const std::string& ns) {
  auto all = rows::ScanCredentials(b_.turn.reader());
  if (!b_.turn.Trust(all)) return;
  for (const rows::CredentialRow& row : *all) {
    if (row.ns == ns) rows::DropCredential(b_.turn.writer(), row.id);
  }
  if (!b_.options.tokens_gone) return;
  b_.turn.AfterCommit([gone = b_.options.tokens_gone, ns] { gone(ns); });
}

// One document, or some of its occurrences. False: there is none.
bool Deletions::DropDocuments(const std::string& ns) {
  for (DocumentKind kind : kDocumentKinds) {
    std::string name;
    bool stands = false;
    auto scanned = rows::ScanDocuments(b_.turn.reader(), ns, kind, "",
                                       [&](std::string_view one, const rows::DocumentHead& head) {
                                         name = one;
                                         stands = !head.deleted;
                                         return false;
                                       });
    if (!b_.turn.Trust(scanned)) return false;
    if (name.empty()) continue;
    const rows::DocumentName document{ns, kind, name};
    if (stands) (void)b_.documents.Drop(document);
    std::vector<Occurrence> some;
    scanned = rows::ScanOccurrences(b_.turn.reader(), document, UINT64_MAX, [&](Occurrence one) {
      some.push_back(std::move(one));
      return some.size() < kOccurrencesPerPass;
    });
    if (!b_.turn.Trust(scanned)) return false;
    for (const Occurrence& one : some) {
      rows::DropOccurrence(b_.turn.writer(), document, one);
    }
    if (some.size() < kOccurrencesPerPass) rows::DropDocumentHead(b_.turn.writer(), document);
    return true;
  }
  return false;
}

// Some of them. False: there are none.
bool Deletions::DropStopped(const std::string& ns) {
  std::vector<std::string> ids;
  auto scanned =
      rows::ScanInstances(b_.turn.reader(), /*stopped=*/true, {ns, ""}, b_.catalog.resolve(),
                          [&](const Instance& instance) {
                            ids.push_back(instance.id);
                            return ids.size() < kDroppedPerPass;
                          },
                          {.tokens = false});
  if (!b_.turn.Trust(scanned)) return false;
  for (const std::string& id : ids) b_.retention.DropNow(ns, id);
  return !ids.empty();
}

void Deletions::ForgetMachines(const std::string& ns) {
  b_.catalog.Forget(ns, [this](MachineState& machine) {
    b_.upgrades.Forget(machine);
    b_.throttle.Leave(machine);
    b_.statistics.Forget(machine);
    b_.measures.Forget(machine);
  });
}

void Deletions::DropRest(const std::string& ns) {
  b_.groups.Forget(ns);
  b_.bulks.Forget(ns);
  b_.limits.ForgetNamespace(ns);
  b_.documents.Forget(ns);
  b_.packages.Forget(ns);
  b_.secrets.Forget(ns);
  b_.agenda.DropNamespace(ns);
  ForgetMachines(ns);
  b_.measures.Forget(ns);
  b_.workers.Forget(ns);
  b_.turn.Trust(rows::DropNamespaceRows(b_.turn.reader(), b_.turn.writer(), ns));
  // A restart learns from the records since the last rows of counters: those are not the next
  // one's.
  b_.statistics.Save();
}

}  // namespace dfsmr
