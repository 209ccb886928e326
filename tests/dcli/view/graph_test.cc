#include "dcli/view/graph.h"

#include <doctest/doctest.h>

#include "fsm/yaml/definitions.h"
#include "tests/dcli/plans.h"

namespace dfsmr::cli {
namespace {

constexpr std::string_view kCrawler = R"(
id: crawler
nodes:
  crawl:
    start: true
    transitions: {ok: success, error: cool_down}
  cool_down:
    delay: {initial: 1s, factor: 2, max: 5m}
    max_visits: 5
    transitions: {ok: crawl, dfsmr.exhausted: failed}
  success:
    final: true
  failed:
    final: true
    result: error
)";

Drawing Crawler() {
  const Parsed parsed = ParseDefinitions(kCrawler, "crawler.yaml");
  REQUIRE(parsed.ok());
  return DrawingOf(parsed.definitions.at(0));
}

v1::Machine CrawlerOnServer() {
  v1::Machine machine;
  machine.set_id("crawler");
  machine.set_version(2);
  auto* crawl = machine.add_nodes();
  crawl->set_id("crawl");
  crawl->set_kind("work");
  crawl->set_start(true);
  auto* ok = crawl->add_transitions();
  ok->set_transition("ok");
  ok->add_targets("end");
  auto* end = machine.add_nodes();
  end->set_id("end");
  end->set_kind("final");
  end->set_final(true);
  machine.add_nodes()->set_id("dfsmr.timeout");
  machine.mutable_nodes(2)->set_kind("system");
  return machine;
}

}  // namespace

TEST_CASE("the crawler in Mermaid") {
  CHECK(Mermaid(Crawler()) ==
        R"(flowchart TD
  %% crawler
  crawl(["crawl"])
  cool_down{{"cool_down"}}
  success((("success")))
  failed((("failed<br/>error")))
  crawl -->|ok| success
  crawl -->|error| cool_down
  cool_down -->|ok| crawl
  cool_down -->|dfsmr.exhausted| failed
)");
}

TEST_CASE("the crawler in DOT") {
  CHECK(Dot(Crawler()) ==
        R"(digraph "crawler" {
  label="crawler";
  labelloc=t;
  node [fontname="sans-serif"];
  edge [fontname="sans-serif"];
  "crawl" [label="crawl", shape=ellipse, penwidth=2];
  "cool_down" [label="cool_down", shape=hexagon];
  "success" [label="success", shape=ellipse, peripheries=2];
  "failed" [label="failed\nerror", shape=ellipse, peripheries=2];
  "crawl" -> "success" [label="ok"];
  "crawl" -> "cool_down" [label="error"];
  "cool_down" -> "crawl" [label="ok"];
  "cool_down" -> "failed" [label="dfsmr.exhausted"];
}
)");
}

TEST_CASE("a machine from a server has its counts, and no system nodes") {
  v1::Machine machine = CrawlerOnServer();
  machine.mutable_nodes(0)->mutable_stats()->set_ready(3);
  machine.mutable_nodes(0)->mutable_stats()->set_claimed(1);
  CHECK(Mermaid(DrawingOf(machine)) ==
        R"(flowchart TD
  %% crawler v2
  crawl(["crawl<br/>3 ready, 1 claimed"])
  end_((("end")))
  crawl -->|ok| end_
)");
}

TEST_CASE("an instance is marked where it stands") {
  const v1::Machine machine = CrawlerOnServer();
  v1::Instance instance;
  instance.set_id("c-1");
  instance.add_tokens()->set_node("crawl");
  instance.mutable_tokens(0)->set_state(v1::Token::CLAIMED);
  const std::string drawn = Mermaid(DrawingOf(instance, machine.nodes()));
  CHECK(drawn.find("crawl([\"crawl<br/>claimed\"])\n") != std::string::npos);
  CHECK(drawn.find("style crawl fill:") != std::string::npos);
  CHECK(drawn.find("style end_") == std::string::npos);
  CHECK(Dot(DrawingOf(instance, machine.nodes())).find("style=filled") != std::string::npos);
}

TEST_CASE("names that a language cannot take are still drawn, each as its own node") {
  Drawing drawing;
  for (const char* id : {"a.b", "a_b", "web/vm", "graph"}) drawing.nodes.push_back({.id = id});
  drawing.edges.push_back({"a.b", "end", "graph"});
  CHECK(Mermaid(drawing) ==
        "flowchart TD\n  %% \n"
        "  a_b[\"a.b\"]\n"
        "  a_b_[\"a_b\"]\n"
        "  web_vm[\"web/vm\"]\n"
        "  graph_[\"graph\"]\n"
        "  a_b -->|\"end\"| graph_\n");
}

