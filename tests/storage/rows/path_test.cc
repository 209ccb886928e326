// Which histories of machines are paths.
#include "storage/rows/path.h"

#include <doctest/doctest.h>

#include <vector>

#include "fsm/yaml/definitions.h"

namespace dfsmr {
namespace {

Machine Parse(std::string_view yaml) {
  Parsed parsed = ParseDefinitions(yaml, "test");
  REQUIRE(parsed.ok());
  return std::move(parsed.definitions.front());
}

const Machine& Job() {
  static const Machine machine = Parse(R"(
id: job
nodes:
  work: {start: true, retry: {limit: 3}, transitions: {ok: end, error: bad, dfsmr.timeout: late}}
  late: {transitions: {ok: end}}
  end: {final: true}
  bad: {final: true, result: error}
)");
  return machine;
}

struct Record {
  ChangeKind kind;
  std::string from, by, to;
};

// How many records lead on, before one that does not.
size_t Length(const std::vector<Record>& records, const Machine& machine = Job()) {
  rows::Path path;
  for (size_t i = 0; i < records.size(); ++i) {
    Event event;
    event.kind = records[i].kind;
    event.prev_node = records[i].from;
    event.transition = records[i].by;
    event.node = records[i].to;
    if (!path.Follow(event, &machine)) return i;
  }
  return records.size();
}

const Record kBegun{ChangeKind::kStarted, "", "", "work"};
Record Moved(std::string from, std::string by, std::string to) {
  return {ChangeKind::kTransitioned, std::move(from), std::move(by), std::move(to)};
}

TEST_CASE("a history leads along the edges of its machine, from what was entered") {
  CHECK(Length({kBegun, Moved("work", "ok", "end")}) == 2);
  CHECK(Length({kBegun, Moved("work", "ok", "bad")}) == 1);
  CHECK(Length({kBegun, Moved("late", "ok", "end")}) == 1);
  CHECK(Length({Moved("work", "ok", "end")}) == 0);
}

TEST_CASE("work that failed is tried again, held, and offered again at its node") {
  CHECK(Length({kBegun, Moved("work", "error", "work"), Moved("work", "retry", "work"),
                Moved("work", "error", "bad")}) == 4);
  CHECK(Length({kBegun, Moved("work", "ok", "work")}) == 1);
  CHECK(Length({kBegun, Moved("work", "error", "end")}) == 1);
}

TEST_CASE("an attempt that times out leads along the edge of its node") {
  const Record timed_out{ChangeKind::kTimedOut, "work", "", "dfsmr.timeout"};
  const Record diverted = Moved("dfsmr.timeout", "dfsmr.timeout", "late");
  CHECK(Length({kBegun, timed_out, diverted, Moved("late", "ok", "end")}) == 4);
  CHECK(Length({kBegun, diverted}) == 1);
  CHECK(Length({kBegun, timed_out, Moved("dfsmr.timeout", "dfsmr.timeout", "end")}) == 2);
}

TEST_CASE("an upgrade begins anew, at the start of the next version") {
  const Record upgraded{ChangeKind::kUpgraded, "old", "", "dfsmr.upgraded"};
  const Record begins = Moved("dfsmr.upgraded", "dfsmr.upgraded", "work");
  CHECK(Length({kBegun, upgraded, begins, Moved("work", "ok", "end")}) == 4);
  CHECK(Length({kBegun, begins}) == 1);
  CHECK(Length({kBegun, upgraded, Moved("dfsmr.upgraded", "dfsmr.upgraded", "late")}) == 2);
  CHECK(Length({kBegun, upgraded, Moved("work", "ok", "end")}) == 2);
}

TEST_CASE("what was imported goes on from a place that its history does not tell") {
  const Record imported{ChangeKind::kImported, "", "", ""};
  CHECK(Length({imported, Moved("late", "ok", "end")}) == 2);
  CHECK(Length({imported, Moved("late", "error", "end")}) == 1);
}

TEST_CASE("of plans, and of what nothing is known, any history is a path") {
  rows::Path path;
  Event event;
  event.kind = ChangeKind::kTransitioned;
  event.prev_node = "a";
  event.node = "b";
  CHECK(path.Follow(event, nullptr));
  const Machine plan = Parse("plan: p\nflow: [{step: a, action: a}]");
  CHECK(path.Follow(event, &plan));
}

}  // namespace
}  // namespace dfsmr
