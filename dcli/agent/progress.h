// What a command says while it runs: lines of DFSMR_PROGRESS, or of a process that serves many
// tasks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dcli/system/process.h"

namespace dfsmr::cli {

struct Progress {
  std::optional<double> progress;  // 0 to 1
  std::optional<std::string> note;
  std::optional<std::string> checkpoint;  // a JSON object
  std::vector<std::string> masks;         // hidden from now on
  std::string wrong;  // what could not be understood, for the log; empty: nothing
  friend bool operator==(const Progress&, const Progress&) = default;

  // What `later` says wins.
  void Merge(const Progress& later);
};

// One line: an object with any of progress, note, checkpoint and mask. `what` names it when it is
// not understood.
Progress ProgressOf(std::string_view line, std::string_view what = "a line of DFSMR_PROGRESS");

// Reads the lines that are appended to a file. A line that is longer than any may be is passed over
// and told of once.
class ProgressFile {
 public:
  // The file is made, empty.
  explicit ProgressFile(const std::string& path);
  // What has been written since the last call, whole lines only; with `all` the rest, too. Nullopt:
  // nothing.
  std::optional<Progress> Read(bool all = false);

 private:
  void Take(std::string_view bytes, std::optional<Progress>* said);
  void TellTooLong(std::optional<Progress>* said);
  void PassHole(off_t size);

  Descriptor file_;
  off_t at_ = 0;
  std::string rest_;       // of a line that is not ended
  bool too_long_ = false;  // that line is: nothing of it is kept
  bool told_ = false;
};

}  // namespace dfsmr::cli