TEST_CASE("a compiled plan is drawn with its gates, held nodes and forks") {
  const std::string drawn = Mermaid(DrawingOf(CompiledPlan()));
  for (const char* line :
       {"  _start([\"/start\"])\n", "  c_gate{\"c/gate\"}\n",
        "  web_a_error[\\\"web.a/error<br/>1 held\"\\]\n", "  _end(((\"/end\")))\n", "  _start -->|ok| web_a\n", "  _start -->|ok| b\n",
        "  c_gate -->|ok| d\n", "  web_a_error -->|skip| c_gate\n"}) {
    CAPTURE(line);
    CHECK(drawn.find(line) != std::string::npos);
  }
  const std::string dot = Dot(DrawingOf(CompiledPlan()));
  for (const char* line :
       {"  \"c/gate\" [label=\"c/gate\", shape=diamond];\n",
        "  \"c/error\" [label=\"c/error\", shape=parallelogram, style=dashed];\n",
        "  \"c/gate\" -> \"d\" [label=\"ok\"];\n"}) {
    CAPTURE(line);
    CHECK(dot.find(line) != std::string::npos);
  }
}

TEST_CASE("a held node that is marked keeps its border") {
  Drawing drawing;
  drawing.nodes.push_back({.id = "a/error", .kind = "held", .marked = true});
  CHECK(Dot(drawing).find("style=\"dashed,filled\", fillcolor=\"#ffdd66\"") != std::string::npos);
}

TEST_CASE("the flow of a plan is its steps and what waits for what") {
  CHECK(Mermaid(FlowOf(CompiledPlan())) ==
        R"(flowchart TD
  %% infra v3
  web_a["web.a<br/>do.web.a<br/>2 claimed, 1 held"]
  b["b<br/>do.b<br/>4 suspended"]
  c["c"]
  d[["d"]]
  web_a --> c
  web_a --> d
  b --> c
  b --> d
)");
}

TEST_CASE("a gate that stands for too many arrows is drawn") {
  v1::Machine machine;
  machine.set_kind("plan");
  const auto step = [&](const std::string& id, const std::string& to) {
    auto* node = machine.add_nodes();
    node->set_id(id);
    node->set_kind("work");
    auto* edge = node->add_transitions();
    edge->set_transition("ok");
    edge->add_targets(to);
  };
  auto* gate = machine.add_nodes();
  gate->set_id("b0/gate");
  gate->set_kind("gate");
  gate->add_transitions()->set_transition("ok");
  for (int i = 0; i < 100; ++i) {
    step("a" + std::to_string(i), "b0/gate");
    step("b" + std::to_string(i), "/end");
    machine.mutable_nodes(0)->mutable_transitions(0)->add_targets("b" + std::to_string(i));
  }
  const Drawing drawing = FlowOf(machine);
  CHECK(drawing.nodes.size() == 201);
  CHECK(drawing.edges.size() == 200);
}

TEST_CASE("the flow of an instance has the states of its steps") {
  CHECK(Mermaid(FlowOf(PausedPlan())) ==
        R"(flowchart TD
  %% infra-7
  db["db<br/>db.setup<br/>done"]
  web_vm["web.vm<br/>vm.create<br/>held, 40 %"]
  web_hosts["web.hosts<br/>hosts.add<br/>pending"]
  fleet[["fleet<br/>held<br/>children 10/100, 3 running, 2 failed"]]
  approval["approval<br/>ask<br/>suspended"]
  db --> web_vm
  web_vm --> web_hosts
  style db fill:#ccffcc
  style web_vm fill:#ff9999,stroke-width:3px
  style fleet fill:#ff9999,stroke-width:3px
  style approval fill:#cce0ff,stroke-width:3px
)");
  const std::string dot = Dot(FlowOf(PausedPlan()));
  CHECK(dot.find("  \"db\" -> \"web.vm\";\n") != std::string::npos);
  CHECK(dot.find("shape=box, style=filled, fillcolor=\"#ccffcc\"") != std::string::npos);
}

TEST_CASE("an SVG is drawn where Graphviz is") {
  const auto svg = Svg(Crawler());
  if (svg) {
    CHECK(svg->find("<svg") != std::string::npos);
    CHECK(svg->find("cool_down") != std::string::npos);
  } else {
    CHECK(svg.error().code == Code::kNotFound);
  }
}

}  // namespace dfsmr::cli
