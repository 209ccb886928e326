// Answers that come in any order, told in the order of what was asked. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace dfsmr {

template <typename Answer>
class InOrder {
 public:
  using Ticket = uint64_t;

  // Something is asked.
  Ticket Expect() {
    answers_.emplace_back();
    return first_ + answers_.size() - 1;
  }
  void Put(Ticket ticket, Answer answer) { answers_[ticket - first_] = std::move(answer); }
  // The next answer, if it is there.
  std::optional<Answer> Next() {
    if (answers_.empty() || !answers_.front()) return std::nullopt;
    std::optional<Answer> next = std::move(answers_.front());
    answers_.pop_front();
    ++first_;
    return next;
  }
  size_t open() const { return answers_.size(); }

 private:
  Ticket first_ = 0;
  std::deque<std::optional<Answer>> answers_;
};

}  // namespace dfsmr
