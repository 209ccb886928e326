#include "dcli/text/output.h"

#include <google/protobuf/util/json_util.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

struct Color {
  const char* code;
  std::vector<std::string_view> words;
};

const char* ColorOf(std::string_view word) {
  const size_t space = word.find(' ');
  const bool symbol = space != word.npos && space > 1 && Columns(word.substr(0, space)) == 1;
  if (symbol) word.remove_prefix(space + 1);  // "✓ DONE"
  static const Color kColors[] = {
      {"32", {"SUCCESS", "ok", "closed", "new", "changed", "DONE"}},
      {"31", {"ERROR", "ABORTED", "CANCELLED", "open", "TIMED_OUT"}},
      {"33", {"WARNING", "PAUSED", "HELD", "half-open", "SKIPPED", "BREAKER_OPENED"}},
      {"36", {"RUNNING", "CLAIMED", "READY", "PLANNING", "STARTED"}},
      {"34", {"SUSPENDED", "WOKEN"}},
      {"2", {"PENDING", "SCHEDULED", "WAITING", "LEFT_OUT", "unchanged", "STOPPED", "-"}},
  };
  for (const Color& color : kColors) {
    if (std::find(color.words.begin(), color.words.end(), word) != color.words.end()) {
      return color.code;
    }
  }
  return nullptr;
}

std::string Colored(std::string_view text, const char* code, const Look& look) {
  if (!look.color || code == nullptr || text.empty()) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

size_t TerminalWidth(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void PrintRow(std::ostream& out, const std::vector<std::string>& cells,
              const std::vector<size_t>& widths, const char* color, const Look& look) {
  size_t column = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    const bool last = i + 1 == widths.size();
    std::string cell = cells[i];
    if (last && look.width > column + 8) cell = Shortened(cell, look.width - column);
    const size_t padding = last ? 0 : widths[i] - Columns(cell) + 2;
    out << Colored(cell, color != nullptr ? color : ColorOf(cell), look)
        << std::string(padding, ' ');
    column += widths[i] + 2;
  }
  out << '\n';
}

}  // namespace

Result<OutputFormat> ParseFormat(std::string_view text) {
  static const std::vector<std::string> kNames = {"table", "wide", "json", "yaml", "name"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<OutputFormat>(i);
  }
  return Error{Code::kInvalidArgument, Reason::kNone,
               "there is no output format \"" + Escaped(text) + "\"" + DidYouMean(text, kNames) +
                   " (known: " + Join(kNames, ", ") + ")"};
}

Look LookOf(int fd, bool no_color) {
  Look look;
  look.now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  if (isatty(fd) == 0) return look;
  const char* forbidden = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  look.color = !no_color && !dumb && (forbidden == nullptr || *forbidden == '\0');
  look.width = TerminalWidth(fd);
  look.relative = true;
  return look;
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  return time.seconds() == 0 && time.nanos() == 0 ? "" : TimeText(FromProto(time));
}

std::string When(const google::protobuf::Timestamp& time, const Look& look) {
  const std::string text = TimeText(time);
  if (text.empty() || !look.relative) return text;
  const Timestamp then = FromProto(time);
  const Duration age = look.now - then;
  return age < Duration::zero() ? "in " + DurationText(-age) : DurationText(age) + " ago";
}

std::string Painted(std::string_view text, const Look& look) {
  return Colored(text, ColorOf(text), look);
}

void Table::Add(std::vector<std::string> cells) {
  cells.resize(header_.size());
  for (std::string& cell : cells) cell = cell.empty() ? "-" : Escaped(cell);
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out, const Look& look) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < header_.size(); ++i) {
    size_t width = Columns(header_[i]);
    for (const auto& row : rows_) width = std::max(width, Columns(row[i]));
    widths.push_back(width);
  }
  PrintRow(out, header_, widths, "1", look);
  for (const auto& row : rows_) PrintRow(out, row, widths, nullptr, look);
}

void Description::Add(std::string name, std::string_view value) {
  if (!value.empty()) lines_.emplace_back(std::move(name), Escaped(value));
}

void Description::Print(std::ostream& out, const Look& look) const {
  size_t width = 0;
  for (const auto& [name, value] : lines_) width = std::max(width, Columns(name));
  for (const auto& [name, value] : lines_) {
    out << Colored(name, "1", look) << std::string(width - Columns(name) + 2, ' ')
        << Painted(value, look) << '\n';
  }
}

Result<std::string> JsonOf(const google::protobuf::Message& message) {
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json);
  if (status.ok()) return json;
  return Error{Code::kInternal, Reason::kNone,
               "the reply has no JSON form: " + std::string(status.message())};
}

}  // namespace dfsmr::cli
