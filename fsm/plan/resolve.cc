#include "fsm/plan/resolve.h"

#include <algorithm>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kReferencesMax = 100'000;  // of one template
constexpr size_t kAllReferencesMax = 10'000'000;
constexpr size_t kTemplateMax = 2 * limits::kJson;
constexpr size_t kAllTextMax = 256 << 20;
// Guessing what a name meant compares it with every one there is.
constexpr int kHintsMax = 20;

using Part = Reference::Part;

Error NotYet() { return {.code = Code::kUnavailable}; }
Error Unknown(std::string message) {
  return {.code = Code::kFailedPrecondition, .message = std::move(message)};
}
Error TooMany() {
  return {.code = Code::kInvalidArgument,
          .message = "it is too large, through params that refer to params"};
}

std::span<const Part> Rest(const Reference& reference) {
  return std::span(reference.parts).subspan(1);
}
std::string TextOf(const Reference& reference) { return "${" + reference.text + "}"; }
std::string Braced(const Reference& reference) { return "'" + TextOf(reference) + "'"; }

// The keys before the first index.
std::vector<std::string_view> LeadingKeys(const Reference& reference) {
  std::vector<std::string_view> keys;
  for (const Part& part : reference.parts) {
    if (part.key.empty()) break;
    keys.push_back(part.key);
  }
  return keys;
}

std::vector<std::string_view> SplitName(std::string_view name) {
  std::vector<std::string_view> keys;
  while (true) {
    const size_t dot = name.find('.');
    keys.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return keys;
    name.remove_prefix(dot + 1);
  }
}

std::string JoinKeys(std::span<const std::string_view> keys) {
  std::string text;
  for (std::string_view key : keys) {
    if (!text.empty()) text += '.';
    text += key;
  }
  return text;
}

// "##12" of "#12": the name of a step in a lenient reference; "###12" in one of a compensation.
std::string Doubled(const std::string& number) { return number.substr(0, 1) + number; }
std::string Tripled(const std::string& number) { return Doubled(Doubled(number)); }

// The number that a key is, as for_each writes it.
std::optional<size_t> Number(std::string_view key) {
  if (key.empty() || key.size() > 9 || (key.size() > 1 && key[0] == '0')) return std::nullopt;
  size_t number = 0;
  for (char c : key) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<size_t>(c - '0');
  }
  return number;
}

}  // namespace

void PlanNames::Fail(const Where& where, const Reader& reader, const Reference& reference,
                     const std::string& message) {
  if (reader.planner) return;  // said when the planner has been asked, and all names are known
  draft_.problems.Add(where,
                      {.message = Braced(reference) + message, .reference = TextOf(reference)});
}

bool PlanNames::Afford(size_t bytes, Cost* cost) {
  cost->references += 1;
  cost->bytes += bytes;
  total_.references += 1;
  if (cost->references > kReferencesMax || cost->bytes > kTemplateMax) {
    total_.references = kAllReferencesMax;  // so that the other templates fail at once
  }
  return total_.references < kAllReferencesMax;
}

bool PlanNames::Keep(size_t bytes) {
  total_.bytes += bytes;
  if (total_.bytes <= kAllTextMax) return true;
  draft_.problems.Add({}, "the inputs of the plan's steps are larger than " +
                              std::to_string(kAllTextMax >> 20) + " MiB in all");
  return false;
}

const Scope* PlanNames::PlanScope(const Scope& scope) {
  const Scope* at = &scope;
  while (at->outer) at = at->outer;
  return at;
}

const Scope* PlanNames::ItemScope(const Scope& scope, std::string_view as) const {
  for (const Scope* at = &scope; at && at->trigger == kNothing; at = at->outer) {
    if (!at->as.empty() && at->as == as) return at;
  }
  return nullptr;
}

// ---- Values that are known already.

PlanNames::Value PlanNames::Known(std::string_view json, const Scope& scope) {
  Cost cost;
  Result<std::string> value = KnownIn(json, scope, &cost);
  if (value) return {.json = *std::move(value)};
  if (value.error().code == Code::kUnavailable) return {.later = true};
  return {.message = value.error().message, .reference = std::move(cost.unknown)};
}

