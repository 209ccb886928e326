#include "dcli/view/show.h"

#include <algorithm>
#include <map>

#include "dcli/text/json.h"
#include "dcli/text/text.h"
#include "dcli/view/describe.h"
#include "dcli/view/steps.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kMostOutputs = 20;  // of a plan's steps
constexpr int kMostClaims = 20;
constexpr size_t kMostPlaces = 3;    // of a plan's steps that wait
constexpr size_t kMostHints = 3;  // steps named under "Next"

std::string ProgressText(const v1::Instance& instance) {
  Tally tally;
  for (const v1::Step& step : instance.steps()) tally.Add(step);
  std::string text =
      tally.all() > 0 || instance.progress() > 0 ? PercentText(instance.progress()) : "";
  if (tally.all() > 0) text += ", " + TallyText(tally);
  return text;
}

// The errors of held steps in full, which the table of steps may have to shorten.
void AddHeld(const v1::Instance& instance, Description* text) {
  size_t count = 0;
  for (const v1::Step& step : instance.steps()) {
    const bool held = step.state() == v1::Step::HELD || step.finalize() == v1::Step::HELD;
    const bool said = instance.error().find(step.error()) != std::string::npos;
    if (held && !said && ++count <= kMostHints) {
      text->Add("Held", step.path() + ": " + step.error());
    }
  }
}

// What an instance, or its token at `node`, waits for; a start_at and the like have lines of their
// own.
void AddWait(const v1::Wait& wait, const std::string& node, const Look& look, Description* text) {
  std::string what;
  if (wait.kind() == v1::Wait::LIMIT) {
    what = "limit " + JsonString(wait.key()) + ": max " + std::to_string(wait.max()) + ", held " +
           std::to_string(wait.held());
    for (int i = 0; i < wait.holders_size(); ++i) {
      what += (i == 0 ? " by " : ", ") + Escaped(wait.holders(i));
    }
    if (wait.ahead() > 0) what += "; " + std::to_string(wait.ahead()) + " ahead";
  } else if (wait.kind() == v1::Wait::RATE) {
    what = "rate of limit " + JsonString(wait.key()) + ", next at " + When(wait.until(), look);
  } else if (wait.kind() == v1::Wait::AFTER) {
    what = "instance " + JsonString(wait.key()) + " to stop";
  } else if (wait.kind() == v1::Wait::GROUP_PAUSED) {
    what = "group " + JsonString(wait.key()) + ", which is paused";
  } else if (wait.kind() == v1::Wait::HOLD) {
    what = "somebody to resume it";
  } else {
    return;
  }
  text->Add(node.empty() ? "Waits for" : "Waits at " + Escaped(node), what);
}

// Where what is ready runs, and why no worker has it.
void AddPlace(const v1::Token& token, Description* text) {
  if (token.state() != v1::Token::READY) return;
  std::string words;
  for (const std::string& word : token.runs_on().capabilities()) {
    words += (words.empty() ? " with " : ", ") + Escaped(word);
  }
  if (token.has_runs_on()) {
    const std::string& agent = token.runs_on().agent();
    text->Add("Runs on", (agent.empty() ? "any agent" : Escaped(agent)) + words + " (" +
                             Escaped(token.node()) + ")");
  }
  if (!token.why().empty()) text->Add("Waits at " + Escaped(token.node()), Escaped(token.why()));
}

// The same of all its tokens. Of a plan's steps, which are shown below, only the first ones: they
// may be thousands that wait for one worker.
void AddPlaces(const Context& context, const v1::Instance& instance, Description* text) {
  const bool all = context.wide() || instance.steps_size() == 0;
  size_t count = 0;
  for (const v1::Token& token : instance.tokens()) {
    const bool ready = token.state() == v1::Token::READY;
    const bool waits = token.waits_for_size() > 0 || (ready && !token.why().empty());
    if (waits && ++count > kMostPlaces && !all) continue;
    for (const v1::Wait& wait : token.waits_for()) AddWait(wait, token.node(), context.look, text);
    AddPlace(token, text);
  }
  if (count <= kMostPlaces || all) return;
  text->Add("Waits at", std::to_string(count - kMostPlaces) + " more: -o wide shows them");
}

