#include "storage/rows/instance.h"

#include <algorithm>
#include <tuple>

#include "storage/rows/bare.h"
#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"
#include "storage/rows/plan.h"

namespace dfsmr::rows {
namespace {

// Not hidden by those below.
using rows::Decode;
using rows::Encode;

constexpr size_t kHistoryPage = 32;

// `machine` is null for a stopped instance of a plan, which may have ended on any of its nodes.
Token Decode(const record::Token& in, const Machine* machine) {
  Token token = Decode(in);
  if (machine) {
    token.node = NodeNamed(*machine, in.node());
  } else if (in.node() == kAbortedNode) {
    token.node = kAbortedIndex;
  } else {
    token.node = in.node() == kCancelledNode ? kCancelledIndex : kElsewhere;
  }
  return token;
}

void Encode(const OpenEdge& edge, record::OpenEdge* out) {
  out->set_from(edge.from);
  out->set_owner(edge.owner);
  out->set_edge(edge.edge);
  out->set_next(edge.next);
  out->set_transition(edge.transition);
  out->set_client(edge.client);
}

OpenEdge Decode(const record::OpenEdge& in) {
  return {in.from(), in.owner(), in.edge(), in.next(), in.transition(), in.client()};
}

void Encode(const PlanState& plan, Waits waits, record::Plan* out) {
  out->set_graph(plan.graph);
  out->set_own_graph(plan.OwnsGraph());
  out->set_label(plan.label);
  out->set_pause_requested(waits.Has(Wait::kPause));
  out->set_skipped(plan.skipped);
  out->set_done_weight(plan.done_weight);
  out->set_done_finalize(plan.done_finalize);
  out->set_weight(plan.weight);
  out->set_ended_at(plan.ended_at);
  out->set_partial(plan.partial);
  out->set_ran(plan.ran);
  out->set_upgraded(plan.upgraded);
  out->set_children(plan.children);
  out->set_first_child(plan.first_child);
  if (plan.wait_after_fail) out->set_wait_after_fail(plan.wait_after_fail->count() + 1);
  out->set_wait_given(plan.wait_given);
  out->set_stopping(plan.stopping);
  out->set_impatient(plan.impatient + 1);  // kNoNode becomes 0
  for (const OpenEdge& edge : plan.open) Encode(edge, out->add_open());
  for (const OpenEdge& edge : plan.shut) Encode(edge, out->add_shut());
  out->set_resuming(static_cast<uint32_t>(plan.resuming));
}

PlanState Decode(const record::Plan& in) {
  PlanState plan;
  plan.graph = in.own_graph() ? std::string(kOwnGraph) : in.graph();
  plan.label = in.label();
  plan.skipped = in.skipped();
  plan.done_weight = in.done_weight();
  plan.done_finalize = in.done_finalize();
  plan.weight = in.weight();
  plan.ended_at = in.ended_at();
  plan.partial = in.partial();
  plan.ran = in.ran();
  plan.upgraded = in.upgraded();
  plan.children = in.children();
  plan.first_child = in.first_child();
  if (in.wait_after_fail() > 0) plan.wait_after_fail = Duration(in.wait_after_fail() - 1);
  plan.wait_given = in.wait_given();
  plan.stopping = in.stopping();
  plan.impatient = in.impatient() - 1;
  for (const auto& edge : in.open()) plan.open.push_back(Decode(edge));
  for (const auto& edge : in.shut()) plan.shut.push_back(Decode(edge));
  plan.resuming = static_cast<PlanState::Resuming>(std::min(in.resuming(), 2u));
  return plan;
}
// A row has no set of reasons: each follows from what else it says. Whether its start_at has come
// the rules find out again.
Waits WaitsIn(const record::Instance& in) {
  const auto state = static_cast<InstanceState>(in.state());
  if (state == InstanceState::kPlanning || state == InstanceState::kRunning) return {};
  Waits waits;
  if (in.hold()) waits.Add(Wait::kHold);
  const bool for_limits = in.waits_for_limits() || in.plan().waits_for_key();
  // One that waits for limits has asked for them, which it does when its start_at has come.
  if (in.start_at() != 0 && in.start_time() == 0 && !for_limits) waits.Add(Wait::kStartAt);
  if (in.after_size() > 0) waits.Add(Wait::kAfter);
  if (in.provenance().waits_for_group()) waits.Add(Wait::kGroup);
  if (for_limits) waits.Add(Wait::kLimit);
  if (in.waits_for_turn()) {
    waits.Add(Wait::kTurn);
  } else if (state == InstanceState::kPaused) {
    const bool machine = !in.has_plan() && !in.stuck();
    const bool by_call =
        /*mutant recover-stuck-as-paused*/ machine || in.plan().pause_requested() /*end*/;
    waits.Add(by_call ? Wait::kPause : Wait::kStuck);
  }
  return waits;
}

CancelMode CancelModeIn(const record::Instance& in) {
  if (in.killed()) return CancelMode::kKill;
  if (in.forced()) return CancelMode::kForce;
  return in.cancel_requested() ? CancelMode::kCancel : CancelMode::kNone;
}

// Where it comes from: its parent's step, its group and its cause.
void EncodeOrigin(const Instance& instance, record::Instance* out) {
  if (instance.parent_step) {
    out->mutable_parent_step()->set_home(instance.parent_step->home);
    out->mutable_parent_step()->set_generation(instance.parent_step->generation);
  }
  if (instance.provenance) {
    out->mutable_provenance()->set_group(instance.provenance->group);
    out->mutable_provenance()->set_cause(instance.provenance->cause);
    out->mutable_provenance()->set_depth(instance.provenance->depth);
    out->mutable_provenance()->set_backfill(instance.provenance->backfill);
    out->mutable_provenance()->set_time(Micros(instance.provenance->time));
    out->mutable_provenance()->set_waits_for_group(instance.waits.Has(Wait::kGroup));
  }
}

// `written`: what the row says that differs from the instance.
std::string Encode(const Instance& instance, const Machine& machine, const Written& written) {
  thread_local record::Instance out;  // reused, so that its texts keep their memory
  out.Clear();
  out.set_machine(instance.machine);
  out.set_version(instance.version);
  out.set_state(static_cast<uint32_t>(instance.state));
  out.set_result(static_cast<uint32_t>(instance.result));
  out.set_priority(instance.priority);
  out.set_start_time(Micros(instance.start_time));
  out.set_end_time(Micros(instance.end_time));
  out.set_start_at(Micros(instance.start_at));
  out.set_start_before(DeadlineMicros(instance.start_before));
  out.set_hold(instance.waits.Has(Wait::kHold));
  out.set_cancel_requested(instance.Cancelling());
  out.set_killed(instance.cancel == CancelMode::kKill);
  out.set_forced(instance.cancel >= CancelMode::kForce);
  out.set_cancel_time(Micros(instance.cancel_time));
  if (instance.cancel_reason) out.set_cancel_reason(*instance.cancel_reason);
  out.set_with_parent(instance.with_parent);
  out.set_resumable(instance.resumable);
  out.set_stuck(!instance.plan && instance.waits.Has(Wait::kStuck));
  out.set_parent(instance.parent);
  out.set_error(instance.error);
  out.set_last_visit(instance.last_visit);
  if (!instance.plan || instance.Stopped()) {
    for (const Token& token : instance.tokens) Encode(token, machine, out.add_tokens());
  }
  if (!instance.plan) {
    for (const auto& [key, token] : instance.tokens.left())
      Encode(token, machine, out.add_left());
  }
  if (instance.plan) Encode(*instance.plan, instance.waits, out.mutable_plan());
  EncodeOrigin(instance, &out);
  if (instance.limits) Encode(*instance.limits, out.mutable_limits());
  if (instance.dry_run) {
    auto& given = *out.mutable_dry_run()->mutable_given();
    for (const auto& [node, count] : instance.dry_run->given) given[node] = count;
  }
  out.set_waits_for_limits(instance.waits.Has(Wait::kLimit));
  out.set_waits_for_turn(instance.waits.Has(Wait::kTurn));
  for (const auto& [node, count] : instance.entries) (*out.mutable_entries())[node] = count;
  if (instance.last_answer) Encode(*instance.last_answer, out.mutable_last_answer());
  if (written.page.empty()) {
    for (uint64_t seq : instance.history) out.add_history(seq);
  }
  out.set_bare(written.bare);
  if (instance.traced) out.set_traced(true);
  out.set_change_time(Micros(instance.change_time));
  for (const Instance::Prerequisite& one : instance.after) {
    record::Prerequisite* to = out.add_after();
    to->set_instance(one.instance);
    to->set_any_result(one.any_result);
  }
  return out.SerializeAsString();
}

// What are numbers and texts alone.
Instance DecodePlain(InstanceName name, const record::Instance& in) {
  Instance instance;
  instance.ns = name.ns;
  instance.id = name.id;
  instance.machine = in.machine();
  instance.version = in.version();
  instance.state = static_cast<InstanceState>(in.state());
  instance.result = static_cast<InstanceResult>(in.result());
  instance.priority = in.priority();
  instance.start_time = FromMicros(in.start_time());
  instance.end_time = FromMicros(in.end_time());
  instance.start_at = FromMicros(in.start_at());
  instance.start_before = DeadlineFrom(in.start_before());
  instance.waits = WaitsIn(in);
  instance.cancel = CancelModeIn(in);
  instance.cancel_time = FromMicros(in.cancel_time());
  if (!in.cancel_reason().empty()) instance.cancel_reason = in.cancel_reason();
  instance.with_parent = in.with_parent();
  instance.resumable = in.resumable();
  instance.parent = in.parent();
  instance.error = in.error();
  instance.last_visit = in.last_visit();
  instance.history.assign(in.history().begin(), in.history().end());
  instance.bare = in.bare();
  instance.traced = in.traced();
  instance.change_time = FromMicros(in.change_time());
  return instance;
}

// False: a token is damaged.
bool DecodeTokens(const record::Instance& in, const Machine* machine, Tokens* tokens) {
  for (const auto& one : in.tokens()) {
    Token token = Decode(one, machine);
    if (!Sound(one) || token.node == kNoNode) return false;
    tokens->Restore(std::move(token));
  }
  for (const auto& one : in.left()) {
    Token token = Decode(one, machine);
    if (!Sound(one) || !machine || token.node >= machine->nodes.size()) return false;
    tokens->RestoreLeft(std::move(token));
  }
  return true;
}

void DecodeOrigin(const record::Instance& in, Instance* instance) {
  if (in.has_parent_step()) {
    instance->parent_step = ParentStep{in.parent_step().home(), in.parent_step().generation()};
  }
  if (in.has_provenance()) {
    instance->provenance =
        Provenance{in.provenance().group(), in.provenance().cause(), in.provenance().depth(),
                   in.provenance().backfill(), FromMicros(in.provenance().time())};
  }
}

// Rows that were written before there were limits have the key of a singleton in the plan.
void DecodeLimits(const record::Instance& in, Instance* instance) {
  if (in.has_limits()) {
    instance->limits = Decode(in.limits());
  } else if (!in.plan().key().empty() || in.plan().waits_for_key()) {
    InstanceLimits limits;
    using State = InstanceLimits::State;
    limits.state = in.plan().waits_for_key() ? State::kWaits : State::kHolds;
    if (!in.plan().key().empty()) limits.keys.push_back(SingletonKey(in.plan().key()));
    instance->limits = std::move(limits);
  }
}

Result<Instance> Decode(InstanceName name, std::string_view key, std::string_view value,
                        const Resolve& resolve) {
  record::Instance in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      in.state() > static_cast<uint32_t>(InstanceState::kStopped) ||
      in.result() > static_cast<uint32_t>(InstanceResult::kAborted)) {
    return Corrupt("instance", key);
  }
  const Machine* machine = in.has_plan() ? nullptr : resolve(name.ns, in.machine(), in.version());
  if (!machine && !in.has_plan()) {
    return Error{Code::kDataLoss, Reason::kStoreFailed,
                 "instance '" + std::string(name.id) + "' runs on version " +
                     std::to_string(in.version()) + " of machine '" + in.machine() +
                     "', which the store does not hold"};
  }
  Instance instance = DecodePlain(name, in);
  if (!DecodeTokens(in, machine, &instance.tokens)) return Corrupt("instance", key);
  if (in.has_plan()) instance.plan = Decode(in.plan());
  DecodeOrigin(in, &instance);
  DecodeLimits(in, &instance);
  if (in.has_dry_run()) {
    instance.dry_run = DryRun();
    for (const auto& [node, count] : in.dry_run().given()) {
      instance.dry_run->given.emplace_back(node, count);
    }
    std::ranges::sort(instance.dry_run->given);  // a protobuf map has no order
  }
  /*mutant recover-entries-lost*/ for (const auto& [node, count] : in.entries())
    instance.entries.emplace_back(node, count); /*end*/
  if (in.has_last_answer()) instance.last_answer = Decode(in.last_answer());
  for (const auto& one : in.after()) instance.after.push_back({one.instance(), one.any_result()});
  return instance;
}

}  // namespace

