#include "dcli/view/steps.h"

#include <algorithm>
#include <unordered_map>

#include "dcli/text/text.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

using State = v1::Step::State;

constexpr std::string_view kCompensation = "/compensate.";  // in the names of a section's
constexpr int kMostInFull = 200;  // plans with more steps are shown collapsed

const char* SymbolOf(State state) {
  switch (state) {
    case v1::Step::PENDING:
      return "·";
    case v1::Step::READY:
      return "○";
    case v1::Step::CLAIMED:
      return "◔";
    case v1::Step::RUNNING:
      return "▶";
    case v1::Step::WAITING:
      return "◷";
    case v1::Step::SUSPENDED:
      return "‖";
    case v1::Step::HELD:
      return "✗";
    case v1::Step::DONE:
      return "✓";
    case v1::Step::SKIPPED:
      return "»";
    case v1::Step::LEFT_OUT:
      return "–";
    case v1::Step::NOT_RUN:
      return "·";
    default:
      return "?";
  }
}

bool Over(State state) {
  return state == v1::Step::DONE || state == v1::Step::SKIPPED || state == v1::Step::LEFT_OUT;
}

// Neighbours of the same kind may share a line, except for kNo: a worker has them, they wait, or
// something went wrong.
enum class Quiet { kUnknown, kOver, kPending, kReady, kNo };

Quiet QuietOf(const v1::Step& step) {
  const State finalize = step.finalize();
  const bool at_rest =
      finalize == v1::Step::STATE_UNSPECIFIED || finalize == v1::Step::PENDING || Over(finalize);
  if (!at_rest) return Quiet::kNo;
  if (Over(step.state())) return Quiet::kOver;
  const bool pending = step.state() == v1::Step::PENDING || step.state() == v1::Step::NOT_RUN;
  if (pending) return Quiet::kPending;
  return step.state() == v1::Step::READY ? Quiet::kReady : Quiet::kNo;
}

// The branches of one level, taken together.
struct Sum {
  Tally tally;
  Quiet quiet = Quiet::kUnknown;
  void Add(const Sum& other) {
    tally.Add(other.tally);
    quiet = quiet == Quiet::kUnknown || quiet == other.quiet ? other.quiet : Quiet::kNo;
  }
};

std::string Noted(const v1::Step& step, const Look& look, const Dues& due) {
  std::vector<std::string> notes;
  const auto next = due.find(step.path());
  if (next != due.end()) notes.push_back("again " + When(next->second, look));
  if (step.has_children()) notes.push_back(ChildrenText(step.children()));
  if (step.finalize() != v1::Step::STATE_UNSPECIFIED && step.finalize() != v1::Step::PENDING) {
    notes.push_back("finalize " + Lower(NameOf(step.finalize())));
  }
  if (step.tries() > 0 && step.action().empty() && step.tries() < step.tries_limit()) {
    notes.push_back("try " + std::to_string(step.tries() + 1) + " of " +
                    std::to_string(step.tries_limit()));  // of a section
  } else if (step.tries() > 0) {
    notes.push_back(TriesText(step.tries(), step.tries_limit()));
  }
  if (!step.error().empty()) notes.push_back(step.error());
  const bool again = step.action().empty() && step.tries() > 0 && !Over(step.state());
  if ((step.state() == v1::Step::SKIPPED || again) && !step.note().empty()) {
    notes.push_back(step.note());
  }
  if (step.state() == v1::Step::PENDING && !step.condition().empty()) {
    notes.push_back("if " + step.condition());
  }
  return Join(notes, "; ");
}

// The part of the drawn tree in front of a name, and in front of the lines below it.
std::string Twig(const std::string& margin, bool top, bool last) {
  return margin + (top ? "" : last ? "└─ " : "├─ ");
}
std::string MarginBelow(const std::string& margin, bool top, bool last) {
  return top ? "" : margin + (last ? "   " : "│  ");
}

class TreeRows {
 public:
  TreeRows(const Steps& steps, bool collapse, const Look& look, const Dues& due)
      : steps_(steps), collapse_(collapse), look_(look), due_(due) {
    std::vector<std::string> paths;
    for (const v1::Step& step : steps) paths.push_back(step.path());
    tree_ = TreeOf(paths);
    sums_.resize(tree_.branches.size());
    AddUp(0);
  }

  Table Rows() && {
    AddBelow(0, "", true);
    return std::move(table_);
  }

 private:
  void AddUp(size_t index) {
    const PathTree::Branch& branch = tree_.branches[index];
    if (branch.path >= 0) {
      Sum own{.quiet = QuietOf(StepAt(branch))};
      own.tally.Add(StepAt(branch));
      sums_[index].Add(own);
    }
    for (const size_t below : branch.below) {
      AddUp(below);
      sums_[index].Add(sums_[below]);
    }
  }