// How it is being cancelled, or was, and whether it can go on.
void AddCancel(const v1::Instance& instance, const Look& look, Description* text) {
  const bool stopped = instance.state() == v1::Instance::STOPPED;
  if (instance.has_cancel_time()) {
    const bool waits = !stopped && instance.cancel() == v1::CancelRequest::CANCEL;
    text->Add(stopped ? "Cancelled" : "Being cancelled",
              "since " + When(instance.cancel_time(), look) +
                  (instance.cancel() == v1::CancelRequest::FORCE  ? ", by force"
                   : instance.cancel() == v1::CancelRequest::KILL ? ", killed"
                   : waits ? ": it stops when what has begun has ended"
                           : ""));
  }
  if (instance.leftovers() > 0) {
    text->Add("Leftovers", std::to_string(instance.leftovers()) + " that agents still hold");
  }
  if (instance.resumable()) text->Add("Resumable", "yes");
  if (instance.dry_run()) text->Add("Dry run", "yes");
}

void AddOutputs(Context& context, const v1::Instance& instance, Description* text) {
  const std::map<std::string, std::string> outputs(instance.outputs().begin(),
                                                   instance.outputs().end());
  if (instance.steps_size() > 0 && outputs.size() > kMostOutputs && !context.wide()) {
    text->Add("Outputs", std::to_string(outputs.size()) + " of them: -o wide shows them");
    return;
  }
  for (const auto& [node, output] : outputs) text->Add("Output of " + Escaped(node), output);
  if (instance.outputs_left_out() > 0) {
    text->Add("Outputs", std::to_string(instance.outputs_left_out()) +
                             " more, which do not fit into a message");
  }
}

void PrintHead(Context& context, const v1::Instance& instance) {
  const Look& look = context.look;
  Description text;
  text.Add("Instance", instance.id());
  text.Add("Machine", MachineText(instance.machine(), instance.version()));
  text.Add("Package", PackageText(instance.package()));
  text.Add("State", NameOf(instance.state()));
  text.Add("Result", NameOf(instance.result()));
  text.Add("Label", instance.label());
  text.Add("Error", instance.error());
  AddHeld(instance, &text);
  AddCancel(instance, look, &text);
  for (const v1::Wait& wait : instance.waits_for()) AddWait(wait, "", look, &text);
  AddPlaces(context, instance, &text);
  text.Add("Starts at", When(instance.start_at(), look));
  text.Add("Not after", When(instance.start_before(), look));
  text.Add("Started", When(instance.start_time(), look));
  text.Add("Ended", When(instance.end_time(), look));
  text.Add("Progress", ProgressText(instance));
  if (instance.priority() != 0) text.Add("Priority", std::to_string(instance.priority()));
  text.Add("Labels", LabelsText(instance.labels()));
  text.Add("Parent", instance.parent());
  text.Add("Trace", instance.trace());
  text.Add("Params", instance.params());
  AddOutputs(context, instance, &text);
  text.Print(context.out, look);
}

void PrintTokens(Context& context, const v1::Instance& instance) {
  const bool tries = std::ranges::any_of(instance.tokens(), [](const v1::Token& token) {
    return !TriesText(token.tries(), token.tries_limit()).empty();
  });
  std::vector<std::string> header = {"AT", "STATE", "VISIT", "ATTEMPTS"};
  if (tries) header.push_back("TRIES");
  header.insert(header.end(), {"SINCE", "ERROR", "PARAMS"});
  Table table(header);
  for (const v1::Token& token : instance.tokens()) {
    std::vector<std::string> row = {token.node(), NameOf(token.state()),
                                    std::to_string(token.visit()), std::to_string(token.attempt())};
    if (tries) row.push_back(TriesText(token.tries(), token.tries_limit()));
    row.insert(row.end(),
               {When(token.available_at(), context.look), token.error(), token.params()});
    table.Add(std::move(row));
  }
  if (table.empty()) return;
  context.out << '\n';
  table.Print(context.out, context.look);
}

