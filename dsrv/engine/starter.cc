#include "dsrv/engine/starter.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/followers.h"
#include "dsrv/engine/kept_starts.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/package_table.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/planner.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/hex.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/when/schedule_check.h"
#include "storage/rows/machine.h"

namespace dfsmr {
namespace {

constexpr size_t kAheadToldAtStart = 100;

// Sorts by time: 10 characters of milliseconds, 10 of entropy, in Crockford's base 32.
std::string IdOf(Timestamp now, uint64_t random) {
  static constexpr char kDigits[] = "0123456789abcdefghjkmnpqrstvwxyz";
  auto ms = static_cast<uint64_t>(Micros(now) / 1000);
  std::string id(20, '0');
  for (size_t i = 10; i-- > 0; ms >>= 5) id[i] = kDigits[ms & 31];
  for (size_t i = 20; i-- > 10; random >>= 5) id[i] = kDigits[random & 31];
  return id;
}

// One that lives here: of P draws one does, on average.
std::string NewId(std::string_view ns, const EngineOptions& here, Timestamp now,
                  uint64_t random) {
  while (true) {
    std::string id = IdOf(now, random);
    if (here.Has(ns, id)) return id;
    random = Mix(random + 1);
  }
}

// Whether an instance goes to the candidate that takes this share, in hundredths of a percent.
bool InShare(std::string_view id, uint32_t share) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : id) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return Mix(hash) % 10'000 < share;
}

// What is wrong with a start, whatever exists: its params and its times.
std::optional<Error> RefusalOf(const StartArgs& args, const ParamsCheck* check, Timestamp now) {
  if (check) {
    const std::string& given = args.spec.params;
    if (auto violation = check->Violation(given.empty() ? "{}" : std::string_view(given))) {
      return Error{
          Code::kInvalidArgument, Reason::kBadParams,
          "machine " + Quoted(args.machine) + " does not accept these params: " + *violation};
    }
  }
  if (args.start_before == kNever) return std::nullopt;
  if (args.start_before <= now) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest, "start_before has passed already"};
  }
  if (args.start_before < args.start_at) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest, "start_before is before start_at"};
  }
  return std::nullopt;
}

// True: an instance of `machine` with `params` and the id of `args` was started in the same way. An
// error: in another way.
Result<bool> SameStart(const StartArgs& args, const std::string& machine, const std::string& params,
                       bool dry_run) {
  const bool same_machine = machine == args.machine;
  if (dry_run != args.dry_run) {
    return Error{Code::kAlreadyExists, Reason::kInstanceExists,
                 "instance " + Quoted(args.id) + " exists already, and is " +
                     (dry_run ? "a dry run" : "no dry run") + "; choose another id"};
  }
  if (same_machine &&
      /*mutant other-params-same-start*/ json::Same(params, args.spec.params) /*end*/) {
    return true;
  }
  return Error{Code::kAlreadyExists, Reason::kInstanceExists,
               "instance " + Quoted(args.id) + " exists already, of machine " + Quoted(machine) +
                   (same_machine ? " with other params" : "") + "; choose another id"};
}

// What is started with a flow of its own bears that one's name.
void NameFlow(StartArgs* args) {
  if (!args->flow || !args->machine.empty()) return;
  args->machine = args->flow->id.empty() ? "adhoc" : args->flow->id;
}

// Of several that name the same instance, one: the strictest.
std::vector<Instance::Prerequisite> EachOnce(const std::vector<Instance::Prerequisite>& all) {
  std::vector<Instance::Prerequisite> once;
  for (const Instance::Prerequisite& one : all) {
    auto same = std::ranges::find(once, one.instance, &Instance::Prerequisite::instance);
    if (same != once.end()) {
      same->any_result = same->any_result && one.any_result;
    } else {
      once.push_back(one);
    }
  }
  return once;
}

}  // namespace

Error LivesNotHere(std::string_view ns, std::string_view id, const EngineOptions& options,
                   std::string_view what) {
  return {Code::kInternal, Reason::kNone,
          "instance " + Quoted(id) + " lives in partition " +
              std::to_string(PartitionOf(ns, id, options.partitions)) + ", and partition " +
              std::to_string(options.partition) + " was asked to " + std::string(what)};
}

Error RefusedStart(size_t at, const std::string& machine, const std::string& id, Error why) {
  why.message = "starts[" + std::to_string(at) + "] (" +
                (id.empty() ? "" : "instance " + Quoted(id) + " of ") + "machine " +
                Quoted(machine) + "): " + why.message + "; so the report is refused";
  return why;
}

