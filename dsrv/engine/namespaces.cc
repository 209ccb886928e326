#include "dsrv/engine/namespaces.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/duration.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using rows::SpaceState;

constexpr std::string_view kDefault = "default";
constexpr double kSavedSeconds = 10;  // of starts-per-second

Error Exceeded(const std::string& ns, std::string_view quota, const std::string& use,
               const std::string& limit) {
  return {Code::kResourceExhausted, Reason::kQuotaExceeded,
          "namespace " + Quoted(ns) + " has reached its quota " + std::string(quota) + ": " + use +
              ", and the limit is " + limit};
}

std::string NumberText(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  return text;
}

// 0 is no limit, as is none at all.
std::optional<uint64_t> LimitOf(const std::optional<uint64_t>& quota) {
  return quota && *quota > 0 ? quota : std::nullopt;
}

rows::Quotas Effective(const rows::Quotas& own, const rows::Quotas& defaults) {
  rows::Quotas quotas = own;
  const auto fill = [](auto& quota, const auto& otherwise) {
    if (!quota) quota = otherwise;
  };
  fill(quotas.live_instances, defaults.live_instances);
  fill(quotas.ready_tasks, defaults.ready_tasks);
  fill(quotas.definitions, defaults.definitions);
  fill(quotas.package_bytes, defaults.package_bytes);
  fill(quotas.starts_per_second, defaults.starts_per_second);
  fill(quotas.retention, defaults.retention);
  return quotas;
}

double BurstOf(double rate) { return std::max(1.0, rate * kSavedSeconds); }

}  // namespace

Error NoSuchNamespace(const std::string& ns) {
  return {Code::kNotFound, Reason::kNoSuchNamespace, "there is no namespace " + Quoted(ns)};
}

// Which there are -------------------------------------------------------------------------------

Result<Ok> Spaces::Recover() {
  auto scanned = rows::ScanSpaces(turn_.home(), [&](std::string_view ns, rows::SpaceRow row) {
    Space& space = spaces_[std::string(ns)];
    space.row = std::move(row);
    if (!turn_.at_home()) space.row.feed_floor = 0;  // of another partition's feed
    if (!space.Gone()) ++there_;
    if (/*mutant recover-frozen-runs*/ space.Rests() /*end*/) ++resting_;
  });
  if (!scanned) return scanned;
  auto used = rows::NamespacesInUse(turn_.reader());
  if (!used) return used.error();
  used->insert(std::string(kDefault));
  for (const std::string& ns : *used) {
    const bool added = spaces_.try_emplace(ns).second;
    if (added) ++there_;
  }
  // The feed does not go back to where they were.
  std::erase_if(spaces_, [&](const auto& one) {
    return one.second.Gone() && one.second.row.feed_floor < turn_.feed_start();
  });
  for (const auto& [ns, space] : spaces_) {
    if (space.row.feed_floor > 0) catalog_.SetFeedFloor(ns, space.row.feed_floor);
  }
  return Ok{};
}

bool Spaces::Adopt(const std::string& ns, rows::SpaceRow row) {
  const auto [found, added] = spaces_.try_emplace(ns);
  Space& space = found->second;
  const bool rested = !added && space.Rests();
  if (!added && !space.Gone()) --there_;
  if (rested) --resting_;
  row.feed_floor = space.row.feed_floor;
  space.row = std::move(row);
  if (space.Rests()) ++resting_;
  if (!space.Gone()) {
    ++there_;
    Enforce(ns, space);
  }
  return rested != space.Rests();
}

void Spaces::Loaded() {
  loaded_ = true;
  for (auto& [ns, space] : spaces_) {
    if (!space.Gone()) Enforce(ns, space);
  }
}

const Spaces::Space* Spaces::Find(const std::string& ns) const {
  const auto it = spaces_.find(ns);
  return it == spaces_.end() || it->second.Gone() ? nullptr : &it->second;
}

Spaces::Space* Spaces::Find(const std::string& ns) {
  return const_cast<Space*>(std::as_const(*this).Find(ns));
}

