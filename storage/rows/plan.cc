#include "storage/rows/plan.h"

#include <algorithm>

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

void Encode(const Settling& settling, record::Settling* out) {
  out->set_early(settling.early);
  out->set_settled(settling.settled);
  out->set_dropped(settling.dropped);
  out->set_decision(static_cast<uint32_t>(settling.decision));
  out->set_outcome(static_cast<uint32_t>(settling.outcome));
  out->set_note(settling.note);
}

Settling Decode(const record::Settling& in) {
  Settling settling;
  settling.early = in.early();
  settling.settled = in.settled();
  settling.dropped = in.dropped();
  settling.decision = static_cast<Settling::Decision>(in.decision());
  settling.outcome = static_cast<StepOutcome>(in.outcome());
  settling.note = in.note();
  return settling;
}

bool SoundSettling(const record::Settling& in) {
  return in.decision() <= static_cast<uint32_t>(Settling::Decision::kPassed) &&
         in.outcome() <= static_cast<uint32_t>(StepOutcome::kSkipped);
}

void Encode(const SectionState& state, record::SectionState* out) {
  out->set_phase(static_cast<uint32_t>(state.phase));
  out->set_then(static_cast<uint32_t>(state.then));
  out->set_tries(state.tries);
  out->set_swept(state.swept);
  out->set_error(state.error);
  out->set_done(state.done);
  out->set_warned(state.warned);
  for (uint32_t step : state.skipped) out->add_skipped(step);
}

SectionState Decode(const record::SectionState& in) {
  SectionState state;
  state.phase = static_cast<SectionState::Phase>(in.phase());
  state.then = static_cast<SectionState::Then>(in.then());
  state.tries = in.tries();
  state.swept = in.swept();
  state.error = in.error();
  state.done = in.done();
  state.warned = in.warned();
  state.skipped.assign(in.skipped().begin(), in.skipped().end());
  return state;
}

void Encode(const Keepsake& kept, record::Kept* out) {
  for (const auto& [section, count] : kept.led) {
    out->add_led(section + 1);  // kNoSection becomes 0
    out->add_led(count);
  }
  for (NodeIndex home : kept.led_from) out->add_led_from(home);
  out->set_doomed_in(kept.doomed_in + 1);  // kNoSection becomes 0
  out->set_next_child(kept.next_child);
  if (kept.section) {
    /*mutant section-not-kept*/ Encode(*kept.section, out->mutable_section()); /*end*/
  }
}

Keepsake Decode(const record::Kept& in) {
  Keepsake kept;
  for (int i = 0; i + 1 < in.led_size(); i += 2)
    kept.led.emplace_back(in.led(i) - 1, in.led(i + 1));
  kept.led_from.assign(in.led_from().begin(), in.led_from().end());
  kept.doomed_in = in.doomed_in() - 1;
  kept.next_child = in.next_child();
  if (in.has_section()) kept.section = Decode(in.section());
  return kept;
}

void Encode(const ChildStart& start, record::Start* out) {
  out->set_machine(start.machine);
  out->set_version(start.version);
  out->set_id(start.id);
  out->set_params(start.spec.params);
  out->set_priority(start.priority);
  out->mutable_labels()->insert(start.spec.labels.begin(), start.spec.labels.end());
  out->set_flow(start.spec.flow);
  out->set_start_at(Micros(start.start_at));
  out->set_start_before(DeadlineMicros(start.start_before));
  out->set_hold(start.hold);
  out->set_package_version(start.package_version);
  if (start.spec.trace) out->set_trace(PackTrace(*start.spec.trace));
  for (const auto& one : start.after) {
    record::Prerequisite* after = out->add_after();
    after->set_instance(one.instance);
    after->set_any_result(one.any_result);
  }
}

