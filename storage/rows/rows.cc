#include "storage/rows/rows.h"

#include <google/protobuf/io/coded_stream.h>

#include "record.pb.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

constexpr size_t kHistoryPage = 32;

void Encode(const Claim& claim, record::Claim* out) {
  out->set_epoch(claim.id.epoch);
  out->set_serial(claim.id.serial);
  out->set_worker(claim.worker);
  out->set_attempt(claim.attempt);
  out->set_claim_time(Micros(claim.claim_time));
  out->set_deadline(DeadlineMicros(claim.deadline));
  out->set_timed_out(claim.timed_out);
  out->set_given_back(claim.given_back);
  out->set_retry(claim.retry);
  out->set_progress(claim.progress);
  out->set_sampled(claim.sampled.count());
}

Claim Decode(const record::Claim& in) {
  Claim claim;
  claim.id = {in.epoch(), in.serial()};
  claim.worker = in.worker();
  claim.attempt = in.attempt();
  claim.claim_time = FromMicros(in.claim_time());
  claim.deadline = DeadlineFrom(in.deadline());
  claim.timed_out = in.timed_out();
  claim.given_back = in.given_back();
  claim.retry = in.retry();
  claim.progress = in.progress();
  claim.sampled = Duration(in.sampled());
  return claim;
}

void Encode(const ChildCounts& children, record::Children* out) {
  out->set_generation(children.generation);
  out->set_total(children.total);
  out->set_started(children.started);
  out->set_running(children.running);
  out->set_paused(children.paused);
  out->set_success(children.success);
  out->set_failed(children.failed);
  out->set_cancelled(children.cancelled);
  out->set_unplanned(children.unplanned);
  out->set_first(children.first);
  out->set_concurrency(children.concurrency);
  out->set_counted(children.counted);
  out->set_restart(children.restart);
  out->set_told(children.told);
  out->set_restart_at(children.restart_at);
  out->set_error(children.error);
}

}  // namespace

ChildCounts Decode(const record::Children& in) {
  ChildCounts children;
  children.generation = in.generation();
  children.total = in.total();
  children.started = in.started();
  children.running = in.running();
  children.paused = in.paused();
  children.success = in.success();
  children.failed = in.failed();
  children.cancelled = in.cancelled();
  children.unplanned = in.unplanned();
  children.first = in.first();
  children.concurrency = in.concurrency();
  children.counted = in.counted();
  children.restart = in.restart();
  children.told = in.told();
  children.restart_at = in.restart_at();
  children.error = in.error();
  return children;
}

namespace {

void Encode(const StepState& step, record::StepState* out) {
  out->set_start_time(Micros(step.start_time));
  out->set_event(step.event);
  out->set_event_data(step.event_data);
  for (const auto& [event, data] : step.inbox) {
    out->add_inbox(event);
    out->add_inbox(data);
  }
  out->set_tries(step.tries);
  out->set_polls(step.polls);
  out->set_poll_failures(step.poll_failures);
  out->set_wake(step.wake);
  out->set_progress(step.progress);
  out->set_key(step.key);
  out->set_waits_for_key(step.waits_for_key);
  out->set_ready_since(Micros(step.ready_since));
  out->set_next_child(step.next_child);
  if (step.children) Encode(*step.children, out->mutable_children());
}

StepState Decode(const record::StepState& in) {
  StepState step;
  step.start_time = FromMicros(in.start_time());
  step.event = in.event();
  step.event_data = in.event_data();
  for (int i = 0; i + 1 < in.inbox_size(); i += 2) {
    step.inbox.emplace_back(in.inbox(i), in.inbox(i + 1));
  }
  step.tries = in.tries();
  step.polls = in.polls();
  step.poll_failures = in.poll_failures();
  step.wake = in.wake();
  step.progress = in.progress();
  step.key = in.key();
  step.waits_for_key = in.waits_for_key();
  step.ready_since = FromMicros(in.ready_since());
  step.next_child = in.next_child();
  if (in.has_children()) step.children = rows::Decode(in.children());
  return step;
}

void Encode(const Token& token, const Machine& machine, record::Token* out) {
  out->set_node(std::string(NodeName(machine, token.node)));
  out->set_visit(token.visit);
  out->set_state(static_cast<uint32_t>(token.state));
  out->set_attempt(token.attempt);
  out->set_params(token.params);
  for (const Claim& claim : token.claims) Encode(claim, out->add_claims());
  out->set_available_at(token.available_at == kNever ? -1 : Micros(token.available_at));
  out->set_error(token.error);
  out->set_forgotten_epoch(token.forgotten_epoch);
  if (token.step) Encode(*token.step, out->mutable_step());
}

}  // namespace

Token Decode(const record::Token& in) {
  Token token;
  token.visit = in.visit();
  token.state = static_cast<TokenState>(in.state());
  token.attempt = in.attempt();
  token.params = in.params();
  for (const auto& claim : in.claims()) token.claims.push_back(Decode(claim));
  token.available_at = in.available_at() == -1 ? kNever : FromMicros(in.available_at());
  token.error = in.error();
  token.forgotten_epoch = in.forgotten_epoch();
  if (in.has_step()) token.step = Decode(in.step());
  return token;
}

