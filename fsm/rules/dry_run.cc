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
    "transition, params, output, error, wake_after, checkpoint and times";
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

Result<Ok> ReadMember(std::string_view name, std::string_view value, DryAnswer* to) {
  ReportArgs& report = to->report;
  if (name == "transition") return ReadText(name, value, &report.transition);
  if (name == "params" || name == "node_params") return ReadObject(name, value, &report.params);
  if (name == "output") return ReadObject(name, value, &report.output);
  if (name == "error") return ReadText(name, value, &report.error);
  if (name == "checkpoint") return ReadObject(name, value, &report.checkpoint);
  if (name == "times") return ReadTimes(value, &to->times);
  if (name == "wake_after") {
    std::string text;
    auto read = ReadText(name, value, &text);
    if (!read) return read;
    auto duration = ParseDuration(text);
    if (!duration) return Bad("'wake_after': " + duration.error().message);
    report.wake_after = *duration;
    return Ok{};
  }
  return Bad("there is no key " + Quoted(name) + "; a report of a dry run has " +
             std::string(kKeys));
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
  if (role == Role::kRun && event) {
    if (token.step->event == transition) return MadeUp("ok");
    GivenAnswer suspend = MadeUp("suspend");
    return suspend;
  }
  return given;
}

// As the definition says, or the first that leads on.
GivenAnswer AsDefined(const Machine& machine, const Token& token) {
  const Node& node = machine.nodes[token.node];
  const DryRunRule& rule = node.settings->dry_run;
  const bool has = !rule.transition.empty() && node.FindTransition(rule.transition) != nullptr;
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
    if (answer.report.transition.empty()) answer.report.transition = "ok";
  }
  const std::string& transition = answer.report.transition;
  if (auto problem = NameProblem("transition", transition)) return Bad(*problem);
  if (answer.report.wake_after && transition != "suspend") {
    return Bad("'wake_after' goes with 'suspend', not with " + Quoted(transition));
  }
  return answer;
}

std::optional<GivenAnswer> AnswerGiven(const Machine& machine, const Instance& instance,
                                       const Spec& spec, const Token& token) {
  if (spec.dry_answers.empty()) return std::nullopt;
  const Node& node = machine.nodes[token.node];
  const bool step = token.step && token.home < machine.nodes.size();
  const bool own = step && token.node != token.home;  // a node of a step that has its own name
  auto given = Under(instance, spec, node.id);
  if (given && !(step && !own)) return given;
  if (!step) return std::nullopt;
  if (!given && (node.role == Role::kSuspended || node.role == Role::kRun)) {
    given = Under(instance, spec, machine.nodes[token.home].id);
  }
  if (!given) return std::nullopt;
  return AtStep(machine, token, *std::move(given));
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
