#include "fsm/package/own_names.h"

#include <algorithm>

#include "fsm/when/limit.h"
#include "fsm/when/schedule.h"
#include "fsm/when/trigger.h"

namespace dfsmr {
namespace {

// Rewrites names, and remembers what those that are the package's own came to.
class Rewriter {
 public:
  explicit Rewriter(const OwnNames& names) : names_(names) {}

  void Definition(std::string* name) { Put(name, names_.Definition(*name)); }
  void Action(std::string* name) { Put(name, names_.Action(*name)); }
  void Asks(LimitAsks* asks) {
    for (LimitAsk& ask : *asks) Put(&ask.key, names_.LimitKey(ask.key));
  }

  void Keys(ActionSource* action) {
    Definition(&action->extends);
    if (action->limits) Asks(&*action->limits);
    if (!action->subscribes_to) return;
    for (std::string& trigger : *action->subscribes_to) Action(&trigger);
  }

  void DryRun(const std::string& action, ActionSource* of) {
    if (!of->dry_run && names_.HeedsDryRun(action)) of->dry_run = DryRunRule{.worker = true};
  }

  void Flow(FlowNode* node) {
    for (FlowNode& child : node->children) Flow(&child);
    Action(&node->action);
    Definition(&node->plan);
    if (node->spawn) Definition(&node->spawn->machine);
    Keys(&node->own);
    DryRun(node->action, &node->own);
  }

  void Plan(PlanSource* plan) {
    Asks(&plan->limits);
    for (HookSource& hook : plan->hooks) Action(&hook.action);
    Flow(&plan->flow);
  }

  void Nodes(Machine* machine) {
    Asks(&machine->limits);
    for (Node& node : machine->nodes) {
      if (node.kind != NodeKind::kWork) continue;
      auto settings = std::make_shared<NodeSettings>(*node.settings);
      Action(&settings->action);
      Asks(&settings->limits);
      const bool heeds = settings->dry_run.empty() && names_.HeedsDryRun(settings->action);
      if (heeds) settings->dry_run.worker = true;
      node.settings = std::move(settings);
    }
  }

  void Launch(LaunchSource* launch) {
    if (auto* start = std::get_if<LaunchStart>(&launch->action)) Definition(&start->machine);
  }

  void Item(ItemSource* item) {
    if (auto* poll = std::get_if<PollSource>(&item->from)) Action(&poll->action);
    auto* change = std::get_if<ChangeSource>(&item->from);
    if (change == nullptr) return;
    for (std::string& machine : change->machines) Definition(&machine);
    for (std::string& cause : change->causes) Put(&cause, names_.Cause(cause));
  }

  void Limit(const std::string& name, LimitSource* limit) {
    const std::string root = limit->root;
    if (const size_t colon = root.find(':'); colon != root.npos && root != name) {
      std::string subject = root.substr(colon + 1);
      if (root.starts_with("machine:")) Definition(&subject);
      if (root.starts_with("action:")) Action(&subject);
      limit->root = root.substr(0, colon + 1) + subject;
      return;
    }
    Put(&limit->root, names_.LimitKey(root));
    std::map<std::string, LimitNumbers> keys;
    for (auto& [key, numbers] : limit->keys) keys[names_.LimitKey(key)] = numbers;
    limit->keys = std::move(keys);
  }

  // What the names came to, for the fingerprint.
  std::string Meaning() const {
    std::string text;
    for (const std::string& name : own_) text += "\nis own: " + name;
    return text;
  }

 private:
  void Put(std::string* name, std::string full) {
    if (name->empty() || *name == full) return;
    *name = std::move(full);
    own_.insert(*name);
  }