namespace {

// `machine` is null for an instance of a plan: then it has stopped, and may stand on any of its
// nodes.
Token Decode(const record::Token& in, const Machine* machine) {
  Token token = rows::Decode(in);
  if (machine) {
    token.node = NodeNamed(*machine, in.node());
  } else if (in.node() == kAbortedNode) {
    token.node = kAbortedIndex;
  } else {
    token.node = in.node() == kCancelledNode ? kCancelledIndex : kElsewhere;
  }
  return token;
}

void Encode(const PlanState& plan, record::Plan* out) {
  out->set_graph(plan.graph);
  out->set_own_graph(plan.own_graph);
  out->set_label(plan.label);
  out->set_key(plan.key);
  out->set_waits_for_key(plan.waits_for_key);
  out->set_pause_requested(plan.pause_requested);
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
}

PlanState Decode(const record::Plan& in) {
  PlanState plan;
  plan.graph = in.graph();
  plan.own_graph = in.own_graph();
  plan.label = in.label();
  plan.key = in.key();
  plan.waits_for_key = in.waits_for_key();
  plan.pause_requested = in.pause_requested();
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
  return plan;
}

void Encode(const Answer& answer, record::Answer* out) {
  out->set_epoch(answer.claim.epoch);
  out->set_serial(answer.claim.serial);
  out->set_transition(answer.transition);
  out->set_prev_node(answer.prev_node);
  for (const std::string& node : answer.nodes) out->add_nodes(node);
  out->set_visit(answer.visit);
  out->set_state(static_cast<uint32_t>(answer.state));
  out->set_result(static_cast<uint32_t>(answer.result));
}

Answer Decode(const record::Answer& in) {
  Answer answer;
  answer.claim = {in.epoch(), in.serial()};
  answer.transition = in.transition();
  answer.prev_node = in.prev_node();
  answer.nodes.assign(in.nodes().begin(), in.nodes().end());
  answer.visit = in.visit();
  answer.state = static_cast<InstanceState>(in.state());
  answer.result = static_cast<InstanceResult>(in.result());
  return answer;
}

std::string Encode(const Instance& instance, const Machine& machine) {
  thread_local record::Instance out;  // used again: its texts keep their memory
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
  out.set_hold(instance.hold);
  out.set_cancel_requested(instance.cancel_requested);
  out.set_killed(instance.killed);
  out.set_forced(instance.forced);
  out.set_parent(instance.parent);
  out.set_error(instance.error);
  out.set_last_visit(instance.last_visit);
  if (!instance.plan || instance.Stopped()) {
    for (const Token& token : instance.tokens) Encode(token, machine, out.add_tokens());
  }
  if (instance.plan) Encode(*instance.plan, out.mutable_plan());
  if (instance.parent_step) {
    out.mutable_parent_step()->set_home(instance.parent_step->home);
    out.mutable_parent_step()->set_generation(instance.parent_step->generation);
  }
  for (const auto& [node, count] : instance.entries) (*out.mutable_entries())[node] = count;
  if (instance.last_answer) Encode(*instance.last_answer, out.mutable_last_answer());
  for (uint64_t seq : instance.history) out.add_history(seq);
  out.set_bare(instance.bare);
  for (const Instance::Prerequisite& one : instance.after) {
    record::Prerequisite* to = out.add_after();
    to->set_instance(one.instance);
    to->set_any_result(one.any_result);
  }
  return out.SerializeAsString();
}

Result<Instance> Decode(std::string_view ns, std::string_view id, std::string_view key,
                        std::string_view value, const Resolve& resolve) {
  record::Instance in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      in.state() > static_cast<uint32_t>(InstanceState::kStopped) ||
      in.result() > static_cast<uint32_t>(InstanceResult::kAborted)) {
    return Corrupt("instance", key);
  }
  const Machine* machine = in.has_plan() ? nullptr : resolve(ns, in.machine(), in.version());
  if (!machine && !in.has_plan()) {
    return Error{Code::kDataLoss, Reason::kStoreFailed,
                 "instance '" + std::string(id) + "' runs on version " +
                     std::to_string(in.version()) + " of machine '" + in.machine() +
                     "', which the store does not hold"};
  }
  Instance instance;
  instance.ns = ns;
  instance.id = id;
  instance.machine = in.machine();
  instance.version = in.version();
  instance.state = static_cast<InstanceState>(in.state());
  instance.result = static_cast<InstanceResult>(in.result());
  instance.priority = in.priority();
  instance.start_time = FromMicros(in.start_time());
  instance.end_time = FromMicros(in.end_time());
  instance.start_at = FromMicros(in.start_at());
  instance.start_before = DeadlineFrom(in.start_before());
  instance.hold = in.hold();
  instance.cancel_requested = in.cancel_requested();
  instance.killed = in.killed();
  instance.forced = in.forced();
  instance.parent = in.parent();
  instance.error = in.error();
  instance.last_visit = in.last_visit();
  for (const auto& one : in.tokens()) {
    Token token = Decode(one, machine);
    if (!Sound(one) || token.node == kNoNode) return Corrupt("instance", key);
    instance.tokens.Restore(std::move(token));
  }
  if (in.has_plan()) instance.plan = Decode(in.plan());
  if (in.has_parent_step()) {
    instance.parent_step = ParentStep{in.parent_step().home(), in.parent_step().generation()};
  }
  for (const auto& [node, count] : in.entries()) instance.entries.emplace_back(node, count);
  if (in.has_last_answer()) instance.last_answer = Decode(in.last_answer());
  instance.history.assign(in.history().begin(), in.history().end());
  instance.bare = in.bare();
  for (const auto& one : in.after()) instance.after.push_back({one.instance(), one.any_result()});
  return instance;
}

// With the tokens, when they are rows of their own.
Result<Instance> DecodeWhole(const View& view, PartitionId partition, std::string_view ns,
                             std::string_view id, std::string_view key, std::string_view value,
                             const Resolve& resolve) {
  auto instance = Decode(ns, id, key, value, resolve);
  if (!instance || !instance->plan || instance->Stopped()) return instance;
  Tokens& tokens = instance->tokens;
  auto scanned = ScanSteps(view, partition, ns, id, [&tokens](StepRow row) {
    if (row.token) tokens.Restore(*std::move(row.token));
    if (row.arrived > 0) tokens.RestoreArrived(row.home, row.arrived);
    if (row.doomed) tokens.RestoreDoomed(row.home);
    if (!row.input.empty()) tokens.RestorePatched(row.home, std::move(row.input));
    return true;
  });
  if (!scanned) return scanned.error();
  return instance;
}