static Result<Instance> WithSteps(const Reader& reader, Result<Instance> instance) {
  if (!instance || !instance->plan || instance->Stopped()) return instance;
  auto restored = RestoreSteps(reader, &*instance);
  if (!restored) return restored.error();
  return instance;
}

Result<Instance> DecodeInstance(const Reader& reader, InstanceName name, std::string_view key,
                                std::string_view value, const Resolve& resolve) {
  return WithSteps(reader, Decode(name, key, value, resolve));
}

static void RestoreStep(StepRow row, Tokens* tokens) {
  if (row.token) tokens->Restore(*std::move(row.token));
  if (row.left) tokens->RestoreLeft(*std::move(row.left));
  if (row.arrived > 0) tokens->RestoreArrived(row.home, row.arrived);
  if (row.doomed) tokens->RestoreDoomed(row.home);
  if (!row.input.empty()) tokens->RestorePatched(row.home, std::move(row.input));
  if (row.settling) tokens->RestoreSettling(row.home, *std::move(row.settling));
  if (row.kept) tokens->RestoreKept(row.home, *std::move(row.kept));
}

Result<Ok> RestoreSteps(const Reader& reader, Instance* instance) {
  return ScanSteps(reader, *instance, [instance](StepRow row) {
    const bool newer = instance->tokens.dirty().contains(row.home);  // in memory
    if (!newer) RestoreStep(std::move(row), &instance->tokens);
    return true;
  });
}

