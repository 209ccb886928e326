#include "dsrv/wire/one_step.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dsrv/wire/instance_views.h"
#include "dsrv/wire/plan_view.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/names.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kRecordsRead = 10'000;  // of the history, the latest
constexpr int kEventsShown = 100;

Error NoSuchStep(const StepCommand& command) {
  return {Code::kNotFound, Reason::kNoSuchNode,
          "instance " + Quoted(command.instance) + " has no step or node " + Quoted(command.path)};
}

// How long attempts were with workers, and the first of them waited for one.
class Times {
 public:
  explicit Times(const std::string& path) : path_(path) {}

  // Records in their order.
  void Add(const Event& event) {
    const bool here = StandsAt({event.node}, path_);
    if (event.kind == ChangeKind::kClaimed && here) {
      begun_[{event.visit, event.attempt}] = event.time;
      if (entered_ && !waited_) waited_ = event.time - *entered_;
    } else if (Leaves(event.kind) && StandsAt({event.prev_node}, path_)) {
      End({event.left_visit, event.attempt}, event.time);
    } else if (event.kind == ChangeKind::kTimedOut || event.kind == ChangeKind::kRelinquished ||
               event.kind == ChangeKind::kAbandoned) {
      End({event.visit, event.attempt}, event.time);
    }
    const bool enters =
        event.kind == ChangeKind::kTransitioned || event.kind == ChangeKind::kStarted;
    if (enters && here && !entered_) entered_ = event.time;
  }

  void Show(Timestamp now, bool under_way, v1::GetStepResponse* reply) {
    for (const auto& [attempt, time] : begun_) {
      if (under_way) active_ += std::max(Duration(), now - time);
    }
    if (active_ > Duration()) ToProto(active_, reply->mutable_active());
    if (waited_) ToProto(*waited_, reply->mutable_waited());
  }

 private:
  static bool Leaves(ChangeKind kind) {
    return kind == ChangeKind::kTransitioned || kind == ChangeKind::kSuspended;
  }

  using Attempt = std::pair<uint64_t, uint32_t>;  // its visit and number

  void End(const Attempt& attempt, Timestamp time) {
    const auto begun = begun_.find(attempt);
    if (begun == begun_.end()) return;
    active_ += time - begun->second;
    begun_.erase(begun);
  }

  const std::string& path_;
  std::map<Attempt, Timestamp> begun_;
  std::optional<Timestamp> entered_;
  std::optional<Duration> waited_;
  Duration active_{};
};

Result<Ok> ShowTimes(const Moment& moment, const Instance& instance, const std::string& path,
                     Timestamp now, bool under_way, v1::GetStepResponse* reply) {
  std::vector<uint64_t> seqs;
  auto read = rows::HistoryBackwards(moment.rows, instance, [&seqs](uint64_t seq) {
    seqs.push_back(seq);
    return seqs.size() < kRecordsRead;
  });
  if (!read) return read;
  rows::FeedReader feed(moment.rows);
  Times times(path);
  for (auto seq = seqs.rbegin(); seq != seqs.rend(); ++seq) {
    auto event = feed.Get(*seq);
    if (!event && event.error().code == Code::kNotFound) continue;
    if (!event) return event.error();
    times.Add(*event);
  }
  times.Show(now, under_way, reply);
  return Ok{};
}

// The node of a plain machine; false: it has none of this name.
bool ShowNode(const Moment& moment, const InstanceView& view, const std::string& path,
              v1::GetStepResponse* reply) {
  const Instance& instance = view.instance;
  const Machine* machine = moment.registry.Resolve(instance.ns, instance.machine, instance.version);
  const NodeIndex index = machine ? machine->Find(path) : kNoNode;
  if (index == kNoNode) return false;
  const Node& node = machine->nodes[index];
  reply->set_queue(node.settings->queue);
  reply->set_priority(node.settings->priority);
  for (const Token& token : instance.tokens) {
    if (token.node != index) continue;
    reply->set_input(token.params.empty() ? "{}" : token.params);
    reply->set_resolved(true);
  }
  return true;
}

}  // namespace

Result<Ok> ReadStep(const Moment& moment, const StepCommand& command, const StepNow& now,
                    v1::GetStepResponse* reply) {
  auto instance = rows::GetInstance(moment.rows, {command.ns, command.instance}, moment.resolve);
  if (!instance) return instance.error();
  auto view = ViewOf(moment, *std::move(instance));
  if (!view) return view.error();
  if (auto done = Fill(moment, &*view); !done) return done;
  if (view->instance.plan) {
    auto source = ReadStepSource(moment, view->instance, command.path);
    if (!source) return source.error();
    if (!*source) return NoSuchStep(command);
    if (!(*source)->step.path().empty()) reply->mutable_step()->Swap(&(*source)->step);
    const bool handed_out = reply->step().has_start_time();
    reply->set_input(handed_out && now.filled ? *now.filled : (*source)->input);
    reply->set_resolved(handed_out && now.filled.has_value());
    reply->set_queue((*source)->queue);
    reply->set_priority((*source)->priority);
  } else if (!ShowNode(moment, *view, command.path, reply)) {
    return NoSuchStep(command);
  }
  auto output = rows::GetOutput(moment.rows, view->instance, command.path);
  if (!output) return output.error();
  if (*output) reply->set_output(**output);
  v1::Instance shown;
  ToProto(*view, &shown);
  bool under_way = false;
  const Tokens& tokens = view->instance.tokens;
  for (size_t i = 0; i < tokens.size() && i < static_cast<size_t>(shown.tokens_size()); ++i) {
    if (!StandsAt({view->nodes[i]}, command.path)) continue;
    *reply->add_tokens() = shown.tokens(static_cast<int>(i));
    const Token& token = tokens[i];
    under_way = under_way || token.state == TokenState::kClaimed;
    reply->set_tries(TriesOf(token));
    if (token.state == TokenState::kWaiting && token.available_at != kNever) {
      ToProto(token.available_at, reply->mutable_wake_time());
    }
    if (!token.step) continue;
    for (const auto& [event, data] : token.step->inbox) {
      if (reply->events_size() < kEventsShown) reply->add_events(event);
    }
  }
  return ShowTimes(moment, view->instance, command.path, now.time, under_way, reply);
}

}  // namespace dfsmr
