#include "dsrv/otlp/tracker.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "dsrv/trace/span.h"

namespace dfsmr::otlp {
namespace {

using Attribute = std::variant<std::string, uint64_t, bool>;

const TraceContext kTrace{"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", true};

Timestamp At(uint64_t seconds) { return Timestamp(std::chrono::seconds(seconds)); }

// A feed of one instance "i" of "job": record n is of second n.
struct Feed final : Past {
  std::optional<Origin> OriginOf(const Event&) override {
    ++asked;
    return origin;
  }
  std::vector<Event> Before(const Event& event) override {
    std::vector<Event> before;
    std::ranges::copy_if(all, std::back_inserter(before),
                         [&](const Event& one) { return one.seq < event.seq; });
    return before;
  }
  std::string QueueOf(const Event&, const std::string& node) override {
    return node == "a" ? "gpu" : "";
  }
  Event& Add(ChangeKind kind, const std::string& node, uint64_t visit) {
    Event& event = all.emplace_back();
    event.seq = all.size();
    event.time = At(event.seq);
    event.kind = kind;
    event.ns = "ns";
    event.instance = "i";
    event.machine = "job";
    event.version = 3;
    event.node = node;
    event.visit = visit;
    return event;
  }
  void Claim(uint64_t visit, uint32_t attempt, const std::string& worker) {
    Event& event = Add(ChangeKind::kClaimed, "a", visit);
    event.attempt = attempt;
    event.client = worker;
  }
  void Move(const std::string& from, uint64_t left, const std::string& transition,
            const std::string& to, uint64_t visit, uint32_t attempt = 0) {
    Event& event = Add(ChangeKind::kTransitioned, to, visit);
    event.prev_node = from;
    event.left_visit = left;
    event.transition = transition;
    event.attempt = attempt;
  }
  void Finish(const std::string& node, uint64_t visit, const std::string& note) {
    Add(ChangeKind::kFinished, node, visit).note = note;
  }
  // From record `first` on.
  std::vector<Span> Take(Tracker& tracker, uint64_t first = 1) {
    std::vector<Span> spans;
    for (const Event& event : all) {
      if (event.seq >= first) tracker.Take(event, &spans);
    }
    return spans;
  }