Result<Ok> RestoreStep(const Reader& reader, NodeIndex home, Instance* instance) {
  auto row = GetStep(reader, *instance, home);
  if (!row) return row.error();
  if (*row) RestoreStep(**std::move(row), &instance->tokens);
  return Ok{};
}

static void PutSpec(const Writer& writer, const Instance& instance, const Spec& spec) {
  const auto& [ns, id, machine] = std::tie(instance.ns, instance.id, instance.machine);
  record::Spec out;
  out.set_params(spec.params);
  for (const auto& [key, value] : spec.labels) {
    (*out.mutable_labels())[key] = value;
    writer.batch.Put(Key(writer.partition, kLabel).Text(ns).Text(key).Text(value).Text(id), "");
  }
  out.set_client(spec.client);
  out.set_flow(spec.flow);
  for (const auto& [node, answer] : spec.dry_answers) (*out.mutable_dry_answers())[node] = answer;
  for (const Instance::Prerequisite& one : spec.after) {
    record::Prerequisite* to = out.add_after();
    to->set_instance(one.instance);
    to->set_any_result(one.any_result);
  }
  out.set_first_seq(spec.first_seq);
  out.set_born_epoch(spec.born_after.epoch);
  out.set_born_serial(spec.born_after.serial);
  if (spec.trace) out.set_trace(PackTrace(*spec.trace));
  writer.batch.Put(Key(writer.partition, kSpec).Of(instance), out.SerializeAsString());
  writer.batch.Put(Key(writer.partition, kByMachine).Text(ns).Text(machine).Text(id), "");
  if (!instance.parent.empty()) {
    writer.batch.Put(Key(writer.partition, kChildren).Text(ns).Text(instance.parent).Text(id), "");
  }
  if (!instance.provenance) return;
  const std::string& group = instance.provenance->group;
  const std::string& cause = instance.provenance->cause;
  if (!group.empty())
    writer.batch.Put(Key(writer.partition, kMember).Text(ns).Text(group).Text(id), "");
  if (!cause.empty())
    writer.batch.Put(Key(writer.partition, kByCause).Text(ns).Text(cause).Text(id), "");
}