Result<bool> Starter::Exists(const StartArgs& args, const Earlier& earlier) {
  const auto before = earlier.find({args.ns, args.id});
  if (before != earlier.end()) {
    return SameStart(args, before->second->machine, before->second->spec.params,
                     before->second->dry_run);
  }
  if (!options_.Has(args.ns, args.id)) return false;
  auto taken = residents_.FirstSeqOf(args.ns, args.id);
  if (!taken) return taken.error();
  if (!*taken) return false;
  auto existing = changer_.Touch(args.ns, args.id);
  if (!existing) return existing.error();
  auto spec = residents_.SpecOf(**existing);
  if (!spec) return spec.error();
  return SameStart(args, (*existing)->instance.machine, (*spec)->params,
                   static_cast<bool>((*existing)->instance.dry_run));
}

Result<Starter::Ended> Starter::EndedOf(const StartArgs& args, const Earlier& earlier) {
  Ended ended;
  for (const Instance::Prerequisite& one : args.after) {
    if (earlier.contains({args.ns, one.instance})) continue;
    if (!options_.Has(args.ns, one.instance)) continue;  // it was asked for before, or tells then
    auto prerequisite = changer_.Touch(args.ns, one.instance);
    if (!prerequisite) {
      Error error = prerequisite.error();
      error.message = "'after': " + error.message;
      return error;
    }
    const Instance& other = (*prerequisite)->instance;
    if (other.Stopped()) ended.emplace_back(other.id, other.result);
  }
  return ended;
}

// An action takes its params as the input of its step. What a hook or a step gives it is held
// against that when the step is handed out, where an operator can mend it.
std::shared_ptr<const ParamsCheck> Starter::CheckOf(const StartArgs& args, const Machine& machine,
                                                    const PackageVersion* package) {
  if (args.flow) return args.flow->params.check;
  const ActionSource* action = machine.action();
  if (!action) return machine.params;
  const bool launched = args.provenance && !args.provenance->cause.empty();
  if (!args.outside && !launched) return nullptr;
  if (!action->input && action->extends.empty()) return nullptr;
  return InputCheckOf(*action, catalog_.DefinitionsOf(args.ns, package)->definitions);
}

Resident& Starter::Create(Prepared prepared) {
  StartArgs& args = prepared.args;
  VersionState* version = prepared.version;
  Instance instance;
  args.spec.after = args.after;
  instance.after = std::move(args.after);
  instance.ns = std::move(args.ns);
  instance.id = std::move(args.id);
  instance.machine = version->definition->machine.id;
  instance.version = version->definition->version;
  instance.priority = args.priority;
  instance.start_at = args.start_at;
  instance.start_before = args.start_before;
  if (args.hold) instance.waits.Add(Wait::kHold);
  instance.parent = std::move(args.parent);
  instance.parent_step = args.parent_step;
  instance.provenance = std::move(args.provenance);
  if (args.force || args.on_conflict || !args.asks.empty()) {
    InstanceLimits limits;
    limits.asks = std::move(args.asks);
    limits.on_conflict = args.on_conflict;
    limits.force = args.force;
    limits.order = limits_.NextOrder();
    instance.limits = std::move(limits);
  }
  if (args.dry_run) instance.dry_run = DryRun();
  if (options_.trace_sample > 0) Sample(&args);
  instance.traced = static_cast<bool>(args.spec.trace);
  if (version->plan || args.flow) {
    instance.plan = PlanState();
    instance.plan->wait_after_fail = args.wait_after_fail;
    instance.plan->wait_given = args.wait_after_fail.has_value();
  }
  Resident& resident = *residents_.Insert(std::move(instance), version, version->graph);
  if (args.flow) CacheOf(resident).source = std::move(args.flow);
  args.spec.first_seq = turn_.last_seq() + 1;
  args.spec.born_after = turn_.LastClaim();
  resident.spec = std::make_shared<const Spec>(std::move(args.spec));
  resident.created = true;
  return resident;
}

void Starter::Sample(StartArgs* args) {
  if (args->spec.trace || args->follows || args->dry_run) return;
  const auto random = [this] {
    return Mix(turn_.random() + turn_.NextId() * 0x9e3779b97f4a7c15ull);
  };
  constexpr double kAll = 18446744073709551616.0;  // 2^64
  if (static_cast<double>(random()) >= options_.trace_sample * kAll) return;
  TraceContext trace{.sampled = true};
  trace.id = ToHex(random()) + ToHex(random() | 1);
  args->spec.trace = std::move(trace);
}

Result<VersionState*> Starter::VersionOf(const StartArgs& args) {
  if (args.flow) return &catalog_.ImplicitVersion(args.ns, args.machine);
  if (!args.package_version.empty()) return VersionAt(args);
  VersionState* version = catalog_.VersionOf(args.ns, args.machine, args.version);
  if (!version && args.implicit) return &catalog_.ImplicitVersion(args.ns, args.machine);
  if (!version) return NoSuchMachine(args.ns, args.machine, args.version);
  const MachineState& machine = *version->machine;
  if (!args.inside && machine.retired) return RetiredByPackage("machine", args.machine);
  if (args.version == 0 && machine.candidate && InShare(args.id, machine.share)) {
    return machine.candidate;
  }
  return Standing(version);
}

