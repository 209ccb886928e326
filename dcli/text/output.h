// How replies are shown: tables for people; JSON, YAML and bare names for programs.
#pragma once

#include <google/protobuf/message.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "dcli/text/values.h"

namespace dfsmr::cli {

enum class OutputFormat { kTable, kWide, kJson, kYaml, kName };
Result<OutputFormat> ParseFormat(std::string_view text);

// What the file or terminal that we write to can show. The defaults are for a file or a pipe: no
// colours, nothing shortened, times in full.
struct Look {
  bool color = false;
  size_t width = 0;       // columns; 0: no limit
  bool relative = false;  // "5m ago" instead of a time
  Timestamp now;
};
// Looks at the terminal behind `fd`, NO_COLOR and TERM.
Look LookOf(int fd, bool no_color);

// "5m3s ago", "in 12s" or the time in full; "" for a missing time (seconds = nanos = 0).
std::string When(const google::protobuf::Timestamp& time, const Look& look);
// As it stands, in UTC; "" when it is absent.
std::string TimeText(const google::protobuf::Timestamp& time);

// `text`, coloured when it is the name of a state or result; the text must be escaped already.
std::string Painted(std::string_view text, const Look& look);

// Columns under a header. Cells are escaped here; an empty cell is shown as "-", so that every line
// has the same number of words.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // On a terminal the last column is shortened to fit.
  void Print(std::ostream& out, const Look& look) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// "Name      value" lines, aligned; those without a value are left out.
class Description {
 public:
  void Add(std::string name, std::string_view value);
  void Print(std::ostream& out, const Look& look) const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

// The message in proto3 JSON mapping, on one line, default values left out. Fails when it has no
// such form: a time after the year 9999, say.
Result<std::string> JsonOf(const google::protobuf::Message& message);

}  // namespace dfsmr::cli
