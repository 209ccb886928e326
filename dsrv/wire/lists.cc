#include "dsrv/wire/lists.h"

#include <algorithm>

#include "dsrv/engine/package_version.h"
#include "fsm/base/limits.h"
#include "storage/rows/agent.h"
#include "storage/rows/feed.h"
#include "storage/rows/group.h"
#include "storage/rows/instance.h"
#include "storage/rows/plan.h"

namespace dfsmr {
namespace {

constexpr size_t kPageBytes = limits::kMessage * 3 / 4;  // so that a page fits a message
constexpr size_t kSampled = 500;

// The name of the node that each token of the instance stands on.
Result<std::vector<std::string>> NodesOf(const Moment& moment, const Instance& instance) {
  std::vector<std::string> nodes;
  if (!instance.plan) {
    const Machine* machine =
        moment.registry.Resolve(instance.ns, instance.machine, instance.version);
    for (const Token& token : instance.tokens) {
      nodes.emplace_back(NodeName(*machine, token.node));
    }
    return nodes;
  }
  if (instance.Stopped()) {
    for (const Token& token : instance.tokens) {
      nodes.push_back(token.node == kElsewhere      ? instance.plan->ended_at
                      : token.node == kAbortedIndex ? std::string(kAbortedNode)
                                                    : std::string(kCancelledNode));
    }
    return nodes;
  }
  auto scanned = rows::ScanSteps(moment.rows, instance, [&nodes](const rows::StepRow& row) {
    if (row.token) nodes.push_back(row.node);
    return true;
  });
  if (!scanned) return scanned.error();
  Check(nodes.size() == instance.tokens.size(), "an instance and its steps are of one moment");
  return nodes;
}

// How many tries there are in all of the work of each token.
std::vector<uint32_t> TriesLimits(const Moment& moment, const Instance& instance) {
  std::vector<uint32_t> limits;
  const Machine* machine =
      instance.plan ? nullptr
                    : moment.registry.Resolve(instance.ns, instance.machine, instance.version);
  for (const Token& token : instance.tokens) limits.push_back(TriesLimitOf(machine, token));
  return limits;
}

// Whether one of `nodes` is `node`, or one of its nodes if `node` is a step.
bool StandsAt(const std::vector<std::string>& nodes, const std::string& node) {
  return std::ranges::any_of(nodes, [&](const std::string& one) {
    if (!one.starts_with(node)) return false;
    return one.size() == node.size() ||
           /*mutant list-node-by-prefix*/ one[node.size()] == '/' /*end*/;
  });
}

// Whether it has not begun, and its group lets no member begin.
Result<bool> WaitsForGroup(const Moment& moment, const Instance& instance) {
  if (!instance.provenance || instance.provenance->group.empty() ||
      instance.state != InstanceState::kScheduled) {
    return false;
  }
  if (instance.waits.Has(Wait::kGroup)) return true;
  auto group = rows::GetGroup(moment.rows, {instance.ns, instance.provenance->group});
  if (!group) return group.error();
  return *group && ((*group)->paused || (*group)->order.Cancels());
}

// Whether a resume is refused because of the version that it stopped on.
bool IsLeftBehind(const Moment& moment, const Instance& instance) {
  return instance.Stopped() && instance.resumable &&
         moment.registry.LeftBehind(instance.ns, instance.machine, instance.version);
}

// As users see its version: of one that has not stopped, the later version that its own stands for.
void ShowVersion(const Moment& moment, InstanceView* view) {
  Instance& instance = view->instance;
  const MachineVersionPtr definition =
      instance.Stopped() ? moment.registry.Find(instance.ns, instance.machine, instance.version)
                         : moment.registry.Now(instance.ns, instance.machine, instance.version);
  if (!definition || instance.version == 0) return;
  instance.version = definition->version;
  view->package = definition->package;
}

// Whether it is pinned to the package "etl", or "etl@1.4.0".
bool IsPinnedTo(const InstanceView& view, const std::string& package) {
  if (!view.package) return false;
  const std::string& name = view.package->package;
  return package == name || package == name + "@" + view.package->version;
}

// Makes one list: finds the instances that match, by the index that holds the fewest others.
class Lister {
 public:
  Lister(const Moment& moment, const InstanceQuery& query) : moment_(moment), query_(query) {}