void Decode(const record::Start& in, ChildStart* start) {
  start->machine = in.machine();
  start->version = in.version();
  start->id = in.id();
  start->spec.params = in.params();
  start->priority = in.priority();
  start->spec.labels = {in.labels().begin(), in.labels().end()};
  start->spec.flow = in.flow();
  start->start_at = FromMicros(in.start_at());
  start->start_before = DeadlineFrom(in.start_before());
  start->hold = in.hold();
  start->package_version = in.package_version();
  if (auto trace = UnpackTrace(in.trace())) start->spec.trace = *std::move(trace);
  for (const auto& after : in.after()) {
    start->after.push_back({after.instance(), after.any_result()});
  }
}

bool SoundKept(const record::Kept& in) {
  return in.section().phase() <= static_cast<uint32_t>(SectionState::Phase::kResets) &&
         in.section().then() <= static_cast<uint32_t>(SectionState::Then::kSkip);
}

}  // namespace

// nullopt: it is damaged.
static std::optional<StepRow> DecodeStep(NodeIndex home, std::string_view value) {
  record::Step in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      !Sound(in.token()) || !Sound(in.left()) || !SoundSettling(in.settling()) ||
      !SoundKept(in.kept())) {
    return std::nullopt;
  }
  StepRow row;
  row.home = home;
  if (in.has_token()) {
    row.token = rows::Decode(in.token());
    row.token->node = in.node();
    row.token->home = row.home;
    row.node = in.token().node();
  }
  if (in.has_left()) {
    row.left = rows::Decode(in.left());
    row.left->node = in.left_node();
    row.left->home = row.home;
  }
  row.arrived = in.arrived();
  row.doomed = in.doomed();
  row.input = in.input();
  if (in.has_ended()) {
    row.ended = Ended{in.ended().skipped(),
                      in.ended().visit(),
                      FromMicros(in.ended().start_time()),
                      FromMicros(in.ended().end_time()),
                      {}};
    if (in.ended().has_children()) row.ended->children = rows::Decode(in.ended().children());
    row.ended->note = in.ended().note();
    row.ended->tries = in.ended().tries();
    row.ended->worker = in.ended().worker();
  }
  if (in.has_settling()) row.settling = Decode(in.settling());
  if (in.has_kept()) row.kept = Decode(in.kept());
  return row;
}

// Visits what is stored of the steps; `begin` is what their keys begin with.
static Result<Ok> ScanStepValues(
    const Reader& reader, const std::string& begin, const std::function<bool(NodeIndex)>& wanted,
    const std::function<Result<bool>(NodeIndex, std::string_view, std::string_view)>& visit) {
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   const auto home =
                       static_cast<NodeIndex>(KeyReader(key.substr(begin.size() - 3)).Number(4));
                   if (wanted && !wanted(home)) return true;
                   return visit(home, key, value);
                 });
}

Result<Ok> ScanSteps(const Reader& reader, InstanceName name,
                     const std::function<bool(StepRow)>& visit,
                     const std::function<bool(NodeIndex)>& wanted) {
  return ScanStepValues(
      reader, Key(reader.partition, kStep).Of(name), wanted,
      [&](NodeIndex home, std::string_view key, std::string_view value) -> Result<bool> {
        auto row = DecodeStep(home, value);
        if (!row) return Corrupt("step", key);
        return visit(*std::move(row));
      });
}

Result<StepRows> StepRows::Read(const Reader& reader, InstanceName name,
                                const std::function<bool(NodeIndex)>& wanted) {
  StepRows rows;
  rows.partition_ = reader.partition;
  rows.ns_ = name.ns;
  rows.instance_ = name.id;
  auto scanned = ScanStepValues(
      reader, Key(reader.partition, kStep).Of(name), wanted,
      [&rows](NodeIndex home, std::string_view, std::string_view value) -> Result<bool> {
        rows.rows_.push_back({home, rows.values_.size()});
        rows.values_ += value;
        return true;
      });
  if (!scanned) return scanned.error();
  return rows;
}