// A bare one can be dropped without being read.
static std::string EncodeExpiry(const Instance& instance, const Written& written) {
  if (!written.bare || instance.plan || instance.history.empty()) return "";
  record::Expiry out;
  out.set_machine(instance.machine);
  out.set_version(instance.version);
  out.set_first_seq(instance.history.front());
  return out.SerializeAsString();
}

Written PutInstance(const Writer& writer, const Instance& instance, const Machine& machine,
                    const Changed& changed) {
  Written written{.bare = instance.bare && !changed.has_outputs};
  if (changed.spec) {
    PutSpec(writer, instance, *changed.spec);
    written.bare = changed.spec->labels.empty() && instance.parent.empty() && !instance.plan &&
                   !instance.provenance && !instance.dry_run && !changed.has_outputs;
  }
  if (instance.history.size() >= kHistoryPage) {
    written = {instance.history, /*bare=*/false};
    record::HistoryPage page;
    for (uint64_t seq : written.page) page.add_seqs(seq);
    writer.batch.Put(Key(writer.partition, kHistory).Of(instance).Number(written.page.front()),
                     page.SerializeAsString());
  }
  if (changed.expiry) {
    /*mutant stopped-stays-live*/ writer.batch.Delete(
        Key(writer.partition, kLive).Of(instance)); /*end*/
    writer.batch.Put(ExpiryKey(writer.partition, *changed.expiry, instance),
                     EncodeExpiry(instance, written));
  }
  writer.batch.Put(Key(writer.partition, instance.Stopped() ? kStopped : kLive).Of(instance),
                   Encode(instance, machine, written));
  if (instance.plan) PutSteps(writer, instance, machine);
  return written;
}

