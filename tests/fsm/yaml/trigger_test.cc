// Triggers as they are written: what is read of them, and where what is wrong is reported.
#include "fsm/when/trigger.h"

#include <doctest/doctest.h>

#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<const TriggerSource> Read(std::string_view yaml) {
  Parsed parsed = ParseDefinitions(yaml, "test");
  std::string problems;
  for (const Diagnostic& one : parsed.diagnostics) problems += Format(one) + "\n";
  REQUIRE_MESSAGE(parsed.ok(), problems);
  REQUIRE(parsed.documents.size() == 1);
  return std::get<1>(parsed.documents.front().body);
}

// The errors, without the name of the source.
std::string Wrong(std::string_view yaml) {
  std::string all;
  for (const Diagnostic& one : ParseDefinitions(yaml, "t").diagnostics) {
    all += (all.empty() ? "" : "\n") + Format(one);
  }
  return all;
}

void CheckWrong(const std::string& yaml, const std::string& expected) {
  CAPTURE(yaml);
  const std::string wrong = Wrong(yaml);
  CHECK_MESSAGE(wrong.find(expected) != std::string::npos, wrong);
}

const std::string kStart = "\nstart: {machine: m}";

std::string On(const std::string& source, const std::string& rest = "") {
  return "trigger: t\non: " + source + kStart + rest;
}

TEST_CASE("a trigger of changes") {
  const auto trigger = Read(R"(
trigger: deploy-after-build
description: deploys
on: {change: {kind: [Finished, paused], machine: build, node: [a, b/error], transition: ok,
  result: [success, WARNING], group: g, cause: "trigger:x", labels: {branch: main}, from: oldest}}
if: {value: "${item.instance.params.env}", in: [test, prod]}
start: {machine: deploy, params: {commit: "${item.instance.params.commit}"}}
overlap: wait
stop_on_fail: 3
)");
  REQUIRE(trigger->on.size() == 1);
  CHECK(trigger->on[0].name.empty());
  const ChangeSource& change = *trigger->on[0].change();
  CHECK(change.kinds == std::vector{ChangeKind::kFinished, ChangeKind::kPaused});
  CHECK(change.machines == std::vector<std::string>{"build"});
  CHECK(change.nodes == std::vector<std::string>{"a", "b/error"});
  CHECK(change.results == std::vector{InstanceResult::kSuccess, InstanceResult::kWarning});
  CHECK(change.causes == std::vector<std::string>{"trigger:x"});
  CHECK(change.labels == std::map<std::string, std::string>{{"branch", "main"}});
  CHECK(change.from_oldest);
  CHECK(trigger->launch.overlap == Overlap::kWait);
  CHECK(trigger->launch.stop_on_fail == 3);
  CHECK(Summary(*trigger).find("finished or paused of build") != std::string::npos);
  const auto holds = [&](const std::string& env) {
    return trigger->condition([&](const Reference&) { return std::optional(env); });
  };
  CHECK(holds("\"prod\""));
  CHECK_FALSE(holds("\"home\""));
}

TEST_CASE("polls, webhooks, several sources with names, gatherings") {
  const auto trigger = Read(R"(
trigger: t
on:
  orders: {poll: {action: shop.new_orders, every: 30s, input: {shop: 7}}}
  push: {webhook: {path: git/push, hmac: {secret: git, header: X-Hub-Signature-256, prefix: "sha256=", encoding: base64}}}
  poll: {change: {}}
dedupe: {key: "${item.id}", for: 2d}
gather: {all: true, by: "${item.month}", within: 2d, count: 5, quiet: 1m}
start: {machine: close, id: "c-${trigger.key}", params: {a: "${last.orders.id}", all: "${items[0].x}", n: "${trigger.number}"}}
)");
  REQUIRE(trigger->on.size() == 3);
  CHECK(trigger->on[2].name == "poll");
  CHECK(trigger->on[2].change());
  const PollSource& poll = *trigger->SourceNamed("orders")->poll();
  CHECK(poll.every == 30s);
  CHECK(poll.input == R"({"shop":7})");
  const WebhookSource& hook = *trigger->SourceNamed("push")->webhook();
  CHECK(hook.path == "git/push");
  CHECK(hook.header == "x-hub-signature-256");
  CHECK(hook.prefix == "sha256=");
  CHECK(hook.base64);
  CHECK(trigger->dedupe->window == 48h);
  CHECK(trigger->gather->all);
  CHECK(trigger->gather->count == 5);
  CHECK(*trigger->gather->quiet == 1min);
  CHECK_FALSE(trigger->SourceNamed(""));
  CHECK_FALSE(trigger->SourceNamed("x"));
  CHECK(Read("trigger: t\non: {change: {}}\ndedupe: \"${item.id}\"\nstart: {machine: m}\n")
            ->dedupe->window == 24h);
  CHECK(Read("trigger: t\non: {webhook: {path: x, token: {secret: s, header: X-Token}}}\n"
             "paused: later\nsend: {instance: i, transition: ok}\n")
            ->launch.paused == "later");
}

