#include "dsrv/engine/bulks.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/control.h"
#include "dsrv/engine/measures.h"
#include "dsrv/engine/reader.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

std::string_view NameOf(rows::BulkAction action) {
  constexpr std::string_view kNames[] = {"none", "pause", "resume", "skip", "cancel", "transition"};
  return kNames[static_cast<size_t>(action)];
}

constexpr size_t kChangedAtOnce = 100;  // instances, in one pass
constexpr size_t kLooksAgain = 3;       // at one that changes all the time
constexpr size_t kSample = 20;          // of the refused

uint64_t LastSeqOf(const Instance& instance) {
  return instance.history.empty() ? 0 : instance.history.back();
}

}  // namespace

Error NoSuchBulk(const std::string& ns, const std::string& id) {
  return {Code::kNotFound, Reason::kNoSuchBulk,
          "there is no bulk " + Quoted(id) + " in namespace " + Quoted(ns)};
}

Result<Ok> Bulks::Recover() {
  return rows::ScanBulks(turn_.reader(), [this](rows::BulkName name, rows::BulkRow row) {
    const Name key(name.ns, name.id);
    if (row.state == rows::BulkState::kRunning) {
      running_.push_back(key);
      turn_.WantMore();
    }
    bulks_[key].row = std::move(row);
  });
}

size_t Bulks::RunningIn(const std::string& ns) const {
  return static_cast<size_t>(std::ranges::count(running_, ns, &Name::first));
}

void Bulks::MarkDirty(const Name& name, Bulk& bulk) {
  if (!std::exchange(bulk.dirty, true)) dirty_.push_back(name);
}

// Bulks are kept as long as instances that have stopped.
void Bulks::DropOld() {
  for (auto at = bulks_.begin(); at != bulks_.end();) {
    const rows::BulkRow& row = at->second.row;
    const bool old = row.state != rows::BulkState::kRunning && !at->second.dirty &&
                     After(row.end_time, options_.retention) <= turn_.now();
    if (old) rows::DropBulk(turn_.writer(), {at->first.first, at->first.second});
    at = old ? bulks_.erase(at) : std::next(at);
  }
}

Result<BulkView> Bulks::Start(const std::string& ns, const std::string& id, rows::BulkRow asked) {
  DropOld();
  std::string given = id;
  if (given.empty()) {
    given = "b" + std::to_string(turn_.epoch()) + "-" + std::to_string(turn_.last_seq()) + "-" +
            std::to_string(turn_.NextId());
  }
  const Name name(ns, given);
  if (const auto known = bulks_.find(name); known != bulks_.end()) {
    return BulkView{ns, given, known->second.row};
  }
  if (RunningIn(ns) >= kMostRunning) {
    return Error{Code::kResourceExhausted, Reason::kTooMany,
                 std::to_string(kMostRunning) + " bulks run in namespace " + Quoted(ns) +
                     " already; wait for one of them, or stop it"};
  }
  if (auto full = turn_.NeedsRoom(Room::kAmple)) return *std::move(full);
  asked.state = rows::BulkState::kRunning;
  asked.start_time = turn_.now();
  asked.last_seq = turn_.last_seq();
  Bulk& bulk = bulks_[name];
  bulk.row = std::move(asked);
  running_.push_back(name);
  MarkDirty(name, bulk);
  turn_.WantMore();
  return BulkView{ns, given, bulk.row};
}

Result<BulkView> Bulks::Get(const std::string& ns, const std::string& id) const {
  const auto found = bulks_.find({ns, id});
  if (found == bulks_.end()) return NoSuchBulk(ns, id);
  return BulkView{ns, id, found->second.row};
}

std::vector<BulkView> Bulks::List(const std::string& ns) const {
  std::vector<BulkView> all;
  for (auto at = bulks_.lower_bound({ns, ""}); at != bulks_.end() && at->first.first == ns; ++at) {
    all.push_back({ns, at->first.second, at->second.row});
  }
  std::ranges::sort(all, [](const BulkView& one, const BulkView& other) {
    return std::pair(other.row.start_time, other.id) < std::pair(one.row.start_time, one.id);
  });
  return all;
}

