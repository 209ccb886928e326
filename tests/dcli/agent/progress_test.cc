#include "dcli/agent/progress.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "dcli/agent/surroundings.h"
#include "dcli/call/log_pump.h"
#include "dcli/work/verdict.h"

namespace dfsmr::cli {
namespace {

constexpr int kExit0 = 0;
constexpr int kExit3 = 3 << 8;  // as waitpid has it
constexpr int kKilled = 9;

std::string FolderForTests() {
  std::string path = "/tmp/dfsmr-test-XXXXXX";
  REQUIRE(mkdtemp(path.data()) != nullptr);
  return path;
}

uint64_t LinesIn(const v1::AppendLogsRequest& request) {
  uint64_t count = 0;
  for (const auto& batch : request.batches()) count += static_cast<uint64_t>(batch.lines_size());
  return count;
}

}  // namespace

TEST_CASE("a line of progress says any of four things") {
  const Progress said = ProgressOf(
      R"({"progress": 0.4, "note": "3 of 7", "checkpoint": {"n": 12345678901234567890}, "mask": "x"})");
  CHECK(said.progress == 0.4);
  CHECK(said.note == "3 of 7");
  CHECK(said.checkpoint == R"({"n": 12345678901234567890})");
  CHECK(said.masks == std::vector<std::string>{"x"});
  CHECK(said.wrong == "");
  std::string longest;
  for (int i = 0; i < 300; ++i) longest += "ö";
  CHECK(ProgressOf("{\"note\":\"" + longest + "\"}").note->size() == 512);
  for (const char* bad : {"x", "[]", R"({"progress": 2})", R"({"progress": "1"})", R"({"note": 1})",
                          R"({"checkpoint": []})", R"({"mask": {}})", R"({"percent": 1})"}) {
    CAPTURE(bad);
    CHECK(ProgressOf(bad).wrong != "");
  }
}

TEST_CASE("whole lines are read from the file, each once") {
  const std::string folder = FolderForTests();
  ProgressFile file(folder + "/progress");
  CHECK_FALSE(file.Read().has_value());
  std::ofstream out(folder + "/progress", std::ios::app);
  out << "{\"progress\": 0.1}\n\n{\"note\": \"a\"}\n{\"prog" << std::flush;
  auto said = file.Read();
  REQUIRE(said.has_value());
  CHECK(said->progress == 0.1);
  CHECK(said->note == "a");
  CHECK_FALSE(file.Read().has_value());
  out << "ress\": 0.2}" << std::flush;
  CHECK_FALSE(file.Read().has_value());
  CHECK(file.Read(true)->progress == 0.2);
  DeleteFolder(folder);
}

TEST_CASE("a line of progress has a largest size, and what is longer is told of once") {
  const std::string folder = FolderForTests();
  ProgressFile file(folder + "/progress");
  std::ofstream out(folder + "/progress", std::ios::app);
  const std::string longest = R"({"checkpoint": {"s": ")" + std::string(65'000, 'x') + "\"}}";
  out << longest << '\n' << std::flush;
  CHECK(file.Read()->checkpoint->size() > 65'000);
  out << std::string(1'000'000, 'x') << std::flush;
  auto said = file.Read();
  REQUIRE(said.has_value());
  CHECK(said->wrong ==
        "a line of DFSMR_PROGRESS is longer than 128 KiB: such lines are passed over");
  out << std::string(1'000'000, '\n') << std::string(1'000'000, 'x') << "\n{\"progress\": 0.2}\n"
      << std::flush;
  said = file.Read();
  REQUIRE(said.has_value());
  CHECK(said->progress == 0.2);
  CHECK(said->wrong == "");
  constexpr off_t kHuge = off_t{1} << 42;  // a hole: nobody could read it in time
  REQUIRE(truncate((folder + "/progress").c_str(), kHuge) == 0);
  CHECK_FALSE(file.Read().has_value());
  out << "\n{\"progress\": 0.3}\n" << std::flush;
  said = file.Read();
  REQUIRE(said.has_value());
  CHECK(said->progress == 0.3);
  DeleteFolder(folder);
}

TEST_CASE("a report comes from its file, the last line, exit or the status") {
  const std::map<int, std::string> exits = {{3, "missing"}, {5, "error"}};
  const auto verdict = [&](int status, std::string_view out, std::string_view report) {
    return VerdictOf(
        Ending{.status = status, .out = out, .err = "bad", .report = report, .exits = &exits});
  };
  CHECK(verdict(kExit0, "", "").transition == "ok");
  CHECK(verdict(kExit3, "", "").transition == "missing");
  CHECK(verdict(kExit3, "", "").error == "");
  CHECK(verdict(5 << 8, "", "").error == "exit status 5: bad");
  CHECK(verdict(5 << 8, "", "").named);  // by `exit`: so it is reported after a cancel, too
  CHECK(!verdict(4 << 8, "", "").named);
  CHECK(verdict(4 << 8, "", "").error_kind == "exit");
  CHECK(verdict(4 << 8, "", "").error == "exit status 4: bad");
  CHECK(verdict(kKilled, "", "").error_kind == "signal");
  CHECK(verdict(kExit0, R"({"transition": "a"})", R"({"transition": "b"})").transition == "b");
  CHECK(verdict(kExit0, R"({"transition": "a"})", " \n").transition == "a");
  CHECK(verdict(kExit3, R"({"output": {"n": 1}})", "").transition == "missing");
  CHECK(verdict(kExit3, R"({"output": {"n": 1}})", "").output == R"({"n": 1})");
  CHECK(verdict(kExit0, "", "no JSON").error_kind == "output");
  CHECK(verdict(kExit0, "", R"({"transition": 5})").error_kind == "output");
  CHECK(verdict(4 << 8, "", R"({"transition": "ok"})").error_kind == "");
  const Verdict failed = verdict(
      4 << 8, "",
      R"({"error": "e", "retry_after": "30s", "fatal": true, "error_kind": "k", "checkpoint": {}})");
  CHECK(failed.transition == "error");
  CHECK(failed.retry_after == std::chrono::seconds(30));
  CHECK(failed.fatal);
  CHECK(failed.error_kind == "k");
  CHECK(failed.checkpoint == "{}");
  CHECK(failed.error == "e");
}

TEST_CASE("a command finds an environment of its own, and nothing of the agent's") {
  const std::string parent = FolderForTests();
  auto folder = Folder::Make(parent);
  REQUIRE(folder.has_value());
  Surroundings surroundings;
  surroundings.agent = "h1";
  surroundings.mark = "0123456789abcdef";
  surroundings.passed = {"LEVEL=low", "LANG=C"};
  surroundings.wrap = {"/usr/bin/nice"};
  surroundings.middleware["audit"] = {"/usr/bin/env"};
  Worker worker{.name = "w", .folder = "/usr", .run = {"/bin/true", "x"}, .env = {"LEVEL=info"}};
  v1::Task task;
  task.set_instance("i");
  task.set_visit(7);
  task.add_middleware("audit");
  const auto launch = LaunchOf(surroundings, worker, &task, **folder);
  REQUIRE(launch.has_value());
  CHECK(launch->file == "/usr/bin/nice");
  CHECK(launch->arguments ==
        std::vector<std::string>{"/usr/bin/nice", "/usr/bin/env", "/bin/true", "x"});
  CHECK(launch->directory == "/usr");
  const auto has = [&](const std::string& entry) {
    return std::ranges::find(launch->environment, entry) != launch->environment.end();
  };
  const std::string path = (*folder)->path();
  for (const std::string& entry :
       {std::string("PATH=/usr/local/bin:/usr/bin:/bin"), std::string("LANG=C"),
        std::string("LEVEL=info"), "HOME=" + path + "/home", "TMPDIR=" + path + "/tmp",
        "DFSMR_DIR=" + path, "DFSMR_OUTPUT=" + path + "/output",
        "DFSMR_PROGRESS=" + path + "/progress", std::string("DFSMR_VISIT=7"),
        std::string("DFSMR_AGENT=h1"), std::string("DFSMR_AGENT_ID=0123456789abcdef"),
        std::string("DFSMR_INSTANCE=i"), std::string("DFSMR_PACKAGE=/usr")}) {
    CAPTURE(entry);
    CHECK(has(entry));
  }
  for (const std::string& entry : launch->environment) CHECK_FALSE(entry.starts_with("DFSMR_DRY"));
  task.set_dry_run(true);
  task.add_middleware("other");
  CHECK(LaunchOf(surroundings, worker, &task, **folder).error().message ==
        "this agent has no middleware \"other\"");
  DeleteFolder(parent);
}

TEST_CASE("the mark is one of server, namespace and name") {
  CHECK(MarkOf("s", "", "a") == MarkOf("s", "default", "a"));
  CHECK(MarkOf("s", "n", "a").size() == 16);
  CHECK(MarkOf("s", "n", "a") != MarkOf("t", "n", "a"));
  CHECK(MarkOf("s", "n", "a") != MarkOf("s", "m", "a"));
  CHECK(MarkOf("s", "n", "a") != MarkOf("s", "n", "b"));
}

TEST_CASE("lines that cannot be sent are left out in the middle, and counted") {
  LogQueue queue;
  const std::string text(1'000, 'x');
  for (int i = 0; i < 5'000; ++i) {
    queue.Add("i", "c", v1::LogLine::OUT, i == 0 ? "first" : i == 4'999 ? "last" : text, {});
  }
  queue.End("c");
  uint64_t next = 1;
  uint64_t left_out = 0;
  uint64_t lines = 0;
  std::string last;
  for (int messages = 0; !queue.empty(); ++messages) {
    REQUIRE(messages < 1'000);
    const v1::AppendLogsRequest request = queue.Take();
    CHECK(request.ByteSizeLong() <= 1 << 20);
    lines += LinesIn(request);
    for (const auto& batch : request.batches()) {
      uint64_t number = batch.first() - batch.lines(0).left_out();
      for (const auto& line : batch.lines()) {
        number += line.left_out();
        CHECK(number - line.left_out() == next);
        next = ++number;
        left_out += line.left_out();
        if (lines == LinesIn(request)) CHECK(batch.lines(0).text() == "first");
        last = line.text();
      }
      lines += 0;
    }
  }
  CHECK(last == "last");
  CHECK(lines + left_out == 5'000);
  CHECK(left_out > 3'000);
}

TEST_CASE("what is kept of many short lines is counted by their text") {
  for (const size_t size : {size_t{4}, size_t{50}}) {
    CAPTURE(size);
    LogQueue queue;
    for (int i = 0; i < 200'000; ++i) {
      queue.Add("i", "c", v1::LogLine::OUT, std::string(size, 'x'), {});
    }
    queue.End("c");
    size_t head = 0;
    size_t tail = 0;
    bool gap = false;
    for (int messages = 0; !queue.empty(); ++messages) {
      REQUIRE(messages < 1'000);
      const v1::AppendLogsRequest request = queue.Take();
      for (const auto& batch : request.batches()) {
        for (const auto& line : batch.lines()) {
          gap = gap || line.left_out() > 0;
          (gap ? tail : head) += line.text().size();
        }
      }
    }
    CHECK(head > 65'536 - 51);
    CHECK(tail > (size == 4 ? 500'000 : 1'048'576 - 51));
  }
}

TEST_CASE("claims take turns, and lines are UTF-8") {
  LogQueue queue;
  for (int i = 0; i < 2'000; ++i)
    queue.Add("i", "loud", v1::LogLine::OUT, std::string(900, 'x'), {});
  queue.Add("j", "low", v1::LogLine::ERR, "\xff!", {});
  const v1::AppendLogsRequest request = queue.Take();
  bool found = false;
  for (const auto& batch : request.batches()) {
    if (batch.claim() != "low") continue;
    found = true;
    CHECK(batch.lines(0).text() == "\xef\xbf\xbd!");
  }
  CHECK(found);
}

}  // namespace dfsmr::cli
