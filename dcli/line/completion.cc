#include "dcli/line/completion.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>

#include "dcli/call/agents.h"
#include "dcli/call/context.h"
#include "dcli/text/text.h"
#include "dcli/view/describe.h"
#include "dcli/view/steps.h"

namespace dfsmr::cli {
namespace {

constexpr Duration kPatience = std::chrono::milliseconds(300);
constexpr int kMostIds = 200;

constexpr std::string_view kBash = R"(# bash completion for dcli:  source <(dcli completion bash)
_dcli() {
  local cur="${COMP_WORDS[COMP_CWORD]}" words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  if declare -F _get_comp_words_by_ref >/dev/null; then
    local cword
    _get_comp_words_by_ref -n =: cur words cword
    words=("${words[@]:1:cword}")
  fi
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <(dcli __complete "${words[@]}" 2>/dev/null)
  if declare -F __ltrim_colon_completions >/dev/null; then
    __ltrim_colon_completions "$cur"
  fi
}
complete -o default -F _dcli dcli
)";

constexpr std::string_view kZsh = R"(#compdef dcli
# zsh completion for dcli:  source <(dcli completion zsh)
_dcli() {
  local -a found
  local line value
  while IFS= read -r line; do
    value="${line%%$'\t'*}"
    if [[ "$line" == *$'\t'* ]]; then
      found+=("${value//:/\\:}:${line#*$'\t'}")
    else
      found+=("${value//:/\\:}")
    fi
  done < <(dcli __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#found} )); then
    _describe 'dcli' found
  else
    _files
  fi
}
if [[ "${funcstack[1]}" == _dcli ]]; then
  _dcli "$@"
else
  compdef _dcli dcli
fi
)";

constexpr std::string_view kFish = R"(# fish completion for dcli:  dcli completion fish | source
function __dcli_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found (dcli __complete $words[2..-1] 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c dcli -f -a '(__dcli_complete)'
)";

// The words before the one to complete, parsed.
struct Before {
  const CommandShape* command = nullptr;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> values;  // of flags, by their long names
  std::string open_flag;                      // a flag whose value comes next
};

Before TakeApart(const Grammar& grammar, const std::vector<std::string>& words) {
  Before before;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (!before.open_flag.empty()) {
      before.values[before.open_flag] = word;
      before.open_flag.clear();
    } else if (word.starts_with('-')) {
      const FlagShape* flag = FlagOf(grammar, before.command, word);
      if (flag == nullptr) continue;
      const std::string& name = flag->names.back();
      if (ValueIsNext(*flag, word)) {
        before.open_flag = name;
      } else {
        before.values[name] = word.substr(word.find('=') + 1);
      }
    } else if (before.command == nullptr) {
      before.command = grammar.Find(word);
    } else {
      before.arguments.push_back(word);
    }
  }
  return before;
}

class Answer {
 public:
  Answer(std::string prefix, std::ostream& out) : prefix_(std::move(prefix)), out_(out) {}
  void Offer(const std::string& word, const std::string& help = "") {
    if (!word.starts_with(prefix_)) return;
    out_ << Escaped(word);
    if (!help.empty()) out_ << '\t' << Escaped(help);
    out_ << '\n';
  }
  const std::string& prefix() const { return prefix_; }

 private:
  std::string prefix_;
  std::ostream& out_;
};

// Ids and names that only the server knows.
class Lookup {
 public:
  Lookup(const Before& before) : client_(Server(before), kPatience, Known(before)) {
    const auto given = before.values.find("--namespace");
    const char* set = std::getenv("DFSMR_NAMESPACE");
    if (given != before.values.end()) {
      name_space_ = given->second;
    } else if (set != nullptr) {
      name_space_ = set;
    }
  }

  void Machines(Answer* answer) {
    v1::ListMachinesRequest request;
    request.set_namespace_(name_space_);
    const auto list = client_.ListMachines(request);
    if (!list) return;
    for (const v1::Machine& machine : list->machines()) {
      const std::string kind = machine.kind().empty() ? "machine" : machine.kind();
      answer->Offer(machine.id(), kind + ", v" + std::to_string(machine.version()));
    }
  }

  void Agents(Answer* answer) {
    v1::ListAgentsRequest request;
    request.set_namespace_(name_space_);
    const auto list = client_.agents().ListAgents(request);
    if (!list) return;
    for (const v1::Agent& agent : list->agents()) {
      answer->Offer(agent.name(), Lower(v1::Agent::State_Name(agent.state())));
    }
  }

  void Nodes(Answer* answer, const std::string& machine_id) {
    v1::GetMachineRequest request;
    request.set_namespace_(name_space_);
    request.set_id(machine_id);
    const auto machine = client_.GetMachine(request);
    if (!machine) return;
    for (const v1::Node& node : machine->nodes()) {
      if (node.kind() == "work") answer->Offer(node.id());
    }
  }