  void AddBelow(size_t index, const std::string& margin, bool top) {
    const std::vector<size_t>& below = tree_.branches[index].below;
    for (size_t i = 0, end = 0; i < below.size(); i = end) {
      const bool together = Together(below, i, &end);
      const bool last = end == below.size();
      const std::string name = Twig(margin, top, last);
      if (together) {
        AddTogether(name, below, i, end);
        continue;
      }
      const PathTree::Branch& branch = tree_.branches[below[i]];
      branch.path >= 0 ? AddStep(name + branch.name, StepAt(branch))
                       : AddSum(name + branch.name, sums_[below[i]].tally);
      AddBelow(below[i], MarginBelow(margin, top, last), false);
    }
  }

  // Whether the branches from `i` up to `end` share one line; sets `end`.
  bool Together(const std::vector<size_t>& below, size_t i, size_t* end) const {
    const Quiet quiet = sums_[below[i]].quiet;
    *end = i + 1;
    if (!collapse_ || quiet == Quiet::kNo) return false;
    while (*end < below.size() && sums_[below[*end]].quiet == quiet) ++*end;
    return *end - i > 1 || sums_[below[i]].tally.all() > 1;
  }

  void AddTogether(const std::string& name, const std::vector<size_t>& below, size_t i,
                   size_t end) {
    Tally tally;
    for (size_t k = i; k < end; ++k) tally.Add(sums_[below[k]].tally);
    const std::string& first = tree_.branches[below[i]].name;
    const std::string& last = tree_.branches[below[end - 1]].name;
    AddSum(name + (end - i > 1 ? first + " … " + last : first), tally);
  }

  void AddStep(const std::string& name, const v1::Step& step) {
    const bool part = step.progress() > 0 && !Over(step.state());
    table_.Add({name, StateText(step.state()), step.action(), When(step.start_time(), look_),
                TookText(step, look_), part ? PercentText(step.progress()) : "",
                Noted(step, look_, due_)});
  }

  void AddSum(const std::string& name, const Tally& tally) {
    table_.Add({name, StateText(tally.state()), "", "", "", "", TallyText(tally)});
  }

  const v1::Step& StepAt(const PathTree::Branch& branch) const {
    return steps_.Get(static_cast<int>(branch.path));
  }

  const Steps& steps_;
  const bool collapse_;
  const Look& look_;
  const Dues& due_;
  PathTree tree_;
  std::vector<Sum> sums_;
  Table table_{{"STEP", "STATE", "ACTION", "STARTED", "TOOK", "PROGRESS", "NOTE"}};
};

// Joins a branch without a path with the one branch below it, if there is only one.
void Straighten(PathTree* tree, size_t index) {
  for (size_t i = 0; i < tree->branches[index].below.size(); ++i) {
    const size_t below = tree->branches[index].below[i];
    PathTree::Branch& branch = tree->branches[below];
    while (branch.path < 0 && branch.below.size() == 1) {
      PathTree::Branch only = std::move(tree->branches[branch.below.front()]);
      only.name = branch.name + "." + only.name;
      branch = std::move(only);
    }
    Straighten(tree, below);
  }
}