Spaces::Space& Spaces::Make(const std::string& ns, const std::string& client) {
  Space& space = spaces_[ns];
  const uint64_t floor = space.row.feed_floor;
  space = {};
  space.row.feed_floor = floor;
  space.row.create_time = turn_.now();
  space.row.created_by = client;
  ++there_;
  Enforce(ns, space);
  return space;
}

// Others than home have none of their own.
void Spaces::Put(const std::string& ns, const Space& space) {
  if (!turn_.at_home()) return;
  rows::PutSpace(turn_.writer(), ns, space.row);
}

Result<Ok> Spaces::MayUse(const std::string& ns) const {
  if (const Space* space = Find(ns)) return space->Deleting() ? MayChange(ns) : Ok{};
  if (options_.closed_namespaces) {
    Error error = NoSuchNamespace(ns);
    error.message += "; this server makes none by itself: dcli namespace create " + ns;
    return error;
  }
  if (there_ < kMost) return Ok{};
  return Error{
      Code::kInvalidArgument, Reason::kTooLarge,
      "there are " + std::to_string(there_) + " namespaces, as many as there may be; delete some"};
}

Result<Ok> Spaces::Use(const std::string& ns) {
  auto may = MayUse(ns);
  if (!may || Find(ns)) return may;
  Put(ns, Make(ns, ""));
  return may;
}

Result<Ok> Spaces::MayChange(const std::string& ns) const {
  if (resting_ == 0) return Ok{};
  const Space* space = Find(ns);
  if (!space || !space->Deleting()) return Ok{};
  return Error{Code::kFailedPrecondition, Reason::kNamespaceDeleting,
               "namespace " + Quoted(ns) +
                   " is being deleted and takes nothing any more; when it "
                   "is gone its name is free"};
}

// Quotas ----------------------------------------------------------------------------------------

void Spaces::Enforce(const std::string& ns, Space& space) {
  ++changes_;
  space.effective = Effective(space.row.quotas, options_.quotas);
  const Duration cap = space.effective.retention.value_or(Duration());
  auto& caps = space.row.caps;
  if (caps.empty() ? cap > Duration() : caps.back().second != cap) {
    caps.emplace_back(turn_.now(), cap);
    turn_.NextChange();  // what stops from now on, stops later
    Put(ns, space);
  }
  if (!loaded_) return;
  const bool counts =
      LimitOf(space.effective.live_instances) || LimitOf(space.effective.ready_tasks);
  if (counts == static_cast<bool>(space.counts)) return;
  if (!counts) {
    catalog_.CountIn(ns, nullptr);
    space.counts.reset();
    return;
  }
  const SpaceUsage usage = UsageOf(ns, &space);
  space.counts = std::make_unique<SpaceCounts>(SpaceCounts{usage.live, usage.ready});
  catalog_.CountIn(ns, space.counts.get());
}

// The saved starts as of now.
void Spaces::Rate(Space& space) const {
  const double rate = *space.effective.starts_per_second;
  const double burst = BurstOf(rate);
  const Timestamp now = turn_.clock();
  if (space.saved_at == Timestamp()) {
    space.saved = burst;
  } else if (now > space.saved_at) {
    const double passed = static_cast<double>((now - space.saved_at).count()) / 1e6;
    space.saved = std::min(burst, space.saved + passed * rate);
  }
  space.saved_at = std::max(now, space.saved_at);
}

Result<Ok> Spaces::MayStart(const std::string& ns, bool dry_run, uint64_t before) {
  Space* space = Find(ns);
  if (!space) {
    auto may = MayUse(ns);
    if (!may || options_.quotas == rows::Quotas()) return may;
    Space fresh;
    fresh.effective = options_.quotas;
    return MayStartMore(ns, fresh, dry_run, before);
  }
  if (space->Deleting()) return MayChange(ns);
  if (space->row.state == SpaceState::kFrozen) {
    return Error{Code::kFailedPrecondition, Reason::kNamespaceFrozen,
                 "namespace " + Quoted(ns) +
                     " is frozen: nothing is started from outside until it is thawed"};
  }
  return MayStartMore(ns, *space, dry_run, before);
}