  Result<InstancePage> Read() {
    auto outcome = Gather();
    if (!outcome) return outcome.error();
    std::ranges::sort(found_, {}, [](const InstanceView& view) { return view.instance.id; });
    InstancePage page;
    size_t bytes = 0;
    for (InstanceView& view : found_) {
      if (page.instances.size() == query_.limit ||
          (bytes > kPageBytes && !page.instances.empty())) {
        /*mutant list-page-skips-one*/ page.last = page.instances.back().instance.id; /*end*/
        break;
      }
      auto filled = Fill(&view);
      if (!filled) return filled.error();
      auto closed = WaitsForGroup(moment_, view.instance);
      if (!closed) return closed.error();
      view.waits_for_group = *closed;
      view.left_behind = IsLeftBehind(moment_, view.instance);
      bytes += view.spec->params.size() + 512;
      const Tokens& tokens = view.instance.tokens;
      for (size_t i = 0; i < std::min(tokens.size(), limits::kTokensShown); ++i) {
        bytes += tokens[i].params.size() + view.nodes[i].size() + 64;
      }
      page.instances.push_back(std::move(view));
    }
    auto counted = CountLeftovers(&page);
    if (!counted) return counted.error();
    return page;
  }

 private:
  // One instance more than a page holds shows whether there is a next page.
  bool Full() const { return /*mutant last-page-lost*/ found_.size() > query_.limit /*end*/; }

  Result<Ok> Gather() {
    auto visit_id = [this](std::string_view id) { return VisitId(id); };
    Result<Ok> outcome = Ok{};
    if (!query_.parent.empty()) {
      outcome =
          rows::ScanChildren(moment_.rows, {query_.ns, query_.after}, query_.parent, visit_id);
    } else if (!query_.group.empty()) {
      outcome = rows::ScanMembers(moment_.rows, {query_.ns, query_.after}, query_.group, visit_id);
    } else if (!query_.cause.empty()) {
      outcome = rows::ScanCause(moment_.rows, {query_.ns, query_.after}, query_.cause, visit_id);
    } else if (!query_.labels.empty()) {
      const auto& [key, value] = *query_.labels.begin();
      outcome = rows::ScanLabel(moment_.rows, {query_.ns, query_.after}, key, value, visit_id);
    } else {
      return GatherFromTables();
    }
    return failed_ ? Result<Ok>(*failed_) : outcome;
  }

  Result<Ok> GatherFromTables() {
    const bool live =
        query_.state != InstanceState::kStopped &&
        (query_.result == InstanceResult::kNone || query_.result == InstanceResult::kPending);
    const bool stopped =
        (query_.state == InstanceState::kNone || query_.state == InstanceState::kStopped) &&
        query_.result != InstanceResult::kPending;
    for (bool table : {false, true}) {
      if (!(table ? stopped : live)) continue;
      auto outcome = GatherFrom(table);
      if (!outcome) return outcome;
    }
    return failed_ ? Result<Ok>(*failed_) : Result<Ok>(Ok{});
  }

  // Reading rows in order is a hundred times cheaper than finding them one by one through an index.
  // So the index of the machine pays only where few of the rows belong to that machine.
  Result<Ok> GatherFrom(bool stopped) {
    std::vector<InstanceView> elsewhere = std::move(found_);
    found_.clear();
    auto outcome =
        !query_.machine.empty() && Sparse(stopped)
            ? rows::ScanMachine(moment_.rows, {query_.ns, query_.after}, query_.machine,
                                [&](std::string_view id) { return VisitId(id, stopped); })
            : rows::ScanInstances(moment_.rows, stopped, {query_.ns, query_.after}, moment_.resolve,
                                  [&](Instance instance) {
                                    Consider(std::move(instance));
                                    return !Full();
                                  },
                                  {query_.machine, query_.node, query_.state, query_.result});
    std::ranges::move(elsewhere, std::back_inserter(found_));
    return outcome;
  }

  // Whether only few of the next rows belong to the machine.
  bool Sparse(bool stopped) {
    size_t scanned = 0;
    size_t of_machine = 0;
    (void)rows::ScanInstances(moment_.rows, stopped, {query_.ns, query_.after}, moment_.resolve,
                              [&](const Instance& instance) {
                                of_machine += instance.machine == query_.machine;
                                return ++scanned < kSampled;
                              });
    return scanned == kSampled && of_machine < kSampled / 50;
  }

  bool VisitId(std::string_view id, std::optional<bool> stopped = std::nullopt) {
    auto instance = rows::GetInstance(moment_.rows, {query_.ns, id}, moment_.resolve);
    if (instance) {
      if (!stopped || instance->Stopped() == *stopped) Consider(*std::move(instance));
    } else if (instance.error().code != Code::kNotFound) {
      failed_ = instance.error();
    }
    return !failed_ && !Full();
  }

