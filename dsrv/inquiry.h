// How home asks other partitions: in memory, where this server serves them, else the server that
// does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dsrv/calls/others.h"
#include "dsrv/cluster/front.h"
#include "dsrv/partitions.h"

namespace dfsmr {

// Any thread.
class Inquiry {
 public:
  // Both outlive it.
  Inquiry(const Front& front, const Partitions& partitions)
      : front_(front), partitions_(partitions) {}

  // As Others::ask.
  void Ask(peer::Question question, std::chrono::milliseconds patience, Others::Done done) const;
  // What another server asks, as Front::Outside::answer.
  void Answer(const std::string& bytes,
              std::function<void(std::optional<std::string> reply)> done) const;

 private:
  struct Asked;
  using AskedPtr = std::shared_ptr<Asked>;
  void Try(const AskedPtr& asked) const;
  void Take(const AskedPtr& asked, const std::optional<peer::Answer>& answer) const;
  bool AnswerHere(const peer::Question& question,
                  std::function<void(peer::Answer answer)> done) const;

  const Front& front_;
  const Partitions& partitions_;
};

}  // namespace dfsmr
