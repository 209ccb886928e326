#include "dsrv/metrics/render.h"

#include <doctest/doctest.h>

#include <string>

namespace dfsmr::metrics {
namespace {

Snapshot Example() {
  Snapshot snapshot;
  for (const char* ns : {"a", "b"}) {
    Measured::Machine& machine = snapshot.measured.machines.emplace_back();
    machine.ns = ns;
    machine.id = "job";
    machine.counts.starts = 7;
    machine.counts.finishes[2] = 3;
    machine.breaker = "half-open";
    machine.queues["mail"].ready = 2;
    Measured::Node& node = machine.nodes.emplace_back();
    node.name = "work";
    node.counts.transitions = {{"ok", 4}};
    node.counts.retries = 1;
    node.counts.task.Add(30'000);
  }
  snapshot.calls[{"dfsmr.v1.RunnerService/Start", true, Code::kNotFound}] = 5;
  snapshot.refusals = {{"NO_SUCH_MACHINE", 5}, {"code 4", 1}};
  snapshot.dead_letters[{"b", "trigger:t"}] = 2;
  return snapshot;
}

std::string Show(const Sees& sees) { return Render(Example(), sees, Form::kText); }

bool Has(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("who sees all sees the series of all namespaces and those of none") {
  const std::string text = Show([](const std::string&) { return true; });
  CHECK(Has(text, R"(dfsmr_starts_total{namespace="a",machine="job"} 7)"));
  CHECK(Has(text, R"(dfsmr_finishes_total{namespace="b",machine="job",result="error"} 3)"));
  CHECK(Has(text,
            R"(dfsmr_transitions_total{namespace="a",machine="job",node="work",transition="ok"} 4)"));
  CHECK(Has(text,
            R"(dfsmr_claims_total{namespace="a",machine="job",node="work",attempt="retry"} 1)"));
  CHECK(Has(text,
            R"(dfsmr_task_seconds_bucket{namespace="a",machine="job",node="work",le="0.1"} 1)"));
  CHECK(Has(text,
            R"(dfsmr_task_seconds_bucket{namespace="a",machine="job",node="work",le="0.025"} 0)"));
  CHECK(Has(text, R"(dfsmr_task_seconds_sum{namespace="a",machine="job",node="work"} 0.03)"));
  CHECK(Has(text, R"(dfsmr_breaker_state{namespace="a",machine="job",state="half-open"} 1)"));
  CHECK(Has(text, R"(dfsmr_ready_tasks{namespace="b",machine="job",queue="mail"} 2)"));
  CHECK(Has(text, R"(dfsmr_calls_total{door="http",method="dfsmr.v1.RunnerService/Start",)"
                  R"(code="not_found"} 5)"));
  CHECK(Has(text, R"(dfsmr_refusals_total{reason="no_such_machine"} 5)"));
  CHECK(Has(text, R"(dfsmr_refusals_total{reason="deadline_exceeded"} 1)"));
  CHECK(Has(text, R"(dfsmr_dead_letters{namespace="b",source="trigger:t"} 2)"));
}

TEST_CASE("who sees one namespace sees its series alone, and all families") {
  const std::string all = Show([](const std::string&) { return true; });
  const std::string text = Show([](const std::string& ns) { return ns == "a"; });
  CHECK(Has(text, R"(dfsmr_starts_total{namespace="a",machine="job"} 7)"));
  for (const char* hidden : {"namespace=\"b\"", "\ndfsmr_calls_total{", "\ndfsmr_turns_total ",
                             "\nprocess_cpu_seconds_total ", "\ndfsmr_build_info{"}) {
    CAPTURE(hidden);
    CHECK(all.find(hidden) != std::string::npos);
    CHECK(text.find(hidden) == std::string::npos);
  }
  CHECK(text.find("# TYPE dfsmr_calls_total counter\n") != std::string::npos);
}

}  // namespace dfsmr::metrics