  void Consider(Instance instance) {
    if (instance.dry_run && !query_.dry_run) return;
    const bool matches =
        (query_.machine.empty() || query_.machine == instance.machine) &&
        (query_.state == InstanceState::kNone || query_.state == instance.state) &&
        (query_.result == InstanceResult::kNone || query_.result == instance.result) &&
        (query_.parent.empty() || query_.parent == instance.parent) && IsFrom(instance);
    if (!matches) return;
    auto nodes = NodesOf(moment_, instance);
    if (!nodes) {
      failed_ = nodes.error();
      return;
    }
    if (!query_.node.empty() && !StandsAt(*nodes, query_.node)) return;
    std::vector<uint32_t> limits = TriesLimits(moment_, instance);
    InstanceView view{std::move(instance), nullptr, *std::move(nodes), std::move(limits), {}};
    ShowVersion(moment_, &view);
    if (!query_.package.empty() && !IsPinnedTo(view, query_.package)) return;
    if (/*mutant planted-25*/ query_.labels.size() > 1 ||
        (!query_.labels.empty() && ByOtherIndex()) /*end*/) {
      auto filled = Fill(&view);
      if (!filled) {
        failed_ = filled.error();
        return;
      }
      for (const auto& [key, value] : query_.labels) {
        auto label = view.spec->labels.find(key);
        if (label == view.spec->labels.end() || label->second != value) return;
      }
    }
    found_.push_back(std::move(view));
  }

  // Whether another index than that of the labels finds the instances.
  bool ByOtherIndex() const {
    return !query_.parent.empty() || !query_.group.empty() || !query_.cause.empty();
  }

  bool IsFrom(const Instance& instance) const {
    if (query_.group.empty() && query_.cause.empty()) return true;
    return instance.provenance &&
           (query_.group.empty() || query_.group == instance.provenance->group) &&
           (query_.cause.empty() || query_.cause == instance.provenance->cause);
  }

  Result<Ok> Fill(InstanceView* view) {
    if (view->spec) return Ok{};
    auto spec = rows::GetSpec(moment_.rows, view->instance);
    if (!spec) return spec.error();
    view->spec = std::make_shared<const Spec>(*std::move(spec));
    return Ok{};
  }

  Result<Ok> CountLeftovers(InstancePage* page) const {
    const auto stopped = [](const InstanceView& view) { return view.instance.Stopped(); };
    if (std::ranges::none_of(page->instances, stopped)) return Ok{};
    auto counts = rows::CountLeftovers(moment_.rows, query_.ns);
    if (!counts) return counts.error();
    if (counts->empty()) return Ok{};
    for (InstanceView& view : page->instances) {
      const auto count = counts->find(view.instance.id);
      if (stopped(view) && count != counts->end()) view.leftovers = count->second;
    }
    return Ok{};
  }

  const Moment& moment_;
  const InstanceQuery& query_;
  std::vector<InstanceView> found_;
  std::optional<Error> failed_;
};

}  // namespace

Result<InstanceView> ReadInstance(const Moment& moment, const std::string& ns,
                                  const std::string& id) {
  auto instance = rows::GetInstance(moment.rows, {ns, id}, moment.resolve);
  if (!instance) return instance.error();
  auto spec = rows::GetSpec(moment.rows, {ns, id});
  if (!spec) return spec.error();
  auto outputs = rows::GetOutputs(moment.rows, {ns, id});
  if (!outputs) return outputs.error();
  // Outputs that do not fit into the message are left out, the last by name first.
  size_t bytes = spec->params.size();
  std::erase_if(*outputs, [&bytes](const auto& output) {
    return (bytes += output.first.size() + output.second.size()) > kPageBytes;
  });
  auto nodes = NodesOf(moment, *instance);
  if (!nodes) return nodes.error();
  auto closed = WaitsForGroup(moment, *instance);
  if (!closed) return closed.error();
  std::vector<uint32_t> limits = TriesLimits(moment, *instance);
  InstanceView view{*std::move(instance), std::make_shared<const Spec>(*std::move(spec)),
                    *std::move(nodes), std::move(limits), *std::move(outputs)};
  view.waits_for_group = *closed;
  view.left_behind = IsLeftBehind(moment, view.instance);
  ShowVersion(moment, &view);
  return view;
}

Result<InstancePage> ReadInstances(const Moment& moment, const InstanceQuery& query) {
  return Lister(moment, query).Read();
}

Result<HistoryPage> ReadHistory(const Moment& moment, const std::string& ns, const std::string& id,
                                uint64_t after, size_t limit) {
  auto instance = rows::GetInstance(moment.rows, {ns, id}, moment.resolve);
  if (!instance) return instance.error();
  auto seqs = rows::History(moment.rows, *instance, after);
  if (!seqs) return seqs.error();
  HistoryPage page;
  size_t bytes = 0;
  rows::FeedReader feed(moment.rows);
  for (uint64_t seq : *seqs) {
    if (page.events.size() == limit || bytes > kPageBytes) {
      /*mutant history-page-skips-one*/ page.last = page.events.back().seq; /*end*/
      break;
    }
    auto event = feed.Get(seq);
    if (!event) return event.error();
    bytes += event->params.size() + event->note.size() + 256;
    page.events.push_back(*std::move(event));
  }
  return page;
}

}  // namespace dfsmr