void Append(const Event& event, std::string* bytes) {
  thread_local record::Event out;  // used again: its texts keep their memory
  out.Clear();
  out.set_time(Micros(event.time));
  out.set_kind(static_cast<uint32_t>(event.kind));
  out.set_ns(event.ns);
  out.set_machine(event.machine);
  out.set_version(event.version);
  out.set_instance(event.instance);
  out.set_prev_node(event.prev_node);
  out.set_node(event.node);
  out.set_transition(event.transition);
  out.set_visit(event.visit);
  out.set_attempt(event.attempt);
  out.set_client(event.client);
  out.set_params(event.params);
  out.set_note(event.note);
  out.set_left_visit(event.left_visit);
  if (event.answer) Encode(*event.answer, out.mutable_answer());
  for (const Event::Sample& sample : event.samples) {
    record::Sample* to = out.add_samples();
    to->set_node(sample.node);
    to->set_took(sample.took.count());
    to->set_censored(sample.censored);
    to->set_replaces(sample.replaces.count());
    to->set_retry(sample.retry);
  }
  using google::protobuf::io::CodedOutputStream;
  const size_t size = out.ByteSizeLong();
  const size_t begin = bytes->size();
  bytes->resize(begin + CodedOutputStream::VarintSize64(size) + size);
  auto* const at = reinterpret_cast<uint8_t*>(bytes->data() + begin);
  out.SerializeWithCachedSizesToArray(CodedOutputStream::WriteVarint64ToArray(size, at));
}

Result<Event> DecodeEvent(uint64_t seq, std::string_view value) {
  record::Event in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      in.kind() > static_cast<uint32_t>(ChangeKind::kBreakerClosed)) {
    return Error{Code::kDataLoss, Reason::kStoreFailed,
                 "the store holds a damaged record of the feed, number " + std::to_string(seq)};
  }
  Event event;
  event.seq = seq;
  event.time = FromMicros(in.time());
  event.kind = static_cast<ChangeKind>(in.kind());
  event.ns = in.ns();
  event.machine = in.machine();
  event.version = in.version();
  event.instance = in.instance();
  event.prev_node = in.prev_node();
  event.node = in.node();
  event.transition = in.transition();
  event.visit = in.visit();
  event.attempt = in.attempt();
  event.client = in.client();
  event.params = in.params();
  event.note = in.note();
  event.left_visit = in.left_visit();
  if (in.has_answer()) event.answer = Decode(in.answer());
  for (const auto& sample : in.samples()) {
    event.samples.push_back({sample.node(), Duration(sample.took()), sample.censored(),
                             Duration(sample.replaces()), sample.retry()});
  }
  return event;
}

constexpr char kPage = '\0';
constexpr size_t kPageBytes = 16 << 10;  // it takes records until it is that large,
constexpr size_t kPageRecords = 256;     // or has that many

// A varint taken off the front of `bytes`; nullopt: it does not end within `bits`.
std::optional<uint64_t> TakeVarint(std::string_view* bytes, int bits) {
  uint64_t value = 0;
  for (int shift = 0; shift < bits && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

// The records of a page, still encoded, until `visit` returns false. Answers the number after the
// last one that was looked at.
using VisitRecord = std::function<bool(uint64_t seq, std::string_view record)>;
Result<uint64_t> WalkPage(uint64_t first, std::string_view bytes, const VisitRecord& visit) {
  if (bytes.empty() || bytes.front() != kPage) {
    visit(first, bytes);
    return first + 1;
  }
  bytes.remove_prefix(1);
  uint64_t seq = first;
  while (!bytes.empty()) {
    const auto length = TakeVarint(&bytes, 35);
    if (!length || *length > bytes.size()) {
      return Error{Code::kDataLoss, Reason::kStoreFailed,
                   "the store holds a damaged page of the feed, at record " + std::to_string(seq)};
    }
    if (!visit(seq++, bytes.substr(0, *length))) break;
    bytes.remove_prefix(*length);
  }
  return seq;
}

// Decodes those of a page from `first` on; false when `visit` has seen enough.
Result<bool> VisitPage(uint64_t start, std::string_view bytes, uint64_t first,
                       const std::function<bool(Event)>& visit) {
  Result<bool> more = true;
  auto walked = WalkPage(start, bytes, [&](uint64_t seq, std::string_view record) {
    if (seq < first) return true;
    auto event = DecodeEvent(seq, record);
    more = event ? Result<bool>(visit(*std::move(event))) : Result<bool>(event.error());
    return more.has_value() && *more;
  });
  if (!walked) return walked.error();
  return more;
}

}  // namespace

Result<Ok> ScanAll(const View& view, std::string_view begin, std::string_view end,
                   const std::function<Result<bool>(std::string_view, std::string_view)>& visit) {
  Result<Ok> outcome = Ok{};
  auto scanned = view.Scan(begin, end, [&](std::string_view key, std::string_view value) {
    auto more = visit(key, value);
    if (more) return *more;
    outcome = more.error();
    return false;
  });
  return scanned ? outcome : scanned;
}

namespace {

Result<Ok> ScanIndex(const View& view, Key prefix, std::string_view after, const VisitId& visit) {
  const std::string begin = prefix.bytes();
  return view.Scan(Resume(std::move(prefix), after), PrefixEnd(begin),
                    [&](std::string_view key, std::string_view) {
                      key.remove_prefix(begin.size());
                      return visit(key.substr(0, key.size() - 1));
                    });
}

void PutNumber(Batch* batch, std::string key, uint64_t number) {
  std::string bytes(8, '\0');
  for (size_t i = 8; i-- > 0; number >>= 8) bytes[i] = static_cast<char>(number);
  batch->Put(std::move(key), std::move(bytes));
}

Result<uint64_t> GetNumber(const View& view, const std::string& key, uint64_t otherwise) {
  auto value = view.Get(key);
  if (!value) return value.error();
  if (!*value) return otherwise;
  if ((*value)->size() != 8) return Corrupt("number", key);
  uint64_t number = 0;
  for (char c : **value) number = number << 8 | static_cast<uint8_t>(c);
  return number;
}

std::string FeedKey(PartitionId partition, uint64_t seq) {
  return Key(partition, kFeed).Number(seq);
}
uint64_t SeqOf(std::string_view key) { return KeyReader(key).Number(); }

}  // namespace

void PutMachine(Batch* batch, PartitionId partition, const MachineRow& row) {
  record::Machine out;
  out.set_source(row.source);
  out.set_define_time(Micros(row.define_time));
  batch->Put(Key(partition, kMachine).Text(row.ns).Text(row.id).Version(row.version),
             out.SerializeAsString());
}

Result<Ok> ScanMachines(const View& view, PartitionId partition,
                        const std::function<void(MachineRow)>& visit) {
  const std::string begin = Key(partition, kMachine);
  return ScanAll(view, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Machine in;
                   if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                     return Corrupt("machine", key);
                   }
                   KeyReader reader(key);
                   MachineRow row;
                   row.ns = reader.Text();
                   row.id = reader.Text();
                   row.version = static_cast<uint32_t>(reader.Number(4));
                   row.source = in.source();
                   row.define_time = FromMicros(in.define_time());
                   visit(std::move(row));
                   return true;
                 });
}