void Note(const Written& written, Instance* instance) {
  instance->bare = written.bare;
  if (!written.page.empty()) {
    Check(instance->history == written.page, "an instance has changed since it was written");
    instance->history.clear();
  }
  if (instance->plan) instance->tokens.ForgetRows();
}

Error NoSuchInstance(InstanceName name) {
  return {Code::kNotFound, Reason::kNoSuchInstance,
          "there is no instance '" + std::string(name.id) + "' in namespace '" +
              std::string(name.ns) + "'"};
}

Result<Instance> GetBareInstance(const Reader& reader, InstanceName name, const Resolve& resolve) {
  for (Kind kind : {kLive, kStopped}) {
    const std::string key = Key(reader.partition, kind).Of(name);
    auto value = reader.view.Get(key);
    if (!value) return value.error();
    if (*value) return Decode(name, key, **value, resolve);
  }
  return NoSuchInstance(name);
}

Result<Instance> GetInstance(const Reader& reader, InstanceName name, const Resolve& resolve) {
  return WithSteps(reader, GetBareInstance(reader, name, resolve));
}

Result<std::optional<Spec>> FindSpec(const Reader& reader, InstanceName name) {
  const std::string key = Key(reader.partition, kSpec).Of(name);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  std::optional<Spec> found;
  if (!*value) return found;
  record::Spec in;
  if (!in.ParseFromString(**value)) return Corrupt("instance's params", key);
  Spec& spec = found.emplace();
  spec.params = in.params();
  spec.labels = {in.labels().begin(), in.labels().end()};
  spec.client = in.client();
  spec.flow = in.flow();
  spec.dry_answers.insert(in.dry_answers().begin(), in.dry_answers().end());
  for (const auto& one : in.after()) spec.after.push_back({one.instance(), one.any_result()});
  spec.first_seq = in.first_seq();
  spec.born_after = {in.born_epoch(), in.born_serial()};
  if (auto trace = UnpackTrace(in.trace())) spec.trace = *std::move(trace);
  return found;
}

Result<Spec> GetSpec(const Reader& reader, InstanceName name) {
  auto spec = FindSpec(reader, name);
  if (!spec) return spec.error();
  if (*spec) return **std::move(spec);
  return Corrupt("instance's params", Key(reader.partition, kSpec).Of(name).bytes());
}

Result<std::map<std::string, std::string>> GetOutputs(const Reader& reader, InstanceName name) {
  std::map<std::string, std::string> outputs;
  const std::string begin = Key(reader.partition, kOutput).Of(name);
  auto scanned =
      reader.view.Scan(begin, PrefixEnd(begin), [&](std::string_view key, std::string_view value) {
        key.remove_prefix(begin.size());
        const bool worker = key.find('/') != std::string_view::npos;
        if (!worker) outputs.emplace(key.substr(0, key.size() - 1), value);
        return true;
      });
  if (!scanned) return scanned.error();
  return outputs;
}

namespace {

// A text as a row holds it: behind its field's tag and its length, which must fit one byte.
std::string Needle(int field, const std::string& value) {
  if (value.empty() || /*mutant long-names-not-listed*/ value.size() > 127 /*end*/) return "";
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(value.size())} + value;
}

