// YAML documents as they come with Define, through to the nodes of what they compile to.
#include "fsm/yaml/definitions.h"

#include "fsm/base/result.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/compile.h"
#include "fsm/plan/inherit.h"
#include "fsm/plan/library.h"
#include "fsm/plan/source.h"
#include "tests/fuzz/bytes.h"

namespace dfsmr {
namespace {

void CheckDiagnostics(const std::vector<Diagnostic>& diagnostics, std::string_view text) {
  const auto lines = static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  for (const Diagnostic& diagnostic : diagnostics) {
    Check(diagnostic.line <= lines + 1, "a diagnostic is about a line of the text");
    Check(!diagnostic.message.empty(), "a diagnostic says something");
    Check(Format(diagnostic).find('\n') == std::string::npos, "a diagnostic takes one line");
  }
}

// What was accepted once is compiled from its own text at every start.
void CheckAcceptedAgain(const Machine& machine) {
  const Parsed again = ParseStored(machine.source);
  Check(again.ok() && again.definitions.size() == 1, "an accepted document is accepted again");
  Check(again.definitions.front().fingerprint == machine.fingerprint,
        "a document means the same again");
  Check(again.definitions.front().id == machine.id, "a document keeps its id");
}

void Plan(const PlanSource& plan, const Library& library) {
  std::vector<PlanProblem> problems;
  const auto graph = CompilePlan({.plan = &plan,
                                  .library = &library,
                                  .params = R"({"list": [1, {"a": "b"}], "title": "t", "n": 3})",
                                  .instance = "i"},
                                 &problems);
  Check(!graph == !problems.empty(), "a plan has a graph or a problem");
  if (!graph) return;
  const Machine machine = Assemble(graph, {.id = "m"});
  Check(!machine.nodes.empty(), "a graph has nodes");
}

void Compile(const Parsed& parsed) {
  Definitions library;
  for (const Machine& one : parsed.definitions) library.Add(one);
  for (const std::string& id : parsed.unsound) library.AddUnsound(id);
  library.Index();
  for (const Machine& one : parsed.definitions) {
    std::vector<PlanProblem> problems;
    (void)CompileDefinition(one, library, &problems);
    if (one.plan()) Plan(*one.plan(), library);
    if (one.action()) Plan(PlanOfAction(*one.action()), library);
  }
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  const std::string_view text = Bytes(data, size).Rest();
  const Parsed parsed = ParseDefinitions(text, "fuzz");
  CheckDiagnostics(parsed.diagnostics, text);
  for (const Machine& one : parsed.definitions) CheckAcceptedAgain(one);
  Compile(parsed);
  return 0;
}