Result<std::string> PlanNames::KnownIn(std::string_view json, const Scope& scope, Cost* cost) {
  return Evaluate(
      json, [&](const Reference& reference) { return KnownReference(reference, scope, cost); });
}

Result<std::string> PlanNames::KnownReference(const Reference& reference, const Scope& scope,
                                              Cost* cost) {
  if (!Afford(0, cost)) return TooMany();
  cost->unknown = TextOf(reference);
  const std::string& root = reference.parts[0].key;
  if (const Scope* items = ItemScope(scope, root)) {
    if (!items->item) return NotYet();
    auto value = dfsmr::Find(*items->item, Rest(reference));
    if (value && !Afford(value->size(), cost)) return TooMany();
    if (value) return std::string(*value);
    return Unknown("there is no " + Braced(reference));
  }
  if (root == "params") return KnownParam(reference, scope, cost);
  if (reference.text == "instance.id") {
    if (draft_.args.instance.empty()) return NotYet();
    return json::Quote(draft_.args.instance);
  }
  return Unknown(Braced(reference) +
                 " is not known when the instance is planned: only "
                 "params, 'instance.id' and the items of a for_each around are");
}

Result<std::string> PlanNames::KnownParam(const Reference& reference, const Scope& scope,
                                          Cost* cost) {
  const Scope* plan = PlanScope(scope);
  if (plan->caller) {
    auto passed = FindTemplate(plan->call->input, Rest(reference));
    if (passed && !Afford(passed->size(), cost)) return TooMany();
    if (passed) return KnownIn(*passed, *plan->caller, cost);
    return Unknown("there is no " + Braced(reference) + ": the input of step " +
                   Quoted(plan->call->name) + " has none");
  }
  if (draft_.Defining()) return NotYet();
  auto value = dfsmr::Find(*draft_.args.params, Rest(reference));
  if (value && !Afford(value->size(), cost)) return TooMany();
  if (value) return std::string(*value);
  return Unknown("there is no " + Braced(reference));
}

// ---- Names of steps.

std::optional<PlanNames::Found> PlanNames::Descend(const Entity& entity, Keys keys, size_t at,
                                                   bool output) const {
  const bool end = output ? at < keys.size() && keys[at] == "output" : at == keys.size();
  if (end || entity.kind == Entity::Kind::kNone) return Found{entity, at};
  if (entity.kind == Entity::Kind::kStep) {
    if (!draft_.steps[entity.index].opaque) return std::nullopt;
    const auto to = std::ranges::find(keys.subspan(std::min(at, keys.size())), "output");
    if (!output) return Found{entity, keys.size()};
    if (to == keys.subspan(std::min(at, keys.size())).end()) return std::nullopt;
    return Found{entity, static_cast<size_t>(to - keys.subspan(at).begin()) + at};
  }
  const Bundle& bundle = draft_.bundles[entity.index];
  if (bundle.kind != Bundle::Kind::kList) return FindIn(*bundle.scope, keys, at, output);
  std::optional<size_t> number = at < keys.size() ? Number(keys[at]) : std::nullopt;
  if (!number) return std::nullopt;
  if (draft_.Defining()) number = 0;
  if (*number >= bundle.items.size()) return std::nullopt;
  return Descend(bundle.items[*number], keys, at + 1, output);
}

