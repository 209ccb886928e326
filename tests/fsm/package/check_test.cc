#include "fsm/package/check.h"

#include <doctest/doctest.h>

#include "fsm/when/limit.h"
#include "fsm/when/schedule.h"
#include "fsm/when/trigger.h"

namespace dfsmr {
namespace {

using Texts = std::map<std::string, std::string>;

struct Checked {
  std::string lines;
  CheckedPackage package;
};

// Files below bin/ are programs.
Checked Check(const Texts& texts, const std::vector<const Machine*>& beside = {}) {
  PackageFiles files;
  for (const auto& [path, text] : texts) {
    files[path] = {.size = text.size(), .executable = path.starts_with("bin/")};
  }
  const PackageContents contents{.files = files,
                                 .read = [&](const std::string& path) { return texts.at(path); },
                                 .prefix = "etl/"};
  auto checked = CheckPackage(contents, beside, OnlyUtc, Timestamp{});
  REQUIRE(checked);
  Checked result{"", *std::move(checked)};
  for (const Diagnostic& one : result.package.diagnostics) result.lines += Format(one) + "\n";
  return result;
}

const std::string kHead = "package: etl\nversion: 1.4.0\n";
const std::string kMachine = R"(
id: crawler
nodes:
  fetch: {start: true, transitions: {ok: done}}
  done: {final: true}
)";

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a manifest says all that it may") {
  std::vector<Diagnostic> found;
  const auto manifest = ParseManifest(R"(
package: etl
version: 1.4.0
description: Loads orders.
labels: {team: data}
documents: [documents, more.yaml]
exclude: ["*.log", tests/]
workers:
  page.fetch: ./bin/fetch
  load: {serves: [orders.load, "report.*"], run: [python3, workers/load.py]}
middleware: {audit: ./audit.sh}
setup: ./setup.sh
setup_timeout: 2m
)",
                                      "package.yaml", AnyProgram, &found);
  REQUIRE(manifest);
  CHECK(found.empty());
  CHECK(manifest->Top() == "etl-1.4.0");
  CHECK(manifest->FullName() == "etl@1.4.0");
  CHECK(manifest->labels.at("team") == "data");
  CHECK(manifest->documents.size() == 2);
  CHECK(manifest->exclude.size() == 2);
  CHECK(manifest->workers.size() == 2);
  CHECK(manifest->middleware.contains("audit"));
  CHECK(manifest->setup_timeout == std::chrono::minutes(2));
  CHECK(ServingIn(*manifest, "etl.page.fetch")->name == "page.fetch");
  CHECK(ServingIn(*manifest, "etl.report.x")->name == "load");
  CHECK(ServingIn(*manifest, "other.page.fetch") == nullptr);
}

TEST_CASE("what is wrong with a manifest is said with its place") {
  const std::pair<const char*, const char*> kBad[] = {
      {"package: etl\nversion: 1.4.0\nworkres: {}\n",
       "package.yaml:3:1: workres: unknown key 'workres' (did you mean 'workers'?)"},
      {"version: 1.4.0\n", "has no package: NAME"},
      {"package: etl\n", "has no version"},
      {"package: etl\nversion: 1.4\n", "package.yaml:2:10: version: '1.4' is not a version"},
      {"package: dfsmr\nversion: 1.4.0\n", "the system's own name"},
      {"package: a.b\nversion: 1.4.0\n", "package.yaml:1:10: package: 'a.b' cannot name a package"},
      {"package: etl\nversion: 1.4.0\ndocuments: [../x]\n", "documents[0]: the path has the part"},
      {"package: etl\nversion: 1.4.0\nexclude: ['']\n", "exclude[0]: a pattern is as"},
      {"package: etl\nversion: 1.4.0\nlabels: [a]\n", "package.yaml:3:1: labels:"},
      {"package: etl\nversion: 1.4.0\nsetup_timeout: 1s\n", "there is no setup"},
      {"package: etl\nversion: 1.4.0\nworkers: {a: {run: x, serves: []}}\n", "serves nothing"},
      {"package: etl\nversion: 1.4.0\nworkers: {a: {serves: x}}\n", "needs run: COMMAND"},
      {"package: etl\nversion: 1.4.0\nworkers: {a: {run: x, serves: 'a.*'}, b: {run: x, serves: "
       "'a.*'}}\n",
       "'a.*' is served by a, too"},
      {"- etl\n", "a manifest is a map"},
      {"", "package.yaml:1:1: .: it is empty; it needs at least 'package: NAME'"},
      {"# nothing\n", "it is empty; it needs at least 'package: NAME'"},
      {"package: etl\nversion: 1.4.0\n---\na: b\n", "one document"},
  };
  for (const auto& [text, message] : kBad) {
    std::vector<Diagnostic> found;
    (void)ParseManifest(text, "package.yaml", AnyProgram, &found);
    std::string lines;
    for (const Diagnostic& one : found) lines += Format(one) + "\n";
    CAPTURE(lines);
    CHECK(Has(lines, message));
  }
}