Result<BulkView> Bulks::Stop(const std::string& ns, const std::string& id) {
  const auto found = bulks_.find({ns, id});
  if (found == bulks_.end()) return NoSuchBulk(ns, id);
  if (found->second.row.state == rows::BulkState::kRunning) {
    End(found->first, found->second, rows::BulkState::kStopped);
  }
  return BulkView{ns, id, found->second.row};
}

void Bulks::Forget(const std::string& ns) {
  std::erase_if(running_, [&](const Name& name) { return name.first == ns; });
  for (auto at = bulks_.lower_bound({ns, ""}); at != bulks_.end() && at->first.first == ns;) {
    rows::DropBulk(turn_.writer(), {at->first.first, at->first.second});
    std::erase(dirty_, at->first);
    at = bulks_.erase(at);
  }
}

void Bulks::End(const Name& name, Bulk& bulk, rows::BulkState state) {
  bulk.row.state = state;
  bulk.row.end_time = turn_.now();
  bulk.found = {};
  bulk.search = 0;
  std::erase(running_, name);
  MarkDirty(name, bulk);
}

void Bulks::Work() {
  if (running_.empty()) return;
  const Name name = running_.front();
  std::rotate(running_.begin(), running_.begin() + 1, running_.end());
  Bulk& bulk = bulks_.at(name);
  if (GoOn(name, bulk)) turn_.WantMore();
  const bool others = std::ranges::any_of(running_, [&](const Name& one) {
    return one != name && bulks_.at(one).stage != Bulk::Stage::kSearching;
  });
  if (others) turn_.WantMore();
}

// True: it can go on at once, in the next pass.
bool Bulks::GoOn(const Name& name, Bulk& bulk) {
  switch (bulk.stage) {
    case Bulk::Stage::kSettling:
      if (bulk.settled == 0) {
        residents_.SettleAll();
        bulk.settled = turn_.number();
        return true;
      }
      if (turn_.Durable(bulk.settled)) Search(name, bulk);
      return bulk.stage != Bulk::Stage::kSearching;
    case Bulk::Stage::kSearching:
      return false;
    case Bulk::Stage::kChanging:
      return ChangeSome(name, bulk);
  }
  return false;
}

void Bulks::Search(const Name& name, Bulk& bulk) {
  bulk.stage = Bulk::Stage::kSearching;
  bulk.search = ++searches_;
  options_.offload([this, name, search = bulk.search, row = bulk.row, find = options_.find_for_bulk,
                    now = turn_.now()]() -> std::function<void()> {
    const Reader reader{catalog_.registry(), turn_.store(), turn_.partition()};
    Result<BulkPortion> portion =
        find ? find(reader, name.first, row, now) : Result<BulkPortion>(BulkPortion());
    return [this, name, search, portion = std::move(portion)] { Found(name, search, portion); };
  });
}

void Bulks::Found(const Name& name, uint64_t search, Result<BulkPortion> portion) {
  const auto at = bulks_.find(name);
  if (at == bulks_.end() || at->second.search != search) return;  // it has been stopped
  Bulk& bulk = at->second;
  if (!turn_.Trust(portion)) return;
  bulk.found = *std::move(portion);
  bulk.next = 0;
  bulk.stage = Bulk::Stage::kChanging;
  turn_.WantMore();
}

bool Bulks::ChangeSome(const Name& name, Bulk& bulk) {
  rows::BulkRow& row = bulk.row;
  for (size_t i = 0; i < kChangedAtOnce && bulk.next < bulk.found.hits.size(); ++i) {
    const BulkHit& hit = bulk.found.hits[bulk.next];
    if (!ChangeOne(name, bulk, hit)) {
      bulk.stage = Bulk::Stage::kSettling;
      bulk.settled = 0;
      return true;
    }
    row.place = hit.id;
    ++bulk.next;
    MarkDirty(name, bulk);
    if (row.at_most > 0 && row.changed >= row.at_most) {
      row.looked_at += bulk.found.looked_at;
      End(name, bulk, rows::BulkState::kLimited);
      return false;
    }
  }
  if (bulk.next < bulk.found.hits.size()) return true;
  row.looked_at += bulk.found.looked_at;
  row.place = bulk.found.last;
  MarkDirty(name, bulk);
  if (bulk.found.last.empty()) {
    End(name, bulk, rows::BulkState::kDone);
    return false;
  }
  bulk.stage = Bulk::Stage::kSettling;
  bulk.settled = 0;
  return true;
}

