// The rows of a range, one after the other, for a reader that goes through several ranges at once.
// A scan calls its reader; here the reader asks. Rows are read ahead, some at first and then more.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/view.h"

namespace dfsmr::rows {

class Pull {
 public:
  // Rows with begin <= key < end. `bytes`: about so many are read ahead at most.
  Pull(const View& view, std::string begin, std::string end, size_t bytes, bool reverse = false)
      : view_(view), begin_(std::move(begin)), end_(std::move(end)), bytes_(bytes),
        reverse_(reverse) {}

  // Goes to the first row, or to the next one. False: there is none.
  Result<bool> Next() {
    if (started_ && ++at_ < rows_.size()) return true;
    if (started_ && !more_) return false;
    if (auto read = ReadAhead(); !read) return read.error();
    return !rows_.empty();
  }
  // Of the row that Next went to, until it goes on.
  std::string_view key() const { return rows_[at_].first; }
  std::string_view value() const { return rows_[at_].second; }

 private:
  Result<Ok> ReadAhead() {
    if (started_ && reverse_) end_ = rows_.back().first;
    if (started_ && !reverse_) begin_ = rows_.back().first + '\0';
    started_ = true;
    rows_.clear();
    at_ = 0;
    more_ = false;
    size_t bytes = 0;
    auto read = view_.Scan(
        begin_, end_,
        [&](std::string_view key, std::string_view value) {
          more_ = rows_.size() == most_ || bytes >= bytes_;
          if (more_) return false;
          rows_.emplace_back(key, value);
          bytes += key.size() + value.size();
          return true;
        },
        reverse_);
    most_ *= 4;
    return read;
  }

  const View& view_;
  std::string begin_;
  std::string end_;
  const size_t bytes_;
  const bool reverse_;
  size_t most_ = 16;  // rows of the next portion
  bool started_ = false;
  bool more_ = false;
  std::vector<std::pair<std::string, std::string>> rows_;
  size_t at_ = 0;
};

}  // namespace dfsmr::rows