TEST_CASE("a sound package has nothing to say") {
  const Checked checked =
      Check({{"package.yaml", kHead + "workers: {crawler.fetch: ./bin/fetch}\n"},
             {"documents/c.yaml", kMachine},
             {"bin/fetch", ""}});
  CHECK(checked.lines == "");
  CHECK(checked.package.ok());
  CHECK(checked.package.sources[0].parsed.definitions[0].id == "etl.crawler");
  CHECK(ActionsOfWorkers(checked.package)[0] == std::vector<std::string>{"etl.crawler.fetch"});
}

TEST_CASE("a package is refused, or warned of, with the place") {
  struct Row {
    Texts texts;
    const char* message;
    bool error;
  };
  const Row kRows[] = {
      {{{"package.yaml", kHead + "documents: [none]\n"}},
       "etl/package.yaml:3:13: documents[0]: there is no 'none' in the package",
       true},
      {{{"package.yaml", kHead + "documents: [bin]\n"}, {"bin/x", ""}}, "no *.yaml", true},
      {{{"package.yaml", kHead}}, "warning: the package has no documents", false},
      {{{"package.yaml", kHead + "workers: {a: ./bin/none}\n"}},
       "workers.a: there is no program './bin/none' in the package",
       true},
      {{{"package.yaml", kHead + "workers: {a: ./x}\n"}, {"x", ""}}, "is not executable", true},
      {{{"package.yaml", kHead + "workers: {a: [/usr/bin/x]}\n"}}, "is absolute", true},
      {{{"package.yaml", kHead + "setup: ./none\n"}}, "setup: there is no program", true},
      {{{"package.yaml", kHead + "middleware: {a: ./none}\n"}}, "middleware.a: there is no", true},
      {{{"package.yaml", kHead + "workers: {other: python3}\n"}, {"documents/c.yaml", kMachine}},
       "etl/package.yaml:3:11: workers.other: warning: the worker serves none of the package's",
       false},
      {{{"package.yaml", kHead}, {"documents/c.yaml", kMachine}},
       "etl/documents/c.yaml:4:3: nodes.fetch: warning: no worker of the package serves "
       "'crawler.fetch', others may; 'serves: crawler.fetch' would take it",
       false},
      {{{"package.yaml", kHead}, {"documents/c.yaml", "id: x\nnodes: {}\nbad: 1\n"}},
       "etl/documents/c.yaml:3:1: bad: unknown key",
       true},
      {{{"package.yaml", kHead}, {"documents/a.yaml", kMachine}, {"documents/b.yaml", kMachine}},
       "etl/documents/b.yaml:2:5: id: 'crawler' is defined in documents/a.yaml, too",
       true},
      {{{"package.yaml", kHead},
        {"documents/p.yaml", "plan: p\nflow: [{step: a, action: x}]\nuse: [audit]\n"}},
       "the package has no middleware 'audit'",
       true},
      {{{"package.yaml", kHead}, {"documents/p.yaml", "plan: p\nflow: [{step: a, plan: q}]\n"}},
       "warning: there is no plan 'q' (an error when the package is activated",
       false},
      {{{"package.yaml", kHead},
        {"documents/s.yaml", "schedule: s\nevery: 1h\nstart: {machine: nobody}\n"}},
       "start.machine: warning: machine 'nobody' is not defined",
       false},
      {{{"package.yaml", "package: " + std::string(64, 'p') + "\nversion: 1.0.0\n"},
        {"documents/p.yaml", "plan: " + std::string(64, 'q') + "\nflow: [{step: a, action: x}]\n"}},
       "more than 128 characters",
       true},
  };
  for (const Row& row : kRows) {
    const Checked checked = Check(row.texts);
    CAPTURE(checked.lines);
    CAPTURE(row.message);
    CHECK(Has(checked.lines, row.message));
    CHECK(checked.package.ok() != row.error);
  }
}

TEST_CASE("a worker that ties with another is not called idle") {
  const Checked checked = Check(
      {{"package.yaml", kHead + "workers: {a: {serves: crawler.fetch, run: python3}, "
                                "b: {serves: crawler.fetch, run: python3}}\n"},
       {"documents/c.yaml", kMachine}});
  CHECK(Has(checked.lines, "is served by a, too"));
  CHECK(!Has(checked.lines, "serves none"));
}

TEST_CASE("what the namespace has is no warning") {
  const Parsed others = ParseDefinitions("plan: q\nflow: [{step: a, action: x}]\n", "o");
  const Checked checked =
      Check({{"package.yaml", kHead + "workers: {x: python3}\n"},
             {"documents/p.yaml", "plan: p\nflow: [{step: a, plan: q}, {step: b, action: x}]\n"}},
            {&others.definitions[0]});
  CHECK(checked.lines == "");
}

