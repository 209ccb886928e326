#include "fsm/rules/dry_run.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "fsm/base/duration.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr {
namespace {

constexpr std::string_view kKeys =
    "transition, params, output, error, error_kind, fatal, retry_after, wake_after, children, "
    "children_concurrency, start, checkpoint and times";
constexpr std::array<std::string_view, 4> kStepVerbs = {"ok", "error", "suspend", "planned"};

Error Bad(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}

bool IsStepVerb(std::string_view word) {
  return std::ranges::find(kStepVerbs, word) != kStepVerbs.end();
}

Result<Ok> ReadText(std::string_view name, std::string_view value, std::string* to) {
  if (json::KindOf(value) != json::Kind::kString) {
    return Bad(Quoted(name) + ": expected a text, not " + std::string(value));
  }
  *to = json::Unquote(value);
  return Ok{};
}

Result<Ok> ReadObject(std::string_view name, std::string_view value, std::string* to) {
  if (json::KindOf(value) != json::Kind::kObject) {
    return Bad(Quoted(name) + ": expected an object, not " + std::string(value));
  }
  *to = value;
  return Ok{};
}

Result<Ok> ReadTimes(std::string_view value, uint64_t* to) {
  const char* end = value.data() + value.size();
  const auto [after, error] = std::from_chars(value.data(), end, *to);
  if (error == std::errc() && after == end && *to > 0) return Ok{};
  return Bad("'times': expected on how many visits it is the answer, 1 or more, not " +
             std::string(value));
}

Result<Ok> ReadConcurrency(std::string_view value, uint32_t* to) {
  const char* end = value.data() + value.size();
  const auto [after, error] = std::from_chars(value.data(), end, *to);
  if (error == std::errc() && after == end) return Ok{};
  return Bad("'children_concurrency': expected a number from 0 on, not " + std::string(value));
}

Result<Ok> ReadAfter(std::string_view name, std::string_view value, std::optional<Duration>* to) {
  std::string text;
  auto read = ReadText(name, value, &text);
  if (!read) return read;
  auto duration = ParseDuration(text);
  if (!duration) return Bad(Quoted(name) + ": " + duration.error().message);
  *to = *duration;
  return Ok{};
}

Result<Ok> ReadFatal(std::string_view value, bool* to) {
  *to = value == "true";
  if (*to || value == "false") return Ok{};
  return Bad("'fatal': expected true or false, not " + std::string(value));
}

// "etl" or "etl@3".
Result<Ok> ReadMachine(std::string_view value, DryStart* to) {
  std::string text;
  auto read = ReadText("machine", value, &text);
  if (!read) return read;
  const size_t at = text.find('@');
  to->machine = text.substr(0, at);
  if (auto problem = NameProblem("machine", to->machine)) return Bad(*problem);
  if (at == text.npos) return Ok{};
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data() + at + 1, end, to->version);
  if (error == std::errc() && after == end && to->version > 0) return Ok{};
  return Bad("'machine': expected NAME or NAME@VERSION, not " + std::string(value));
}

Result<Ok> ReadStart(std::string_view item, DryStart* to) {
  if (json::KindOf(item) != json::Kind::kObject) {
    return Bad("expected an object with a machine, not " + std::string(item));
  }
  Result<Ok> read = Ok{};
  json::ForEachMember(item, [&](std::string_view name, std::string_view value) {
    if (name == "machine") {
      read = ReadMachine(value, to);
    } else if (name == "id") {
      read = ReadText(name, value, &to->id);
    } else if (name == "params") {
      read = ReadObject(name, value, &to->params);
    } else {
      read =
          Bad("there is no key " + Quoted(name) + "; what is started has machine, id and params");
    }
    return read.has_value();
  });
  if (!read) return read;
  if (to->machine.empty()) return Bad("it has no machine");
  if (!to->id.empty() && !ValidInstanceId(to->id)) {
    return Bad("instance id " + Quoted(to->id) + " must be printable ASCII without spaces");
  }
  return read;
}

Result<Ok> ReadStarts(std::string_view key, std::string_view value, std::vector<DryStart>* to) {
  if (json::KindOf(value) != json::Kind::kArray) {
    return Bad(Quoted(key) + ": expected a list, not " + std::string(value));
  }
  Result<Ok> read = Ok{};
  json::ForEachItem(value, [&](std::string_view item) {
    const std::string where = std::string(key) + "[" + std::to_string(to->size()) + "]: ";
    read = ReadStart(item, &to->emplace_back());
    if (!read) read = Bad(where + read.error().message);
    return read.has_value();
  });
  return read;
}