void PrintClaims(Context& context, const v1::Instance& instance) {
  Table table({"CLAIMED BY", "NODE", "ATTEMPT", "SINCE", "DEADLINE", "PROGRESS"});
  const bool all = context.wide() || instance.steps_size() == 0;
  int count = 0;
  for (const v1::Token& token : instance.tokens()) {
    for (const v1::Claim& claim : token.claims()) {
      if (++count > kMostClaims && !all) continue;
      std::string deadline = claim.has_deadline() ? When(claim.deadline(), context.look) : "never";
      if (claim.timed_out()) deadline += " (timed out)";
      table.Add({claim.worker() + (claim.lost() ? " (lost)" : ""), token.node(),
                 std::to_string(claim.attempt()), When(claim.claim_time(), context.look), deadline,
                 claim.progress() > 0 ? PercentText(claim.progress()) : ""});
    }
  }
  if (table.empty()) return;
  context.out << '\n';
  table.Print(context.out, context.look);
  if (count > kMostClaims && !all) {
    context.out << count - kMostClaims << " more: -o wide shows them\n";
  }
}

// The last refusals of what is ready still: why nobody has begun it.
void PrintRefusals(Context& context, const v1::Instance& instance) {
  Table table({"REFUSED BY", "NODE", "AT", "WHY"});
  for (const v1::Token& token : instance.tokens()) {
    if (token.state() != v1::Token::READY) continue;
    for (const v1::Refusal& refusal : token.refusals()) {
      table.Add(
          {refusal.worker(), token.node(), When(refusal.time(), context.look), refusal.reason()});
    }
  }
  if (table.empty()) return;
  context.out << '\n';
  table.Print(context.out, context.look);
}

void PrintTransitions(Context& context, const v1::Instance& instance) {
  Table table({"FROM", "TRANSITION", "TO"});
  for (const v1::Token& token : instance.tokens()) {
    const v1::Node* node = FindNode(instance.nodes(), token.node());
    if (node == nullptr || token.state() == v1::Token::DONE) continue;
    for (const v1::Edge& edge : node->transitions()) {
      if (edge.transition().starts_with("dfsmr.")) continue;  // clients may not report it
      const std::vector<std::string> targets(edge.targets().begin(), edge.targets().end());
      table.Add({node->id(), ChoiceText(edge), Join(targets, ", ")});
    }
  }
  if (table.empty()) return;
  context.out << '\n';
  table.Print(context.out, context.look);
}

bool AnyHeld(const v1::Instance& instance) {
  for (const v1::Token& token : instance.tokens()) {
    if (token.state() == v1::Token::HELD) return true;
  }
  return false;
}

std::string FirstTransition(const v1::Instance& instance) {
  for (const v1::Token& token : instance.tokens()) {
    const v1::Node* node = FindNode(instance.nodes(), token.node());
    if (node == nullptr || node->transitions_size() == 0) continue;
    const std::string which = instance.tokens_size() > 1 ? " --node " + token.node() : "";
    return node->transitions(0).transition() + which;
  }
  return "";
}

// Then it is neither paused nor resumed: it stops by itself, or by force.
bool IsCancelled(const v1::Instance& instance) {
  return instance.state() != v1::Instance::STOPPED &&
         instance.cancel() != v1::CancelRequest::MODE_UNSPECIFIED;
}

// `alone`: no other step is held, so that resuming all of them is enough.
void AddHintsFor(const v1::Step& step, const std::string& id, bool alone,
                 std::vector<std::string>* next) {
  const std::string& path = step.path();
  const bool held = step.state() == v1::Step::HELD;
  if (held || step.finalize() == v1::Step::HELD) {
    if (!alone) next->push_back("resume " + id + " --node " + path);
    next->push_back("skip " + id + " " + path);
  }
  if (held && !step.action().empty()) {
    next->push_back("transition " + id + " patch --node " + path + " --params '{\"KEY\": ...}'");
  }
  if (step.state() == v1::Step::SUSPENDED) {
    next->push_back("transition " + id + " EVENT --node " + path + " KEY=VALUE");
  }
}

bool WaitsFor(const v1::Instance& instance, v1::Wait::Kind kind) {
  return std::ranges::any_of(instance.waits_for(),
                             [kind](const v1::Wait& wait) { return wait.kind() == kind; });
}

// Its turn comes by itself; resuming does nothing.
bool WaitsForLimit(const v1::Instance& instance) {
  return WaitsFor(instance, v1::Wait::LIMIT) || WaitsFor(instance, v1::Wait::RATE);
}