TEST_CASE("names in documents mean the package's own first") {
  const Parsed parsed = ParseDefinitions(R"(
id: crawler
limit: {key: "env/${params.env}"}
nodes:
  fetch: {start: true, transitions: {ok: load}}
  load: {action: orders.load, limit: queue/x, transitions: {ok: call}}
  call: {action: other.call, transitions: {ok: done}}
  done: {final: true}
---
plan: site
singleton: env
hooks: [{on: [failure], action: mail.send}]
flow:
  - {step: a, action: build}
  - {step: b, action: crawler.fetch}
  - {step: c, plan: sub}
  - {step: d, plan: etl.sub}
  - {step: e, spawn: {machine: crawler}}
  - {step: f, action: report.x}
---
plan: sub
flow: [{step: a, action: build}]
---
action: build
extends: base
subscribes_to: [orders.load, foreign]
---
limit: env
max: 1
keys: {env/prod: {max: 2}}
---
limit: of_machine
on: {machine: crawler}
max: 3
---
schedule: nightly
every: 1h
start: {machine: site}
---
trigger: after
on: {change: {machine: [crawler, x], cause: ["schedule:nightly", "schedule:other"]}}
start: {machine: elsewhere}
)",
                                         "d");
  std::string wrong;
  for (const Diagnostic& one : parsed.diagnostics) wrong += Format(one) + "\n";
  REQUIRE_MESSAGE(parsed.ok(), wrong);
  OwnNames names("etl");
  Worker worker{.name = "load", .serves = {"orders.load", "report.*"}};
  names.Serve({worker});
  for (const Machine& one : parsed.definitions) names.Collect(one);
  for (const Document& one : parsed.documents) names.Collect(one);
  std::vector<Machine> machines = parsed.definitions;
  std::vector<Document> documents = parsed.documents;
  for (Machine& one : machines) Qualify(names, &one);
  for (Document& one : documents) Qualify(names, &one);

  const Machine& crawler = machines[0];
  CHECK(crawler.id == "etl.crawler");
  CHECK(crawler.limits[0].key == "etl.env/${params.env}");
  CHECK(crawler.nodes[0].settings->action == "etl.crawler.fetch");
  CHECK(crawler.nodes[1].settings->action == "etl.orders.load");
  CHECK(crawler.nodes[1].settings->limits[0].key == "queue/x");
  CHECK(crawler.nodes[2].settings->action == "other.call");
  const PlanSource& site = *machines[1].plan();
  CHECK(site.id == "etl.site");
  CHECK(site.limits[0].key == "etl.env");
  CHECK(site.hooks[0].action == "mail.send");
  CHECK(site.flow.children[0].action == "etl.build");
  CHECK(site.flow.children[1].action == "etl.crawler.fetch");
  CHECK(site.flow.children[2].plan == "etl.sub");
  CHECK(site.flow.children[3].plan == "etl.sub");
  CHECK(site.flow.children[4].spawn->machine == "etl.crawler");
  CHECK(site.flow.children[5].action == "report.x");
  const ActionSource& build = *machines[3].action();
  CHECK(build.extends == "base");
  CHECK(*build.subscribes_to == std::vector<std::string>{"etl.orders.load", "foreign"});
  const LimitSource& env = *std::get<2>(documents[0].body);
  CHECK(documents[0].name == "etl.env");
  CHECK(env.root == "etl.env");
  CHECK(env.keys.contains("etl.env/prod"));
  CHECK(std::get<2>(documents[1].body)->root == "machine:etl.crawler");
  CHECK(std::get<0>(documents[2].body)->launch.start()->machine == "etl.site");
  const TriggerSource& after = *std::get<1>(documents[3].body);
  CHECK(after.on[0].change()->machines == std::vector<std::string>{"etl.crawler", "x"});
  CHECK(after.on[0].change()->causes ==
        std::vector<std::string>{"schedule:etl.nightly", "schedule:other"});
  CHECK(after.launch.start()->machine == "elsewhere");
  CHECK(names.Local("etl.build") == "build");
  CHECK(names.Local("build") == "build");
  CHECK(machines[1].fingerprint != parsed.definitions[1].fingerprint);
}

TEST_CASE("too many documents are too large") {
  PackageFiles files = {{"package.yaml", {}}};
  std::string text;
  for (int i = 0; i < 1'001; ++i) text += "---\nlimit: l" + std::to_string(i) + "\nmax: 1\n";
  files["documents/l.yaml"] = {.size = text.size()};
  const PackageContents contents{
      .files = files,
      .read = [&](const std::string& path) { return path == "package.yaml" ? kHead : text; },
      .prefix = ""};
  const auto checked = CheckPackage(contents, {}, OnlyUtc, Timestamp{});
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().reason == Reason::kTooLarge);
}

}  // namespace dfsmr
