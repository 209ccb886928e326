#include "tests/sim/compare.h"

namespace dfsmr::model {
namespace {

std::string TextOf(const Life& life) {
  std::string text = std::string(Name(life.state)) + " " + std::string(Name(life.result)) +
                     (life.cancel_requested ? " cancelled" : "") + (life.hold ? " held" : "") +
                     " v" + std::to_string(life.version) + " #" + std::to_string(life.last_visit) +
                     " after " + std::to_string(life.after.size());
  for (const auto& [visit, stand] : life.stands) {
    text += " " + stand.node + "#" + std::to_string(visit) + ":" +
            std::to_string(static_cast<int>(stand.state)) + " attempt " +
            std::to_string(stand.attempts) + " since " + std::to_string(Micros(stand.since));
    for (const Claimed& one : stand.claims) {
      text += " [" + std::to_string(one.id.epoch) + "-" + std::to_string(one.id.serial) + " " +
              std::to_string(one.attempt) + (one.timed_out ? " late" : "") +
              (one.given_back ? " void" : "") + (one.retry ? " retry" : "") + " until " +
              std::to_string(one.deadline == kNever ? 0 : Micros(one.deadline)) + "]";
    }
  }
  if (life.resumable) text += " resumable";
  for (const auto& [visit, stand] : life.left) {
    text += " left " + stand.node + "#" + std::to_string(visit) + ":" +
            std::to_string(static_cast<int>(stand.state)) + " attempt " +
            std::to_string(stand.attempts) + (stand.late ? " reported" : "") + " " + stand.params;
  }
  return text;
}

bool SameClaims(const Stand& a, const Stand& b, bool exact) {
  if (a.claims.size() != b.claims.size()) return false;
  for (size_t i = 0; i < a.claims.size(); ++i) {
    const Claimed& one = a.claims[i];
    const Claimed& other = b.claims[i];
    const bool same = one.id == other.id && one.attempt == other.attempt &&
                      one.given_back == other.given_back && one.retry == other.retry;
    // An extended deadline may be lost in a crash, as a claim may.
    const bool live = one.timed_out == other.timed_out && one.deadline == other.deadline;
    if (!same || (exact && !live)) return false;
  }
  return true;
}

bool SameStand(const Stand& model, const Stand& row, bool exact, Timestamp now) {
  if (model.node != row.node || model.visit != row.visit) return false;
  if (model.state == TokenState::kDone) return row.state == TokenState::kDone;
  const bool waits = model.state == TokenState::kWaiting;
  const bool place = waits ? row.latest == model.latest ||
                                 (row.latest >= model.earliest && row.latest <= model.latest)
                           : (row.since >= model.SinceFrom() && row.since <= model.SinceTo()) ||
                                 model.state == TokenState::kHeld;
  // The time between two tries is over, and no pass has told the model.
  const bool over = waits && model.tries > 0 && row.state == TokenState::kReady && row.since <= now;
  const bool state = model.state == row.state || (!exact && !waits) || over;
  return state && place && model.tries == row.tries && model.attempts == row.attempts &&
         model.params == row.params && SameClaims(model, row, exact);
}

}  // namespace

std::string DifferenceOf(const Life& life, const Life& other, bool exact, Timestamp now) {
  bool same = life.machine == other.machine && life.version == other.version &&
              life.state == other.state && life.stuck == other.stuck &&
              life.result == other.result && life.hold == other.hold && life.after == other.after &&
              life.cancel_requested == other.cancel_requested &&
              life.last_visit == other.last_visit && life.priority == other.priority &&
              life.params == other.params && life.stands.size() == other.stands.size() &&
              life.left.size() == other.left.size() && life.resumable == other.resumable;
  for (const auto& [visit, stand] : life.left) {
    const auto at = other.left.find(visit);
    same = same && at != other.left.end() && SameStand(stand, at->second, exact, now) &&
           stand.late.has_value() == at->second.late.has_value();
  }
  for (const auto& [visit, stand] : life.stands) {
    const auto at = other.stands.find(visit);
    same = same && at != other.stands.end() && SameStand(stand, at->second, exact, now);
  }
  for (const auto& [node, entries] : other.entries) {
    const auto counted = life.entries.find(node);
    same = same && (entries == 0 || (counted != life.entries.end() && counted->second == entries));
  }
  return same ? "" : life.id + " is " + TextOf(other) + " instead of " + TextOf(life);
}

}  // namespace dfsmr::model