// A version that instances may be of.
Result<VersionState*> Starter::Standing(VersionState* version) {
  const MachineVersion& definition = *version->definition;
  if (!version->LeftBehind() && !version->stands_for) return version;
  return Error{Code::kFailedPrecondition, Reason::kSupersededVersion,
               "version " + std::to_string(definition.version) + " of machine " +
                   Quoted(definition.machine.id) +
                   " has been left behind by an upgrade or abort; start the latest, version " +
                   std::to_string(version->machine->current)};
}

Result<VersionState*> Starter::VersionAt(const StartArgs& args) {
  const std::string package = args.machine.substr(0, args.machine.find('.'));
  const PackageState* state = packages_.Find(args.ns, package);
  const PackageState::Known* known = state ? state->Find(args.package_version) : nullptr;
  if (!known) {
    return Error{Code::kNotFound, Reason::kNoSuchPackage,
                 "namespace " + Quoted(args.ns) + " has no version " +
                     Quoted(args.package_version) + " of a package " + Quoted(package)};
  }
  VersionState* version = catalog_.OwnVersion(*known->version, args.machine);
  if (!version) {
    return Error{Code::kNotFound, Reason::kNoSuchMachine,
                 "package " + Quoted(package) + " has no machine " + Quoted(args.machine) +
                     " in its version " + args.package_version + ", or that was never activated"};
  }
  const bool candidate =
      version->machine->candidate == version || state->force.candidate == args.package_version;
  if (!args.inside && version->machine->retired && !candidate) {
    return RetiredByPackage("machine", args.machine);
  }
  return Standing(version);
}

Result<Starter::Prepared> Starter::Examine(StartArgs args, const Earlier& earlier,
                                           Reserved* reserved, uint64_t before) {
  if (args.outside) {
    if (auto may = spaces_.MayChange(args.ns); !may) return may.error();
  }
  NameFlow(&args);
  if (!args.id.empty()) {
    auto exists = Exists(args, earlier);
    if (!exists) return exists.error();
    if (*exists) return Prepared{std::move(args)};
  }
  if (args.id.empty()) args.id = DrawId(args.ns);
  if (args.outside) {
    auto may = spaces_.MayStart(args.ns, args.dry_run, before);
    if (!may) return may.error();
  }
  auto version = VersionOf(args);
  if (!version) return version.error();
  const Machine& machine = (*version)->definition->machine;
  const auto check = CheckOf(args, machine, (*version)->definition->package.get());
  if (auto refusal = RefusalOf(args, check.get(), turn_.now())) return *std::move(refusal);
  if (args.wait_after_fail && !args.flow && !(*version)->plan) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 "wait_after_fail is about the steps of plans, and " + Quoted(args.machine) +
                     " is a machine; leave it out"};
  }
  if (!args.spec.dry_answers.empty()) {
    if (auto refusal = planner_.RefusedAnswer(args, **version)) return *std::move(refusal);
  }
  args.after = EachOnce(args.after);
  auto ended = EndedOf(args, earlier);
  if (!ended) return ended.error();
  // What the server starts by itself belongs to something that has begun.
  if (args.parent.empty() && !args.implicit) {
    if (auto full = turn_.NeedsRoom(Room::kAmple)) return *std::move(full);
  }
  const bool elsewhere = !options_.Has(args.ns, args.id);
  const bool at_once = !elsewhere && !args.hold && args.start_at <= turn_.now() &&
                       ended->size() == args.after.size();
  if (at_once) {
    if (auto may = limits_.MayStart(args, **version, reserved); !may) return may.error();
  }
  return Prepared{std::move(args), *version, elsewhere};
}

Result<Started> Starter::Start(StartArgs args) {
  if (!args.id.empty() && !options_.Has(args.ns, args.id)) {
    return LivesNotHere(args.ns, args.id, options_, "start it");
  }
  const std::string kept_for = args.home_says && *args.home_says ? args.id : "";
  const std::string ns = args.ns;
  auto prepared = Examine(std::move(args), {}, nullptr);
  const bool starts = prepared && prepared->version;
  if (!kept_for.empty() && !starts) limits_.GiveUp(ns, kept_for);
  if (!prepared) return prepared.error();
  const bool created = prepared->version != nullptr;
  if (created) {
    Resident& resident = *Begin(*std::move(prepared));
    Started started{residents_.ViewOf(resident), created};
    if (started.WaitsForLimits()) {
      started.view.waits = std::make_shared<const InstanceWaits>(
          limits_.reader().WaitsOf(resident.instance, kAheadToldAtStart));
    }
    return started;
  }
  auto existing = changer_.Touch(prepared->args.ns, prepared->args.id);
  if (!existing) return existing.error();
  return Started{residents_.ViewOf(**existing), created};
}

