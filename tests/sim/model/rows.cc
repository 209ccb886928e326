// The rows of the store against what the model knows, and what a crash leaves of both.
#include <algorithm>

#include "tests/sim/model/model.h"

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

Life Model::LifeOf(const Row& stored) const {
  const Instance& row = stored.instance;
  Life life;
  const auto known = lives_.find(row.id);
  if (known != lives_.end()) life = known->second;
  life.id = row.id;
  life.machine = row.machine;
  life.version = row.version;
  life.state = row.state;
  life.result = row.result;
  life.priority = row.priority;
  life.params = stored.spec.params;
  life.start_at = row.start_at;
  life.start_before = row.start_before;
  life.ended_at = row.end_time;
  life.hold = row.waits.Has(Wait::kHold);
  life.opaque = only_follows_ || row.plan || row.parent_step || row.provenance || life.opaque;
  life.after = row.after;
  life.cancel_requested = row.Cancelling();
  life.stuck = row.waits.Has(Wait::kStuck);
  life.last_visit = row.last_visit;
  life.stands.clear();
  life.expected.clear();
  life.paused = row.state == InstanceState::kPaused;
  if (life.opaque) return life;
  life.entries.clear();
  for (const auto& [node, entries] : row.entries) life.entries[node] = entries;
  life.resumable = row.resumable;
  life.left.clear();
  std::vector<std::pair<const Token*, std::map<uint64_t, Stand>*>> tokens;
  for (const Token& token : row.tokens) tokens.emplace_back(&token, &life.stands);
  for (const auto& [key, token] : row.tokens.left()) tokens.emplace_back(&token, &life.left);
  for (const auto& [from, to] : tokens) {
    const Token& token = *from;
    Stand& stand = (*to)[token.visit];
    if (token.late) stand.late = rules::ReportOf(row, token.visit, *token.late);
    stand.node = NodeName(MachineOf(life), token.node);
    stand.visit = token.visit;
    stand.state = token.state;
    stand.attempts = token.attempt;
    stand.tries = TriesOf(token);
    stand.ready_at = stand.ready_by = now_;
    stand.params = token.params;
    stand.since = token.available_at;
    stand.earliest = stand.latest = token.available_at;
    for (const Claim& claim : token.claims) {
      Claimed& one = stand.claims.emplace_back();
      one.id = claim.id;
      one.attempt = claim.attempt;
      one.deadline = claim.deadline;
      one.timed_out = claim.timed_out;
      one.given_back = claim.given_back;
      one.untold = claim.given_back && claim.ended;
      one.retry = claim.retry;
      if (claim.sampled != Duration()) one.outlasted = claim.claim_time + claim.sampled;
      life.claimed_at[claim.id] = claim.claim_time;
    }
  }
  return life;
}

// `exact`: the row was written after all that the model has seen of the instance.
void Model::CompareOne(const Row& stored, bool exact) {
  const Instance& row = stored.instance;
  const auto known = lives_.find(row.id);
  if (known == lives_.end()) {
    return Expect(row.plan || !row.parent.empty(), row.id + " was never started");
  }
  if (known->second.adopt) {
    known->second = LifeOf(stored);
    known->second.adopt = false;
  }
  const Life& life = known->second;
  if (life.opaque) {
    const bool followed = resumed_ && !row.parent.empty();  // children are resumed with theirs
    return Expect(!life.cancel_requested || followed || row.Cancelling() || row.Stopped(),
                  row.id + " was cancelled, and does not know");
  }
  const Life other = LifeOf(stored);
  bool same = life.machine == other.machine && life.version == other.version &&
              life.state == other.state && life.stuck == other.stuck &&
              life.result == other.result && life.hold == other.hold && life.after == other.after &&
              life.cancel_requested == other.cancel_requested &&
              life.last_visit == other.last_visit && life.priority == other.priority &&
              life.params == other.params && life.stands.size() == other.stands.size() &&
              life.left.size() == other.left.size() && life.resumable == other.resumable;
  for (const auto& [visit, stand] : life.left) {
    const auto at = other.left.find(visit);
    same = same && at != other.left.end() && SameStand(stand, at->second, exact, now_) &&
           stand.late.has_value() == at->second.late.has_value();
  }
  for (const auto& [visit, stand] : life.stands) {
    const auto at = other.stands.find(visit);
    same = same && at != other.stands.end() && SameStand(stand, at->second, exact, now_);
  }
  for (const auto& [node, entries] : other.entries) {
    const auto counted = life.entries.find(node);
    same = same && (entries == 0 || (counted != life.entries.end() && counted->second == entries));
  }
  Expect(same, row.id + " is " + TextOf(other) + " instead of " + TextOf(life));
}

