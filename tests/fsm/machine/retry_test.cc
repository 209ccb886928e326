#include "fsm/machine/retry.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

bool Again(std::vector<std::string> on, std::string_view kind, std::string_view error) {
  return TriesAgain({.limit = 3, .delay = {}, .on = std::move(on)}, kind, error);
}

TEST_CASE("without `on` every error is tried again") {
  CHECK(Again({}, "", ""));
  CHECK(Again({}, "exit", "whatever"));
}

TEST_CASE("an entry is the kind, or in the text, in any case of letters") {
  CHECK(Again({"exit"}, "exit", ""));
  CHECK(Again({"Exit"}, "exit", ""));
  CHECK(Again({"lock timeout"}, "", "a LOCK TIMEOUT on row 7"));
  CHECK(Again({"oom", "lock"}, "", "deadlock"));
  CHECK_FALSE(Again({"exi"}, "exit", ""));  // a part of a kind is none
  CHECK_FALSE(Again({"lock timeout"}, "exit", "lock"));
  CHECK_FALSE(Again({"lock"}, "", ""));
}

TEST_CASE("transient stands for kinds and for texts") {
  for (const char* kind : {"timeout", "crashed", "unclaimed"})
    CHECK(Again({"transient"}, kind, ""));
  for (const char* text : {"read timeout", "it Timed Out", "connection refused", "no network",
                           "temporary failure", "a temporarily full disk", "Service Unavailable"}) {
    CAPTURE(text);
    CHECK(Again({"transient"}, "", text));
    CHECK(Again({"oom", "TRANSIENT"}, "exit", text));
    CHECK_FALSE(Again({"oom"}, "", text));
  }
  for (const char* kind : {"exit", "signal", "oom", "output", "abandoned", ""}) {
    CAPTURE(kind);
    CHECK_FALSE(Again({"transient"}, kind, "no such file"));
  }
}

}  // namespace
}  // namespace dfsmr