std::optional<PlanNames::Found> PlanNames::FindIn(const Scope& scope, Keys keys, size_t at,
                                                  bool output) const {
  if (!scope.symbols) return std::nullopt;
  std::string name;
  for (size_t end = at + 1; end <= keys.size(); ++end) {
    if (!name.empty()) name += '.';
    name += keys[end - 1];
    if (name.size() > limits::kName) break;
    auto slot = scope.symbols->slots.find(name);
    if (slot == scope.symbols->slots.end()) continue;
    auto found = Descend(scope.entities[slot->second], keys, end, output);
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<PlanNames::Found> PlanNames::Find(const Scope& scope, Keys keys, bool output) const {
  std::vector<uint32_t> inside;  // of these planners
  for (const Scope* at = &scope; at && at->trigger == kNothing; at = at->outer) {
    auto found = FindIn(*at, keys, 0, output);
    if (found) {
      const Entity& entity = found->entity;
      // To its own flow, a planner is its own step.
      if (entity.kind == Entity::Kind::kBundle &&
          std::ranges::find(inside, entity.index) != inside.end()) {
        found->entity = {Entity::Kind::kStep, draft_.bundles[entity.index].own};
      }
      return found;
    }
    if (at->planner != kNothing) inside.push_back(at->planner);
  }
  return std::nullopt;
}

std::string PlanNames::UnknownName(const Scope& scope, Keys keys, bool output) {
  if (output) {
    // Where it names a step, what is wrong is what follows.
    for (size_t end = keys.size(); end > 0; --end) {
      auto found = Find(scope, keys.first(end), false);
      if (!found) continue;
      const std::string name = JoinKeys(keys.first(end));
      return "of step " + Quoted(name) + " only the output can be referred to, as in '${" + name +
             ".output}'";
    }
  }
  const size_t end =
      output ? static_cast<size_t>(std::ranges::find(keys, "output") - keys.begin()) : keys.size();
  const std::string name = JoinKeys(keys.first(std::max<size_t>(end, 1)));
  Nearest nearest(name);
  for (const Scope* at = &scope; at && ++hints_ <= kHintsMax; at = at->outer) {
    if (at->trigger != kNothing) break;
    if (at->symbols) {
      for (std::string_view known : at->symbols->names) nearest.Try(known);
    }
    if (output && !at->as.empty()) nearest.Try(at->as);
  }
  if (output) {
    for (std::string_view known : {"params", "instance"}) nearest.Try(known);
  }
  return "there is no step " + Quoted(name) + nearest.Hint();
}

// ---- Waiting for steps, and reading them.

Spot PlanNames::OutOf(const Entity& entity) {
  if (entity.kind == Entity::Kind::kStep) return entity.index;
  Bundle& bundle = draft_.bundles[entity.index];
  if (bundle.out != PlanOrder::kNone) return bundle.out;
  bundle.out = draft_.order.AddGate();
  /*mutant empty-list-waits-for-nothing*/ if (bundle.empty != PlanOrder::kNone)
    draft_.order.AddEdge(bundle.empty, bundle.out); /*end*/
  for (const Entity& item : bundle.items) {
    if (item.kind != Entity::Kind::kNone) draft_.order.AddEdge(OutOf(item), bundle.out);
  }
  return bundle.out;
}

uint32_t PlanNames::SectionOf(const Entity& entity) const {
  if (entity.kind == Entity::Kind::kNone) return kNoSection;
  return entity.kind == Entity::Kind::kStep ? draft_.steps[entity.index].section
                                            : draft_.bundles[entity.index].section;
}

Spot PlanNames::WaitFor(const Entity& entity, uint32_t from) {
  const PlanGraph& graph = draft_.graph;
  uint32_t section = SectionOf(entity);
  if (!LiesIn(graph, section, CompensationAround(graph, from))) return PlanOrder::kNone;
  Spot out = OutOf(entity);
  for (; !LiesIn(graph, from, section); section = graph.sections[section].outer) {
    out = graph.sections[section].exit();
  }
  return out;
}

uint32_t PlanNames::GroupOf(uint32_t index) {
  if (draft_.bundles[index].group != kNothing) return draft_.bundles[index].group;
  const auto group = static_cast<uint32_t>(draft_.graph.groups.size());
  draft_.bundles[index].group = group;
  draft_.graph.groups.emplace_back().list = draft_.bundles[index].kind == Bundle::Kind::kList;
  std::vector<Group::Member> members;
  auto add = [&](std::string_view name, Entity entity) {
    if (entity.kind == Entity::Kind::kNone) return;
    // A planner that runs itself gives its own output.
    if (entity.kind == Entity::Kind::kBundle && draft_.bundles[entity.index].runs) {
      entity = {Entity::Kind::kStep, draft_.bundles[entity.index].own};
    }
    Group::Member member{std::string(name), entity.kind == Entity::Kind::kBundle, entity.index};
    if (member.group) {
      member.index = GroupOf(entity.index);
      draft_.graph.groups[member.index].groups.push_back(group);
    } else {
      draft_.graph.steps[member.index].groups.push_back(group);
    }
    members.push_back(std::move(member));
  };
  const Bundle& bundle = draft_.bundles[index];
  /*mutant planted-13*/ for (const Entity& item : bundle.items)
    add("", item); /*end*/
  if (bundle.scope) {
    for (size_t i = 0; i < bundle.scope->entities.size(); ++i) {
      add(bundle.scope->symbols->names[i], bundle.scope->entities[i]);
    }
  }
  draft_.graph.groups[group].members = std::move(members);
  return group;
}

std::optional<std::string> PlanNames::OutputOf(const Entity& entity, std::string_view path,
                                               Reader* reader) {
  reader->found_output = true;
  if (reader->step == kNothing || reader->planner) return std::nullopt;
  const uint32_t waiter = reader->waiter == kNothing ? reader->step : reader->waiter;
  const Spot before = WaitFor(entity, draft_.steps[waiter].section);
  const bool compensates = before == PlanOrder::kNone;
  if (!compensates) draft_.order.AddEdge(before, draft_.steps[waiter].in);
  if (reader->lenient && !path.starts_with("output")) {
    return "\"${" + Doubled(NumberOf(entity)) + "." + std::string(path) + "}\"";
  }
  Entity read = entity;
  if (read.kind == Entity::Kind::kBundle && draft_.bundles[read.index].runs) {
    read = {Entity::Kind::kStep, draft_.bundles[read.index].own};
  }
  const bool group = read.kind == Entity::Kind::kBundle;
  const uint32_t index = group ? GroupOf(read.index) : read.index;
  const std::string number = (group ? "@" : "#") + std::to_string(index);
  if (compensates) return "\"${" + Tripled(number) + "." + std::string(path) + "}\"";
  // What it refers to need not succeed: so this step is not skipped with it.
  if (/*mutant lenient-reader-skipped*/ reader->lenient /*end*/) {
    return "\"${" + Doubled(number) + "." + std::string(path) + "}\"";
  }
  std::vector<uint32_t>& readers =
      group ? draft_.graph.groups[index].readers : draft_.graph.steps[index].readers;
  if (readers.empty() || readers.back() != reader->step) readers.push_back(reader->step);
  return "\"${" + number + "." + std::string(path) + "}\"";
}

std::optional<std::string> PlanNames::Output(const Reference& reference, const Scope& scope,
                                             const Where& where, Reader* reader) {
  const std::vector<std::string_view> keys = LeadingKeys(reference);
  auto found = Find(scope, keys, true);
  const bool fact = reader->lenient && keys.size() == reference.parts.size() && keys.size() > 1 &&
                    (keys.back() == "state" || keys.back() == "error");
  if (!found && fact) {
    found = Find(scope, Keys(keys).first(keys.size() - 1), false);
    if (found) found->used = keys.size() - 1;
  }
  if (!found && reader->places && keys.size() == reference.parts.size() && keys.size() > 1 &&
      keys.back() == "worker") {
    return WorkerOf(reference, scope, where, reader);
  }
  if (!found) {
    Fail(where, *reader, reference, ": " + UnknownName(scope, keys, true));
    return std::nullopt;
  }
  if (found->entity.kind == Entity::Kind::kNone) return std::nullopt;  // said where it stands
  if (found->entity.kind == Entity::Kind::kStep && found->entity.index == reader->step) {
    Fail(where, *reader, reference, " is the step's own output");
    return std::nullopt;
  }
  return OutputOf(found->entity, PathText(std::span(reference.parts).subspan(found->used)), reader);
}

// ---- Templates.

std::string PlanNames::Compile(std::string_view json, const Scope& scope, const Where& where,
                               Reader* reader) {
  std::string last;
  auto replace = [&](const Reference& reference) {
    last = TextOf(reference);
    return Replace(reference, scope, where, reader);
  };
  Result<std::string> compiled = Instantiate(json, replace);
  if (compiled) return *std::move(compiled);
  draft_.problems.Add(where, {.message = compiled.error().message, .reference = std::move(last)});
  return "null";
}

Result<std::optional<std::string>> PlanNames::Replace(const Reference& reference,
                                                      const Scope& scope, const Where& where,
                                                      Reader* reader) {
  if (!reader->planner) return Replaced(reference, scope, where, reader);
  const bool before = std::exchange(reader->found_output, false);
  Result<std::optional<std::string>> replaced = Replaced(reference, scope, where, reader);
  const bool found = std::exchange(reader->found_output, before);
  if (found) reader->found_output = true;
  if (replaced && found) return std::optional(Literal(json::Quote("${" + reference.text + "}")));
  return replaced;
}

Result<std::optional<std::string>> PlanNames::Replaced(const Reference& reference,
                                                       const Scope& scope, const Where& where,
                                                       Reader* reader) {
  using Template = std::optional<std::string>;
  if (!Afford(0, &reader->cost)) return TooMany();
  const std::string& root = reference.parts[0].key;
  if (!reader->leave.empty() && root == reader->leave) return Template();
  if (const Scope* items = ItemScope(scope, root)) {
    if (!items->item) return Template();
    auto value = dfsmr::Find(*items->item, Rest(reference));
    if (value && !Afford(value->size(), &reader->cost)) return TooMany();
    return value ? Template(Literal(*value)) : Template();
  }
  if (root == "params") return Param(reference, scope, where, reader);
  if (root == "instance") {
    if (reference.text != "instance.id") {
      Fail(where, *reader, reference, ": of the instance there is only '${instance.id}'");
    }
    return Template();
  }
  if (root == "trigger" && scope.trigger != kNothing) {
    return Trigger(reference, scope, where, reader);
  }
  if (root == "trigger" && !Find(scope, LeadingKeys(reference), true)) {
    Fail(where, *reader, reference,
         ": a trigger is there only in 'with' of an action that subscribes");
    return Template();
  }
  if (reader->top_level) {
    Fail(where, *reader, reference, ": only params and 'instance.id' are known here");
    return Template();
  }
  return Output(reference, scope, where, reader);
}

Result<std::optional<std::string>> PlanNames::Param(const Reference& reference, const Scope& scope,
                                                    const Where& where, Reader* reader) {
  const Scope* plan = PlanScope(scope);
  if (!plan->caller) return std::optional<std::string>();
  const FlowNode& call = *plan->call;
  auto passed = FindTemplate(call.input, Rest(reference));
  if (!passed) {
    Fail(where, *reader, reference, ": the input of step " + Quoted(call.name) + " has none");
    return std::optional<std::string>();
  }
  if (!Afford(passed->size(), &reader->cost)) return TooMany();
  const Where there = {plan->caller->body, &call.written, "input"};
  const std::string_view leave = std::exchange(reader->leave, std::string_view());
  const bool lenient = reader->lenient;
  const uint32_t waiter = reader->waiter;
  if (plan->decision != kNothing) {
    reader->lenient = true;
    reader->waiter = plan->decision;
  }
  Result<std::string> compiled = Instantiate(*passed, [&](const Reference& inner) {
    return Replaced(inner, *plan->caller, there, reader);
  });
  reader->leave = leave;
  reader->lenient = lenient;
  reader->waiter = waiter;
  if (!compiled) return compiled.error();
  return std::optional(*std::move(compiled));
}

Result<std::optional<std::string>> PlanNames::Trigger(const Reference& reference,
                                                      const Scope& scope, const Where& where,
                                                      Reader* reader) {
  using Template = std::optional<std::string>;
  const std::string& what = reference.parts.size() > 1 ? reference.parts[1].key : "";
  const std::span<const Part> rest = Rest(reference);
  if (what == "output") {
    return OutputOf(scope.trigger_entity, PathText(rest), reader);
  }
  if (what != "input") {
    Fail(where, *reader, reference,
         ": of the trigger there are '${trigger.input}' and '${trigger.output}'");
    return Template();
  }
  const StepDraft& trigger = draft_.steps[scope.trigger];
  Where there = trigger.where;
  if (there.subscriber.empty()) there.key = "input";
  auto passed = FindTemplate(*trigger.input, rest.subspan(1));
  if (!passed) return Template();  // the step fails, by that name
  if (!Afford(passed->size(), &reader->cost)) return TooMany();
  Result<std::string> compiled = Instantiate(*passed, [&](const Reference& inner) {
    return Replaced(inner, *trigger.scope, there, reader);
  });
  if (!compiled) return compiled.error();
  return Template(*std::move(compiled));
}

void PlanNames::CompileStep(uint32_t index) {
  const StepDraft& draft = draft_.steps[index];
  if (draft_.graph.steps[index].left_out) return;
  Where where = draft.where;
  Reader reader{.step = index, .waiter = draft.decision, .lenient = draft.decision != kNothing};
  if (draft.input) {
    where.key = where.subscriber.empty() ? "input" : "";
    draft_.graph.steps[index].input = Compile(*draft.input, *draft.scope, where, &reader);
    Keep(draft_.graph.steps[index].input.size());
  }
  for (const LimitAsk& ask : draft.limits ? *draft.limits : LimitAsks()) {
    where.key = ask.singleton ? "singleton" : "limit";
    LimitAsk compiled = ask;
    compiled.key = json::Unquote(Compile(json::Quote(ask.key), *draft.scope, where, &reader));
    draft_.graph.limits[index].push_back(std::move(compiled));
  }
  CompileAgent(index, &reader);
  if (!draft.spawn) return;
  const SpawnSource& source = *draft.spawn;
  where.key = "spawn";
  Spawn spawn{.machine = source.machine, .as = source.as, .concurrency = source.concurrency};
  if (source.items) {
    spawn.items = Compile(*source.items, *draft.scope, where, &reader);
    reader.leave = source.as;
  }
  spawn.input = Compile(source.input, *draft.scope, where, &reader);
  Keep(spawn.input.size());
  draft_.graph.spawns[index] = std::move(spawn);
}

std::string PlanNames::StepNamed(const std::string& name, const Scope& scope, const Where& where,
                                 const Reader& reader) {
  const std::vector<std::string_view> keys = SplitName(name);
  auto found = Find(scope, keys, false);
  if (!found) {
    draft_.problems.Add(where, UnknownName(scope, keys, false));
    return "";
  }
  if (found->entity.kind == Entity::Kind::kNone) return "";  // said where it stands
  if (found->entity.kind == Entity::Kind::kStep && found->entity.index == reader.step) {
    draft_.problems.Add(
        where, Quoted(name) + " is the step itself; its 'if' is decided before it " + "runs");
    return "";
  }
  const Spot before = WaitFor(found->entity, draft_.steps[reader.step].section);
  /*mutant if-waits-for-nothing*/ if (before != PlanOrder::kNone)
    draft_.order.AddEdge(before, draft_.steps[reader.step].in); /*end*/
  return NumberOf(found->entity);
}

void PlanNames::CompilePlanner(uint32_t index) {
  const StepDraft& draft = draft_.steps[index];
  Where where = draft.where;
  where.key = "input";
  Reader reader{.step = index, .planner = true};
  draft_.graph.steps[index].input = Compile(*draft.input, *draft.scope, where, &reader);
  reader.found_output = false;
  CompileAgent(index, &reader);
  if (reader.found_output) draft_.graph.agents.erase(index);
}

void PlanNames::CompileAfter(const AfterDraft& after) {
  std::vector<Spot> before;
  for (const std::string& name : after.node->after) {
    const std::vector<std::string_view> keys = SplitName(name);
    auto found = Find(*after.scope, keys, false);
    if (!found) {
      draft_.problems.Add(after.where, UnknownName(*after.scope, keys, false));
    } else if (found->entity.kind != Entity::Kind::kNone) {
      const Spot spot = WaitFor(found->entity, after.section);
      /*mutant only-last-after*/ if (spot != PlanOrder::kNone)
        before.push_back(spot); /*end*/
    }
  }
  if (!before.empty()) draft_.order.AddList(before, after.in);
}

void PlanNames::CheckCall(const Scope& nested) {
  Reader reader;
  const Where where = {nested.caller->body, &nested.call->written, "input"};
  Compile(nested.call->input, *nested.caller, where, &reader);
}

void PlanNames::CheckTopLevel(std::string_view json, const Where& where) {
  Reader reader{.top_level = true};
  Compile(json, Scope(), where, &reader);
}

}  // namespace dfsmr
