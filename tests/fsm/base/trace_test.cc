#include "fsm/base/trace.h"

#include <doctest/doctest.h>

#include <string>

namespace dfsmr {
namespace {

const std::string kGiven = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST_CASE("a traceparent is read") {
  const auto trace = ReadTraceparent(kGiven);
  REQUIRE(trace);
  CHECK(trace->id == "4bf92f3577b34da6a3ce929d0e0e4736");
  CHECK(trace->parent == "00f067aa0ba902b7");
  CHECK(trace->sampled);
  CHECK(Traceparent(*trace, trace->parent) == kGiven);
}

TEST_CASE("a malformed traceparent counts for nothing") {
  const std::string bad[] = {
      "",
      "x",
      "ff" + kGiven.substr(2),  // no such version
      kGiven + "-more",         // version 00 has no more
      kGiven + "0",
      kGiven.substr(0, 54),
      "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",  // upper case
      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
      "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
      "cc" + kGiven.substr(2) + "more",
  };
  for (const std::string& text : bad) {
    CAPTURE(text);
    CHECK(!ReadTraceparent(text));
  }
}

TEST_CASE("a later version may have more fields, of which nothing is known") {
  const auto trace = ReadTraceparent("cc" + kGiven.substr(2) + "-what-the-future-will-be");
  REQUIRE(trace);
  CHECK(Traceparent(*trace, trace->parent) == kGiven);
}

TEST_CASE("only the first bit of the flags says that spans are recorded") {
  CHECK(!ReadTraceparent(kGiven.substr(0, 53) + "02")->sampled);
  CHECK(ReadTraceparent(kGiven.substr(0, 53) + "03")->sampled);
}

TEST_CASE("a trace rests on disk in 25 bytes") {
  const auto given = ReadTraceparent(kGiven);
  CHECK(PackTrace(*given).size() == 25);
  CHECK(UnpackTrace(PackTrace(*given)) == given);
  const TraceContext root{given->id, "", true};
  CHECK(UnpackTrace(PackTrace(root)) == root);
  CHECK(!UnpackTrace(""));
  CHECK(!UnpackTrace(std::string(24, 'x')));
}

}  // namespace
}  // namespace dfsmr
