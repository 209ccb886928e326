#include "dcli/report.h"

#include <sys/wait.h>

#include <vector>

#include "dcli/json.h"
#include "dcli/output.h"
#include "dcli/process.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kErrorBytes = 2'000;  // of standard error, kept with the report
constexpr int kErrorLines = 5;

std::string_view Trimmed(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return end == text.npos ? std::string_view() : text.substr(0, end + 1);
}

// Text that came in pieces may begin or end inside a character; a report must be UTF-8.
std::string ValidUtf8(std::string_view text) { return Unquoted(Quoted(text)); }

std::string_view LastLines(std::string_view text) {
  text = Trimmed(text);
  if (text.size() > kErrorBytes) text.remove_prefix(text.size() - kErrorBytes);
  size_t begin = text.size();
  for (int lines = 0; lines < kErrorLines && begin != text.npos && begin > 0; ++lines) {
    begin = text.rfind('\n', begin - 1);
  }
  return begin == text.npos || begin == 0 ? text : text.substr(begin + 1);
}

// Takes over what the command said; returns what is wrong with it, or "".
std::string Take(const std::vector<Member>& said, Verdict* verdict) {
  const auto string = [&](std::string_view key, std::string* to) {
    const Member* member = Find(said, key);
    if (member == nullptr || member->value == "null") return true;
    if (!member->value.starts_with('"')) return false;
    *to = Unquoted(member->value);
    return true;
  };
  const auto object = [&](std::string_view key, std::string* to) {
    const Member* member = Find(said, key);
    if (member == nullptr || member->value == "null") return true;
    if (!member->value.starts_with('{')) return false;
    *to = member->value;
    return true;
  };
  std::string transition;
  if (!string("transition", &transition)) return "\"transition\" is not a string";
  if (!string("error", &verdict->error)) return "\"error\" is not a string";
  if (!object("params", &verdict->params)) return "\"params\" is not an object";
  if (!object("output", &verdict->output)) return "\"output\" is not an object";
  if (!transition.empty()) {
    verdict->transition = transition;
    verdict->named = true;
  }
  return "";
}

}  // namespace

std::string TaskJson(const v1::Task& task) {
  v1::Task rest = task;
  rest.clear_instance_params();
  rest.clear_node_params();
  std::vector<Member> members = Members(JsonOf(rest));
  const auto add = [&](const char* key, const std::string& params) {
    // On one line: a line break in JSON can only stand between tokens.
    std::string line = params.empty() || !IsJsonObject(params) ? "{}" : params;
    for (char& c : line) c = c == '\n' || c == '\r' ? ' ' : c;
    members.push_back({key, line});
  };
  add("instanceParams", task.instance_params());
  add("nodeParams", task.node_params());
  return ObjectOf(members) + "\n";
}

std::string_view LastLine(std::string_view text) {
  text = Trimmed(text);
  const size_t line_break = text.find_last_of("\r\n");
  return line_break == text.npos ? text : text.substr(line_break + 1);
}

Verdict VerdictOf(int status, std::string_view out, std::string_view err) {
  const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  Verdict verdict;
  verdict.transition = well ? "ok" : "error";
  if (!well) {
    const std::string lines = ValidUtf8(LastLines(err));
    verdict.error = StatusText(status) + (lines.empty() ? "" : ": " + lines);
  }
  const std::string_view last = LastLine(out);
  if (!IsJsonObject(last)) return verdict;
  const std::string wrong = Take(Members(last), &verdict);
  if (wrong.empty()) return verdict;
  return {.transition = "error",
          .error = "the last line of the command's output is no report: " + wrong};
}

}  // namespace dfsmr::cli
