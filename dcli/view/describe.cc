#include "dcli/view/describe.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

// Empty for the unspecified number, and for numbers that this build does not know.
template <typename Enum>
std::string EnumText(Enum value) {
  const auto* found = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return found == nullptr || value == 0 ? "" : found->name();
}

constexpr int kTokensShown = 3;
constexpr std::string_view kEndOfPlan = "/end";

// "crawl (claimed)". On a plan's nodes for errors and waits: the step, and what it waits for.
std::string PlaceText(const v1::Token& token) {
  std::string_view node = token.node();
  std::string state = Lower(NameOf(token.state()));
  for (const auto& [part, word] : {std::pair("/error", "held"), {"/suspended", "suspended"}}) {
    if (!node.ends_with(part)) continue;
    node.remove_suffix(std::string_view(part).size());
    state = word;
  }
  return std::string(node) + " (" + state + ")";
}

}  // namespace

std::string NameOf(v1::Instance::State state) { return EnumText(state); }
std::string NameOf(v1::Instance::Result result) { return EnumText(result); }
std::string NameOf(v1::Token::State state) { return EnumText(state); }
std::string NameOf(v1::Change::Kind kind) { return EnumText(kind); }

bool IsPlan(const v1::Machine& machine) {
  return machine.kind() == "plan" || machine.kind() == "action";
}

std::string MachineText(const std::string& machine, uint32_t version) {
  return version == 0 ? machine : machine + " v" + std::to_string(version);
}

std::string PackageText(const v1::PackageRef& package) {
  return package.name().empty() ? "" : package.name() + "@" + package.version();
}

std::string StandingText(const v1::Instance& instance) {
  std::vector<std::string> places;
  for (const v1::Token& token : instance.tokens()) {
    const bool done = token.state() == v1::Token::DONE;
    if (done && token.node() == kEndOfPlan) continue;
    if (places.size() == kTokensShown) {
      const uint64_t all =  // shown or not
          std::max<uint64_t>(instance.token_count(), static_cast<uint64_t>(instance.tokens_size()));
      places.push_back(std::to_string(all - kTokensShown) + " more");
      break;
    }
    places.push_back(done ? token.node() : PlaceText(token));
  }
  return Join(places, ", ");
}

std::string LabelsText(const google::protobuf::Map<std::string, std::string>& labels) {
  const std::map<std::string, std::string> sorted(labels.begin(), labels.end());
  std::vector<std::string> parts;
  parts.reserve(sorted.size());
  for (const auto& [key, value] : sorted) parts.push_back(key + "=" + value);
  return Join(parts, ",");
}

std::string MoveText(const v1::Change& change) {
  const std::string& from = change.prev_node();
  const std::string& to = change.node();
  if (from.empty() && to.empty()) return change.transition();
  if (from.empty()) return to;
  const std::string arrow =
      change.transition().empty() ? " -> " : " -[" + change.transition() + "]-> ";
  return to.empty() ? from : from + arrow + to;
}

std::string TriesText(uint32_t tries, uint32_t limit) {
  if (tries == 0 && limit <= 1) return "";
  return std::to_string(tries) + (limit > 1 ? " of " + std::to_string(limit) : "") + " failed";
}

std::string NoteText(const v1::Change& change) {
  if (change.error_kind().empty()) return change.note();
  return change.error_kind() + (change.note().empty() ? "" : ": " + change.note());
}

std::string ChoiceText(const v1::Edge& edge) {
  return edge.transition() + (edge.condition().empty() ? "" : " if " + edge.condition());
}

std::string TransitionsText(const v1::Node& node) {
  std::vector<std::string> parts;
  for (const v1::Edge& edge : node.transitions()) {
    const std::vector<std::string> targets(edge.targets().begin(), edge.targets().end());
    parts.push_back(ChoiceText(edge) + " -> " + Join(targets, " + "));
  }
  return Join(parts, ", ");
}

std::string PercentText(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

void PrintInstance(std::ostream& out, const v1::Instance& instance, const Look& look,
                   std::string_view remark) {
  out << Escaped(instance.id()) << "  " << Painted(NameOf(instance.state()), look);
  if (instance.result() != v1::Instance::RESULT_UNSPECIFIED) {
    out << "  " << Painted(NameOf(instance.result()), look);
  }
  if (instance.dry_run()) out << "  dry run";
  const std::string standing = StandingText(instance);
  if (!standing.empty()) out << "  at " << Escaped(standing);
  if (!instance.error().empty()) out << "  " << Escaped(instance.error());
  if (!remark.empty()) out << "  (" << Escaped(remark) << ")";
  out << '\n';
}

void PrintChange(std::ostream& out, const v1::Change& change, const Look& look) {
  // What is about no instance is about a schedule, trigger or limit, or a package.
  const std::string of = !change.machine().empty() ? change.machine()
                         : !change.cause().empty() ? change.cause()
                                                   : PackageText(change.package());
  out << TimeText(FromProto(change.time())) << "  #" << change.seq() << "  "
      << Painted(NameOf(change.kind()), look) << "  "
      << Escaped(MachineText(of, change.version()));
  if (!change.occurrence().empty() && !change.outcome().empty()) {
    out << "  " << Escaped(change.occurrence()) << "  " << Escaped(change.outcome());
  }
  if (!change.instance().empty()) out << "  " << Escaped(change.instance());
  if (change.dry_run()) out << "  dry run";
  if (const std::string move = MoveText(change); !move.empty()) out << "  " << Escaped(move);
  if (change.attempt() > 0) out << "  attempt " << change.attempt();
  if (!change.client().empty()) out << "  by " << Escaped(change.client());
  if (const std::string note = NoteText(change); !note.empty())
    out << "  (" << Escaped(note) << ")";
  out << '\n';
}

const v1::Node* FindNode(const google::protobuf::RepeatedPtrField<v1::Node>& nodes,
                         std::string_view id) {
  for (const v1::Node& node : nodes) {
    if (node.id() == id) return &node;
  }
  return nullptr;
}

}  // namespace dfsmr::cli