// "wakeAfter" as "wake_after".
std::string SnakeCase(std::string_view key) {
  std::string snake;
  for (const char c : key) {
    if (c >= 'A' && c <= 'Z') snake += '_';
    snake += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return snake;
}

Result<Ok> ReadMember(std::string_view key, std::string_view value, DryAnswer* to) {
  if (json::KindOf(value) == json::Kind::kNull) return Ok{};
  const std::string name = SnakeCase(key);
  ReportArgs& report = to->report;
  if (name == "transition") return ReadText(name, value, &report.transition);
  if (name == "params" || name == "node_params") return ReadObject(name, value, &report.params);
  if (name == "output") return ReadObject(name, value, &report.output);
  if (name == "error") return ReadText(name, value, &report.error);
  if (name == "checkpoint") return ReadObject(name, value, &report.checkpoint);
  if (name == "error_kind") return ReadText(name, value, &report.error_kind);
  if (name == "fatal") return ReadFatal(value, &report.fatal);
  if (name == "retry_after") return ReadAfter(name, value, &report.retry_after);
  if (name == "wake_after") return ReadAfter(name, value, &report.wake_after);
  if (name == "children") return ReadStarts(name, value, &to->children);
  if (name == "children_concurrency") return ReadConcurrency(value, &report.concurrency);
  if (name == "start") return ReadStarts(name, value, &to->starts);
  if (name == "times") return ReadTimes(value, &to->times);
  return Bad("there is no key " + Quoted(key) + "; a report of a dry run has " +
             std::string(kKeys));
}

// What goes with no other transition than `error`.
Result<Ok> CheckFailing(const ReportArgs& report) {
  if (!report.error_kind.empty()) {
    if (auto problem = NameProblem("error_kind", report.error_kind)) return Bad(*problem);
  }
  if (report.transition == "error") return Ok{};
  const char* key = report.fatal                 ? "fatal"
                    : report.retry_after         ? "retry_after"
                    : !report.error_kind.empty() ? "error_kind"
                                                 : nullptr;
  if (!key) return Ok{};
  return Bad(Quoted(key) + " goes with 'error'" +
             (report.transition.empty() ? "" : ", not with " + Quoted(report.transition)));
}

// What goes with no other transition than `suspend`.
Result<Ok> CheckWaiting(const DryAnswer& answer) {
  const ReportArgs& report = answer.report;
  if (report.transition == "suspend") return Ok{};
  const std::string other =
      report.transition.empty() ? "" : ", not with " + Quoted(report.transition);
  if (report.wake_after) return Bad("'wake_after' goes with 'suspend'" + other);
  if (!answer.children.empty()) return Bad("'children' go with 'suspend'" + other);
  return Ok{};
}

uint64_t TimesGiven(const Instance& instance, const std::string& name) {
  const auto& given = instance.dry_run->given;
  const auto it = std::ranges::find(given, name, &std::pair<std::string, uint64_t>::first);
  return it == given.end() ? 0 : it->second;
}

// The answer under this name, unless it was given as often as it is to be.
std::optional<GivenAnswer> Under(const Instance& instance, const Spec& spec,
                                 const std::string& name) {
  const auto text = spec.dry_answers.find(name);
  if (text == spec.dry_answers.end()) return std::nullopt;
  auto answer = ReadDryAnswer(text->second);
  if (!answer) return std::nullopt;
  const bool spent = answer->times != 0 && TimesGiven(instance, name) >= answer->times;
  if (spent) return std::nullopt;
  return GivenAnswer{*std::move(answer), name};
}

GivenAnswer MadeUp(std::string_view transition, std::string_view output = {}) {
  GivenAnswer made;
  made.answer.report.transition = transition;
  made.answer.report.output = output;
  made.answer.report.client = kDryRunClient;
  return made;
}

// At a step's first run, an answer that is an event stands for: suspend, and be woken by it.
std::optional<GivenAnswer> AtStep(const Machine& machine, const Token& token, GivenAnswer given) {
  const Role role = machine.nodes[token.node].role;
  const std::string& transition = given.answer.report.transition;
  const bool event = !IsStepVerb(transition);
  if (role == Role::kSuspended) {
    if (transition == "suspend") return std::nullopt;
    return given;
  }
  if (role != Role::kRun || !event) return given;
  if (token.step->event == transition) return std::nullopt;  // it has had it
  return MadeUp("suspend");
}

// As the definition says, or the first that leads on.
GivenAnswer AsDefined(const Machine& machine, const Token& token) {
  const Node& node = machine.nodes[token.node];
  const DryRunRule& rule = node.settings->dry_run;
  if (rule.transition.empty()) return MadeUp(rules::DryTransition(machine, token), rule.output);
  const bool has = node.FindTransition(rule.transition) != nullptr;
  if (has) return MadeUp(rule.transition, rule.output);
  return MadeUp(rules::DryTransition(machine, token));
}

}  // namespace

