#include "dcli/show.h"

#include <map>

#include "dcli/describe.h"
#include "dcli/text.h"

namespace dfsmr::cli {
namespace {

void PrintHead(Context& context, const v1::Instance& instance) {
  const Look& look = context.look;
  Description text;
  text.Add("Instance", instance.id());
  text.Add("Machine", MachineText(instance.machine(), instance.version()));
  text.Add("State", NameOf(instance.state()));
  text.Add("Result", NameOf(instance.result()));
  text.Add("Label", instance.label());
  text.Add("Error", instance.error());
  text.Add("Starts at", When(instance.start_at(), look));
  text.Add("Not after", When(instance.start_before(), look));
  text.Add("Started", When(instance.start_time(), look));
  text.Add("Ended", When(instance.end_time(), look));
  if (instance.progress() > 0) text.Add("Progress", PercentText(instance.progress()));
  if (instance.priority() != 0) text.Add("Priority", std::to_string(instance.priority()));
  text.Add("Labels", LabelsText(instance.labels()));
  text.Add("Parent", instance.parent());
  text.Add("Params", instance.params());
  using Outputs = std::map<std::string, std::string>;
  for (const auto& [node, output] : Outputs(instance.outputs().begin(), instance.outputs().end())) {
    text.Add("Output of " + Escaped(node), output);
  }
  text.Print(context.out, look);
}

void PrintTokens(Context& context, const v1::Instance& instance) {
  Table table({"AT", "STATE", "VISIT", "ATTEMPTS", "SINCE", "ERROR", "PARAMS"});
  for (const v1::Token& token : instance.tokens()) {
    table.Add({token.node(), NameOf(token.state()), std::to_string(token.visit()),
               std::to_string(token.attempt()), When(token.available_at(), context.look),
               token.error(), token.params()});
  }
  if (table.empty()) return;
  context.out << '\n';
  table.Print(context.out, context.look);
}

void PrintClaims(Context& context, const v1::Instance& instance) {
  Table table({"CLAIMED BY", "NODE", "ATTEMPT", "SINCE", "DEADLINE", "PROGRESS"});
  for (const v1::Token& token : instance.tokens()) {
    for (const v1::Claim& claim : token.claims()) {
      std::string deadline = claim.has_deadline() ? When(claim.deadline(), context.look) : "never";
      if (claim.timed_out()) deadline += " (timed out)";
      table.Add({claim.worker(), token.node(), std::to_string(claim.attempt()),
                 When(claim.claim_time(), context.look), deadline,
                 claim.progress() > 0 ? PercentText(claim.progress()) : ""});
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
      if (edge.transition().starts_with("dfsmr.")) continue;  // not for anybody to report
      const std::vector<std::string> targets(edge.targets().begin(), edge.targets().end());
      table.Add({node->id(), edge.transition(), Join(targets, ", ")});
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

void PrintNext(Context& context, const v1::Instance& instance) {
  const std::string id = Escaped(instance.id());
  std::vector<std::string> next;
  if (instance.state() == v1::Instance::PAUSED || AnyHeld(instance)) next.push_back("resume " + id);
  if (AnyHeld(instance)) next.push_back("skip " + id);
  if (instance.state() == v1::Instance::RUNNING) {
    const std::string transition = FirstTransition(instance);
    if (!transition.empty()) next.push_back("transition " + id + " " + Escaped(transition));
    next.push_back("pause " + id);
  }
  if (instance.state() != v1::Instance::STOPPED) next.push_back("cancel " + id);
  next.push_back("history " + id);
  next.push_back("graph " + id);
  context.out << "\nNext:\n";
  for (const std::string& command : next) context.out << "  dcli " << command << '\n';
}

}  // namespace

void PrintWhole(Context& context, const v1::Instance& instance) {
  PrintHead(context, instance);
  PrintTokens(context, instance);
  PrintClaims(context, instance);
  if (instance.state() != v1::Instance::STOPPED) PrintTransitions(context, instance);
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
    row.push_back(change.note());
    table.Add(std::move(row));
  }
  table.Print(context.out, context.look);
}

}  // namespace dfsmr::cli