bool Bulks::ChangeOne(const Name& name, Bulk& bulk, const BulkHit& hit) {
  rows::BulkRow& row = bulk.row;
  auto resident = residents_.Load(name.first, hit.id);
  if (!resident) return true;  // it was removed
  const Instance& instance = (*resident)->instance;
  const bool moved =
      hit.last_seq != 0 && !instance.history.empty() && LastSeqOf(instance) != hit.last_seq;
  if (moved && bulk.again < kLooksAgain) {
    ++bulk.again;
    return false;
  }
  bulk.again = 0;
  ++row.matched;
  const auto before = std::tuple(instance.state, instance.waits, instance.cancel, turn_.last_seq());
  auto outcome = Do(name, row, hit.id);
  // Doing it may have dropped the instance from memory.
  resident = residents_.Load(name.first, hit.id);
  if (!outcome) {
    measures_.ChangedInBulk(NameOf(row.action), "refused");
    ++row.refused;
    ++row.reasons[ReasonOrCode(outcome.error())];
    if (row.sample.size() < kSample) row.sample.push_back(hit.id);
    return true;
  }
  const bool same =
      resident && before == std::tuple((*resident)->instance.state, (*resident)->instance.waits,
                                       (*resident)->instance.cancel, turn_.last_seq());
  ++(same ? row.unchanged : row.changed);
  measures_.ChangedInBulk(NameOf(row.action), same ? "unchanged" : "changed");
  return true;
}

Result<Ok> Bulks::Do(const Name& name, const rows::BulkRow& row, const std::string& id) {
  using Action = rows::BulkAction;
  const std::string& ns = name.first;
  const ChangedBy by{"bulk/" + name.second, row.reason};
  switch (row.action) {
    case Action::kPause:
      return control_.Pause(ns, id, by);
    case Action::kCancel:
      return control_.Cancel(ns, id, row.mode, by);
    case Action::kTransition:
      return control_.Move(ns, id, row.node, row.transition, row.node_params, by);
    case Action::kResume:
      if (!row.node.ends_with(".*")) return control_.Resume(ns, id, row.node, row.force, by);
      break;
    default:
      break;
  }
  auto resident = residents_.Load(ns, id);
  if (!resident) return resident.error();
  return DoAtNodes(name, row, **resident, by);
}

// At each held node that the pattern means.
Result<Ok> Bulks::DoAtNodes(const Name& name, const rows::BulkRow& row, Resident& resident,
                            const ChangedBy& by) {
  const auto& [ns, bulk] = name;
  const bool skips = row.action == rows::BulkAction::kSkip;
  const bool open = row.node.ends_with(".*");
  const std::string_view begin =
      std::string_view(row.node).substr(0, row.node.size() - (open ? 1 : 0));
  const std::string id = resident.instance.id;
  if (resident.instance.Stopped() || (skips && !row.node.empty() && !open)) {
    return skips ? control_.Skip(ns, id, row.node, by) : control_.Resume(ns, id, "", row.force, by);
  }
  std::vector<std::string> nodes;
  for (const Token& token : std::as_const(resident.instance.tokens)) {
    if (token.state != TokenState::kHeld) continue;
    std::string node(NodeName(resident.machine(), token.node));
    node.resize(std::min(node.size(), node.find('/')));
    if (row.node.empty() || node.starts_with(begin)) nodes.push_back(std::move(node));
  }
  if (nodes.empty()) {
    return Error{Code::kFailedPrecondition, Reason::kNotHeld,
                 "nothing of instance " + Quoted(id) + " is held there"};
  }
  Result<Ok> first = Ok{};
  bool any = false;
  for (const std::string& node : nodes) {
    auto done =
        skips ? control_.Skip(ns, id, node, by) : control_.Resume(ns, id, node, row.force, by);
    any = any || done.has_value();
    if (!done && first) first = done;
  }
  return any ? Result<Ok>(Ok{}) : first;
}

void Bulks::Write() {
  for (const Name& name : dirty_) {
    Bulk& bulk = bulks_.at(name);
    bulk.dirty = false;
    rows::PutBulk(turn_.writer(), {name.first, name.second}, bulk.row);
  }
  dirty_.clear();
}

}  // namespace dfsmr
