#include "dcli/agent/hands.h"

#include <algorithm>

#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/work/legal.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kLargestReport = 4'100'000;  // the server takes messages of 4 MiB
constexpr milliseconds kReportAgain{500};
constexpr std::chrono::seconds kRepeated{30};
constexpr size_t kMostSaid = 20'000;
constexpr size_t kMostEnded = 10'000;
constexpr size_t kReasonBytes = 4'000;

std::string TimeOutText(const Worker& worker, const v1::Task& task) {
  std::optional<Duration> most = worker.timeout;
  if (task.has_run_timeout()) {
    const Duration node = FromProto(task.run_timeout());
    most = most ? std::min(*most, node) : node;
  }
  return "it ran for longer than " + (most ? DurationText(*most) : std::string("it may"));
}

}  // namespace

void Hands::Ended(Hand* hand, const RunEnd& end) {
  hand->timeout.Clear();
  hand->tell.Clear();
  hand->run.reset();
  logs_->End(hand->task.claim());
  if (hand->lost || hand->order != Order::kNone || hand->given_back) return Stopped(hand, end);
  if (end.how == RunEnd::How::kRefused) return GiveBack(hand, end.why, true);
  if (hand->timed_out) {  // also when its process was stopped for another task of it
    Verdict verdict =
        Failure(TimeOutText(*hand->worker, hand->task) + ": " + end.status, "timeout");
    verdict.checkpoint = end.verdict.checkpoint;
    return Report(hand, verdict);
  }
  if (end.how == RunEnd::How::kGivenBack) return GiveBack(hand, end.why);
  Report(hand, end.verdict);
}

// It has ended because it was told to.
void Hands::Stopped(Hand* hand, const RunEnd& end) {
  const bool open = !hand->lost && hand->order != Order::kForce && hand->order != Order::kKill;
  const bool told = end.how == RunEnd::How::kEnded && end.well;
  // Of what has stopped the server keeps it, and it counts if that is resumed.
  const bool ordered = hand->order != Order::kNone;  // that may have made the claim stale
  if (told && (ordered || !hand->lost)) return Report(hand, end.verdict);
  const std::string why = end.why.empty() ? end.status : end.why;
  if (!open || hand->at_most_once) return EndSilently(hand, why);
  GiveBack(hand, (hand->order == Order::kNone ? "the agent ends: " : "cancelled: ") + why);
}

void Hands::Report(Hand* hand, const Verdict& verdict) {
  hand->stage = Hand::Stage::kReporting;
  hand->verdict = verdict;
  if (ReportOf(hand->task, verdict).ByteSizeLong() > kLargestReport) {
    hand->verdict = Failure("its report is larger than any report may be", "output");
  }
  SendReport(hand);
  BeginWaiting();
}

void Hands::SendReport(Hand* hand) {
  if (!open_) return;  // Repeat will
  *out_.mutable_work()->add_transitions() = ReportOf(hand->task, hand->verdict);
  results_.push_back(hand->task.claim());
}

void Hands::Answered(const std::string& claim, const v1::TransitionResult& result) {
  Hand* hand = Find(claim);
  if (hand == nullptr) return;
  if (result.has_error()) return NotTaken(hand, FromProto(result.error()));
  const Verdict& verdict = hand->verdict;
  Finish(hand,
         verdict.transition + (verdict.error.empty() ? "" : ": " + verdict.error.substr(0, 300)));
}

void Hands::NotTaken(Hand* hand, const Error& error) {
  const std::string claim = hand->task.claim();
  if (Passing(error) || Deferred(error)) {
    hand->again.SetIn(kReportAgain, [this, hand] { SendReport(hand); });
    return;
  }
  const bool stale = error.reason == Reason::kStaleClaim;
  const Verdict& verdict = hand->verdict;
  // What a machine's node does not have may be refused for another reason before that.
  const bool doubtful = !stale && verdict.error_kind != "output" && verdict.transition != "error";
  if (error.reason == Reason::kIllegalTransition || doubtful) {
    Aside([this, claim, error, task = hand->task, client = context_.client.get()] {
      const auto legal = LegalTransitions(*client, task);
      loop_.Post([this, claim, error, legal] { NoSuchTransition(claim, error, legal); });
    });
    return;
  }
  if (!stale && verdict.error_kind != "output") {
    return Report(hand, Failure("its report was refused: " + error.message, "output"));
  }
  if (hand->order != Order::kNone) AddStop(hand->task.instance(), claim, v1::StopReport::ENDED);
  Finish(hand, "its report is dropped: " + error.message);
}

