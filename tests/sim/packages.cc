#include "tests/sim/packages.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "dsrv/engine/namespaces.h"
#include "storage/rows/instance.h"
#include "tests/dsrv/engine/own_names.h"

namespace dfsmr {
namespace {

constexpr int kVersions = 5;
constexpr char kPieces = '\x43';

std::string TextOf(int version) { return std::to_string(version) + ".0.0"; }
int NumberOf(const PackageVersion& version) { return std::stoi(version.version); }

std::string MachineText(const std::string& id, char says, UpgradeStrategy strategy) {
  return "id: " + id + "\nupgrade_strategy: " + std::string(Name(strategy)) +
         "\nnodes:\n  work: {start: true, transitions: {ok: done, " + says +
         ": done}}\n  done: {final: true}\n---\n";
}

Reason ReasonOf(const auto& outcome) { return outcome ? Reason::kNone : outcome.error().reason; }

}  // namespace

EngineOptions PackageSim::Options() {
  EngineOptions options;
  options.own_machine = owned::OwnMachine;
  options.own_document = owned::OwnDocument;
  return options;
}

PackageSim::PackageSim(uint64_t seed, bool trace)
    : random_(seed * 13 + 7),
      trust_(seed * 17 + 3),
      trace_(trace),
      store_(memory_),
      world_(Options(), &store_) {
  Draw();
}

// What the versions hold.
void PackageSim::Draw() {
  static constexpr UpgradeStrategy kStrategies[] = {
      UpgradeStrategy::kContinue, UpgradeStrategy::kUpgrade, UpgradeStrategy::kUpgrade,
      UpgradeStrategy::kAbort};
  for (int version = 1; version <= kVersions; ++version) {
    Content& content = contents_[version];
    content.strategy = kStrategies[random_.Below(4)];
    content.machines["m"] = random_.Chance(60) ? 'p' : 'q';
    if (random_.Chance(60)) content.machines["n"] = random_.Chance(60) ? 'p' : 'q';
    content.schedule = random_.Chance(40);
    for (const auto& [id, says] : content.machines) {
      content.yaml += MachineText(id, says, content.strategy);
    }
    if (content.schedule) content.yaml += "schedule: s\nevery: 900h\nstart: {machine: m}\n---\n";
  }
}

void PackageSim::Expect(bool good, const std::string& what) {
  if (good || !problem_.empty()) return;
  problem_ = "packages: " + what;
  Note("WRONG: " + what);
}

void PackageSim::Note(const std::string& what) {
  if (trace_) std::printf("%ld P %s\n", Micros(world_.now()) / 1000, what.c_str());
}

std::string PackageSim::Run() {
  for (size_t step = 15 + random_.Below(40); step > 0 && problem_.empty(); --step) Step();
  if (problem_.empty()) Finish();
  return problem_;
}

void PackageSim::Step() {
  world_.Decide([this](Engine& engine) {
    AuditBlocked(engine);
    for (size_t n = trust_.Below(4); n > 1; --n) ChangeTrust(engine);
    for (size_t n = random_.Below(5); n > 0; --n) Command(engine);
  });
  Commit();
  Audit();
  world_.Advance(Duration(random_.Below(300'000)));
}

// The turn is written, or lost with its server.
void PackageSim::Commit() {
  const size_t dice = random_.Below(100);
  if (dice >= 10) {
    world_.Commit();
    durable_ = decided_;
    return;
  }
  if (dice < 4) {
    store_.FailNextWrite(FaultyStore::Outcome::kTorn);
    world_.Commit();
    const bool failed = !world_.failed().empty();
    store_.Heal();
    if (!failed) {
      durable_ = decided_;
      return;
    }
  }
  Note("crash");
  world_.Crash();
  decided_ = durable_;
  uploads_.clear();
  hands_.clear();
}

// Commands --------------------------------------------------------------------------------------

void PackageSim::Command(Engine& engine) {
  const size_t dice = random_.Below(100);
  if (dice < 14) return BeginPut(engine);
  if (dice < 30) return EndPut(engine);
  if (dice < 45) return Activate(engine);
  if (dice < 50) return Rollback(engine);
  if (dice < 52) return Deactivate(engine);
  if (dice < 58) return Remove(engine);
  if (dice < 78) return StartOne(engine);
  if (dice < 89) return Poll(engine);
  Report(engine);
}

rows::PackageVersionRow PackageSim::RowOf(int version, rows::UploadId upload) const {
  const Content& content = contents_.at(version);
  rows::PackageVersionRow row;
  row.ns = "ns";
  row.package = "p";
  row.version = TextOf(version);
  row.digest = "sha256:" + row.version;
  row.size = content.yaml.size();
  for (const auto& [id, says] : content.machines) {
    row.documents.push_back({"machine", id, "all.yaml", 1});
    row.nodes.push_back(id + ".work");
  }
  if (content.schedule) row.documents.push_back({"schedule", "s", "all.yaml", 1});
  row.workers.push_back({"all", {"*"}, {}, {}, {}});
  row.upload = upload;
  row.pieces = 1;
  return row;
}

void PackageSim::BeginPut(Engine& engine) {
  const int version = 1 + static_cast<int>(random_.Below(kVersions));
  const rows::UploadId upload = engine.packages().BeginUpload("ns");
  (void)engine.packages().PutPiece("ns", upload, 0, contents_.at(version).yaml);
  engine.packages().PutText("ns", upload, "all.yaml", contents_.at(version).yaml);
  uploads_.push_back({version, upload});
}

// It becomes the version, or breaks.
void PackageSim::EndPut(Engine& engine) {
  if (uploads_.empty()) return;
  const size_t at = random_.Below(uploads_.size());
  const Upload upload = uploads_[at];
  uploads_.erase(uploads_.begin() + static_cast<std::ptrdiff_t>(at));
  if (random_.Chance(15)) return engine.packages().Abandon("ns", upload.id);
  const auto known = decided_.put.find(upload.version);
  const bool other = random_.Chance(15);
  rows::PackageVersionRow row = RowOf(upload.version, upload.id);
  if (other) row.digest += "-other";
  if (other && known == decided_.put.end()) return engine.packages().Abandon("ns", upload.id);
  const bool fresh = known == decided_.put.end() || known->second;
  const std::set<int> keys = trust_.Chance(60) ? TrustModel::DrawKeys(trust_) : std::set<int>();
  const Reason signing = decided_.trust.MaySign(upload.version, keys);
  const auto created =
      engine.packages().Finish(row, TrustModel::SignaturesOf(keys, upload.version));
  Note("put " + row.version + (other ? " of other bytes" : ""));
  if (other) {
    return Expect(ReasonOf(created) == Reason::kVersionExists, "a version has two contents");
  }
  if (signing != Reason::kNone) {
    return Expect(ReasonOf(created) == signing, "what hangs on a revoked key is taken");
  }
  Expect(created && *created == fresh, "a put is answered wrongly");
  decided_.trust.Sign(upload.version, keys);
  decided_.put[upload.version] = false;
}

Result<Activated> PackageSim::Try(Engine& engine, const ActivateArgs& args) {
  auto asked = engine.packages().Ask(args);
  if (!asked) return asked.error();
  if (asked->done) return *asked->done;
  Parsed parsed = ParseDefinitions(contents_.at(NumberOf(*asked->version)).yaml, "all.yaml");
  Sources sources{std::move(parsed.definitions), std::move(parsed.documents)};
  for (Machine& one : sources.machines) owned::OwnMachine(*asked->version, &one);
  for (Document& one : sources.documents) owned::OwnDocument(*asked->version, &one);
  Compiled compiled = CompileAll(asked->under, sources, {}, engine.now());
  auto done = engine.packages().Activate(args, &sources, &compiled);
  if (done) return *std::move(done);
  return Error{Code::kInternal, Reason::kNone, "what it was compiled under has changed"};
}

bool PackageSim::Has(int version, const std::string& machine) const {
  return version > 0 && contents_.at(version).machines.contains(machine);
}

void PackageSim::MoveTo(int version) {
  const Content& content = contents_.at(version);
  for (const auto& [machine, says] : content.machines) decided_.known.insert(machine);
  if (content.strategy == UpgradeStrategy::kContinue) return;
  for (auto& [id, live] : decided_.instances) {
    const auto next = content.machines.find(live.machine);
    if (live.stopped || next == content.machines.end()) continue;
    const bool same = contents_.at(live.version).machines.at(live.machine) == next->second;
    if (!same && content.strategy == UpgradeStrategy::kAbort) {
      live.stopped = true;
    } else {
      live.moved |= !same;
      live.version = version;
    }
  }
}

void PackageSim::Activate(Engine& engine) {
  const int version = 1 + static_cast<int>(random_.Below(kVersions));
  const auto known = decided_.put.find(version);
  const bool there = known != decided_.put.end() && !known->second;
  const uint32_t share = random_.Chance(35) ? 1 + static_cast<uint32_t>(random_.Below(9'999)) : 0;
  const bool only_if = random_.Chance(20);
  ActivateArgs args{.ns = "ns", .package = "p", .version = TextOf(version), .share = share};
  const int expected = static_cast<int>(random_.Below(3));
  if (only_if) args.if_active = expected == 0 ? "" : TextOf(expected);
  const auto done = Try(engine, args);
  Note("activate " + args.version + (share ? " for a share" : "") + (done ? "" : ": refused"));
  Reason reason = Reason::kNone;
  if (!there) {
    reason = Reason::kNoSuchPackage;
  } else if (only_if && expected != decided_.active) {
    reason = Reason::kActiveChanged;
  } else if (version != decided_.active && decided_.trust.Blocked(version)) {
    reason = decided_.trust.MayUse(version);
  } else if (share > 0 && decided_.active == 0) {
    reason = Reason::kBadRequest;
  }
  Expect(ReasonOf(done) == reason, "an activation answers " + std::string(Name(ReasonOf(done))) +
                                       " instead of " + std::string(Name(reason)));
  if (!done) return;
  if (version == decided_.active) {
    if (share == 0) decided_.candidate = 0;
    return;
  }
  if (share > 0) {
    decided_.candidate = version;
    return;
  }
  Force(version);
}

void PackageSim::Force(int version) {
  if (decided_.active == 0 && decided_.previous == version) decided_.previous = decided_.before;
  if (decided_.active > 0) decided_.previous = decided_.active;
  decided_.before = 0;
  decided_.active = version;
  decided_.candidate = 0;
  MoveTo(version);
}

void PackageSim::Rollback(Engine& engine) {
  const auto done = Try(engine, {.ns = "ns", .package = "p", .rollback = true});
  Note("rollback");
  if (decided_.put.empty()) {
    return Expect(ReasonOf(done) == Reason::kNoSuchPackage, "nothing is rolled back");
  }
  if (decided_.candidate > 0) {
    Expect(done.has_value(), "a candidate is not ended");
    decided_.candidate = 0;
    return;
  }
  const int to = decided_.previous;
  if (to == 0 || decided_.put.at(to)) {
    return Expect(ReasonOf(done) == Reason::kNoPrevious, "there is nothing to roll back to");
  }
  if (decided_.trust.Blocked(to)) {
    return Expect(ReasonOf(done) == decided_.trust.MayUse(to), "what is blocked is rolled back to");
  }
  Expect(done.has_value(), "a rollback is refused");
  Force(to);
}

void PackageSim::Deactivate(Engine& engine) {
  const auto done = engine.packages().Deactivate({.ns = "ns", .package = "p"});
  if (decided_.put.empty()) return;
  Expect(done && done->changed == (decided_.active > 0), "a deactivation is answered wrongly");
  if (decided_.active == 0) return;
  Note("deactivate");
  decided_.before = decided_.previous;
  decided_.previous = decided_.active;
  decided_.active = decided_.candidate = 0;
}

// Trust -----------------------------------------------------------------------------------------

void PackageSim::ChangeTrust(Engine& engine) {
  const size_t dice = trust_.Below(100);
  if (dice < 30) return AddKey(engine);
  if (dice < 42) return RevokeKey(engine);
  if (dice < 85) return Sign(engine);
  Require(engine);
}

void PackageSim::AddKey(Engine& engine) {
  const auto key = trust_.Below(TrustModel::kKeys);
  TrustModel::Key& state = decided_.trust.keys[key];
  const std::string fingerprint = TrustModel::FingerprintOf(static_cast<int>(key));
  const auto added = engine.packages().trust().Add(
      "ns", {"k" + std::to_string(key), fingerprint, "ssh-ed25519 AAAA", {}, "", {}});
  Note("trust key " + std::to_string(key) + (added ? "" : ": refused"));
  const Reason reason = state == TrustModel::Key::kUnknown   ? Reason::kNone
                        : state == TrustModel::Key::kTrusted ? Reason::kKeyExists
                                                             : Reason::kKeyRevoked;
  Expect(ReasonOf(added) == reason, "a key is trusted that is, or was revoked");
  if (added) state = TrustModel::Key::kTrusted;
}

void PackageSim::RevokeKey(Engine& engine) {
  const auto key = trust_.Below(TrustModel::kKeys);
  TrustModel::Key& state = decided_.trust.keys[key];
  const std::string fingerprint = TrustModel::FingerprintOf(static_cast<int>(key));
  const auto revoked = engine.packages().trust().Revoke(
      "ns", trust_.Chance(50) ? fingerprint : "k" + std::to_string(key));
  Note("revoke key " + std::to_string(key) + (revoked ? "" : ": refused"));
  const bool known = state != TrustModel::Key::kUnknown;
  Expect(ReasonOf(revoked) == (known ? Reason::kNone : Reason::kNoSuchKey),
         "a revocation is answered wrongly");
  if (known) state = TrustModel::Key::kRevoked;
}

void PackageSim::Sign(Engine& engine) {
  const int version = 1 + static_cast<int>(trust_.Below(kVersions));
  const std::set<int> keys = TrustModel::DrawKeys(trust_);
  const auto there = engine.packages().Find("ns", "p", TextOf(version));
  if (!there) return;
  const auto done =
      engine.packages().trust().Sign(*there->version, TrustModel::SignaturesOf(keys, version));
  Note("sign " + TextOf(version) + " with " + std::to_string(keys.size()) + " keys" +
       (done ? "" : ": refused"));
  const Reason reason = decided_.trust.MaySign(version, keys);
  Expect(ReasonOf(done) == reason, "a signature is answered wrongly");
  if (reason == Reason::kNone) decided_.trust.Sign(version, keys);
}

void PackageSim::Require(Engine& engine) {
  const bool on = trust_.Chance(40);
  const bool force = trust_.Chance(50);
  bool lacks = false;
  for (const auto& [version, content] : contents_) {
    lacks |= InUse(version) && decided_.trust.VerdictOf(version) == Verdict::kUnsigned;
  }
  const auto done =
      engine.packages().trust().UpdateNamespace("ns", {.require_signatures = on}, force, "");
  Note(std::string("require signatures: ") + (on ? "yes" : "no") + (done ? "" : ": refused"));
  const bool asks = on && !force && !decided_.trust.required;
  // Instances may be on their way to another version still.
  Expect(done || (asks && ReasonOf(done) == Reason::kUnsigned), "a setting is refused");
  Expect(!done || !asks || !lacks, "signatures are required though a version in use has none");
  if (done) decided_.trust.required = on;
}

void PackageSim::AuditBlocked(Engine& engine) {
  for (const auto& [id, live] : decided_.instances) {
    if (live.stopped || live.moved || taken_.contains(id)) continue;  // else it is ready
    const auto waits = engine.WaitsOf("ns", id);
    if (!waits) continue;
    const bool told = std::ranges::any_of(waits->why, [](const auto& one) {
      return one.second.find("is blocked") != std::string::npos;
    });
    Expect(told == decided_.trust.Blocked(live.version),
           "instance " + id + (told ? " is said" : " is not said") +
               " to wait for a version that is blocked");
  }
}

bool PackageSim::InUse(int version) const {
  return version == decided_.active || version == decided_.candidate ||
         std::ranges::any_of(decided_.instances, [version](const auto& one) {
           return !one.second.stopped && one.second.version == version;
         });
}

void PackageSim::Remove(Engine& engine) {
  const int version = 1 + static_cast<int>(random_.Below(kVersions));
  const auto known = decided_.put.find(version);
  const auto removed =
      engine.packages().Remove({.ns = "ns", .package = "p", .version = TextOf(version)});
  if (known == decided_.put.end() || known->second) {
    return Expect(ReasonOf(removed) == Reason::kNoSuchPackage, "what is not there is removed");
  }
  Note("remove " + TextOf(version) + (removed ? "" : ": refused"));
  if (InUse(version)) {
    return Expect(ReasonOf(removed) == Reason::kPackageInUse, "what is in use is removed");
  }
  // Instances may be on their way to another version still.
  Expect(removed || removed.error().reason == Reason::kPackageInUse, "a removal fails");
  if (removed) known->second = true;
}

void PackageSim::StartOne(Engine& engine) {
  const std::string machine = random_.Chance(70) ? "m" : "n";
  const std::string id = "i" + std::to_string(next_++);
  const auto started = engine.Start({.ns = "ns", .machine = "p." + machine, .id = id});
  Note("start " + id + " of " + machine + (started ? "" : ": refused"));
  const bool by_active = Has(decided_.active, machine);
  const bool by_candidate = Has(decided_.candidate, machine);
  if (!by_active) {
    return Expect(ReasonOf(started) == (decided_.known.contains(machine) ? Reason::kRetired
                                                                         : Reason::kNoSuchMachine),
                  "a start of what is not active answers " + std::string(Name(ReasonOf(started))));
  }
  Expect(started.has_value(), "a start is refused: " + (started ? "" : started.error().message));
  if (!started) return;
  const auto definition =
      engine.reader().registry.Now("ns", "p." + machine, started->view.instance.version);
  const int version = definition && definition->package ? NumberOf(*definition->package) : 0;
  Expect(version == decided_.active || (by_candidate && version == decided_.candidate),
         "a start is on version " + std::to_string(version) + ", and " +
             std::to_string(decided_.active) + " is active");
  decided_.instances[id] = {machine, version};
}

void PackageSim::Poll(Engine& engine) {
  PollArgs args{.filter = {.ns = "ns"}, .worker = "w"};
  args.max_tasks = static_cast<int32_t>(1 + random_.Below(3));
  // It takes at once what there is, and what is decided later in the turn comes after it.
  const auto told = [this, now = decided_.instances,
                     trust = decided_.trust](std::vector<Task> tasks) {
    for (Task& task : tasks) {
      const auto live = now.find(task.instance);
      Note("task of " + task.instance);
      Expect(live != now.end() && !live->second.stopped,
             "a task of " + task.instance + ", which has stopped, is handed out");
      Expect(task.package && live != now.end() && NumberOf(*task.package) == live->second.version,
             "a task has the programs of another version");
      Expect(!task.package || !trust.Blocked(NumberOf(*task.package)),
             "a task of a version is handed out that is blocked");
      taken_.insert(task.instance);
      hands_.push_back(std::move(task));
    }
  };
  (void)engine.Poll(std::move(args), told);
}

void PackageSim::Report(Engine& engine) {
  if (hands_.empty()) return;
  const Task task = hands_.back();
  hands_.pop_back();
  Live& live = decided_.instances[task.instance];
  const auto answer = engine.Report("ns", task.instance, {.transition = "ok", .claim = task.claim});
  Note("report " + task.instance + (answer ? "" : ": refused"));
  if (answer) {
    Expect(!live.stopped, "an instance that was aborted goes on");
    live.stopped = live.reported = true;
  }
  Expect(answer || live.stopped || live.moved,
         "a report was refused: " + (answer ? "" : answer.error().message));
}

// What must be true -----------------------------------------------------------------------------

void PackageSim::Audit() {
  if (!problem_.empty()) return;
  const PackageTable& table = world_.engine().packages().table();
  const PackageState* state = table.Find("ns", "p");
  const auto text = [](int version) { return version > 0 ? TextOf(version) : std::string(); };
  Expect(state || durable_.put.empty(), "a package is gone");
  if (!state) return;
  Expect(state->force.active == text(durable_.active), "another version is active");
  Expect(state->force.candidate == text(durable_.candidate), "another version is the candidate");
  uint64_t bytes = 0;
  for (const auto& [version, removed] : durable_.put) {
    const bool there = state->Find(TextOf(version)) != nullptr;
    Expect(there != removed, "version " + TextOf(version) + (removed ? " is there" : " is gone"));
    if (!removed) bytes += contents_.at(version).yaml.size();
  }
  for (const auto& [version, removed] : durable_.put) {
    const PackageStanding standing =
        world_.engine().packages().StandingOf(*table.Version("ns", "p", TextOf(version)));
    Expect(standing.trust.verdict == durable_.trust.VerdictOf(version),
           "the verdict on version " + TextOf(version) + " is wrong");
    Expect(standing.trust.blocked.empty() != durable_.trust.Blocked(version),
           "version " + TextOf(version) + " is blocked, or not, against what is trusted");
    int ended = 0;
    for (const auto& [id, live] : durable_.instances) {
      ended += live.reported && live.version == version ? 1 : 0;
    }
    const auto counted = standing.results[static_cast<size_t>(InstanceResult::kSuccess)];
    Expect(std::cmp_equal(counted, ended),
           "of version " + TextOf(version) + " other instances are counted than have succeeded");
  }
  const auto view = world_.engine().namespaces().Get("ns");
  if (view) {
    std::set<std::string> ids;
    for (int version : {durable_.active, durable_.candidate}) {
      if (version == 0) continue;
      for (const auto& [id, says] : contents_.at(version).machines) ids.insert(id);
    }
    const bool schedule = durable_.active > 0 && contents_.at(durable_.active).schedule;
    Expect(view->usage.package_bytes == bytes, "the bytes of archives are counted wrongly");
    Expect(view->usage.definitions == ids.size() + (schedule ? 1 : 0),
           "what is defined is counted wrongly");
  }
  for (const std::string machine : {"m", "n"}) {
    if (!Has(durable_.active, machine)) continue;
    const auto meant = world_.engine().reader().registry.Find("ns", "p." + machine);
    Expect(meant && meant->package && NumberOf(*meant->package) == durable_.active,
           "a name means another version than the one that is active");
  }
}

// Each instance is where it must be, and nothing is kept of what broke.
void PackageSim::AuditInstances() {
  for (const auto& [id, live] : decided_.instances) {
    const auto instance = world_.Get(id);
    Expect(instance.has_value(), "instance " + id + " is gone");
    if (!instance) return;
    Expect(instance->Stopped() == live.stopped,
           "instance " + id + (live.stopped ? " goes on" : " has stopped"));
    if (live.stopped) continue;
    const auto now =
        world_.engine().reader().registry.Now("ns", instance->machine, instance->version);
    Expect(now && now->package && NumberOf(*now->package) == live.version,
           "instance " + id + " is on another version than " + std::to_string(live.version));
  }
}

void PackageSim::Finish() {
  world_.Decide();
  world_.Commit();
  if (random_.Chance(50)) {
    Note("restart");
    world_.Restart();
    hands_.clear();
  }
  world_.Drain();
  AuditInstances();
  Audit();
  world_.Crash();
  world_.Drain();
  Audit();
  size_t kept = 0;
  for (const auto& [version, removed] : decided_.put) kept += removed ? 0 : 1;
  Expect(world_.RowsOf(kPieces).size() == kept, "pieces of what broke are kept");
  for (const auto& [version, removed] : decided_.put) {
    if (removed || InUse(version)) continue;
    const RemoveArgs args{.ns = "ns", .package = "p", .version = TextOf(version)};
    const auto gone = world_.Do([&args](Engine& engine) { return engine.packages().Remove(args); });
    Expect(gone.has_value(), "what nobody uses cannot be removed");
  }
}

}  // namespace dfsmr
