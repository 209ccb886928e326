// Starts that a limit may leave out: home is asked before they are made, answers late or never, and
// crashes. One that home lets begin does, unless home has lost what it had kept for it.
#include <iterator>
#include <utility>

#include "dsrv/engine/limits.h"
#include "tests/sim/messages/message_sim.h"

namespace dfsmr::message_sim {

// Of both together so many run as may, and one more waits.
std::string AskedJobs() {
  std::string all;
  for (const char* words : {"choosy, on_conflict: skip", "patient, waiting: 1"}) {
    const std::string text = words;
    const size_t comma = text.find(',');
    all += "---\nid: " + text.substr(0, comma) + "\nlimit: {key: asked, max: " +
           std::to_string(kMayRun) + text.substr(comma) +
           "}\nnodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}\n";
  }
  return all;
}

void MessageSim::Ask() {
  const std::string id = "a" + std::to_string(++names_);
  StartArgs start{.ns = "ns", .machine = random_.Chance(60) ? "choosy" : "patient", .id = id};
  const PartitionId there = parted_->PlaceOf(id);
  Note("ask for " + id + " (" + start.machine + ") at " + std::to_string(there));
  std::optional<std::string> question;
  at(there).Decide([&](Engine& e) {
    question = e.QuestionOf(&start);
    if (!question) (void)e.Start(start);
  });
  asked_.insert(id);
  if (!question) return Commit(there);
  Result<Ok> says = Ok{};
  at(kHome).Decide([&](Engine& e) { says = e.limits().Reserve(*question); });
  if (says) {
    promised_.insert(id);
  } else {
    ++hits_["a start is refused by what home says"];
  }
  if (random_.Chance(10)) says = Error{Code::kUnavailable, Reason::kNoOwner, "home is lost"};
  start.home_says = says;
  waiting_starts_.push_back(std::move(start));
}

// Home's answer to one of them has come.
void MessageSim::StartAsked() {
  if (waiting_starts_.empty()) return;
  const auto one = std::next(waiting_starts_.begin(),
                             static_cast<long>(random_.Below(waiting_starts_.size())));
  const StartArgs start = *one;
  waiting_starts_.erase(one);
  const PartitionId there = parted_->PlaceOf(start.id);
  Note("start " + start.id + " as home says");
  at(there).Decide([&](Engine& e) {
    const auto started = e.Start(start);
    const bool left_out = !started && started.error().reason == Reason::kLimitReached;
    if (left_out && *start.home_says) Wrong(start.id + " is left out: " + started.error().message);
    if (started && !*start.home_says) Wrong(start.id + " has started though home has refused it");
  });
  Commit(there);
}

void MessageSim::Asked() {
  const size_t dice = random_.Below(10);
  if (dice < 4 || asked_.empty()) return Ask();
  if (dice < 7) return StartAsked();
  const auto one = std::next(asked_.begin(), static_cast<long>(random_.Below(asked_.size())));
  const std::string id = *one;
  if (dice == 9) promised_.erase(id);
  parted_->Of(id).Decide([&](Engine& e) {
    dice == 9 ? (void)e.Cancel("ns", id, CancelMode::kForce)
              : (void)e.Report("ns", id, {.transition = "ok"});
  });
  Commit(parted_->PlaceOf(id));
}

void MessageSim::NoteAsked(const Event& event) {
  if (!asked_.contains(event.instance)) return;
  const bool promised = promised_.contains(event.instance);
  if (event.kind == ChangeKind::kStarted) {
    asked_running_.insert(event.instance);
    if (promised) ++hits_["one begins as home has said"];
  }
  if (event.kind == ChangeKind::kFinished) {
    asked_running_.erase(event.instance);
    const bool begun = seen_[event.instance].begun > 0;
    if (promised && !begun) Wrong(event.instance + " is left out though home has let it begin");
  }
  if (asked_running_.size() > kMayRun) Wrong("more run than the limit lets that home was asked for");
}

// Home's answer of a new one that lives elsewhere.
std::optional<StartArgs> MessageSim::LetIn() {
  const auto there = static_cast<PartitionId>(1 + random_.Below(parted_->size() - 1u));
  StartArgs start{.ns = "ns",
                  .machine = "choosy",
                  .id = parted_->Named("a" + std::to_string(++names_) + "-", there)};
  asked_.insert(start.id);
  std::optional<std::string> question;
  at(there).Do([&](Engine& e) { return question = e.QuestionOf(&start), true; });
  REQUIRE(question);
  start.home_says = at(kHome).Do([&](Engine& e) { return e.limits().Reserve(*question); });
  return *start.home_says ? std::optional(start) : std::nullopt;
}

// When all else is done: home lets as many begin as may, and they do, while all but home crash; and
// the place of one that does not is free after a while.
void MessageSim::TryAsked() {
  if (parted_->size() == 1) return;
  std::vector<StartArgs> waiting;
  size_t let_in = 0;
  for (size_t i = 0; i < 4 * kMayRun && Good(); ++i) {
    if (auto start = LetIn()) {
      ++let_in;
      waiting.push_back(*std::move(start));
    }
    if (let_in > kMayRun) Wrong("home has let in more than may begin");
    if (!waiting.empty() && random_.Chance(40)) {
      if (!parted_->Of(waiting.back().id).TryStart(waiting.back())) Wrong("it cannot start");
      waiting.pop_back();
    }
    if (random_.Chance(30)) Quiet();
    const PartitionId id = Any();
    if (id != kHome && random_.Chance(20)) Restart(id, "an engine crashes");
  }
  const bool gives_up = !waiting.empty() && random_.Chance(50);
  if (gives_up) {
    waiting.pop_back();
    parted_->Elapse(std::chrono::seconds(11));
    Quiet();
    auto another = LetIn();
    if (!another) return Wrong("home keeps a place for one that has never started");
    waiting.push_back(*std::move(another));
  }
  // Places that are kept are for ten seconds.
  for (const StartArgs& start : gives_up ? std::vector{waiting.back()} : waiting) {
    if (!parted_->Of(start.id).TryStart(start)) Wrong(start.id + " cannot start");
  }
  Quiet();
  size_t running = 0;
  for (const std::string& id : asked_) running += seen_[id].begun > 0 && seen_[id].Live() ? 1 : 0;
  const bool all = running == kMayRun || (gives_up && running > 0);
  if (!all) Wrong(std::to_string(running) + " run of those that home has let in");
  ++hits_["one begins as home has said"];
}

void MessageSim::CheckAsked() {
  for (const std::string& id : asked_) {
    const Seen& seen = seen_[id];
    if (!seen.exists) continue;
    if (seen.Live()) Wrong(id + ", of which home was asked, has not come to an end");
    if (seen.begun > 1) Wrong(id + ", of which home was asked, has begun twice");
  }
  const auto kept = at(kHome).Do([](Engine& e) { return e.limits().Look().Get("ns", "asked", "", 1); });
  if (kept.held != 0 || kept.waiting != 0) Wrong("home keeps places for those that are no more");
}

}  // namespace dfsmr::message_sim