void AddLines(const PathTree& tree, size_t index, const std::string& margin, bool top,
              std::vector<std::pair<std::string, int64_t>>* lines) {
  for (const size_t below : tree.branches[index].below) {
    const PathTree::Branch& branch = tree.branches[below];
    const bool last = below == tree.branches[index].below.back();
    lines->emplace_back(Twig(margin, top, last) + branch.name, branch.path);
    AddLines(tree, below, MarginBelow(margin, top, last), false, lines);
  }
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> LinesOf(const PathTree& tree) {
  std::vector<std::pair<std::string, int64_t>> lines;
  AddLines(tree, 0, "", true, &lines);
  return lines;
}

PathTree TreeOf(const std::vector<std::string>& paths) {
  PathTree tree;
  tree.branches.emplace_back();
  std::unordered_map<std::string, size_t> known;
  for (size_t i = 0; i < paths.size(); ++i) {
    size_t above = 0;
    std::string so_far;
    std::string path = paths[i];
    for (size_t at = 0; (at = path.find(kCompensation, at)) != std::string::npos; at += 2) {
      path.insert(at, 1, '.');  // below its section
    }
    for (std::string name : Split(path, '.')) {
      so_far += "." + name;
      if (name.starts_with('/')) name.erase(0, 1);
      const auto [place, added] = known.try_emplace(so_far, tree.branches.size());
      if (added) {
        tree.branches[above].below.push_back(place->second);
        tree.branches.push_back({.name = name, .path = -1, .below = {}});
      }
      above = place->second;
    }
    tree.branches[above].path = static_cast<int64_t>(i);
  }
  Straighten(&tree, 0);
  return tree;
}

std::string StepOfNode(const std::string& node) {
  const size_t compensation = node.rfind(kCompensation);
  return node.substr(0, node.find('/', compensation == std::string::npos ? 0 : compensation + 1));
}

std::string NameOf(State state) {
  const auto* found = v1::Step::State_descriptor()->FindValueByNumber(state);
  return found == nullptr || state == v1::Step::STATE_UNSPECIFIED ? "" : found->name();
}

std::string StateText(State state) {
  const std::string name = NameOf(state);
  return name.empty() ? "" : SymbolOf(state) + (" " + name);
}

std::string ChildrenText(const v1::Children& children) {
  const uint64_t ended = children.success() + children.failed();
  std::string text = "children " + std::to_string(ended) + "/" + std::to_string(children.total());
  if (children.running() > 0) text += ", " + std::to_string(children.running()) + " running";
  if (children.failed() > 0) text += ", " + std::to_string(children.failed()) + " failed";
  return text;
}

std::string TookText(const v1::Step& step, const Look& look) {
  if (step.start_time().seconds() == 0) return "";
  const Timestamp start = FromProto(step.start_time());
  if (step.has_end_time()) return DurationText(FromProto(step.end_time()) - start);
  const State state = step.state();
  const bool open = state == v1::Step::RUNNING || state == v1::Step::SUSPENDED ||
                    state == v1::Step::WAITING || state == v1::Step::READY;
  return open ? DurationText(std::max(look.now - start, Duration::zero())) : "";
}

void Tally::Add(const v1::Step& step) {
  const int state = step.state();
  if (state >= 0 && static_cast<size_t>(state) < of.size()) ++of[static_cast<size_t>(state)];
}

void Tally::Add(const Tally& other) {
  for (size_t i = 0; i < of.size(); ++i) of[i] += other.of[i];
}

uint64_t Tally::all() const {
  uint64_t sum = 0;
  for (const uint64_t count : of) sum += count;
  return sum;
}

uint64_t Tally::over() const {
  return of[v1::Step::DONE] + of[v1::Step::SKIPPED] + of[v1::Step::LEFT_OUT];
}

State Tally::state() const {
  for (const State state : {v1::Step::HELD, v1::Step::RUNNING, v1::Step::SUSPENDED,
                            v1::Step::WAITING, v1::Step::READY}) {
    if (of[static_cast<size_t>(state)] > 0) return state;
  }
  if (of[v1::Step::PENDING] > 0) return over() > 0 ? v1::Step::RUNNING : v1::Step::PENDING;
  if (of[v1::Step::NOT_RUN] > 0) return v1::Step::NOT_RUN;
  if (of[v1::Step::DONE] > 0) return v1::Step::DONE;
  return of[v1::Step::SKIPPED] > 0 ? v1::Step::SKIPPED : v1::Step::LEFT_OUT;
}

std::string TallyText(const Tally& tally) {
  const uint64_t all = tally.all();
  std::string text = std::to_string(tally.of[v1::Step::DONE]) + " of " + std::to_string(all) +
                     (all == 1 ? " step done" : " steps done");
  const std::pair<State, const char*> kOthers[] = {
      {v1::Step::RUNNING, "running"},   {v1::Step::READY, "ready"},
      {v1::Step::WAITING, "waiting"},   {v1::Step::SUSPENDED, "suspended"},
      {v1::Step::HELD, "held"},         {v1::Step::SKIPPED, "skipped"},
      {v1::Step::LEFT_OUT, "left out"}, {v1::Step::NOT_RUN, "not run"}};
  for (const auto& [state, word] : kOthers) {
    const uint64_t count = tally.of[static_cast<size_t>(state)];
    if (count > 0) text += ", " + std::to_string(count) + " " + word;
  }
  return text;
}

Table StepTable(const Steps& steps, bool collapse, const Look& look, const Dues& due) {
  return TreeRows(steps, collapse, look, due).Rows();
}

void PrintSteps(Context& context, const v1::Instance& instance) {
  const bool collapse = instance.steps_size() > kMostInFull && !context.wide();
  Dues due;
  for (const v1::Token& token : instance.tokens()) {
    const bool later = token.state() == v1::Token::WAITING && token.has_available_at();
    if (later) due[StepOfNode(token.node())] = token.available_at();
  }
  context.out << '\n';
  StepTable(instance.steps(), collapse, context.look, due).Print(context.out, context.look);
}

}  // namespace dfsmr::cli