Result<Ok> Spaces::MayStartMore(const std::string& ns, Space& space, bool dry_run,
                                uint64_t before) {
  const uint64_t live = (space.counts ? space.counts->live : 0) + space.others.live + before;
  const auto most = LimitOf(space.effective.live_instances);
  if (!dry_run && most && /*mutant quota-one-more*/ live >= *most /*end*/) {
    return Exceeded(ns, "live-instances", std::to_string(live) + " instances have not stopped",
                    std::to_string(*most));
  }
  const uint64_t ready = (space.counts ? space.counts->ready : 0) + space.others.ready;
  const auto most_ready = LimitOf(space.effective.ready_tasks);
  if (!dry_run && most_ready && ready >= *most_ready) {
    return Exceeded(ns, "ready-tasks", std::to_string(ready) + " tasks are ready",
                    std::to_string(*most_ready));
  }
  const double rate = space.effective.starts_per_second.value_or(0);
  if (rate <= 0) return Ok{};
  Rate(space);
  const double lacks = static_cast<double>(before) + 1 - space.saved;
  if (lacks <= 1e-9) return Ok{};
  Advance(space);
  uint64_t recent = before;
  for (uint32_t count : space.started) recent += count;
  Error error =
      Exceeded(ns, "starts-per-second", std::to_string(recent) + " were started in the last 10 s",
               NumberText(rate) + " a second");
  error.retry_ms = static_cast<uint32_t>(std::clamp(std::ceil(lacks / rate * 1e3), 1.0, 3.6e6));
  return error;
}

// Forgets what was longer ago than the seconds that are kept.
void Spaces::Advance(Space& space) const {
  const int64_t second = Micros(turn_.clock()) / 1'000'000;
  const auto size = static_cast<int64_t>(space.started.size());
  if (second <= space.second) return;
  for (int64_t at = std::max(space.second + 1, second - size + 1); at <= second; ++at) {
    space.started[static_cast<size_t>(at % size)] = 0;
  }
  space.second = second;
}

void Spaces::Started(const std::string& ns) {
  if (!Find(ns)) (void)Use(ns);
  Space* space = Find(ns);
  if (!space) return;
  Advance(*space);
  ++space->started[static_cast<size_t>(space->second) % space->started.size()];
  if (space->effective.starts_per_second.value_or(0) <= 0) return;
  Rate(*space);
  ++space->outside;
  /*mutant quota-rate-unspent*/ space->saved -= 1; /*end*/
}

Result<Ok> Spaces::MayDefine(const std::string& ns, uint64_t more) {
  if (more == 0) return Ok{};
  const Space* space = Find(ns);
  const rows::Quotas& quotas = space ? space->effective : options_.quotas;
  const auto most = LimitOf(quotas.definitions);
  if (!most) return Ok{};
  const uint64_t use = catalog_.DefinedIn(ns) + documents_.StandingIn(ns);
  if (use + more <= *most) return Ok{};
  return Exceeded(
      ns, "definitions",
      std::to_string(use) + " ids are defined, and here come " + std::to_string(more) + " more",
      std::to_string(*most));
}

Result<Ok> Spaces::MayPut(const std::string& ns, uint64_t bytes) const {
  const Space* space = Find(ns);
  const rows::Quotas& quotas = space ? space->effective : options_.quotas;
  const auto most = LimitOf(quotas.package_bytes);
  const uint64_t use = space ? space->package_bytes : 0;
  if (!most || use + bytes <= *most) return Ok{};
  return Exceeded(ns, "package-bytes",
                  std::to_string(use) + " bytes are kept, and here come " + std::to_string(bytes),
                  std::to_string(*most));
}

void Spaces::AddPackageBytes(const std::string& ns, int64_t bytes) {
  if (Space* space = Find(ns)) space->package_bytes += static_cast<uint64_t>(bytes);
}

void Spaces::AddSecrets(const std::string& ns, int64_t names) {
  if (Space* space = Find(ns)) space->secrets += static_cast<uint64_t>(names);
}

