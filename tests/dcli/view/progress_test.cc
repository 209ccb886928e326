#include "dcli/view/progress.h"

#include <doctest/doctest.h>

#include <sstream>
#include <streambuf>

#include "fsm/base/mutex.h"
#include "tests/dcli/dcli.h"
#include "tests/dcli/fake_server.h"
#include "tests/dcli/plans.h"
#include "tests/dcli/temporary_file.h"

namespace dfsmr::cli {
namespace {

// A terminal that can be waited for.
class Screen : public std::streambuf {
 public:
  void Await(const std::string& text) {
    Lock lock(mutex_);
    changed_.Wait(lock, [&]() REQUIRES(mutex_) { return shown_.find(text) != std::string::npos; });
  }
  std::string shown() {
    const Lock lock(mutex_);
    return shown_;
  }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const Lock lock(mutex_);
    shown_.append(text, static_cast<size_t>(count));
    changed_.NotifyAll();
    return count;
  }
  int_type overflow(int_type c) override {
    const char text = traits_type::to_char_type(c);
    xsputn(&text, 1);
    return c;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::string shown_ GUARDED(mutex_);
};

struct Watched {
  explicit Watched(bool terminal) {
    server.instance = PausedPlan();
    context.err_look.relative = terminal;
    context.err_look.width = 70;
    context.client = std::make_unique<Client>(server.address, std::chrono::seconds(20));
  }
  static v1::Change Of(v1::Change::Kind kind) {
    v1::Change change;
    change.set_kind(kind);
    return change;
  }

  FakeServer server;
  Screen screen;
  std::ostringstream out;
  std::ostream err{&screen};
  Context context{out, err};
};

v1::ChangesResponse Message(const std::string& cursor, v1::Change::Kind kind) {
  v1::ChangesResponse message;
  message.set_cursor(cursor);
  if (kind == v1::Change::KIND_UNSPECIFIED) return message;
  message.add_changes()->set_kind(kind);
  message.mutable_changes(0)->set_instance("infra-7");
  return message;
}

}  // namespace

TEST_CASE("a plan's progress is one line") {
  v1::Instance instance;
  instance.set_state(v1::Instance::RUNNING);
  CHECK(ProgressLine(instance) == "[                    ] 0%");
  instance.set_progress(0.529);
  for (int i = 0; i < 3; ++i) instance.add_tokens()->set_state(v1::Token::CLAIMED);
  CHECK(ProgressLine(instance) == "[##########          ] 52%  3 running");
  auto* held = instance.add_tokens();
  held->set_node("web.vm/error");
  held->set_state(v1::Token::HELD);
  held->set_error("no disk");
  CHECK(ProgressLine(instance) ==
        "[##########          ] 52%  3 running, 1 held: web.vm: no disk");
  instance.set_state(v1::Instance::PLANNING);
  instance.clear_tokens();
  instance.set_progress(1);
  CHECK(ProgressLine(instance) == "[####################] 100%  planning");
}

TEST_CASE("the status line stays below the notes, fits, and goes without a trace") {
  std::ostringstream out;
  std::ostringstream err;
  Context context(out, err);
  context.Status("for nobody: this is no terminal");
  context.err_look = {.width = 8, .relative = true, .now = {}};
  context.Status("12345678");
  context.Status("12345678");
  context.Note("x");
  context.Status("");
  const std::string blank = "\r" + std::string(7, ' ') + "\r";
  CHECK(err.str() == "123456…" + blank + "dcli: x\n123456…" + blank);
}

TEST_CASE("on a terminal the line is drawn, and what is held is told once for each pause") {
  Watched watched(true);
  {
    PlanWatch watch(watched.context, "infra-7");
    watched.screen.Await("[##########          ] 52%  paused  1 suspended");
    CHECK(watched.screen.shown().find("dcli:") == std::string::npos);
    watch.Heard(Watched::Of(v1::Change::PAUSED));
    watched.screen.Await("dcli skip infra-7 web.vm;");
  }
  const std::string shown = watched.screen.shown();
  CHECK(shown.find("dcli: infra-7 is paused: 1 step is held\n") != std::string::npos);
  CHECK(shown.find("dcli: held: web.vm: no disk\n") != std::string::npos);
  CHECK(shown.find("dcli: try again with: dcli resume infra-7;") != std::string::npos);
  CHECK(shown.ends_with(" \r"));  // nothing is left of the line
  CHECK_FALSE(watched.server.looked[0].with_nodes());
}

TEST_CASE("elsewhere only a pause is told") {
  Watched watched(false);
  {
    PlanWatch watch(watched.context, "infra-7");
    watch.Heard(Watched::Of(v1::Change::CLAIMED));
    watch.Heard(Watched::Of(v1::Change::PAUSED));
    watched.screen.Await("dcli show infra-7\n");
  }
  CHECK(watched.screen.shown().starts_with("dcli: infra-7 is paused"));
  CHECK(watched.server.looked.size() == 1);
}

TEST_CASE("start --wait of a plan says nothing but how it ended") {
  FakeServer server;
  server.machine = CompiledPlan();
  server.instance.set_id("infra-7");
  server.instance.set_state(v1::Instance::STOPPED);
  server.instance.set_result(v1::Instance::SUCCESS);
  server.instance.add_tokens()->set_node("/end");
  server.instance.mutable_tokens(0)->set_state(v1::Token::DONE);
  const TemporaryFile flow("[]");
  int expected = 0;
  std::vector<std::string> subject = {"infra"};
  SUBCASE("a plan") {}
  SUBCASE("a flow") {
    subject = {"--flow", flow.path};
  }
  SUBCASE("with a warning") {
    server.instance.set_result(v1::Instance::WARNING);
    expected = 1;
  }
  server.streams.push_back({.messages = {Message("7", v1::Change::KIND_UNSPECIFIED)}});
  server.streams.push_back({.messages = {Message("8", v1::Change::STARTED),
                                         Message("9", v1::Change::TRANSITIONED),
                                         Message("10", v1::Change::FINISHED)}});
  std::vector<std::string> words = {"start", "--wait", "--server", server.address};
  words.insert(words.end(), subject.begin(), subject.end());
  const Outcome ended = Dcli(words);
  CHECK(ended.status == expected);
  CHECK(ended.err == "");
  CHECK(ended.out ==
        std::string("infra-7  STOPPED  ") + (expected == 0 ? "SUCCESS" : "WARNING") + "\n");
}

}  // namespace dfsmr::cli
