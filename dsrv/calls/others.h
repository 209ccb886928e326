// The other partitions of the store, as home asks them on its own account: what they have, and that
// they take what an import has brought.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "dfsmr/peer.pb.h"
#include "fsm/base/result.h"

namespace dfsmr {

struct Others {
  uint16_t partitions = 1;  // of the store
  // Asks the partition that the question is for, and asks again while nobody owns it, or its owner
  // is lost. `done` is called once, from any thread, with what it answers. UNAVAILABLE: there is no
  // answer in time.
  using Done = std::function<void(Result<peer::Answer> answer)>;
  std::function<void(peer::Question question, std::chrono::milliseconds patience, Done done)> ask;
  // Has all adopt what home has changed in a namespace, and then calls `done`.
  std::function<void(const std::string& ns, std::function<void()> done)> spread;
};

struct Backend;

// Answers a question that home asks this partition. `done` is called once, from any thread.
void AnswerQuestion(const Backend& backend, const peer::Question& question,
                    std::function<void(peer::Answer answer)> done);

}  // namespace dfsmr