  void Instances(Answer* answer) {
    v1::ListInstancesRequest request;
    request.set_namespace_(name_space_);
    request.set_page_size(kMostIds);
    const auto list = client_.ListInstances(request);
    if (!list) return;
    for (const v1::Instance& instance : list->instances()) {
      answer->Offer(instance.id(), Lower(NameOf(instance.state())) + " " + StandingText(instance));
    }
  }

  void Transitions(Answer* answer, const std::string& instance_id) {
    const auto instance = GetInstance(instance_id);
    if (!instance) return;
    for (const v1::Token& token : instance->tokens()) {
      const v1::Node* node = FindNode(instance->nodes(), token.node());
      if (node == nullptr) continue;
      for (const v1::Edge& edge : node->transitions()) {
        if (!edge.transition().starts_with("dfsmr.")) answer->Offer(edge.transition(), node->id());
      }
    }
    if (instance->steps_size() > 0) answer->Offer("patch", "change the input of a held step");
  }

  // For a plan the steps that are under way, else the nodes on which the instance stands.
  void Steps(Answer* answer, const std::string& instance_id) {
    const auto instance = GetInstance(instance_id);
    if (!instance) return;
    int count = 0;
    for (const v1::Step& step : instance->steps()) {
      const bool held = step.state() == v1::Step::HELD || step.finalize() == v1::Step::HELD;
      const bool over = step.state() == v1::Step::PENDING || step.has_end_time();
      if ((over && !held) || ++count > kMostIds) continue;
      answer->Offer(step.path(), Lower(NameOf(held ? v1::Step::HELD : step.state())));
    }
    if (instance->steps_size() > 0) return;
    for (const v1::Token& token : instance->tokens()) {
      answer->Offer(token.node(), Lower(NameOf(token.state())));
    }
  }

 private:
  Result<v1::Instance> GetInstance(const std::string& id) {
    v1::GetInstanceRequest request;
    request.set_namespace_(name_space_);
    request.set_id(id);
    request.set_with_nodes(true);
    return client_.GetInstance(request);
  }

  // Null when the credentials cannot be used: then nothing is offered.
  static Credentials Known(const Before& before) {
    Credentials credentials = CredentialsFromEnvironment();
    auto take = [&before](const char* flag, std::string* to) {
      const auto given = before.values.find(flag);
      if (given != before.values.end()) *to = given->second;
    };
    take("--token-file", &credentials.token_file);
    take("--tls-ca", &credentials.ca);
    take("--tls-cert", &credentials.cert);
    take("--tls-key", &credentials.key);
    credentials.insecure = before.values.contains("--insecure");
    return CheckCredentials(credentials, Server(before)) ? credentials : Credentials();
  }

  static std::string Server(const Before& before) {
    const auto given = before.values.find("--server");
    if (given != before.values.end()) return given->second;
    const char* set = std::getenv("DFSMR_SERVER");
    return set != nullptr && *set != '\0' ? set : Globals().server;
  }

  Client client_;
  std::string name_space_;
};

void OfferFlags(const std::vector<FlagShape>& flags, Answer* answer) {
  for (const FlagShape& flag : flags) {
    if (!flag.names.empty()) answer->Offer(flag.names.back(), flag.help);
  }
}

// The first words of those commands that have several actions.
std::span<const char* const> ActionsOf(Word word) {
  static constexpr const char* kTokens[] = {"create", "list", "revoke", "whoami"};
  static constexpr const char* kNamespaces[] = {"list",   "show", "create", "set",
                                                "freeze", "thaw", "delete"};
  static constexpr const char* kSecrets[] = {"put", "list", "delete"};
  static constexpr const char* kSchedules[] = {"show",  "next", "run",   "backfill", "history",
                                               "retry", "drop", "pause", "resume",   "delete"};
  static constexpr const char* kTriggers[] = {"show", "fire",  "history", "retry",
                                              "drop", "pause", "resume",  "delete"};
  static constexpr const char* kClock[] = {"advance"};
  static constexpr const char* kAgents[] = {"list", "show", "drain", "undrain", "evict"};
  static constexpr const char* kPackages[] = {
      "new",      "check",    "build",      "dev",  "diff", "sign", "verify", "push",
      "activate", "rollback", "deactivate", "list", "show", "cat",  "pull",   "remove"};
  static constexpr const char* kTrust[] = {"add", "list", "revoke"};
  static constexpr const char* kShells[] = {"bash", "zsh", "fish"};
  switch (word) {
    case Word::kTokenAction:
      return kTokens;
    case Word::kNamespaceAction:
      return kNamespaces;
    case Word::kSecretAction:
      return kSecrets;
    case Word::kScheduleAction:
      return kSchedules;
    case Word::kTriggerAction:
      return kTriggers;
    case Word::kClockAction:
      return kClock;
    case Word::kAgentAction:
      return kAgents;
    case Word::kPackageAction:
      return kPackages;
    case Word::kTrustAction:
      return kTrust;
    case Word::kShell:
      return kShells;
    default:
      return {};
  }
}