bool Spaces::RequiresSignatures(const std::string& ns) const {
  const Space* space = Find(ns);
  return space && space->row.require_signatures;
}

uint64_t Spaces::FeedFloor(const std::string& ns) const {
  const auto it = spaces_.find(ns);
  return it == spaces_.end() ? 0 : it->second.row.feed_floor;
}

std::optional<Duration> Spaces::RetentionCap(const std::string& ns, Timestamp time) const {
  const Space* space = Find(ns);
  if (!space || space->row.caps.empty()) return std::nullopt;
  std::optional<Duration> cap;
  for (const auto& [since, retention] : space->row.caps) {
    if (since < time) cap = retention > Duration() ? std::optional(retention) : std::nullopt;
  }
  return cap;
}

// Of several partitions ---------------------------------------------------------------------------

void Spaces::ForEachCounted(
    const std::function<void(const std::string&, const SpaceStand&)>& visit) {
  for (auto& [ns, space] : spaces_) {
    const bool rate = space.effective.starts_per_second.value_or(0) > 0;
    if (space.Gone() || (!space.counts && !rate)) continue;
    SpaceStand stand;
    if (space.counts) stand.here = *space.counts;
    stand.live = stand.here.live + space.others.live;
    stand.ready = stand.here.ready + space.others.ready;
    stand.most_live = LimitOf(space.effective.live_instances).value_or(0);
    stand.most_ready = LimitOf(space.effective.ready_tasks).value_or(0);
    if (rate) Rate(space);
    stand.started = space.outside;
    stand.saved = space.saved;
    visit(ns, stand);
  }
}

void Spaces::SetOthers(const std::string& ns, uint64_t live, uint64_t ready, uint64_t started) {
  Space* space = Find(ns);
  if (!space) return;
  space->others = {live, ready};
  const double rate = space->effective.starts_per_second.value_or(0);
  if (started == 0 || rate <= 0) return;
  Rate(*space);
  // What was too much is to be waited for, but not for ever.
  space->saved = std::max(space->saved - static_cast<double>(started), -BurstOf(rate));
}

// Calls -----------------------------------------------------------------------------------------

uint64_t Spaces::LiveIn(const std::string& ns) const { return catalog_.CountsOf(ns).live; }

SpaceUsage Spaces::UsageOf(const std::string& ns, const Space* space) {
  const Catalog::Counts counts = catalog_.CountsOf(ns);
  SpaceUsage usage;
  usage.live = counts.live;
  usage.ready = counts.ready;
  usage.claimed = counts.claimed;
  usage.stopped = counts.stopped;
  usage.definitions = counts.defined + documents_.StandingIn(ns);
  if (!space) return usage;
  usage.package_bytes = space->package_bytes;
  usage.secrets = space->secrets;
  uint64_t recent = 0;
  for (uint32_t count : space->started) recent += count;
  usage.starts_per_second =
      static_cast<double>(recent) / static_cast<double>(space->started.size());
  return usage;
}

SpaceView Spaces::ViewOf(const std::string& ns, Space& space) {
  Advance(space);
  return {ns, space.row, space.effective, UsageOf(ns, &space)};
}

void Spaces::Apply(Space& space, const SpaceChange& change) {
  rows::SpaceRow& row = space.row;
  if (change.description) row.description = *change.description;
  if (change.labels) row.labels = *change.labels;
  if (change.require_signatures) row.require_signatures = *change.require_signatures;
  if (change.live_instances) row.quotas.live_instances = change.quotas.live_instances;
  if (change.ready_tasks) row.quotas.ready_tasks = change.quotas.ready_tasks;
  if (change.definitions) row.quotas.definitions = change.quotas.definitions;
  if (change.package_bytes) row.quotas.package_bytes = change.quotas.package_bytes;
  if (change.retention) row.quotas.retention = change.quotas.retention;
  if (change.starts_per_second) {
    row.quotas.starts_per_second = change.quotas.starts_per_second;
    space.saved_at = {};
  }
}