// An instance that has stopped keeps what its steps were.
static void PutStep(Batch* batch, PartitionId partition, const Instance& instance,
                    const Machine& machine, NodeIndex home) {
  record::Step out;
  const Tokens& tokens = instance.tokens;
  if (auto slot = tokens.SlotOfHome(home)) {
    Encode(tokens[*slot], machine, out.mutable_token());
    out.set_node(tokens[*slot].node);
  } else if (const Ended* ended = tokens.EndedAt(home)) {
    record::Ended* to = out.mutable_ended();
    to->set_skipped(ended->skipped);
    to->set_visit(ended->visit);
    to->set_start_time(Micros(ended->start_time));
    to->set_end_time(Micros(ended->end_time));
    if (ended->children) Encode(*ended->children, to->mutable_children());
  } else if (instance.Stopped()) {
    return;
  }
  if (auto arrived = tokens.arrived().find(home); arrived != tokens.arrived().end()) {
    out.set_arrived(arrived->second);
  }
  out.set_doomed(tokens.Doomed(home));
  if (const std::string* input = tokens.Patched(home)) out.set_input(*input);
  batch->Put(StepKey(partition, kStep, instance.ns, instance.id, home), out.SerializeAsString());
}

std::string ExpiryKey(PartitionId partition, Timestamp at, std::string_view ns,
                      std::string_view id) {
  return Key(partition, kExpiry).Number(static_cast<uint64_t>(Micros(at))).Text(ns).Text(id);
}

std::string EncodeExpiry(const Instance& instance) {
  if (!instance.bare || instance.plan || instance.history.empty()) return "";
  record::Expiry out;
  out.set_machine(instance.machine);
  out.set_version(instance.version);
  out.set_first_seq(instance.history.front());
  return out.SerializeAsString();
}

std::vector<uint64_t> PutInstance(Batch* batch, PartitionId partition, Instance* instance,
                                  const Machine& machine, bool just_stopped, Timestamp expiry) {
  std::vector<uint64_t> full;
  if (instance->history.size() >= kHistoryPage) {
    full = std::exchange(instance->history, {});
    instance->bare = false;
    record::HistoryPage page;
    for (uint64_t seq : full) page.add_seqs(seq);
    batch->Put(Key(partition, kHistory)
                   .Text(instance->ns)
                   .Text(instance->id)
                   .Number(full.front()),
               page.SerializeAsString());
  }
  if (just_stopped) {
    /*mutant stopped-stays-live*/ batch->Delete(
        Key(partition, kLive).Text(instance->ns).Text(instance->id)); /*end*/
    batch->Put(ExpiryKey(partition, expiry, instance->ns, instance->id), EncodeExpiry(*instance));
  }
  batch->Put(Key(partition, instance->Stopped() ? kStopped : kLive)
                 .Text(instance->ns)
                 .Text(instance->id),
             Encode(*instance, machine));
  if (!instance->plan) return full;
  for (NodeIndex home : instance->tokens.dirty()) {
    PutStep(batch, partition, *instance, machine, home);
  }
  instance->tokens.ForgetRows();
  return full;
}

void PutSpec(Batch* batch, PartitionId partition, Instance* instance, const Spec& spec) {
  const auto& [ns, id, machine] = std::tie(instance->ns, instance->id, instance->machine);
  instance->bare = spec.labels.empty() && instance->parent.empty() && !instance->plan;
  record::Spec out;
  out.set_params(spec.params);
  for (const auto& [key, value] : spec.labels) {
    (*out.mutable_labels())[key] = value;
    batch->Put(Key(partition, kLabel).Text(ns).Text(key).Text(value).Text(id), "");
  }
  out.set_client(spec.client);
  out.set_flow(spec.flow);
  out.set_first_seq(spec.first_seq);
  out.set_born_epoch(spec.born_after.epoch);
  out.set_born_serial(spec.born_after.serial);
  batch->Put(Key(partition, kSpec).Text(ns).Text(id), out.SerializeAsString());
  batch->Put(Key(partition, kByMachine).Text(ns).Text(machine).Text(id), "");
  if (!instance->parent.empty()) {
    batch->Put(Key(partition, kChildren).Text(ns).Text(instance->parent).Text(id), "");
  }
}

void PutOutput(Batch* batch, PartitionId partition, Instance* instance,
               std::string_view node, std::string_view json) {
  instance->bare = false;
  batch->Put(Key(partition, kOutput).Text(instance->ns).Text(instance->id).Text(node),
             std::string(json));
}

Result<std::optional<std::string>> GetOutput(const View& view, PartitionId partition,
                                             std::string_view ns, std::string_view id,
                                             std::string_view node) {
  return view.Get(Key(partition, kOutput).Text(ns).Text(id).Text(node).bytes());
}

