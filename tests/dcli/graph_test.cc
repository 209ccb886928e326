#include "dcli/graph.h"

#include <doctest/doctest.h>

#include "fsm/yaml.h"

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
  return DrawingOf(parsed.definitions.at(0).machine);
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