Result<SpaceView> Spaces::Create(const std::string& ns, const SpaceChange& settings,
                                 const std::string& client) {
  if (const Space* space = Find(ns)) {
    if (space->Deleting()) return MayChange(ns).error();
    return Error{Code::kAlreadyExists, Reason::kNamespaceExists,
                 "namespace " + Quoted(ns) + " is there already"};
  }
  if (there_ >= kMost) return MayUse(ns).error();
  Space& space = Make(ns, client);
  Apply(space, settings);
  Enforce(ns, space);
  Put(ns, space);
  Tell(ChangeKind::kNamespaceChanged, ns, client, "created");
  return ViewOf(ns, space);
}

Result<SpaceView> Spaces::Update(const std::string& ns, const SpaceChange& change,
                                 const std::string& client) {
  if (auto used = Use(ns); !used) return used.error();
  Space& space = *Find(ns);
  Apply(space, change);
  Enforce(ns, space);
  Put(ns, space);
  Tell(ChangeKind::kNamespaceChanged, ns, client, "settings");
  return ViewOf(ns, space);
}

Result<SpaceView> Spaces::Get(const std::string& ns) {
  Space* space = Find(ns);
  if (!space) return NoSuchNamespace(ns);
  return ViewOf(ns, *space);
}

std::vector<SpaceView> Spaces::List(const std::string& after, size_t limit,
                                    const std::function<bool(const std::string&)>& visible) {
  std::vector<SpaceView> views;
  for (auto it = spaces_.upper_bound(after); it != spaces_.end() && views.size() < limit; ++it) {
    if (!it->second.Gone() && visible(it->first)) views.push_back(ViewOf(it->first, it->second));
  }
  return views;
}

// States ----------------------------------------------------------------------------------------

SpaceState Spaces::StateOf(const std::string& ns) const {
  const Space* space = Find(ns);
  return space ? space->row.state : SpaceState::kNone;
}

Timestamp Spaces::MadeAt(const std::string& ns) const {
  const Space* space = Find(ns);
  return space ? space->row.create_time : Timestamp();
}

Timestamp Spaces::DrainUntil(const std::string& ns) const {
  const Space* space = Find(ns);
  return space ? space->row.drain_until : Timestamp();
}

void Spaces::SetState(const std::string& ns, SpaceState state, Timestamp drain_until,
                      const std::string& client) {
  Space& space = *Find(ns);
  if (space.Rests()) --resting_;
  space.row.state = state;
  space.row.drain_until = drain_until;
  if (space.Rests()) ++resting_;
  Put(ns, space);
  static constexpr std::string_view kNotes[] = {"", "thawed", "frozen", "draining", "dropping", ""};
  Tell(ChangeKind::kNamespaceChanged, ns, client, kNotes[static_cast<size_t>(state)]);
}

std::vector<std::string> Spaces::Frozen() const {
  std::vector<std::string> frozen;
  for (const auto& [ns, space] : spaces_) {
    if (space.Rests()) frozen.push_back(ns);
  }
  return frozen;
}

std::vector<std::string> Spaces::Going() const {
  std::vector<std::string> going;
  if (resting_ == 0) return going;
  for (const auto& [ns, space] : spaces_) {
    if (space.Deleting()) going.push_back(ns);
  }
  return going;
}

void Spaces::Forget(const std::string& ns, const std::string& client) {
  Space& space = *Find(ns);
  --resting_;
  --there_;
  catalog_.CountIn(ns, nullptr);
  Tell(ChangeKind::kNamespaceDeleted, ns, client, "");
  space = {};
  space.row.state = SpaceState::kDeleted;
  /*mutant old-feed-shown*/ space.row.feed_floor = turn_.last_seq(); /*end*/
  catalog_.SetFeedFloor(ns, space.row.feed_floor);
  Put(ns, space);
}

void Spaces::Tell(ChangeKind kind, const std::string& ns, const std::string& client,
                  std::string_view note) {
  if (!turn_.at_home()) return;
  Event event;
  event.kind = kind;
  event.time = turn_.now();
  event.ns = ns;
  event.client = client;
  event.note = note;
  turn_.Append(&event);
}

}  // namespace dfsmr