Result<std::vector<Starter::Prepared>> Starter::Prepare(std::vector<StartArgs> starts) {
  std::vector<Prepared> prepared;
  prepared.reserve(starts.size());  // `earlier` points into it
  Earlier earlier;
  Reserved reserved;
  std::map<std::string, uint64_t> before;  // by namespace
  for (StartArgs& args : starts) {
    const std::string machine = args.machine;
    const std::string id = args.id;
    uint64_t& made = before[args.ns];
    auto one = Examine(std::move(args), earlier, &reserved, made);
    if (!one) return RefusedStart(prepared.size(), machine, id, one.error());
    if (one->version) ++made;
    const StartArgs& added = prepared.emplace_back(*std::move(one)).args;
    earlier.emplace(std::pair(added.ns, added.id), &added);
  }
  return prepared;
}

bool Starter::ToBeAdopted(const StartArgs& args) const {
  if (turn_.at_home() || args.flow || catalog_.VersionOf(args.ns, args.machine, args.version)) {
    return false;
  }
  bool found = false;
  auto scanned = rows::ScanMachinesOf(turn_.home(), args.ns, [&](const rows::MachineRow& row) {
    found = found || (row.id == args.machine && (args.version == 0 || args.version == row.version));
  });
  return turn_.Trust(scanned) && found;
}

// What else is wrong with it its own partition finds.
Result<Ok> Starter::MayBeginElsewhere(const StartArgs& args) {
  const auto version = VersionOf(args);
  if (!version) return Ok{};
  auto question = limits_.QuestionOf(args, **version);
  const std::string cause = args.provenance ? args.provenance->cause : "";
  return question ? limits_.Reserve(*std::move(question), cause) : Result<Ok>(Ok{});
}

std::optional<rows::Message::Stake> Starter::QuestionOf(StartArgs* args) {
  if (turn_.at_home() || args->hold || args->start_at > turn_.now()) return std::nullopt;
  if (!args->id.empty() && !options_.Has(args->ns, args->id)) return std::nullopt;
  NameFlow(args);
  const bool given = !args->id.empty();
  if (!given) args->id = DrawId(args->ns);
  const auto version = VersionOf(*args);
  auto question = version ? limits_.QuestionOf(*args, **version) : std::nullopt;
  if (!question) return std::nullopt;
  if (given) {
    const auto exists = Exists(*args, {});
    if (!exists || *exists) return std::nullopt;
  }
  const auto ended = EndedOf(*args, {});
  return ended && ended->size() == args->after.size() ? question : std::nullopt;
}

std::string Starter::DrawId(const std::string& ns) {
  const uint64_t random = turn_.random() + turn_.NextId() * 0x9e3779b97f4a7c15ull;
  return NewId(ns, options_, turn_.now(), Mix(random));
}

void Starter::StartElsewhere(const StartArgs& args, rows::Message::Asker asker) {
  const PartitionId there = PartitionOf(args.ns, args.id, options_.partitions);
  messages_.Send(there, {ToBegin(args, std::move(asker))});
}

Resident* Starter::Begin(Prepared prepared, const rows::Message::Asker& asker) {
  if (!prepared.version) return nullptr;
  if (prepared.elsewhere) {
    /*mutant message-start-lost*/ StartElsewhere(prepared.args, asker); /*end*/
    return nullptr;
  }
  // Nothing that was there when it was prepared is gone; only the store may fail, and then the turn
  // does, too.
  auto ended = EndedOf(prepared.args, {});
  if (prepared.args.outside) spaces_.Started(prepared.args.ns);
  Resident& resident = Create(std::move(prepared));
  Run(resident, ended ? *ended : Ended());
  return &resident;
}

void Starter::Run(Resident& resident, const Ended& ended) {
  changer_.Apply(resident, [&](Scene& scene) {
    rules::Start(scene);
    for (Event& event : scene.events) {
      event.client = resident.spec->client;
      if (event.kind == ChangeKind::kStarted || event.kind == ChangeKind::kScheduled) {
        event.params = resident.spec->params;
        if (const auto& package = resident.version->definition->package) {
          event.package = Event::Package{package->package, package->version, package->digest};
        }
      }
    }
  });
  for (const auto& one : ended) {
    changer_.Apply(resident,
                   [&](Scene& scene) { rules::PrerequisiteStopped(scene, one.first, one.second); });
  }
  const Instance& instance = resident.instance;
  if (!instance.Stopped()) {
    for (const auto& one : instance.after) followers_.Add(instance, one.instance);
  }
  limits_.Settle();
  if (rules::AwaitsGraph(instance)) planner_.Plan(resident);
}

}  // namespace dfsmr