Error NoSuchInstance(std::string_view ns, std::string_view id) {
  return {Code::kNotFound, Reason::kNoSuchInstance,
          "there is no instance '" + std::string(id) + "' in namespace '" + std::string(ns) + "'"};
}

Result<Instance> GetInstance(const View& view, PartitionId partition, std::string_view ns,
                             std::string_view id, const Resolve& resolve) {
  for (Kind kind : {kLive, kStopped}) {
    const std::string key = Key(partition, kind).Text(ns).Text(id);
    auto value = view.Get(key);
    if (!value) return value.error();
    if (*value) return DecodeWhole(view, partition, ns, id, key, **value, resolve);
  }
  return NoSuchInstance(ns, id);
}

Result<std::optional<Spec>> FindSpec(const View& view, PartitionId partition,
                                     std::string_view ns, std::string_view id) {
  const std::string key = Key(partition, kSpec).Text(ns).Text(id);
  auto value = view.Get(key);
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
  spec.first_seq = in.first_seq();
  spec.born_after = {in.born_epoch(), in.born_serial()};
  return found;
}

Result<Spec> GetSpec(const View& view, PartitionId partition, std::string_view ns,
                     std::string_view id) {
  auto spec = FindSpec(view, partition, ns, id);
  if (!spec) return spec.error();
  if (*spec) return **std::move(spec);
  return Corrupt("instance's params", Key(partition, kSpec).Text(ns).Text(id).bytes());
}

Result<std::map<std::string, std::string>> GetOutputs(const View& view, PartitionId partition,
                                                      std::string_view ns, std::string_view id) {
  std::map<std::string, std::string> outputs;
  const std::string begin = Key(partition, kOutput).Text(ns).Text(id);
  auto scanned = view.Scan(begin, PrefixEnd(begin), [&](std::string_view key, std::string_view v) {
    key.remove_prefix(begin.size());
    outputs.emplace(key.substr(0, key.size() - 1), v);
    return true;
  });
  if (!scanned) return scanned.error();
  return outputs;
}

// A text stands behind its field's tag and its length, when that is short enough for one byte.
static std::string Needle(int field, const std::string& value) {
  if (value.empty() || value.size() > 127) return "";
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(value.size())} + value;
}

// Byte strings that the row of every instance that is wanted must contain.
static std::vector<std::string> Needles(const Wanted& wanted) {
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

// The same of the node, unless the tokens are rows of their own.
static std::string NodeNeedle(const Wanted& wanted) {
  return Needle(record::Token::kNodeFieldNumber, wanted.node);
}
static constexpr std::string_view kPlanTag = "\xAA\x01";  // field 21, of a length
static_assert(record::Instance::kPlanFieldNumber == 21);

Result<Ok> ScanInstances(const View& view, PartitionId partition, bool stopped,
                         std::string_view ns, std::string_view after, const Resolve& resolve,
                         const VisitInstance& visit, const Wanted& wanted) {
  const std::vector<std::string> needles = Needles(wanted);
  const std::string node = NodeNeedle(wanted);
  Key prefix(partition, stopped ? kStopped : kLive);
  if (!ns.empty()) prefix.Text(ns);
  const std::string begin = prefix.bytes();
  return ScanAll(view, Resume(std::move(prefix), after), PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   for (const std::string& needle : needles) {
                     if (value.find(needle) == std::string_view::npos) return true;
                   }
                   if (!node.empty() && value.find(node) == std::string_view::npos &&
                       value.find(kPlanTag) == std::string_view::npos) {
                     return true;
                   }
                   KeyReader reader(key);
                   const std::string_view in = reader.Text();
                   const std::string_view id = reader.Text();
                   auto instance =
                       wanted.tokens
                           ? DecodeWhole(view, partition, in, id, key, value, resolve)
                           : Decode(in, id, key, value, resolve);
                   if (!instance) return instance.error();
                   return visit(*std::move(instance));
                 });
}

namespace {

// Reads protobuf's wire format in place. A field of a kind that we never write ends it.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // The next field; false at the end, or where it cannot go on.
  bool Next() {
    if (rest_.empty()) return false;
    const uint64_t tag = Varint();
    field = static_cast<int>(tag >> 3);
    if ((tag & 7) == 0) return number = Varint(), !failed;
    const uint64_t size = (tag & 7) == 2 ? Varint() : UINT64_MAX;
    failed = failed || size > rest_.size();
    if (failed) return false;
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  int field = 0;
  uint64_t number = 0;    // of a varint
  std::string_view text;  // of a text, or a message
  bool failed = false;

 private:
  uint64_t Varint() {
    const auto value = TakeVarint(&rest_, 64);
    failed = failed || !value;
    return value.value_or(0);
  }

  std::string_view rest_;
};

// False: the token has more to it.
bool ReadResting(std::string_view token, Resting* out) {
  using Field = record::Token;
  int64_t available_at = 0;
  WireReader reader(token);
  while (reader.Next()) {
    switch (reader.field) {
      case Field::kNodeFieldNumber: out->node = reader.text; break;
      case Field::kVisitFieldNumber: out->visit = reader.number; break;
      case Field::kStateFieldNumber: out->token = static_cast<TokenState>(reader.number); break;
      case Field::kAvailableAtFieldNumber:
        available_at = static_cast<int64_t>(reader.number);
        break;
      case Field::kAttemptFieldNumber:
      case Field::kParamsFieldNumber:
      case Field::kErrorFieldNumber:
      case Field::kForgottenEpochFieldNumber: break;
      default: return false;
    }
  }
  out->available_at = available_at == -1 ? kNever : FromMicros(available_at);
  return !reader.failed && !out->node.empty();
}

std::optional<Resting> ReadResting(std::string_view value) {
  using Field = record::Instance;
  Resting out;
  WireReader reader(value);
  while (reader.Next()) {
    switch (reader.field) {
      case Field::kMachineFieldNumber: out.machine = reader.text; break;
      case Field::kVersionFieldNumber: out.version = static_cast<uint32_t>(reader.number); break;
      case Field::kStateFieldNumber: out.state = static_cast<InstanceState>(reader.number); break;
      case Field::kPriorityFieldNumber: {  // sint32: zigzag
        const auto priority = static_cast<uint32_t>(reader.number);
        out.priority = static_cast<int32_t>(priority >> 1 ^ (0 - (priority & 1)));
        break;
      }
      case Field::kStartAtFieldNumber:
        out.start_at = FromMicros(static_cast<int64_t>(reader.number));
        break;
      case Field::kTokensFieldNumber:
        if (!out.node.empty() || !ReadResting(reader.text, &out)) return std::nullopt;
        break;
      case Field::kResultFieldNumber:
      case Field::kStartTimeFieldNumber:
      case Field::kParentFieldNumber:
      case Field::kErrorFieldNumber:
      case Field::kLastVisitFieldNumber:
      case Field::kEntriesFieldNumber:
      case Field::kLastAnswerFieldNumber:
      case Field::kHistoryFieldNumber:
      case Field::kBareFieldNumber: break;
      default: return std::nullopt;
    }
  }
  const bool plain = out.node.empty() ? out.state == InstanceState::kScheduled
                                      : out.state == InstanceState::kRunning;
  return plain && !reader.failed ? std::optional(out) : std::nullopt;
}

}  // namespace