  std::optional<Origin> origin = Origin{kTrace, 1};
  std::vector<Event> all;
  int asked = 0;
};

const Span& Find(const std::vector<Span>& spans, const std::string& name) {
  const auto found = std::ranges::find(spans, name, &Span::name);
  REQUIRE_MESSAGE(found != spans.end(), name);
  return *found;
}
Attribute Of(const Span& span, const std::string& key) {
  for (const auto& [name, value] : span.attributes) {
    if (name == key) return value;
  }
  return std::string("missing");
}
std::string Seconds(const Span& span) {
  return std::to_string(Micros(span.begin) / 1'000'000) + "-" +
         std::to_string(Micros(span.end) / 1'000'000);
}

void PlayJob(Feed& feed) {
  feed.Add(ChangeKind::kStarted, "a", 1);
  feed.Claim(1, 1, "w1");
  feed.Move("a", 1, "ok", "done", 2, 1);
  feed.Finish("done", 2, "SUCCESS");
}

TEST_CASE("one tree an instance: of it, of each visit, of each attempt") {
  Feed feed;
  PlayJob(feed);
  Tracker tracker({}, feed);
  const auto spans = feed.Take(tracker);
  REQUIRE(spans.size() == 4);
  const Span& instance = Find(spans, "job");
  CHECK(instance.id == SpanId({"ns", "i"}));
  CHECK(instance.parent == kTrace.parent);
  CHECK(Seconds(instance) == "1-4");
  CHECK(Of(instance, "result") == Attribute("SUCCESS"));
  CHECK(!instance.failed);
  const Span& visit = Find(spans, "a");
  CHECK(visit.parent == instance.id);
  CHECK(visit.id == SpanId({"ns", "i", 1}));
  CHECK(Seconds(visit) == "1-3");
  CHECK(Of(visit, "queue") == Attribute("gpu"));
  CHECK(Of(visit, "transition") == Attribute("ok"));
  CHECK(Of(visit, "version") == Attribute(uint64_t{3}));
  const Span& attempt = Find(spans, "a attempt");
  CHECK(attempt.parent == visit.id);
  CHECK(attempt.id == SpanId({"ns", "i", 1, 1}));
  CHECK(Seconds(attempt) == "2-3");
  CHECK(Of(attempt, "worker") == Attribute("w1"));
  CHECK(Of(Find(spans, "done"), "result") == Attribute("SUCCESS"));
  for (const Span& span : spans) CHECK(span.trace == kTrace.id);
  CHECK(feed.asked == 1);
}

TEST_CASE("timeouts, what is given back and errors are told") {
  Feed feed;
  feed.Add(ChangeKind::kStarted, "a", 1);
  feed.Claim(1, 1, "w1");
  Event& late = feed.Add(ChangeKind::kTimedOut, "dfsmr.timeout", 1);
  late.prev_node = "a";
  late.attempt = 1;
  feed.Claim(1, 2, "w2");
  Event& back = feed.Add(ChangeKind::kRelinquished, "a", 1);
  back.attempt = 2;
  back.note = "not begun";
  feed.Claim(1, 3, "w3");
  feed.Move("a", 1, "error", "failed", 2, 3);
  feed.all.back().note = "no space";
  feed.Finish("failed", 2, "ERROR: no space");
  Tracker tracker({}, feed);
  const auto spans = feed.Take(tracker);
  REQUIRE(spans.size() == 6);
  CHECK(spans[0].id == SpanId({"ns", "i", 1, 1}));
  CHECK(Of(spans[0], "timed_out") == Attribute(true));
  CHECK(spans[0].failed);
  CHECK(spans[1].error == "given back: not begun");
  CHECK(Of(spans[2], "worker") == Attribute("w3"));
  CHECK(Of(spans[2], "error") == Attribute("no space"));
  CHECK(Find(spans, "a").error == "no space");
  CHECK(Find(spans, "job").error == "ERROR: no space");
}

TEST_CASE("a timeout that leads on ends its visit") {
  Feed feed;
  feed.Add(ChangeKind::kStarted, "a", 1);
  feed.Claim(1, 1, "w1");
  Event& late = feed.Add(ChangeKind::kTimedOut, "dfsmr.timeout", 1);
  late.attempt = 1;
  feed.Move("dfsmr.timeout", 0, "dfsmr.timeout", "b", 2);
  Tracker tracker({}, feed);
  const auto spans = feed.Take(tracker);
  REQUIRE(spans.size() == 2);
  CHECK(Seconds(Find(spans, "a")) == "1-4");
  CHECK(Find(spans, "a").failed);
}

TEST_CASE("an instance without a trace, or one that is not recorded, has no spans") {
  Feed feed;
  SUBCASE("none") { feed.origin.reset(); }
  SUBCASE("not sampled") { feed.origin->trace.sampled = false; }
  PlayJob(feed);
  Tracker tracker({}, feed);
  CHECK(feed.Take(tracker).empty());
  CHECK(feed.asked == 1);
}

TEST_CASE(
    "after a restart what is open is made of the history, and what just ended is sent again") {
  Feed feed;
  PlayJob(feed);
  // The last process may not have sent what ended with record 3.
  Tracker tracker({.known_to = 3, .again_from = At(3)}, feed);
  const auto spans = feed.Take(tracker, 4);
  REQUIRE(spans.size() == 4);
  CHECK(Seconds(Find(spans, "job")) == "1-4");
  CHECK(Seconds(Find(spans, "a attempt")) == "2-3");
  Tracker later({.known_to = 3, .again_from = At(4)}, feed);
  CHECK(feed.Take(later, 4).size() == 2);
}

TEST_CASE("what is not remembered any more is made of the history, and nothing is sent twice") {
  Feed feed;
  PlayJob(feed);
  Tracker tracker({.remembered = 1}, feed);
  std::vector<Span> spans;
  for (const Event& event : feed.all) {
    tracker.Take(event, &spans);
    for (const char* other : {"x", "y", "z"}) {  // others come between
      Event between;
      between.ns = "ns";
      between.instance = other;
      between.seq = event.seq;
      between.kind = ChangeKind::kPaused;
      const auto origin = std::exchange(feed.origin, std::nullopt);
      tracker.Take(between, &spans);
      feed.origin = origin;
    }
  }
  CHECK(spans.size() == 4);
  CHECK(Seconds(Find(spans, "job")) == "1-4");
}

TEST_CASE("an id may be used again") {
  Feed feed;
  feed.origin.reset();
  PlayJob(feed);
  Tracker tracker({}, feed);
  CHECK(feed.Take(tracker).empty());
  feed.origin = Past::Origin{kTrace, 5};
  PlayJob(feed);
  CHECK(feed.Take(tracker, 5).size() == 4);
}

TEST_CASE("a visit that is overtaken ends with its instance") {
  Feed feed;
  feed.Add(ChangeKind::kStarted, "a", 1);
  feed.Claim(1, 1, "w1");
  feed.Finish("dfsmr.cancelled", 0, "CANCELLED");
  Tracker tracker({}, feed);
  const auto spans = feed.Take(tracker);
  REQUIRE(spans.size() == 3);
  CHECK(Of(Find(spans, "job"), "result") == Attribute("CANCELLED"));
  CHECK(!Find(spans, "job").failed);
  CHECK(Seconds(Find(spans, "a attempt")) == "2-3");
}

TEST_CASE("a span in OTLP's JSON") {
  Span span{.trace = kTrace.id,
            .id = "0102030405060708",
            .parent = kTrace.parent,
            .name = "say \"a\"",
            .begin = At(1),
            .end = At(2),
            .attributes = {{"n", uint64_t{7}}, {"b", true}, {"s", std::string("\xff")}},
            .failed = true,
            .error = "no"};
  const std::string json = ToJson({span}, "1.2");
  for (const char* part :
       {R"("traceId":"4bf92f3577b34da6a3ce929d0e0e4736")", R"("spanId":"0102030405060708")",
        R"("parentSpanId":"00f067aa0ba902b7")", R"("name":"say \"a\"")",
        R"("startTimeUnixNano":"1000000000")", R"("endTimeUnixNano":"2000000000")",
        R"({"key":"n","value":{"intValue":"7"}})", R"({"key":"b","value":{"boolValue":true}})",
        R"("status":{"code":2,"message":"no"})", R"("service.name")", R"("resourceSpans":[{)",
        R"("scopeSpans":[{)"}) {
    CAPTURE(part);
    CHECK(json.find(part) != json.npos);
  }
  span.parent.clear();
  CHECK(ToJson({span}, "1").find("parentSpanId") == std::string::npos);
}

}  // namespace
}  // namespace dfsmr::otlp
