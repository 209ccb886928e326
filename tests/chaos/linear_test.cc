// The checker under test: histories as tables, sound ones and broken ones. An operation begins when
// the one before has ended, unless it says when: [FROM-TO].
#include "tests/chaos/linear_check.h"

#include <doctest/doctest.h>

#include <cctype>
#include <random>
#include <sstream>

namespace dfsmr::chaos {
namespace {

using Kind = Operation::Kind;

// a2 or d5 or C; with "r" or "c" behind: ready, claimed.
void ReadPlace(const std::string& text, Operation* operation) {
  if (text == "S" || text == "C") {
    operation->state = text[0];
    return;
  }
  operation->node = text.substr(0, 1);
  std::size_t length = 0;
  operation->visit = std::stoull(text.substr(1), &length);
  operation->claimed = text.substr(1 + length) == "c";
  if (operation->node == "d") operation->state = 'S';
}

void ReadAnswer(std::string answer, Operation* operation) {
  static const std::map<std::string, std::string> refusals = {
      {"stale", "STALE_CLAIM"}, {"illegal", "ILLEGAL_TRANSITION"}, {"stopped", "INSTANCE_STOPPED"},
      {"missing", "NO_SUCH_INSTANCE"}, {"none", "none"}};
  if (answer == "?") {
    operation->returned = INT64_MAX;
  } else if (refusals.contains(answer)) {
    operation->refusal = refusals.at(answer);
  } else if (answer == "created") {
    operation->created = true;
  } else if (answer != "ok" && answer != "exists") {
    if (answer.starts_with("again:")) {
      operation->repeated = true;
      answer.erase(0, 6);
    }
    const auto claim = answer.find('#');
    if (claim != std::string::npos) operation->claim = answer.substr(claim + 1);
    ReadPlace(answer.substr(0, claim), operation);
  }
}

Operation ReadOperation(const std::string& text, int64_t* now) {
  static const std::map<std::string, Kind> kinds = {
      {"start", Kind::kStart}, {"ready", Kind::kReady}, {"report", Kind::kReport},
      {"event", Kind::kEvent}, {"relinquish", Kind::kRelinquish}, {"cancel", Kind::kCancel},
      {"force", Kind::kForce}, {"get", Kind::kGet}, {"crash", Kind::kCrash}};
  Operation operation;
  std::istringstream words(text.substr(0, text.find('=')));
  std::string word;
  words >> word;
  operation.invoked = *now + 1;
  operation.returned = *now + 2;
  if (word[0] == '[') {
    operation.invoked = std::stoll(word.substr(1));
    operation.returned = std::stoll(word.substr(word.find('-') + 1));
    words >> word;
  }
  *now = std::max(*now, operation.returned);
  operation.kind = kinds.at(word);
  if (operation.kind == Kind::kReport || operation.kind == Kind::kRelinquish) {
    words >> operation.claim;
  }
  words >> operation.transition;
  if (operation.kind != Kind::kCrash) ReadAnswer(text.substr(text.find('=') + 1), &operation);
  return operation;
}

std::vector<Operation> Read(const std::string& table) {
  std::vector<Operation> history;
  std::istringstream lines(table);
  int64_t now = 0;
  for (std::string one; std::getline(lines, one, ';');) {
    one.erase(0, one.find_first_not_of(' '));
    if (!one.empty()) history.push_back(ReadOperation(one, &now));
  }
  return history;
}

const char* const kSound[] = {
    "start=created; start=exists; ready=a1#x; ready=none; report x ok=b2; report x ok=again:b2",
    "start=created; ready=a1#x; relinquish x=ok; ready=a1#y; report x ok=stale; report y again=a2",
    "start=created; event ok=b2; ready=b2#x; report x ok=d3; get=S; cancel=stopped; "
    "event ok=stopped",
    "start=created; ready=a1#x; cancel=ok; ready=none; get=a1c; report x ok=C; get=C; cancel=ok",
    "start=created; cancel=ok; get=C; force=ok; ready=none",
    "start=created; ready=a1#x; force=ok; report x ok=stale; relinquish x=stale",
    "start=created; ready=a1#x; event again=a2; report x ok=stale; get=a2r",
    "start=created; ready=a1#x; report x back=illegal; report x ok=b2; report x again=stale",
    "get=missing; event ok=missing; report x ok=missing; ready=none; start=created",
    // At once, in either order.
    "start=created; [10-20] ready=a1#x; [10-20] ready=none; [10-20] cancel=ok; report x ok=C",
    "[1-9] start=exists; [1-9] start=created; [1-9] get=missing; [1-9] ready=a1#x",
    "start=created; ready=a1#x; [10-20] report x ok=b2; [10-20] report x ok=again:b2",
    "start=created; ready=a1#x; [10-20] report x ok=b2; [10-20] event again=illegal; get=b2r",
    "start=created; ready=a1#x; [10-20] report x ok=stale; [10-20] event again=a2; get=a2r",
    // Outcomes that nobody knows.
    "start=?; get=missing; get=a1r",
    "start=created; ready=?; ready=a1#x",
    "start=created; ready=?; ready=none; event ok=b2",
    "start=created; ready=a1#x; report x ok=?; get=a1c; get=b2r; report x ok=again:b2",
    "start=created; force=?; get=a1r; get=C",
    // Crashes.
    "start=created; ready=a1#x; crash; ready=a1#y; report x ok=b2; report y ok=stale",
    "start=created; ready=a1#x; crash; ready=none; report x ok=b2",
    "start=created; event ok=b2; ready=b2#x; crash; ready=none; report x back=a3",
    "start=created; ready=a1#x; cancel=ok; crash; get=C; report x ok=stale",
    "start=created; ready=a1#x; cancel=ok; crash; get=a1c; report x ok=C",
};

const char* const kBroken[] = {
    // Lost.
    "start=created; get=missing",
    "start=created; start=created",
    "start=created; crash; get=missing",
    "start=created; crash; start=created",
    "start=created; event ok=b2; get=a1r",
    "start=created; event ok=b2; crash; get=a1r",
    "start=created; event ok=b2; crash; event ok=b2",
    "start=created; ready=a1#x; report x ok=b2; crash; ready=a1#y",
    "start=created; ready=a1#x; report x ok=b2; crash; report x ok=b2",
    "start=created; cancel=ok; get=a1r",
    "start=created; cancel=ok; crash; ready=a1#x",
    "start=created; force=ok; crash; get=a1r",
    "start=created; ready=a1#x; cancel=ok; crash; get=a1r",
    "start=created; ready=a1#x; cancel=ok; report x ok=b2",
    "start=created; ready=a1#x; relinquish x=ok; get=a1c",
    "start=created; ready=a1#x; relinquish x=ok; crash; report x ok=b2",
    "start=created; ready=none",
    "start=created; ready=a1#x; report x ok=b2; ready=none",
    "start=created; ready=a1#x; relinquish x=ok; ready=none",
    // Twice.
    "start=created; ready=a1#x; ready=a1#y",
    "start=created; ready=a1#x; report x ok=b2; report x ok=b2",
    "start=created; ready=a1#x; report x ok=b2; report x ok=again:b3",
    "start=created; ready=a1#x; report x ok=b2; report x again=a3",
    "start=created; ready=a1#x; crash; ready=a1#y; report x ok=b2; report y ok=b2",
    "start=created; ready=a1#x; crash; ready=a1#y; report x ok=b2; report y again=a3",
    "start=created; event ok=b2; ready=b2#x; ready=b2#y",
    "start=created; event ok=b2; ready=b2#x; crash; ready=b2#y",
    "start=created; event ok=b2; ready=b2#x; crash; get=b2r",
    "start=created; [10-20] ready=a1#x; [10-20] ready=a1#y",
    "[1-9] start=created; [1-9] start=created",
    "start=created; ready=a1#x; [10-20] report x ok=b2; [10-20] report x again=a2",
    // Stale, and taken all the same.
    "start=created; ready=a1#x; [10-20] report x ok=b3; [10-20] event again=a2; get=b3r",
    "start=created; ready=a1#x; relinquish x=ok; report x ok=b2",
    "start=created; ready=a1#x; event again=a2; report x ok=b3",
    "start=created; ready=a1#x; force=ok; report x ok=b2",
    "start=created; ready=a1#x; force=ok; report x ok=C",
    "start=created; ready=a1#x; relinquish x=ok; relinquish x=ok",
    "start=created; ready=a1#x; report x ok=b2; relinquish x=ok",
    "start=created; report x ok=b2",
    // Refused, though nothing was against it.
    "start=created; ready=a1#x; report x ok=stale",
    "start=created; ready=a1#x; crash; report x ok=stale",
    "start=created; ready=a1#x; relinquish x=stale",
    "start=created; event ok=illegal",
    "start=created; event ok=stopped",
    "start=created; cancel=stopped",
    "start=exists",
    "start=created; get=a1r; event ok=missing",
    // No path of the machine, or wrong in what is told.
    "start=created; event back=a2",
    "start=created; event ok=d2",
    "start=created; event ok=b3",
    "start=created; event ok=b1",
    "start=created; event again=b2",
    "start=created; ready=b1#x",
    "start=created; ready=a2#x",
    "start=created; get=a1c",
    "start=created; ready=a1#x; get=a1r",
    "start=created; event ok=b2; event ok=d3; get=b2r",
    "start=created; event ok=b2; event ok=d3; event ok=b4",
    "start=created; event ok=b2; event ok=d3; cancel=ok",
    "start=created; event ok=b2; event ok=d3; get=C",
    // Against the order of time.
    "get=a1r; start=created",
    "ready=a1#x; start=created",
    "start=created; [10-20] event ok=b2; [21-30] get=a1r",
    "start=created; [10-20] ready=a1#x; [21-30] ready=a1#y",
    "start=created; [10-30] event ok=b2; [11-12] get=b2r; [13-14] get=a1r",
    "start=created; [10-30] force=ok; [11-12] get=C; [13-14] get=a1r",
    "start=created; event ok=?; get=b2r; get=a1r",
    "start=created; ready=a1#x; report x ok=?; get=b2r; report x ok=b2",
    "start=created; force=?; get=C; get=a1r",
};

TEST_CASE("sound histories are accepted") {
  for (const char* table : kSound) {
    CAPTURE(table);
    CHECK(CheckLinear(Read(table)) == "");
  }
}

TEST_CASE("broken histories are refused") {
  static_assert(std::size(kBroken) >= 50);
  for (const char* table : kBroken) {
    CAPTURE(table);
    CHECK(CheckLinear(Read(table)) != "");
  }
}

// A client that knows nothing: one operation out of all, with what the model answers.
Operation Random(const Model& model, std::mt19937_64* random, int64_t now) {
  static const char* const transitions[] = {"ok", "again", "back"};
  const auto below = [random](uint64_t bound) { return (*random)() % bound; };
  Operation operation;
  operation.kind = static_cast<Kind>(below(9));
  if (below(8) == 0) operation.kind = Kind::kReady;
  operation.claim = "c" + std::to_string(operation.kind == Kind::kReady
                                             ? static_cast<uint64_t>(now)
                                             : 10 * (static_cast<uint64_t>(now) / 10 - below(5)));
  if (!model.held.empty() && operation.kind != Kind::kReady && below(2) == 0) {
    operation.claim = *model.held.begin();
  }
  operation.transition = transitions[below(3)];
  operation.invoked = now - static_cast<int64_t>(below(25));
  operation.returned = now + static_cast<int64_t>(below(25));
  return operation;
}

// All answers that could be given; the model says which of them is right.
std::vector<Operation> Answers(const Operation& asked) {
  std::vector<Operation> all;
  for (const char* refusal : {"", "none", "STALE_CLAIM", "ILLEGAL_TRANSITION", "INSTANCE_STOPPED",
                              "NO_SUCH_INSTANCE"}) {
    Operation one = asked;
    one.refusal = refusal;
    all.push_back(one);
  }
  for (const char state : {'R', 'S', 'C'}) {
    for (const char* node : {"a", "b", "d"}) {
      for (uint64_t visit = 1; visit < 40; ++visit) {
        for (const bool flag : {false, true}) {
          Operation one = asked;
          one.state = state;
          one.node = node;
          one.visit = visit;
          one.repeated = one.claimed = one.created = flag;
          all.push_back(one);
        }
      }
    }
  }
  Operation created = asked;
  created.created = true;
  all.push_back(created);
  return all;
}

TEST_CASE("what the model does is accepted in spite of overlaps; not with another answer") {
  std::mt19937_64 random(7);
  int changed = 0;
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    Model model;
    std::vector<Operation> history;
    for (int64_t now = 100; history.size() < 25; now += 10) {
      const Operation asked = Random(model, &random, now);
      for (const Operation& answered : Answers(asked)) {
        const auto after = model.After(answered);
        if (after.empty()) continue;
        history.push_back(answered);
        model = after[random() % after.size()];
        break;
      }
    }
    REQUIRE(CheckLinear(history) == "");
    Operation& one = history[random() % history.size()];
    if (one.kind == Kind::kCrash) continue;
    one.refusal = one.refusal.empty() ? "STALE_CLAIM" : "";
    if (one.kind == Kind::kReady) one.refusal = one.refusal.empty() ? "" : "none";
    ++changed;
    if (!CheckLinear(history).empty()) ++refused;
  }
  CHECK(changed > 40);
  CHECK(refused > changed * 3 / 4);  // a few changed answers are those of another sound history
}

}  // namespace
}  // namespace dfsmr::chaos