Result<Ok> ScanLive(const View& view, PartitionId partition, const Resolve& resolve,
                    const std::function<Result<Ok>(const Resting&)>& visit,
                    const std::function<Result<Ok>(Instance)>& visit_other) {
  const std::string begin = Key(partition, kLive);
  Result<Ok> done = Ok{};
  auto scanned = view.ScanOnce(
      begin, PrefixEnd(begin), [&](std::string_view key, std::string_view value) {
        KeyReader reader(key);
        const std::string_view ns = reader.Text();
        const std::string_view id = reader.Text();
        if (auto resting = ReadResting(value)) {
          resting->ns = ns;
          resting->id = id;
          done = visit(*resting);
        } else {
          auto instance = DecodeWhole(view, partition, ns, id, key, value, resolve);
          done = instance ? visit_other(*std::move(instance)) : instance.error();
        }
        return done.has_value();
      });
  return scanned ? done : scanned;
}

Result<Ok> ScanLabel(const View& view, PartitionId partition, std::string_view ns,
                     std::string_view key, std::string_view value, std::string_view after,
                     const VisitId& visit) {
  return ScanIndex(view, Key(partition, kLabel).Text(ns).Text(key).Text(value), after, visit);
}

Result<Ok> ScanMachine(const View& view, PartitionId partition, std::string_view ns,
                       std::string_view machine, std::string_view after, const VisitId& visit) {
  return ScanIndex(view, Key(partition, kByMachine).Text(ns).Text(machine), after, visit);
}

Result<Ok> ScanChildren(const View& view, PartitionId partition, std::string_view ns,
                        std::string_view parent, std::string_view after, const VisitId& visit) {
  return ScanIndex(view, Key(partition, kChildren).Text(ns).Text(parent), after, visit);
}

void AddEvent(std::vector<FeedPage>* pages, const Event& event) {
  if (pages->empty() || pages->back().bytes.size() >= kPageBytes ||
      event.seq - pages->back().first >= kPageRecords) {
    pages->push_back({event.seq, 0, std::string(1, kPage)});
  }
  Append(event, &pages->back().bytes);
  pages->back().last = event.seq;
}

void PutPages(Batch* batch, PartitionId partition, const std::vector<FeedPage>& pages) {
  for (const FeedPage& page : pages) batch->Put(FeedKey(partition, page.first), page.bytes);
}

Result<Ok> ReadPage(const FeedPage& page, uint64_t first, const std::function<bool(Event)>& visit) {
  auto read = VisitPage(page.first, page.bytes, first, visit);
  if (!read) return read.error();
  return Ok{};
}

// The page that begins last, of those that begin at `from` to `to`; nullopt when there is none.
static Result<std::optional<FeedPage>> LastPage(const View& view, PartitionId partition,
                                                uint64_t from, uint64_t to) {
  std::optional<FeedPage> page;
  auto scanned = view.Scan(
      FeedKey(partition, from), FeedKey(partition, to) + '\0',
      [&page](std::string_view key, std::string_view value) {
        page = {SeqOf(key), 0, std::string(value)};
        return false;
      },
      /*reverse=*/true);
  if (!scanned) return scanned.error();
  if (!page) return page;
  auto end = WalkPage(page->first, page->bytes, [](uint64_t, std::string_view) { return true; });
  if (!end) return end.error();
  page->last = *end - 1;
  return page;
}

// The page that may hold that record. Does not look through what was trimmed before it.
static Result<std::optional<FeedPage>> PageOf(const View& view, PartitionId partition,
                                              uint64_t seq) {
  return LastPage(view, partition, seq < kPageRecords ? 0 : seq - kPageRecords + 1, seq);
}

Result<uint64_t> PageStart(const View& view, PartitionId partition, uint64_t seq) {
  auto page = PageOf(view, partition, seq);
  if (!page) return page.error();
  return *page && (*page)->last >= seq ? (*page)->first : seq;
}

Result<Ok> ScanFeed(const View& view, PartitionId partition, uint64_t first,
                    const std::function<bool(Event)>& visit) {
  auto start = PageStart(view, partition, first);
  if (!start) return start.error();
  return ScanAll(view, FeedKey(partition, *start), PrefixEnd(Key(partition, kFeed).bytes()),
                 [&](std::string_view key, std::string_view value) {
                   return VisitPage(SeqOf(key), value, first, visit);
                 });
}

Result<uint64_t> LastSeq(const View& view, PartitionId partition) {
  auto first = FirstSeq(view, partition);
  if (!first) return first;
  auto page = LastPage(view, partition, *first, UINT64_MAX);
  if (!page) return page.error();
  return *page ? (*page)->last : *first - 1;
}