// Byte strings that a row must contain if its instance is wanted.
std::vector<std::string> Needles(const Wanted& wanted) {
  std::vector<std::string> needles;
  auto number = [&needles](int field, auto value) {
    if (static_cast<int>(value) == 0) return;
    needles.push_back({static_cast<char>(field << 3), static_cast<char>(value)});
  };
  number(record::Instance::kStateFieldNumber, wanted.state);
  number(record::Instance::kResultFieldNumber, wanted.result);
  needles.push_back(Needle(record::Instance::kMachineFieldNumber, wanted.machine));
  return needles;
}

// The byte string for the node; a row of a plan need not contain it, since tokens have their own
// rows.
std::string NodeNeedle(const Wanted& wanted) {
  return Needle(record::Token::kNodeFieldNumber, wanted.node);
}
constexpr std::string_view kPlanTag = "\xAA\x01";  // field 21, of a length
static_assert(record::Instance::kPlanFieldNumber == 21);

}  // namespace

Result<Ok> ScanInstances(const Reader& reader, bool stopped, InstanceName after,
                         const Resolve& resolve, const VisitInstance& visit, const Wanted& wanted) {
  const std::vector<std::string> needles = Needles(wanted);
  const std::string node = NodeNeedle(wanted);
  const auto may_be = [&](std::string_view value) {
    const auto has = [value](std::string_view needle) {
      return value.find(needle) != std::string_view::npos;
    };
    return std::ranges::all_of(needles, has) && (node.empty() || has(node) || has(kPlanTag));
  };
  Key prefix(reader.partition, stopped ? kStopped : kLive);
  if (!after.ns.empty()) prefix.Text(after.ns);
  const std::string begin = prefix.bytes();
  const std::string first = std::max(begin + wanted.from, Resume(std::move(prefix), after.id));
  return ScanAll(reader, first, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   if (!wanted.look && !may_be(value)) return true;
                   KeyReader parts(key);
                   const std::string_view ns = parts.Text();
                   const InstanceName name(ns, parts.Text());
                   if (wanted.look) {
                     if (!wanted.look(name.id)) return false;
                     if (!may_be(value)) return true;
                   }
                   auto instance = wanted.tokens ? DecodeInstance(reader, name, key, value, resolve)
                                                 : Decode(name, key, value, resolve);
                   if (!instance) return instance.error();
                   return visit(*std::move(instance));
                 });
}

static Result<Ok> ScanIndex(const Reader& reader, Key prefix, std::string_view after,
                            const VisitId& visit) {
  const std::string begin = prefix.bytes();
  return reader.view.Scan(Resume(std::move(prefix), after), PrefixEnd(begin),
                          [&](std::string_view key, std::string_view) {
                            key.remove_prefix(begin.size());
                            return visit(key.substr(0, key.size() - 1));
                          });
}

Result<Ok> ScanLabel(const Reader& reader, InstanceName after, std::string_view key,
                     std::string_view value, const VisitId& visit) {
  return ScanIndex(reader, Key(reader.partition, kLabel).Text(after.ns).Text(key).Text(value),
                   after.id, visit);
}

Result<Ok> ScanMachine(const Reader& reader, InstanceName after, std::string_view machine,
                       const VisitId& visit) {
  return ScanIndex(reader, Key(reader.partition, kByMachine).Text(after.ns).Text(machine), after.id,
                   visit);
}

Result<Ok> ScanChildren(const Reader& reader, InstanceName after, std::string_view parent,
                        const VisitId& visit) {
  return ScanIndex(reader, Key(reader.partition, kChildren).Text(after.ns).Text(parent), after.id,
                   visit);
}

Result<Ok> ScanMembers(const Reader& reader, InstanceName after, std::string_view group,
                       const VisitId& visit) {
  return ScanIndex(reader, Key(reader.partition, kMember).Text(after.ns).Text(group), after.id,
                   visit);
}

Result<Ok> ScanCause(const Reader& reader, InstanceName after, std::string_view cause,
                     const VisitId& visit) {
  return ScanIndex(reader, Key(reader.partition, kByCause).Text(after.ns).Text(cause), after.id,
                   visit);
}

Result<bool> IsLive(const Reader& reader, InstanceName name) {
  auto value = reader.view.Get(Key(reader.partition, kLive).Of(name).bytes());
  if (!value) return value.error();
  return value->has_value();
}

}  // namespace dfsmr::rows