TEST_CASE("what is wrong with the sources is reported where it stands") {
  CheckWrong("trigger: t" + kStart, "t:1:1: on: the trigger has no 'on'");
  CheckWrong("trigger: t\non: {change: {}}", "start: there is no 'start'");
  CheckWrong(On("[]"), "t:2:1: on: expected what the trigger listens to");
  CheckWrong(On("{}"), "an empty map");
  CheckWrong(On("{chnage: {}}"), "did you mean 'change'");
  CheckWrong(On("{change: {}, poll: {action: a, every: 1s}}"), "t:2:18: on.poll: several sources");
  CheckWrong(On("{change: {knd: finished}}"), "did you mean 'kind'");
  CheckWrong(On("{change: {kind: finish}}"), "t:2:21: on.change.kind: expected");
  CheckWrong(On("{change: {kind: []}}"), "the list is empty");
  CheckWrong(On("{change: {result: good}}"), "on.change.result: expected success, warning");
  CheckWrong(On("{change: {cause: nightly}}"), "such as schedule:nightly");
  CheckWrong(On("{change: {from: now}}"), "expected oldest");
  CheckWrong(On("{change: {machine: \"a b\"}}"), "on.change.machine");
  CheckWrong(On("{poll: {every: 1s}}"), "the poll has no 'action'");
  CheckWrong(On("{poll: {action: a}}"), "the poll has no 'every'");
  CheckWrong(On("{poll: {action: a, every: 500ms}}"), "expected 1s or more");
  CheckWrong(On("{poll: {action: a, every: 1s, input: {cursor: 1}}}"),
             "t:2:43: on.poll.input.cursor: the input of a poll has no key 'cursor'");
  CheckWrong(On("{webhook: {open: true}}"), "the webhook has no 'path'");
  CheckWrong(On("{webhook: {path: /a, open: true}}"), "without a slash in front");
  CheckWrong(On("{webhook: {path: a//b, open: true}}"), "expected a path of names");
  CheckWrong(On("{webhook: {path: a}}"), "how a caller proves who it is");
  CheckWrong(On("{webhook: {path: a, open: false}}"), "leave 'open' out");
  CheckWrong(On("{webhook: {path: a, hmac: {secret: s}}}"), "there is no 'header'");
  CheckWrong(On("{webhook: {path: a, token: {header: X}}}"), "there is no 'secret'");
  CheckWrong(On("{webhook: {path: a, hmac: {secret: s, header: \"a b\"}}}"),
             "the name of a header");
  CheckWrong(On("{webhook: {path: a, hmac: {secret: s, header: X, encoding: hax}}}"),
             "did you mean 'hex'");
  CheckWrong(On("{a: {webhook: {path: a, open: true}}, b: {webhook: {path: a, open: true}}}"),
             "two sources have the path 'a'");
  CheckWrong(On("{a: {change: {}}, \"b c\": {change: {}}}"), "on.b c");
}

TEST_CASE("what is wrong with the rest is reported where it stands") {
  const std::string kTwo = "{a: {change: {}}, b: {change: {}}}";
  CheckWrong(On("{change: {}}", "\ndedupe: {for: 1h}"), "dedupe has no 'key'");
  CheckWrong(On("{change: {}}", "\ndedupe: {key: x, for: 31d}"), "expected at most 30d");
  CheckWrong(On("{change: {}}", "\ndedupe: \"${trigger.number}\""),
             ": dedupe: ${trigger.number}: of a trigger there are trigger.name, time and on here");
  CheckWrong(On("{change: {}}", "\ngather: {}"), "nothing says when a gathering is complete");
  CheckWrong(On("{change: {}}", "\ngather: {all: true}"), "this trigger has one");
  CheckWrong(On(kTwo, "\ngather: {count: 1001}"), "a whole number from 1 to 1000");
  CheckWrong(On(kTwo, "\ngather: {all: true, by: \"${items[0]}\"}"), "only in what is started");
  CheckWrong(On("{change: {}}", "\nif: {value: \"${itm.x}\", equals: 1}"), "did you mean 'item'");
  CheckWrong(On("{change: {}}", "\nif: {value: \"${itm.x}\", equals: 1}"),
             ": if.value: ${itm.x}: there is no 'itm'");
  CheckWrong(On("{change: {}}", "\nif: {failed: x}"), "is for the steps of a plan");
  CheckWrong(On("{change: {}}", "\nif: true"), "such as {value: \"${item.size}\", greater: 10}");
  CheckWrong(On("{change: {}}", "\nif: {equals: 1}"), "{value: \"${item.size}\", greater: 10}");
  CheckWrong("trigger: t\non: {change: {}}\nstart: {machine: m, params: {a: \"${items}\"}}",
             "only with 'gather'");
  CheckWrong("trigger: t\non: {change: {}}\nstart: {machine: m, params: {a: \"${schedule.time}\"}}",
             ": start.params.a: ${schedule.time}: there is no 'schedule'");
  CheckWrong("trigger: t\non: " + kTwo +
                 "\ngather: {all: true}\nstart: {machine: m, params: {a: \"${last.bb.x}\"}}",
             ": start.params.a: ${last.bb.x}: expected the name of a source behind 'last.'");
  CheckWrong(On("{change: {}}", "\noverlap: fail"), "overlap");
  CheckWrong("trigger: t\non: {change: {}}\nsend: {instance: i, transition: ok}\noverlap: skip",
             "'overlap'");
  CheckWrong(On("{change: {}}", "\nlimit: x"), "unknown key 'limit'");
}

}  // namespace
}  // namespace dfsmr