Result<uint64_t> FirstSeq(const View& view, PartitionId partition) {
  return GetNumber(view, Key(partition, kFeedStart), 1);
}

Result<Event> FeedReader::Get(uint64_t seq) {
  if (seq < page_.first || seq > page_.last) {
    auto page = PageOf(view_, partition_, seq);
    if (!page) return page.error();
    if (*page) page_ = **std::move(page);
  }
  if (seq >= page_.first && seq <= page_.last) {
    Result<Event> found = Error{Code::kNotFound, Reason::kNone, ""};
    auto walked = WalkPage(page_.first, page_.bytes, [&](uint64_t at, std::string_view record) {
      if (at == seq) found = DecodeEvent(seq, record);
      return at < seq;
    });
    return walked ? found : walked.error();
  }
  auto kept = view_.Get(Key(partition_, kKept).Number(seq).bytes());
  if (!kept) return kept.error();
  if (*kept) return DecodeEvent(seq, **kept);
  return Error{Code::kNotFound, Reason::kNone,
               "record " + std::to_string(seq) + " is no longer kept"};
}

Result<std::vector<uint64_t>> History(const View& view, PartitionId partition,
                                      const Instance& instance, uint64_t after) {
  std::vector<uint64_t> seqs;
  const std::string begin = Key(partition, kHistory).Text(instance.ns).Text(instance.id);
  auto scanned = ScanAll(view, begin, PrefixEnd(begin),
                         [&](std::string_view key, std::string_view value) -> Result<bool> {
                           record::HistoryPage page;
                           if (!page.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                             return Corrupt("page of a history", key);
                           }
                           for (uint64_t seq : page.seqs()) {
                             if (seq > after) seqs.push_back(seq);
                           }
                           return true;
                         });
  if (!scanned) return scanned.error();
  for (uint64_t seq : instance.history) {
    if (seq > after) seqs.push_back(seq);
  }
  return seqs;
}

Result<Ok> HistoryBackwards(const View& view, PartitionId partition, const Instance& instance,
                            const std::function<bool(uint64_t seq)>& visit) {
  bool more = true;
  auto visit_all = [&](const auto& seqs) {
    for (auto seq = seqs.rbegin(); more && seq != seqs.rend(); ++seq) more = visit(*seq);
  };
  visit_all(instance.history);
  if (!more) return Ok{};
  const std::string begin = Key(partition, kHistory).Text(instance.ns).Text(instance.id);
  Result<Ok> outcome = Ok{};
  auto scanned = view.Scan(
      begin, PrefixEnd(begin),
      [&](std::string_view key, std::string_view value) {
        record::HistoryPage page;
        if (page.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
          visit_all(page.seqs());
        } else {
          outcome = Corrupt("page of a history", key);
        }
        return more && outcome.has_value();
      },
      /*reverse=*/true);
  return scanned ? outcome : scanned;
}

Result<uint64_t> TrimFeed(const View& view, Batch* batch, PartitionId partition, uint64_t begin,
                          Timestamp horizon, size_t most,
                          const std::function<bool(const Event&)>& keep) {
  uint64_t first = begin;
  const std::string end = PrefixEnd(Key(partition, kFeed).bytes());
  auto scanned = ScanAll(
      view, FeedKey(partition, begin), end,
      [&](std::string_view key, std::string_view value) -> Result<bool> {
        if (first - begin >= most) return false;
        bool old = true;
        std::vector<std::pair<uint64_t, std::string_view>> kept;
        Result<Ok> sound = Ok{};
        auto next = WalkPage(SeqOf(key), value, [&](uint64_t seq, std::string_view record) {
          auto event = DecodeEvent(seq, record);
          if (!event) sound = event.error();
          old = event && event->time <= horizon;
          if (old && keep(*event)) kept.emplace_back(seq, record);
          return old;
        });
        if (!next || !sound) return next ? sound.error() : next.error();
        if (!old) return false;
        for (const auto& [seq, record] : kept) {
          batch->Put(Key(partition, kKept).Number(seq), std::string(record));
        }
        batch->Delete(std::string(key));
        first = *next;
        return true;
      });
  if (!scanned) return scanned.error();
  if (first > begin) PutNumber(batch, Key(partition, kFeedStart), first);
  return first;
}

Result<std::vector<Expired>> ScanExpired(const View& view, PartitionId partition, Timestamp from,
                                         Timestamp now, size_t limit) {
  std::vector<Expired> expired;
  auto read = [&](std::string_view key, std::string_view value) -> Result<bool> {
    record::Expiry in;
    if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      return Corrupt("time an instance may go", key);
    }
    KeyReader reader(key);
    Expired one;
    one.at = FromMicros(static_cast<int64_t>(reader.Number()));
    one.ns = reader.Text();
    one.id = reader.Text();
    one.machine = std::move(*in.mutable_machine());
    one.version = in.version();
    one.first_seq = in.first_seq();
    expired.push_back(std::move(one));
    return expired.size() < limit;
  };
  auto scanned =
      ScanAll(view, Key(partition, kExpiry).Number(static_cast<uint64_t>(Micros(from))).bytes(),
              Key(partition, kExpiry).Number(static_cast<uint64_t>(Micros(now))).bytes(), read);
  if (!scanned) return scanned.error();
  return expired;
}

