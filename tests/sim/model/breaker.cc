// The breakers: they open and close for a reason, and none stays open when nothing was claimed for
// a minute. Claims that were given back count for neither side, since whether a claim counts that
// an operator took back the contract does not say.
#include "tests/sim/model/model.h"

namespace dfsmr::model {

using std::chrono::milliseconds, std::chrono::seconds;

void Model::NoteAttempt(const std::string& machine, Attempt attempt) {
  auto& attempts = attempts_[machine];
  attempts.push_back(attempt);
  while (!attempts.empty() && attempts.front().at + seconds(120) < now_) attempts.pop_front();
}

void Model::NoteGivenBack(ClaimId claim) {
  for (auto& [machine, attempts] : attempts_) {
    for (Attempt& one : attempts) one.given_back = one.given_back || one.claim == claim;
  }
}

Model::Minute Model::Claims(const std::string& machine, Timestamp from, Timestamp to,
                            bool given_back) const {
  Minute minute;
  const auto attempts = attempts_.find(machine);
  if (attempts == attempts_.end()) return minute;
  for (const Attempt& one : attempts->second) {
    if (one.at < from || one.at > to || (one.given_back && !given_back)) continue;
    ++minute.claims;
    minute.retries += one.retry;
  }
  return minute;
}

// The server's minute is between 59 and 60 seconds long.
void Model::CheckBreaker(const Event& event) {
  if (!Followed(event.machine)) return;  // of plans' claims not all are seen, nor their retries
  const Timestamp to = event.time + kSlack;
  const Minute most = Claims(event.machine, event.time - milliseconds(60'010), to, true);
  const Minute least = Claims(event.machine, event.time - milliseconds(58'990),
                              event.time - kSlack, false);
  const std::string what = "the breaker of " + event.machine + " ";
  if (event.kind == ChangeKind::kBreakerOpened) {
    Expect(most.claims >= 20 && most.retries * 2 >= least.claims,
           what + "opens after " + std::to_string(most.claims) + " claims, " +
               std::to_string(most.retries) + " of them retries");
  } else {
    Expect(least.claims == 0 || least.retries * 10 < most.claims,
           what + "closes after " + std::to_string(most.claims) + " claims, " +
               std::to_string(least.retries) + " of them retries");
  }
}

void Model::CheckOpenBreakers() {
  for (const std::string& machine : open_breakers_) {
    if (closed_now_.contains(machine)) continue;
    const Minute minute = Claims(machine, now_ - seconds(61), kNever, true);
    Expect(minute.claims > 0,
           "the breaker of " + machine + " is open, and nothing was claimed for a minute");
  }
}

}  // namespace dfsmr::model