std::vector<std::string> NextOfSteps(const v1::Instance& instance) {
  std::vector<std::string> next;
  if (instance.state() == v1::Instance::STOPPED || IsCancelled(instance)) return next;
  std::vector<const v1::Step*> held;
  std::vector<const v1::Step*> suspended;
  for (const v1::Step& step : instance.steps()) {
    const bool stuck = step.state() == v1::Step::HELD || step.finalize() == v1::Step::HELD;
    if (stuck) held.push_back(&step);
    if (step.state() == v1::Step::SUSPENDED) suspended.push_back(&step);
  }
  const bool children =
      std::ranges::any_of(held, [](const v1::Step* step) { return step->children().failed() > 0; });
  if (children) next.push_back("instances --parent " + instance.id() + " --state paused");
  const bool paused = instance.state() == v1::Instance::PAUSED && !WaitsForLimit(instance);
  if (!held.empty() || paused || WaitsFor(instance, v1::Wait::HOLD)) {
    next.push_back("resume " + instance.id());
  }
  for (const auto* steps : {&held, &suspended}) {
    for (size_t i = 0; i < steps->size() && i < kMostHints; ++i) {
      AddHintsFor(*(*steps)[i], instance.id(), held.size() == 1, &next);
    }
  }
  if (instance.state() == v1::Instance::RUNNING) next.push_back("pause " + instance.id());
  return next;
}

std::vector<std::string> NextOfMachine(const v1::Instance& instance) {
  const std::string& id = instance.id();
  std::vector<std::string> next;
  if (IsCancelled(instance)) return next;
  for (const v1::Token& token : instance.tokens()) {
    if (token.state() != v1::Token::HELD) continue;  // it runs at most once: only by name
    next.push_back("resume " + id + " --node " + token.node());
    next.push_back("transition " + id + " " + FirstTransition(instance));
  }
  const bool paused = instance.state() == v1::Instance::PAUSED && !WaitsForLimit(instance);
  if ((paused && !AnyHeld(instance)) || WaitsFor(instance, v1::Wait::HOLD)) {
    next.push_back("resume " + id);
  }
  if (instance.state() == v1::Instance::RUNNING) {
    const std::string transition = FirstTransition(instance);
    if (!transition.empty()) next.push_back("transition " + id + " " + transition);
    next.push_back("pause " + id);
  }
  return next;
}

void PrintNext(Context& context, const v1::Instance& instance) {
  const std::string& id = instance.id();
  const bool plan = instance.steps_size() > 0;
  std::vector<std::string> next = plan ? NextOfSteps(instance) : NextOfMachine(instance);
  if (instance.resumable()) next.push_back("resume " + id);
  if (instance.state() != v1::Instance::STOPPED) {
    next.push_back("cancel " + id + (IsCancelled(instance) ? " --force" : ""));
  }
  next.push_back("history " + id);
  next.push_back("graph " + id + (plan ? " --flow" : ""));
  context.out << "\nNext:\n";
  for (const std::string& command : next) context.out << "  dcli " << Escaped(command) << '\n';
}

}  // namespace

void PrintWhole(Context& context, const v1::Instance& instance) {
  const bool plan = instance.steps_size() > 0;
  PrintHead(context, instance);
  plan ? PrintSteps(context, instance) : PrintTokens(context, instance);
  PrintClaims(context, instance);
  PrintRefusals(context, instance);
  if (!plan && instance.state() != v1::Instance::STOPPED) PrintTransitions(context, instance);
  PrintNext(context, instance);
}

void PrintHistory(Context& context, const v1::GetHistoryResponse& history) {
  std::vector<std::string> header = {"TIME", "SEQ", "KIND", "VISIT", "ATTEMPT", "WHAT", "BY"};
  if (context.wide()) header.push_back("PARAMS");
  header.push_back("NOTE");
  Table table(header);
  for (const v1::Change& change : history.changes()) {
    std::vector<std::string> row = {TimeText(FromProto(change.time())),
                                    std::to_string(change.seq()),
                                    NameOf(change.kind()),
                                    change.visit() > 0 ? std::to_string(change.visit()) : "",
                                    change.attempt() > 0 ? std::to_string(change.attempt()) : "",
                                    MoveText(change),
                                    change.client()};
    if (context.wide()) row.push_back(change.params());
    row.push_back(NoteText(change));
    table.Add(std::move(row));
  }
  table.Print(context.out, context.look);
}

}  // namespace dfsmr::cli