  const OwnNames& names_;
  std::set<std::string> own_;
};

}  // namespace

void OwnNames::Collect(const Machine& machine) {
  definitions_.insert(machine.id);
  if (!machine.IsPlain()) return;
  for (const Node& node : machine.nodes) {
    if (node.kind == NodeKind::kWork) actions_.insert(machine.id + "." + node.id);
  }
}

void OwnNames::Collect(const Document& document) {
  documents_[static_cast<size_t>(document.kind())].insert(document.name);
}

void OwnNames::Serve(const std::vector<Worker>& workers) {
  for (const Worker& worker : workers) {
    for (const std::string& pattern : worker.serves) {
      if (!pattern.ends_with('*')) actions_.insert(pattern);
    }
  }
}

std::string OwnNames::In(const Names& names, std::string_view name) const {
  if (name.empty() || !names.contains(name)) return std::string(name);
  return prefix_ + std::string(name);
}

std::string OwnNames::Action(std::string_view name) const {
  return In(definitions_.contains(name) ? definitions_ : actions_, name);
}

std::string OwnNames::Of(DocumentKind kind, std::string_view name) const {
  return In(documents_[static_cast<size_t>(kind)], name);
}

std::string OwnNames::LimitKey(std::string_view key) const {
  const size_t slash = std::min(key.find('/'), key.size());
  return Of(DocumentKind::kLimit, key.substr(0, slash)) + std::string(key.substr(slash));
}

std::string OwnNames::Cause(std::string_view cause) const {
  for (const DocumentKind kind : {DocumentKind::kSchedule, DocumentKind::kTrigger}) {
    const std::string prefix = std::string(Name(kind)) + ":";
    if (cause.starts_with(prefix)) return prefix + Of(kind, cause.substr(prefix.size()));
  }
  return std::string(cause);
}

bool OwnNames::HeedsDryRun(std::string_view action) const {
  const Worker* worker = action.empty() ? nullptr : Serving(workers_, Local(action));
  return worker != nullptr && worker->dry_run;
}

std::string_view OwnNames::Local(std::string_view full) const {
  return full.starts_with(prefix_) ? full.substr(prefix_.size()) : full;
}

void Qualify(const OwnNames& names, Machine* machine) {
  Rewriter rewriter(names);
  machine->id = names.Defined(machine->id);
  if (machine->plan()) {
    auto plan = std::make_shared<PlanSource>(*machine->plan());
    plan->id = machine->id;
    rewriter.Plan(plan.get());
    machine->defined_as = std::shared_ptr<const PlanSource>(std::move(plan));
  } else if (machine->action()) {
    auto action = std::make_shared<ActionSource>(*machine->action());
    action->id = machine->id;
    rewriter.Keys(action.get());
    rewriter.DryRun(action->id, action.get());
    machine->defined_as = std::shared_ptr<const ActionSource>(std::move(action));
  } else {
    rewriter.Nodes(machine);
  }
  machine->fingerprint += rewriter.Meaning();
}

void Qualify(const OwnNames& names, Document* document) {
  Rewriter rewriter(names);
  if (auto* schedule = std::get_if<0>(&document->body)) {
    auto own = std::make_shared<ScheduleSource>(**schedule);
    rewriter.Launch(&own->launch);
    *schedule = std::move(own);
  } else if (auto* trigger = std::get_if<1>(&document->body)) {
    auto own = std::make_shared<TriggerSource>(**trigger);
    for (ItemSource& item : own->on) rewriter.Item(&item);
    rewriter.Launch(&own->launch);
    *trigger = std::move(own);
  } else if (auto* limit = std::get_if<2>(&document->body)) {
    auto own = std::make_shared<LimitSource>(**limit);
    rewriter.Limit(document->name, own.get());
    *limit = std::move(own);
  }
  document->name = names.Defined(document->name);
  document->fingerprint += rewriter.Meaning();
}

std::shared_ptr<const PlanSource> Qualified(const OwnNames& names, const PlanSource& flow) {
  auto own = std::make_shared<PlanSource>(flow);
  Rewriter(names).Plan(own.get());
  return own;
}

}  // namespace dfsmr