Result<std::optional<StepRow>> StepRows::At(NodeIndex home) const {
  std::optional<StepRow> row;
  const auto found = std::ranges::lower_bound(rows_, home, {}, &Row::home);
  if (found == rows_.end() || found->home != home) return row;
  const size_t end = found + 1 == rows_.end() ? values_.size() : (found + 1)->begin;
  const auto value = std::string_view(values_).substr(found->begin, end - found->begin);
  row = DecodeStep(home, value);
  if (!row) return Corrupt("step", StepKey(partition_, kStep, {ns_, instance_}, home));
  return row;
}

Result<std::optional<StepRow>> GetStep(const Reader& reader, InstanceName name, NodeIndex home) {
  const std::string key = StepKey(reader.partition, kStep, name, home);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  std::optional<StepRow> row;
  if (!*value) return row;
  row = DecodeStep(home, **value);
  if (!row) return Corrupt("step", key);
  return row;
}

void PutStarts(const Writer& writer, InstanceName name, NodeIndex home,
               const std::vector<ChildStart>& starts) {
  record::Starts out;
  for (const ChildStart& start : starts) Encode(start, out.add_starts());
  writer.batch.Put(StepKey(writer.partition, kStarts, name, home), out.SerializeAsString());
}

Result<std::vector<ChildStart>> GetStarts(const Reader& reader, InstanceName name, NodeIndex home) {
  const std::string key = StepKey(reader.partition, kStarts, name, home);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  record::Starts in;
  if (!*value || !in.ParseFromString(**value)) return Corrupt("list of children", key);
  std::vector<ChildStart> starts;
  for (const auto& one : in.starts()) Decode(one, &starts.emplace_back());
  return starts;
}

std::string EncodeStarts(const std::vector<KeptStart>& starts) {
  record::Starts out;
  for (const KeptStart& start : starts) {
    record::Start* to = out.add_starts();
    Encode(start, to);
    to->set_ns(start.ns);
    to->set_group(start.group);
    if (start.wait_after_fail) to->set_wait_after_fail(start.wait_after_fail->count() + 1);
    if (start.on_conflict) to->set_on_conflict(static_cast<uint32_t>(*start.on_conflict) + 1);
    to->set_force(start.force);
    to->set_dry_run(start.dry_run);
    to->mutable_dry_answers()->insert(start.spec.dry_answers.begin(),
                                      start.spec.dry_answers.end());
  }
  return out.SerializeAsString();
}

Result<std::vector<KeptStart>> DecodeStarts(std::string_view text) {
  constexpr uint32_t kLast = static_cast<uint32_t>(OnConflict::kReplace) + 1;
  record::Starts in;
  const bool read = in.ParseFromArray(text.data(), static_cast<int>(text.size()));
  std::vector<KeptStart> starts;
  for (const auto& one : in.starts()) {
    if (!read || one.on_conflict() > kLast) break;
    KeptStart& start = starts.emplace_back();
    Decode(one, &start);
    start.ns = one.ns();
    start.group = one.group();
    if (one.wait_after_fail() > 0) start.wait_after_fail = Duration(one.wait_after_fail() - 1);
    if (one.on_conflict() > 0) start.on_conflict = static_cast<OnConflict>(one.on_conflict() - 1);
    start.force = one.force();
    start.dry_run = one.dry_run();
    start.spec.dry_answers = {one.dry_answers().begin(), one.dry_answers().end()};
  }
  if (read && starts.size() == static_cast<size_t>(in.starts_size())) return starts;
  return Error{Code::kDataLoss, Reason::kStoreFailed,
               "the list of starts of a report that came too late is damaged"};
}

void PutPlanned(const Writer& writer, InstanceName name, std::string_view step,
                std::string_view flow) {
  writer.batch.Put(Key(writer.partition, kPlanned).Of(name).Text(step), std::string(flow));
}

Result<std::map<std::string, std::string>> GetPlanned(const Reader& reader, InstanceName name) {
  std::map<std::string, std::string> flows;
  const std::string begin = Key(reader.partition, kPlanned).Of(name);
  auto scanned =
      reader.view.Scan(begin, PrefixEnd(begin), [&](std::string_view key, std::string_view value) {
        key.remove_prefix(begin.size());
        flows.emplace(key.substr(0, key.size() - 1), value);
        return true;
      });
  if (!scanned) return scanned.error();
  return flows;
}

