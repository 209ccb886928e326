#include "tests/sim/secrets.h"

#include <algorithm>
#include <cstdio>

#include "dsrv/engine/deletions.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/workers.h"
#include "tests/dsrv/engine/own_names.h"

namespace dfsmr {
namespace {

constexpr std::string_view kSecretMachine = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";
constexpr std::string_view kPlanted = "the-value-of-";  // with which each value begins
const std::vector<std::string> kNames = {"db", "db-read", "tls"};

EngineOptions Options() {
  EngineOptions options;
  options.own_machine = owned::OwnMachine;
  options.own_document = owned::OwnDocument;
  return options;
}

// The worker of the package lists db and those that begin so.
bool Listed(const std::string& name) { return name.starts_with("db"); }

Reason RefusalOf(const auto& outcome) { return outcome ? Reason::kNone : outcome.error().reason; }

SecretKey KeyOf(uint64_t number) {
  char line[65];
  std::snprintf(line, sizeof line, "%064lx", static_cast<unsigned long>(number + 1));
  return ParseSecretKeys(line, "sim")->first();
}

}  // namespace

SecretSim::SecretSim(uint64_t seed, bool trace)
    : random_(seed * 17 + 3), trace_(trace), store_(memory_), world_(Options(), &store_) {
  SetUp();
}

// A machine by hand, and one of a package whose worker lists secrets.
void SecretSim::SetUp() {
  world_.Define(kSecretMachine);
  rows::PackageVersionRow row{.ns = "ns", .package = "p", .version = "1.0.0"};
  row.digest = "sha256:1";
  row.documents.push_back({"machine", "job", "all.yaml", 1});
  row.nodes = {"job.work"};
  row.workers.push_back({"all", {"*"}, {}, {"db*"}, {}});
  const auto put = world_.Do([&](Engine& engine) {
    row.upload = engine.packages().BeginUpload("ns");
    engine.packages().PutText("ns", row.upload, "all.yaml", std::string(kSecretMachine));
    (void)engine.packages().PutPiece("ns", row.upload, 0, std::string(kSecretMachine));
    row.pieces = 1;
    return engine.packages().Finish(row, {});
  });
  Expect(put && *put, "a package cannot be put");
  Sources sources;
  ActivateArgs args{.ns = "ns", .package = "p", .version = "1.0.0"};
  const auto active = world_.Do([&](Engine& engine) -> Result<Ok> {
    auto asked = engine.packages().Ask(args);
    if (!asked) return asked.error();
    Parsed parsed = ParseDefinitions(std::string(kSecretMachine), "all.yaml");
    sources = {std::move(parsed.definitions), std::move(parsed.documents)};
    for (Machine& one : sources.machines) owned::OwnMachine(*asked->version, &one);
    Compiled compiled = CompileAll(asked->under, sources, {}, engine.now());
    auto done = engine.packages().Activate(args, &sources, &compiled);
    if (!done) return NoSecretKeys();
    if (!*done) return done->error();
    return Ok{};
  });
  Expect(active.has_value(), "a package cannot be activated");
}

void SecretSim::Expect(bool good, const std::string& what) {
  if (good || !problem_.empty()) return;
  problem_ = "secrets: " + what;
  Note("WRONG: " + what);
}

void SecretSim::Note(const std::string& what) {
  if (trace_) std::printf("%ld S %s\n", Micros(world_.now()) / 1000, what.c_str());
}

std::string SecretSim::Run() {
  for (size_t step = 15 + random_.Below(40); step > 0 && problem_.empty(); --step) Step();
  if (problem_.empty()) Finish();
  return problem_;
}

void SecretSim::Step() {
  world_.Decide([this](Engine& engine) {
    if (decided_.deleting && engine.namespaces().StateOf("other") == rows::SpaceState::kNone) {
      Note("other is gone");
      decided_.deleting = false;
      std::erase_if(decided_.secrets, [](const auto& one) { return one.first.first == "other"; });
    }
    for (size_t n = random_.Below(6); n > 0; --n) Command(engine);
  });
  Commit();
  Audit();
  world_.Advance(Duration(random_.Below(300'000)));
}

// The turn is written, or lost with its server.
void SecretSim::Commit() {
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
  hands_.clear();
  // A server reads its keys again.
  world_.Do([this](Engine& engine) {
    engine.secrets().SetKeys(keys_);
    return true;
  });
}

// Commands --------------------------------------------------------------------------------------

SecretSim::Name SecretSim::AnyName() {
  return {random_.Chance(70) ? "ns" : "other", random_.Of(kNames)};
}

void SecretSim::Command(Engine& engine) {
  const size_t dice = random_.Below(100);
  if (dice < 35) return Put(engine);
  if (dice < 45) return Delete(engine);
  if (dice < 55) return SetKeys(engine);
  if (dice < 65) return StartOne(engine);
  if (dice < 75) return Poll(engine);
  if (dice < 82) return EndOne(engine);
  if (dice < 97) return Ask(engine);
  DeleteNamespace(engine);
}

void SecretSim::Put(Engine& engine) {
  const Name name = AnyName();
  if (name.first == "other" && decided_.deleting) return;  // the calls refuse it
  const std::string value = std::string(kPlanted) + std::to_string(next_++);
  const auto put = engine.secrets().Put(name.first, name.second, value, "sim");
  Expect(RefusalOf(put) == (keys_ ? Reason::kNone : Reason::kSecretsLocked),
         "a put is answered wrongly");
  if (!put) return;
  Known& known = decided_.secrets[name];
  known.values[++known.last] = value;
  if (known.values.size() > Secrets::kVersions) known.values.erase(known.values.begin());
  Expect(put->last == known.last, "a version is called by a number that was given before");
  Expect(put->versions.size() == known.values.size(), "a secret has other versions than were put");
}

void SecretSim::Delete(Engine& engine) {
  const Name name = AnyName();
  if (name.first == "other" && decided_.deleting) return;
  Known& known = decided_.secrets[name];
  const uint32_t version =
      random_.Chance(60) ? 0 : static_cast<uint32_t>(random_.Below(known.last + 1));
  const bool there = version == 0 ? !known.values.empty() : known.values.contains(version);
  const auto deleted = engine.secrets().Delete(name.first, name.second, version);
  Expect(RefusalOf(deleted) == (there ? Reason::kNone : Reason::kNoSuchSecret),
         "a deletion is answered wrongly");
  if (version == 0) known.values.clear();
  known.values.erase(version);
}

// Another key on top, and perhaps some at the end are dropped.
void SecretSim::SetKeys(Engine& engine) {
  SecretKeys keys;
  if (random_.Chance(80)) keys.keys.push_back(KeyOf(next_key_++));
  if (keys_) keys.keys.insert(keys.keys.end(), keys_->keys.begin(), keys_->keys.end());
  if (keys.keys.size() > 1 && random_.Chance(30)) keys.keys.pop_back();
  if (keys.keys.empty()) return;
  keys_ = std::make_shared<const SecretKeys>(std::move(keys));
  Note("key " + keys_->first().id + " of " + std::to_string(keys_->keys.size()));
  engine.secrets().SetKeys(keys_);
}

void SecretSim::DeleteNamespace(Engine& engine) {
  if (decided_.deleting || engine.namespaces().StateOf("other") == rows::SpaceState::kNone) {
    return;
  }
  const auto begun = engine.Delete("other", Duration(random_.Below(300'000)), "sim");
  Expect(begun.has_value(), "a deletion of a namespace was refused");
  decided_.deleting = true;
}

void SecretSim::StartOne(Engine& engine) {
  const bool packaged = random_.Chance(60);
  (void)engine.Start(
      {.ns = "ns", .machine = packaged ? "p.job" : "job", .id = "i" + std::to_string(next_++)});
}

void SecretSim::Poll(Engine& engine) {
  PollArgs args{.filter = {.ns = "ns"}, .worker = "w"};
  args.max_tasks = 2;
  (void)engine.Poll(std::move(args), [this](std::vector<Task> tasks) {
    std::ranges::move(tasks, std::back_inserter(hands_));
  });
}

// By a report, or given back.
void SecretSim::EndOne(Engine& engine) {
  if (hands_.empty()) return;
  const Task task = hands_.back();
  hands_.pop_back();
  const bool ended =
      random_.Chance(50)
          ? engine.Report("ns", task.instance, {.transition = "ok", .claim = task.claim})
                .has_value()
          : engine.Relinquish("ns", task.instance, task.claim, {}).has_value();
  Expect(ended, "a worker's last word is refused");
  decided_.over.push_back(task);
}

void SecretSim::Ask(Engine& engine) {
  const bool over = random_.Chance(40);
  const std::vector<Task>& tasks = over ? decided_.over : hands_;
  if (tasks.empty()) return;
  const Task& task = random_.Of(tasks);
  const std::string name = random_.Of(kNames);
  const auto may = engine.secrets().MayAsk("ns", task.instance, task.claim, {name});
  const bool listed = !task.machine.starts_with("p.") || Listed(name);
  Expect(RefusalOf(may) == (over      ? Reason::kStaleClaim
                           : !listed ? Reason::kNotAllowed
                                     : Reason::kNone),
         "who asks for " + name + " with " + (over ? "an old claim" : "a claim") + " of " +
             task.machine + " is answered " + std::string(dfsmr::Name(RefusalOf(may))));
  const Known& known = decided_.secrets[{"ns", name}];
  const auto newest = engine.secrets().VersionOf("ns", name, 0);
  Expect(newest.has_value() == !known.values.empty(), "a secret is there wrongly");
  if (newest && !known.values.empty()) {
    Expect(*newest == known.values.rbegin()->first, "the newest version is another one");
  }
}

// What must be true -----------------------------------------------------------------------------

void SecretSim::Audit() {
  if (!problem_.empty() || world_.InFlight()) return;
  std::map<Name, Known> known = durable_.secrets;
  std::erase_if(known, [](const auto& one) { return one.second.last == 0; });
  if (durable_.deleting) {  // its rows may be there, or not
    std::erase_if(known, [](const auto& one) { return one.first.first == "other"; });
  }
  AuditVersions(known);
  AuditRows(known);
}

// Each version is there, and what it is sealed with gives its value.
void SecretSim::AuditVersions(const std::map<Name, Known>& known) {
  const rows::Reader reader{memory_, world_.partition()};
  uint64_t names = 0;
  for (const auto& [name, secret] : known) {
    const auto row = rows::GetSecret(reader, name.first, name.second);
    Expect(row && *row, "a secret is lost");
    if (!problem_.empty()) return;
    Expect((*row)->last == secret.last && (*row)->versions.size() == secret.values.size(),
           "a secret has other versions than it must have");
    if (name.first == "ns" && !secret.values.empty()) ++names;
    for (const rows::SecretVersion& one : (*row)->versions) {
      const auto value = secret.values.find(one.version);
      const auto sealed = rows::GetSealed(reader, name.first, name.second, one.version);
      Expect(value != secret.values.end() && sealed && *sealed, "a value is lost");
      if (!problem_.empty()) return;
      Expect((*sealed)->key == one.key, "a version is listed under another key than seals it");
      const SealedValue whole{name.first, name.second, one.version, **sealed, keys_};
      const auto open = whole.Open();
      const bool has_key = keys_ && keys_->Find(one.key) != nullptr;
      Expect(has_key ? open && *open == value->second : RefusalOf(open) == Reason::kSecretsLocked,
             "a version does not give its value");
    }
  }
  const auto view = world_.engine().namespaces().Get("ns");
  Expect(view && view->usage.secrets == names, "the namespace counts other secrets than it has");
}

// No row shows a value; there is no sealed one too many; and the engine counts what there is.
void SecretSim::AuditRows(const std::map<Name, Known>& known) {
  size_t expected = 0;
  for (const auto& [name, secret] : known) expected += secret.values.size();
  size_t sealed = 0;
  bool shown = false;
  (void)memory_.Scan("", "", [&](std::string_view key, std::string_view value) {
    shown = shown || value.find(kPlanted) != value.npos;
    const bool other = key.size() > 3 && key.substr(3).starts_with("other") && durable_.deleting;
    if (key.size() > 2 && key[2] == '\x51' && !other) ++sealed;
    return true;
  });
  Expect(!shown, "a row shows the value of a secret");
  Expect(sealed == expected, "there are " + std::to_string(sealed) + " sealed values, and not " +
                                 std::to_string(expected));
  std::map<std::string, uint64_t> by_key;
  const rows::Reader reader{memory_, world_.partition()};
  (void)rows::ScanSecrets(reader, std::nullopt, [&](const rows::SecretRow& row) {
    for (const rows::SecretVersion& one : row.versions) ++by_key[one.key];
    return true;
  });
  Expect(by_key == world_.engine().secrets().by_key(), "versions are counted under wrong keys");
}

// In the end all is sealed with the first key that any key opens.
void SecretSim::Finish() {
  for (int looks = 0; looks < 200 && decided_.deleting; ++looks) {
    world_.Elapse(50ms);
    world_.Commit();
    if (world_.engine().namespaces().StateOf("other") != rows::SpaceState::kNone) continue;
    decided_.deleting = false;
    std::erase_if(decided_.secrets, [](const auto& one) { return one.first.first == "other"; });
  }
  Expect(!decided_.deleting, "a deletion never ends");
  world_.Drain();
  world_.Commit();
  durable_ = decided_;
  Audit();
  for (const auto& [key, count] : world_.engine().secrets().by_key()) {
    const bool first = keys_ && key == keys_->first().id;
    Expect(first || keys_->Find(key) == nullptr,
           std::to_string(count) + " versions were not sealed anew");
  }
}

}  // namespace dfsmr
