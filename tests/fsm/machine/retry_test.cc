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

TEST_CASE("letters beyond ASCII have their case, too") {
  CHECK(Again({"zeit\u00fcberschreitung"}, "", "die ZEIT\u00dcBERSCHREITUNG"));
  CHECK(Again({"ZEIT\u00dcBERSCHREITUNG"}, "", "eine Zeit\u00fcberschreitung"));
  CHECK(Again({"\u0441\u0435\u0442\u044c"}, "", "\u0421\u0415\u0422\u042c"));  // сеть
  CHECK(Again({"\u0119\u017c\u00ff"}, "", "\u0118\u017b\u0178"));
  CHECK(Again({"\u03bb\u03ac\u03b8\u03bf\u03c2"}, "", "\u039b\u0386\u0398\u039f\u03a3"));
  CHECK_FALSE(Again({"\u00fcber"}, "", "uber \u00d7 \u00f7"));
  CHECK_FALSE(Again({"\u00f7"}, "", "\u00d7"));  // signs, and no letters
  CHECK(Again({"\xff\xc3"}, "", "a \xff\xc3 b"));   // whatever the text is made of
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
