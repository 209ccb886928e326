// The other partitions of the store, as one asks them on its own account: home what they have, and
// that they take what an import has brought; the others home whether limits let instances begin.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "dfsmr/peer.pb.h"
#include "fsm/base/result.h"

namespace dfsmr {

// How long the others are waited for: when what they say is only shown, and when it decides.
inline constexpr std::chrono::milliseconds kShownSoon{500};
inline constexpr std::chrono::milliseconds kForOwners{2'000};

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

void ToProto(const Error& error, peer::Failure* out);
Error FromProto(const peer::Failure& failure);

// Answers a question that another partition asks this one. `done` is called once, from any thread.
void AnswerQuestion(const Backend& backend, const peer::Question& question,
                    std::function<void(peer::Answer answer)> done);

}  // namespace dfsmr