Result<Ok> DropInstance(const View& view, Batch* batch, PartitionId partition,
                        const Instance& instance, uint64_t feed_begin, Timestamp expiry) {
  auto spec = GetSpec(view, partition, instance.ns, instance.id);
  if (!spec) return spec.error();
  auto history = History(view, partition, instance, 0);
  if (!history) return history.error();
  for (uint64_t seq : *history) {
    if (seq < feed_begin) batch->Delete(Key(partition, kKept).Number(seq));
  }
  std::vector<Kind> kinds = {kHistory, kOutput};
  if (instance.plan) kinds.insert(kinds.end(), {kStep, kStarts, kPlanned, kUnstarted});
  for (Kind kind : kinds) {
    const std::string begin = Key(partition, kind).Text(instance.ns).Text(instance.id);
    auto scanned = view.Scan(begin, PrefixEnd(begin), [&](std::string_view key, std::string_view) {
      batch->Delete(std::string(key));
      return true;
    });
    if (!scanned) return scanned;
  }
  for (const auto& [key, value] : spec->labels) {
    batch->Delete(Key(partition, kLabel).Text(instance.ns).Text(key).Text(value).Text(instance.id));
  }
  if (!instance.parent.empty()) {
    batch->Delete(
        Key(partition, kChildren).Text(instance.ns).Text(instance.parent).Text(instance.id));
  }
  if (instance.plan && instance.plan->own_graph) {
    batch->Delete(Key(partition, kGraph).Text(instance.ns).Text(instance.id));
  }
  DropBare(batch, partition,
           {.ns = instance.ns, .id = instance.id, .at = expiry, .machine = instance.machine});
  return Ok{};
}

void DropExpiry(Batch* batch, PartitionId partition, const Expired& expired) {
  batch->Delete(ExpiryKey(partition, expired.at, expired.ns, expired.id));
}

void DropBare(Batch* batch, PartitionId partition, const Expired& expired) {
  /*mutant dropped-stays-indexed*/ batch->Delete(
      Key(partition, kByMachine).Text(expired.ns).Text(expired.machine).Text(expired.id)); /*end*/
  batch->Delete(Key(partition, kSpec).Text(expired.ns).Text(expired.id));
  batch->Delete(Key(partition, kStopped).Text(expired.ns).Text(expired.id));
  DropExpiry(batch, partition, expired);
}

namespace {

void Encode(const Latency::Snapshot& snapshot, record::NodeLatency* out) {
  for (const auto& slice : snapshot.slices) {
    record::Slice* to = out->add_slices();
    to->set_start(Micros(slice.start));
    to->set_retries(slice.retries);
    for (const Latency::Count& count : slice.counts) {
      to->add_buckets(count.bucket);
      to->add_exact(count.exact);
      to->add_censored(count.censored);
    }
  }
}

Latency::Snapshot Decode(const record::NodeLatency& in) {
  Latency::Snapshot snapshot;
  for (const auto& slice : in.slices()) {
    auto& to = snapshot.slices.emplace_back();
    to.start = FromMicros(slice.start());
    to.retries = slice.retries();
    const int counts = std::min({slice.buckets_size(), slice.exact_size(), slice.censored_size()});
    for (int i = 0; i < counts; ++i) {
      to.counts.push_back(
          {static_cast<uint16_t>(slice.buckets(i)), slice.exact(i), slice.censored(i)});
    }
  }
  return snapshot;
}

}  // namespace

void PutStats(Batch* batch, PartitionId partition, const StatsRow& row) {
  record::Stats out;
  for (const auto& [version, counts] : row.versions) {
    record::VersionStats* to = out.add_versions();
    to->set_version(version);
    to->set_stopped(counts.stopped);
    for (const auto& [node, count] : counts.nodes) {
      record::NodeCount* node_to = to->add_nodes();
      node_to->set_node(node);
      node_to->set_completed(count.completed);
      node_to->set_timed_out(count.timed_out);
    }
  }
  for (const auto& [node, snapshot] : row.latencies) {
    record::NodeLatency* to = out.add_latencies();
    to->set_node(node);
    Encode(snapshot, to);
  }
  batch->Put(Key(partition, kStats).Text(row.ns).Text(row.machine), out.SerializeAsString());
  batch->Delete(Key(partition, kDropped).Text(row.ns).Text(row.machine));
}

void PutDropped(Batch* batch, PartitionId partition, std::string_view ns, std::string_view machine,
                const DroppedCounts& dropped) {
  record::Stats out;
  for (const auto& [version, count] : dropped) {
    record::VersionStats* to = out.add_versions();
    to->set_version(version);
    to->set_stopped(count);
  }
  batch->Put(Key(partition, kDropped).Text(ns).Text(machine), out.SerializeAsString());
}

Result<Ok> ScanDropped(const View& view, PartitionId partition,
                       const std::function<void(const std::string& ns, const std::string& machine,
                                                const DroppedCounts&)>& visit) {
  const std::string begin = Key(partition, kDropped);
  return ScanAll(view, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Stats in;
                   if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                     return Corrupt("machine's counters", key);
                   }
                   DroppedCounts dropped;
                   for (const auto& one : in.versions()) dropped[one.version()] = one.stopped();
                   KeyReader reader(key);
                   const std::string ns(reader.Text());
                   visit(ns, std::string(reader.Text()), dropped);
                   return true;
                 });
}

void PutStatsSeq(Batch* batch, PartitionId partition, uint64_t seq) {
  PutNumber(batch, Key(partition, kStatsSeq), seq);
}

Result<uint64_t> GetStatsSeq(const View& view, PartitionId partition) {
  return GetNumber(view, Key(partition, kStatsSeq), 0);
}

Result<Ok> ScanStats(const View& view, PartitionId partition,
                     const std::function<void(StatsRow)>& visit) {
  const std::string begin = Key(partition, kStats);
  return ScanAll(view, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Stats in;
                   if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                     return Corrupt("machine's counters", key);
                   }
                   KeyReader reader(key);
                   StatsRow row;
                   row.ns = reader.Text();
                   row.machine = reader.Text();
                   for (const auto& version : in.versions()) {
                     VersionCounts& counts = row.versions[version.version()];
                     counts.stopped = version.stopped();
                     for (const auto& node : version.nodes()) {
                       counts.nodes[node.node()] = {node.completed(), node.timed_out()};
                     }
                   }
                   for (const auto& node : in.latencies()) {
                     row.latencies[node.node()] = Decode(node);
                   }
                   visit(std::move(row));
                   return true;
                 });
}

}  // namespace dfsmr::rows