void Hands::NoSuchTransition(const std::string& claim, const Error& error,
                             const Result<std::vector<std::string>>& legal) {
  Hand* hand = Find(claim);
  if (hand == nullptr || hand->stage != Hand::Stage::kReporting) return;
  Verdict& verdict = hand->verdict;
  const bool has = legal && std::ranges::find(*legal, verdict.transition) != legal->end();
  if (error.reason != Reason::kIllegalTransition && (has || !legal)) {
    return Report(hand, Failure("its report was refused: " + error.message, "output"));
  }
  const bool well = verdict.transition == "ok" && !verdict.named;
  if (legal && legal->size() == 1 && well && legal->front() != "ok") {
    Verdict only = verdict;
    only.transition = legal->front();
    only.named = true;
    return Report(hand, only);
  }
  if (verdict.transition == "error" && !verdict.error_kind.empty()) {  // nothing else can be said
    return GiveBack(hand, "its report is refused: " + error.message);
  }
  const std::string known = legal ? "it has " + Join(*legal, ", ") : error.message;
  const std::string said = verdict.error.empty() ? "" : "; it said: " + verdict.error;
  Report(hand, Failure("the node " + hand->task.node() + " has no transition \"" +
                           verdict.transition + "\"; " + known + said,
                       "output"));
}

// The claim goes back. `refused`: nothing has run.
void Hands::GiveBack(Hand* hand, const std::string& reason, bool refused) {
  SendBack(*hand, reason, refused);
  Finish(hand, (refused ? "refused: " : "given back: ") + reason);
}

void Hands::SendBack(const Hand& hand, const std::string& reason, bool refused) {
  v1::AgentMessage message;
  v1::RelinquishRequest* request = message.mutable_work()->add_relinquishes();
  request->set_namespace_(hand.task.namespace_());
  request->set_instance(hand.task.instance());
  request->set_claim(hand.task.claim());
  request->set_reason(reason.substr(0, kReasonBytes));
  request->set_refused(refused);
  if (open_) out_.MergeFrom(message);
  said_.push_back({steady_clock::now(), std::move(message)});
}

// Nothing can be reported any more: only that it has ended.
void Hands::EndSilently(Hand* hand, const std::string& why) {
  AddStop(hand->task.instance(), hand->task.claim(), v1::StopReport::ENDED);
  Finish(hand, "stopped: " + why);
}

void Hands::AddStop(const std::string& instance, const std::string& claim,
                    v1::StopReport::Stage stage) {
  v1::AgentMessage message;
  v1::StopReport* stop = message.add_stops();
  stop->set_instance(instance);
  stop->set_claim(claim);
  stop->set_stage(stage);
  if (open_) out_.MergeFrom(message);
  said_.push_back({steady_clock::now(), std::move(message)});
}

void Hands::Finish(Hand* hand, const std::string& how) {
  if (!how.empty()) Note(hand->Name() + ": " + how);
  logs_->End(hand->task.claim());
  ended_[hand->task.claim()] = hand->task.instance();
  ended_order_.push_back(hand->task.claim());
  if (ended_order_.size() > kMostEnded) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
  if (hand->stage == Hand::Stage::kFetching) {
    packages_->Forget(hand->task.package(), hand->task.claim());
  }
  hands_.erase(hand->task.claim());
  BeginWaiting();
  MayEnd();
  const auto old = steady_clock::now() - kRepeated;
  while (!said_.empty() && (said_.front().time < old || said_.size() > kMostSaid)) {
    said_.pop_front();
  }
}

// On a new stream: all that is in hand is extended, and what was not answered is said again.
void Hands::Repeat() {
  const auto old = steady_clock::now() - kRepeated;
  for (const Said& said : said_) {
    if (said.time >= old) out_.MergeFrom(said.message);
  }
  for (const auto& [claim, hand] : hands_) Extend(hand.get());
  for (const auto& [claim, hand] : hands_) {
    if (hand->stage != Hand::Stage::kReporting) continue;
    *out_.mutable_work()->add_transitions() = ReportOf(hand->task, hand->verdict);
    results_.push_back(claim);
  }
}

}  // namespace dfsmr::cli