void OfferWord(Word word, const Before& before, Answer* answer) {
  switch (word) {
    case Word::kMachine:
      return Lookup(before).Machines(answer);
    case Word::kInstance:
      return Lookup(before).Instances(answer);
    case Word::kSubject:
      Lookup(before).Machines(answer);
      return Lookup(before).Instances(answer);
    case Word::kNode:
      return Lookup(before).Nodes(answer, before.arguments.front());
    case Word::kTransition:
      return Lookup(before).Transitions(answer, before.arguments.front());
    case Word::kStep:
      return Lookup(before).Steps(answer, before.arguments.front());
    case Word::kAgent:
      return Lookup(before).Agents(answer);
    default:
      for (const char* action : ActionsOf(word)) answer->Offer(action);
  }
}

std::vector<std::string> ValueNames(const google::protobuf::EnumDescriptor* type) {
  std::vector<std::string> names;
  for (int i = 1; i < type->value_count(); ++i) names.push_back(Lower(type->value(i)->name()));
  return names;
}

std::vector<std::string> ValuesOf(std::string_view flag) {
  if (flag == "-o") return {"table", "wide", "json", "yaml", "name"};
  if (flag == "--format") return {"mermaid", "dot", "svg"};
  if (flag == "--state") return ValueNames(v1::Instance::State_descriptor());
  if (flag == "--result") return ValueNames(v1::Instance::Result_descriptor());
  if (flag == "--role") return ValueNames(v1::AccessToken::Role_descriptor());
  if (flag == "--kind") return ValueNames(v1::Change::Kind_descriptor());
  return {};
}

void OfferValues(const Before& before, Answer* answer) {
  const FlagShape* flag =
      before.command == nullptr ? nullptr : FindFlag(before.command->flags, before.open_flag);
  const std::string wanted = flag == nullptr ? "" : flag->value;
  if (before.open_flag == "--machine") return Lookup(before).Machines(answer);
  if (before.open_flag == "--instance") return Lookup(before).Instances(answer);
  if (wanted == "INSTANCE") return Lookup(before).Instances(answer);
  if (wanted == "NODE" && before.command->places.front() == Word::kInstance) {
    if (before.arguments.empty()) return;
    return Lookup(before).Steps(answer, before.arguments.front());
  }
  const bool agents = before.command != nullptr && before.command->name == "agents";
  if (before.open_flag == "--agent") return Lookup(before).Agents(answer);
  if (agents && before.open_flag == "--state") {
    for (const std::string& value : ValueNames(v1::Agent::State_descriptor())) answer->Offer(value);
    return;
  }
  for (const std::string& value : ValuesOf(before.open_flag)) answer->Offer(value);
}

}  // namespace

Result<std::string> CompletionScript(std::string_view shell, const Grammar& grammar) {
  static const std::map<std::string_view, std::string_view> kScripts{
      {"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  const auto script = kScripts.find(shell);
  if (script == kScripts.end()) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "there is no completion for \"" + Escaped(shell) + "\" (known: bash, zsh, fish)"};
  }
  std::string text(script->second);
  text += "# The words come from dcli itself. Its commands:";
  for (const CommandShape& command : grammar.commands) text += " " + command.name;
  return text + '\n';
}

void Complete(const Grammar& grammar, const std::vector<std::string>& words, std::ostream& out) {
  Answer answer(words.empty() ? "" : words.back(), out);
  // Words after a "--" belong to another command. The word that is being written may become a flag.
  if (!words.empty() && std::find(words.begin(), words.end() - 1, "--") != words.end() - 1) return;
  const Before before = TakeApart(grammar, words);
  if (!before.open_flag.empty()) return OfferValues(before, &answer);
  if (answer.prefix().starts_with('-')) {
    if (before.command != nullptr) OfferFlags(before.command->flags, &answer);
    return OfferFlags(grammar.globals, &answer);
  }
  if (before.command == nullptr) {
    for (const CommandShape& command : grammar.commands) answer.Offer(command.name, command.help);
    return;
  }
  const auto& places = before.command->places;
  if (places.empty()) return;
  const size_t place = std::min(before.arguments.size(), places.size() - 1);
  OfferWord(places[place], before, &answer);
}

}  // namespace dfsmr::cli