void Model::Compare(const Rows& rows) {
  for (const auto& [id, row] : rows) CompareOne(row, /*exact=*/true);
  for (const auto& [id, life] : lives_) {
    Expect(rows.contains(id) || (life.Stopped() && life.ended_at + retention_ <= now_),
           id + " is gone");
  }
}

// All that the server had not written is forgotten: claims that the feed has not told of, and what
// was not durable of the rest.
void Model::Crashed(const std::vector<Event>& events, std::set<std::string> unknown,
                    const Rows& rows, const std::vector<const Machine*>& defined, Timestamp latest,
                    Timestamp now) {
  now_ = std::max(now_, latest);
  unheard_ = unheard_ || !events.empty() || !unknown.empty();
  AdoptDefinitions(defined, !events.empty());
  for (const Event& event : events) {
    unknown.insert(event.instance);
    if (event.answer) lives_[event.instance].answers[event.answer->claim] = *event.answer;
  }
  for (auto& [id, life] : lives_) {
    for (const Expected& one : life.expected) {
      for (auto& [visit, stand] : life.stands) {
        stand.attempts -= static_cast<uint32_t>(
            std::erase_if(stand.claims, [&](const Claimed& c) { return c.id == one.claim; }));
      }
    }
    life.expected.clear();
    const auto row = rows.find(id);
    bool heard = row != rows.end() && !unknown.contains(id);
    for (const auto& one : life.after) heard = heard && !unknown.contains(one.instance);
    if (heard) CompareOne(row->second, /*exact=*/false);
  }
  Adopt(rows, unknown);
  waiters_.clear();
  queues_.clear();
  open_breakers_.clear();
  attempts_.clear();
  closed_now_.clear();
  stopping_ = false;
  now_ = now;  // it may be earlier than before: what lies ready does so since then
  for (auto& [id, life] : lives_) {
    for (auto& [visit, stand] : life.stands) stand.ready_at = stand.ready_by = now;
  }
}

void Model::AdoptDefinitions(const std::vector<const Machine*>& defined, bool unheard) {
  std::map<std::string, std::vector<Machine>> machines;
  for (const Machine* machine : defined) machines[machine->id].push_back(*machine);
  for (const auto& [id, versions] : machines) {
    const size_t known = machines_[id].size();
    Expect(versions.size() == known || (unheard && versions.size() > known),
           id + " has other versions after a crash");
  }
  machines_ = std::move(machines);
}

void Model::Adopt(const Rows& rows, const std::set<std::string>& unknown) {
  std::map<std::string, Life> lives;
  for (const auto& [id, row] : rows) {
    Life life = LifeOf(row);
    std::vector<std::pair<const uint64_t, Stand>*> stands;
    for (auto& one : life.stands) stands.push_back(&one);
    for (auto& one : life.left) stands.push_back(&one);
    for (auto* one : stands) {
      auto& [visit, stand] = *one;
      for (const auto& [text, handed] : handed_) {
        if (handed.instance != id || handed.visit != visit || voided_.contains(text)) continue;
        const bool listed =
            std::ranges::find(stand.claims, handed.id, &Claimed::id) != stand.claims.end();
        const bool once = handed.once;
        if (!listed && !once) stand.lost.insert(handed.id);
      }
    }
    life.unheard = life.unheard || unknown.contains(id);
    lives[id] = std::move(life);
  }
  for (const auto& [id, life] : lives_) {
    const bool may = (life.Stopped() && life.ended_at + retention_ <= now_) || unknown.contains(id);
    Expect(lives.contains(id) || may || life.opaque, id + " is gone after a crash");
  }
  lives_ = std::move(lives);
}

void Model::Hold(const std::vector<Task>& tasks) {
  for (const Task& task : tasks) {
    handed_[task.claim] = {task.instance, task.visit, task.claim_id, task.deadline == kNever};
  }
}

}  // namespace dfsmr::model