Result<DryAnswer> ReadDryAnswer(std::string_view text) {
  DryAnswer answer;
  answer.report.client = kDryRunClient;
  text = json::Trim(text);
  if (!text.starts_with('{')) {
    answer.report.transition = text;
  } else {
    Result<Ok> read = Ok{};
    json::ForEachMember(text, [&](std::string_view name, std::string_view value) {
      read = ReadMember(name, value, &answer);
      return read.has_value();
    });
    if (!read) return read.error();
    if (answer.report.transition.empty() && !answer.report.error.empty()) {
      answer.report.transition = "error";
    }
  }
  answer.report.children = answer.children.size();
  const std::string& transition = answer.report.transition;
  const bool nameless = transition.empty() && text.starts_with('{');
  auto problem = nameless ? std::nullopt : NameProblem("transition", transition);
  if (problem) return Bad(*problem);
  auto waiting = CheckWaiting(answer);
  if (!waiting) return waiting.error();
  auto failing = CheckFailing(answer.report);
  if (!failing) return failing.error();
  return answer;
}

std::optional<GivenAnswer> AnswerGiven(const Machine& machine, const Instance& instance,
                                       const Spec& spec, const Token& token) {
  if (spec.dry_answers.empty()) return std::nullopt;
  const Node& node = machine.nodes[token.node];
  const bool step = token.step && token.home < machine.nodes.size();
  const bool own = step && token.node != token.home;  // a node of a step that has its own name
  auto given = Under(instance, spec, node.id);
  const bool runs = node.role == Role::kSuspended || node.role == Role::kRun;
  const bool of_step = !given && step && runs;
  if (of_step) given = Under(instance, spec, machine.nodes[token.home].id);
  if (!given) return std::nullopt;
  std::string& transition = given->answer.report.transition;
  if (transition.empty()) transition = AsDefined(machine, token).answer.report.transition;
  // A planner's step has its name, too, until it is planned.
  const bool plans = transition == "planned";
  if (plans && node.role == Role::kRun) return std::nullopt;
  if (node.role == Role::kPlanner && !plans && transition != "error") return std::nullopt;
  const bool whole = step && (of_step || !own);
  return whole ? AtStep(machine, token, *std::move(given)) : given;
}

std::optional<GivenAnswer> AnswerFor(const Machine& machine, const Instance& instance,
                                     const Spec& spec, const Token& token) {
  if (token.node >= machine.nodes.size()) return std::nullopt;
  const Node& node = machine.nodes[token.node];
  if (token.state != TokenState::kReady) {
    const bool decides = node.kind == NodeKind::kManual || node.kind == NodeKind::kHeld;
    if (!decides || node.role == Role::kSpawn) return std::nullopt;
    return AnswerGiven(machine, instance, spec, token);
  }
  if (ForDryWorkers(node)) return std::nullopt;
  if (auto given = AnswerGiven(machine, instance, spec, token)) return given;
  const bool woken = token.step && !token.step->event.empty() && token.step->event != "poll";
  GivenAnswer made = AsDefined(machine, token);
  // What has woken it was what it had waited for.
  if (woken && made.answer.report.transition == "suspend") return MadeUp("ok");
  return made;
}

namespace rules {

std::string_view DryTransition(const Machine& machine, const Token& token) {
  const Node& node = machine.nodes[token.node];
  if (node.FindTransition("ok")) return "ok";
  for (const Edge& edge : node.transitions) {
    if (!edge.transition.starts_with(kSystemPrefix)) return edge.transition;
  }
  return "";
}

void HurryWait(Scene& scene, uint64_t visit) {
  const auto slot = scene.instance.tokens.SlotOf(visit);
  if (!slot) return;
  const Token& waiting = std::as_const(scene.instance.tokens)[*slot];
  if (waiting.state != TokenState::kWaiting || waiting.available_at == kNever) return;
  scene.instance.tokens.Mutable(*slot).available_at = scene.now;
  EndWait(scene, visit);
}

void StopDryRun(Scene& scene, InstanceResult result, const std::string& why) {
  if (scene.instance.Stopped()) return;
  const Tokens& tokens = std::as_const(scene.instance.tokens);
  const NodeIndex where = tokens.empty() ? kNoNode : tokens.begin()->node;
  Stop(scene, result, where, scene.instance.last_visit, why);
}

}  // namespace rules
}  // namespace dfsmr