static std::string UnstartedKey(PartitionId partition, InstanceName name, NodeIndex home,
                                uint64_t number) {
  return Key(partition, kUnstarted).Of(name).Version(home).Number(number);
}

void PutUnstarted(const Writer& writer, InstanceName name, NodeIndex home, uint64_t number) {
  writer.batch.Put(UnstartedKey(writer.partition, name, home, number), "");
}

void DropUnstarted(const Writer& writer, InstanceName name, NodeIndex home, uint64_t number) {
  writer.batch.Delete(UnstartedKey(writer.partition, name, home, number));
}

Result<bool> IsUnstarted(const Reader& reader, InstanceName name, NodeIndex home, uint64_t number) {
  auto value = reader.view.Get(UnstartedKey(reader.partition, name, home, number));
  if (!value) return value.error();
  return value->has_value();
}

void DropSteps(const Writer& writer, InstanceName name) {
  const std::string begin = Key(writer.partition, kStep).Of(name);
  writer.batch.DeleteRange(begin, PrefixEnd(begin));
}

void DropPlan(const Writer& writer, InstanceName name) {
  for (Kind kind : {kStep, kOutput, kStarts, kPlanned, kUnstarted}) {
    const std::string begin = Key(writer.partition, kind).Of(name);
    writer.batch.DeleteRange(begin, PrefixEnd(begin));
  }
  writer.batch.Delete(Key(writer.partition, kGraph).Of(name));
}

// A stopped instance keeps the rows of its steps.
static void PutStep(const Writer& writer, const Instance& instance, const Machine& machine,
                    NodeIndex home) {
  record::Step out;
  const Tokens& tokens = instance.tokens;
  if (auto slot = tokens.SlotOfHome(home)) {
    rows::Encode(tokens[*slot], machine, out.mutable_token());
    out.set_node(tokens[*slot].node);
  } else if (const Ended* ended = tokens.EndedAt(home)) {
    record::Ended* to = out.mutable_ended();
    to->set_skipped(ended->skipped);
    to->set_tries(ended->tries);
    to->set_visit(ended->visit);
    to->set_start_time(Micros(ended->start_time));
    to->set_end_time(Micros(ended->end_time));
    if (ended->children) rows::Encode(*ended->children, to->mutable_children());
    to->set_note(ended->note);
    to->set_worker(ended->worker);
  } else if (instance.Stopped() && !instance.resumable && !tokens.LastKeptAt(home)) {
    return;
  }
  if (const auto left = tokens.left().lower_bound({home, 0});
      left != tokens.left().end() && left->first.first == home) {
    /*mutant left-not-kept*/ rows::Encode(left->second, machine, out.mutable_left()); /*end*/
    out.set_left_node(left->second.node);
  }
  if (auto arrived = tokens.arrived().find(home); arrived != tokens.arrived().end()) {
    out.set_arrived(arrived->second);
  }
  out.set_doomed(tokens.Doomed(home));
  if (const std::string* input = tokens.Patched(home)) out.set_input(*input);
  if (const Settling* settling = tokens.SettlingOf(home)) {
    /*mutant settling-not-kept*/ Encode(*settling, out.mutable_settling()); /*end*/
  }
  const bool over = instance.Stopped() && !instance.resumable;
  const Keepsake* kept = over ? tokens.LastKeptAt(home) : tokens.KeptAt(home);
  if (kept) Encode(*kept, out.mutable_kept());
  const std::string key = StepKey(writer.partition, kStep, instance, home);
  if (out.ByteSizeLong() == 0) {
    writer.batch.Delete(key);  // nothing is known of it any more
  } else {
    writer.batch.Put(key, out.SerializeAsString());
  }
}

void PutSteps(const Writer& writer, const Instance& instance, const Machine& machine) {
  for (NodeIndex home : instance.tokens.dirty()) PutStep(writer, instance, machine, home);
}

}  // namespace dfsmr::rows
