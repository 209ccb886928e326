// The definitions of a namespace, some of which cannot be read.
#include "fsm/plan/library.h"

#include <doctest/doctest.h>

#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

// The problems of all documents of a text, and those that stay when `unsound` cannot be read.
struct Found {
  explicit Found(std::string_view text, const std::string& unsound = "none")
      : parsed(ParseDefinitions(text, "f")) {
    for (const Machine& one : parsed.definitions) library.Add(one);
    library.AddUnsound(unsound);
    library.Index();
    for (const Machine& one : parsed.definitions) {
      (void)CompileDefinition(one, library, &problems);
    }
    for (const PlanProblem& problem : problems) {
      if (!library.Doubtful(problem)) certain.push_back(problem);
    }
  }

  Parsed parsed;
  Definitions library;
  std::vector<PlanProblem> problems;
  std::vector<PlanProblem> certain;
};

TEST_CASE("a problem that may be due to a document that cannot be read is doubtful") {
  struct Row {
    const char* text;
    size_t problems = 1;
    size_t certain = 0;  // of them, when a document 'missing' cannot be read
  };
  for (const Row& row : {
           Row{"plan: p\nflow: [{step: a, plan: missing}]\n"},
           Row{"plan: p\nflow: [{step: a, spawn: {machine: missing}}]\n"},
           Row{"action: a\nextends: missing\n"},
           Row{"action: a\nextends: missing\nwithout: [audit]\n", 2},
           Row{"action: a\nextends: missing\n---\nplan: p\nflow: [{step: s, action: a}]\n", 2},
           Row{"plan: p\nwithout: [audit]\nflow: [{step: s, action: missing}]\n"},
           Row{"plan: missing\nflow: []\n---\n"
               "plan: p\nflow: [{step: s, action: x}]\nhooks: [{on: paused, action: missing}]\n"},
           // What is wrong in a plan is wrong, too, where it is nested.
           Row{"plan: missing\nflow: [{step: s, action: x, input: {a: '${t.output}'}}]\n---\n"
               "plan: p\nflow: [{step: s, plan: missing}]\n",
               2, 1},
       }) {
    CAPTURE(row.text);
    Found all(row.text);
    CHECK(all.problems.size() == row.problems);
    CHECK(all.certain.size() == row.problems);
    Found left(row.text, "missing");
    CHECK(left.problems.size() == row.problems);
    CHECK(left.certain.size() == row.certain);
  }
}

TEST_CASE("a problem of a plan is told once, however many plans hold it") {
  const std::string wrong = "plan: q\nflow: [{step: a, action: x, input: {v: '${t.output}'}}]\n";
  const std::string holders =
      "---\nplan: p\nflow: [{step: n, plan: q}]\n---\nplan: o\nflow: [{step: m, plan: p}]\n";
  Found all(wrong + holders);
  REQUIRE(all.problems.size() == 3);
  ToldProblems told;
  CHECK_FALSE(told.Again(all.problems[1]));  // of a plan that stands elsewhere
  const char* ids[] = {"q", "p", "o"};
  for (size_t i = 0; i < 3; ++i) told.Add(ids[i], all.problems[i]);
  CHECK_FALSE(told.Again(all.problems[0]));
  CHECK(told.Again(all.problems[1]));
  CHECK(told.Again(all.problems[2]));

  // What is wrong with the input is wrong where the plan is held, and nowhere else.
  Found input("plan: q\nparams: {required: [k]}\nflow: [{step: a, action: x}]\n---\n"
              "plan: p\nflow: [{step: n, plan: q}]\n");
  REQUIRE(input.problems.size() == 1);
  told.Add("p", input.problems[0]);
  CHECK_FALSE(told.Again(input.problems[0]));
}

TEST_CASE("a name in the words of a problem makes it doubtful no more") {
  // The step is called as the document that cannot be read, and has nothing to do with it.
  Found found("plan: p\nflow: [{step: a, action: x, after: [missing]}]\n", "missing");
  REQUIRE(found.certain.size() == 1);
  CHECK(found.certain[0].message == "there is no step 'missing'");
  CHECK(Found("plan: p\nflow: [{step: a, action: x, after: [missing]}]\n", "").certain.empty());
}

}  // namespace
}  // namespace dfsmr
