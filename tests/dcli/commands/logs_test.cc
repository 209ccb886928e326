#include "dcli/commands/logs.h"

#include <doctest/doctest.h>

#include <sstream>

namespace dfsmr::cli {
namespace {

v1::LogEntry Entry(const std::string& text, v1::LogLine::Stream stream = v1::LogLine::OUT) {
  v1::LogEntry entry;
  entry.set_node("build");
  entry.set_worker("h1");
  entry.set_visit(3);
  entry.set_attempt(1);
  entry.mutable_time()->set_seconds(1'700'000'000);
  entry.mutable_time()->set_nanos(7'000'000);
  entry.set_stream(stream);
  entry.set_text(text);
  return entry;
}

const Look kTerminal{.color = true, .width = 80, .relative = true, .now = {}};

}  // namespace

TEST_CASE("colours of a line are for terminals, and other control characters for nobody") {
  CHECK(LogText("plain äöü", Look()) == "plain äöü");
  CHECK(LogText("\x1b[1;31mred\x1b[0m", Look()) == "red");
  CHECK(LogText("\x1b[1;31mred\x1b[0m", kTerminal) == "\x1b[1;31mred\x1b[0m\x1b[0m");
  CHECK(LogText("\x1b[31mon", kTerminal) == "\x1b[31mon\x1b[0m");
  for (const Look& look : {Look(), kTerminal}) {
    CHECK(LogText("a\tb\x07", look) == R"(a\tb\x07)");
    CHECK(LogText("\x1b[2J\x1b]0;title", look) == R"(\x1b[2J\x1b]0;title)");
    CHECK(LogText("\x1b[31", look) == R"(\x1b[31)");
  }
}

TEST_CASE("lines have their time, step and agent in front, and say what is missing") {
  std::ostringstream out;
  const Look look;
  LogPrinter printer(out, look, /*wide=*/false);
  printer.Print(Entry("one"));
  v1::LogEntry late = Entry("two", v1::LogLine::ERR);
  late.set_left_out(1'204);
  printer.Print(late);
  v1::LogEntry next = Entry("three", v1::LogLine::AGENT);
  next.set_node("build/finalize");
  next.clear_worker();
  next.set_left_out(1);
  printer.Print(next);
  printer.Print(Entry("four"));
  CHECK(out.str() ==
        "22:13:20.007  build  h1  one\n"
        "… 1,204 lines left out\n"
        "22:13:20.007  build  h1  two\n"
        "… 1 line left out\n"
        "22:13:20.007  build/finalize  -   three\n"
        "22:13:20.007  build           h1  four\n");
}

TEST_CASE("standard error has another colour, and wide lines tell more") {
  std::ostringstream out;
  LogPrinter(out, kTerminal, false).Print(Entry("oops", v1::LogLine::ERR));
  CHECK(out.str() == "22:13:20.007  build  h1  \x1b[31moops\x1b[0m\n");
  std::ostringstream wide;
  const Look look;
  LogPrinter(wide, look, true).Print(Entry("text"));
  CHECK(wide.str() == "2023-11-14T22:13:20.007Z  build  3  1  h1  text\n");
}

}  // namespace dfsmr::cli
