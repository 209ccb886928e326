#include "dsrv/cluster/sharing.h"

#include <algorithm>

#include "dsrv/cluster/levels.h"
#include "fsm/base/reason.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

// What may wait for its answer before no message is read.
constexpr size_t kUnanswered = 10'000;
constexpr size_t kUnansweredBytes = 8'000'000;
// Of what is asked anew.
constexpr int kItemsPerMessage = 500;
constexpr size_t kBytesPerMessage = 1'000'000;

Error BadMessage(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}

v1::Error Unknown() {
  v1::Error error;
  error.set_code(static_cast<int32_t>(Code::kUnavailable));
  error.set_reason(std::string(Name(Reason::kOutcomeUnknown)));
  error.set_message("the server that owned the partition was lost meanwhile: it may be done");
  return error;
}

// Whether the worker has the claim no more that it has reported.
bool IsOver(const v1::TransitionResult& result) {
  if (result.has_accepted()) return true;
  const std::string& reason = result.error().reason();
  return reason == Name(Reason::kStaleClaim) || reason == Name(Reason::kNoSuchInstance) ||
         reason == Name(Reason::kInstanceStopped);
}

// Puts items into messages of a moderate size.
class Portions {
 public:
  explicit Portions(peer::WorkPart first) { all_.push_back(std::move(first)); }

  v1::WorkRequest& For(size_t bytes) {
    if (++items_ > kItemsPerMessage || bytes_ + bytes > kBytesPerMessage) {
      all_.emplace_back();
      items_ = 1;
      bytes_ = 0;
    }
    bytes_ += bytes;
    return *all_.back().mutable_work();
  }
  std::vector<peer::WorkPart> Take() { return std::move(all_); }

 private:
  std::vector<peer::WorkPart> all_;
  int items_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

// From the worker -------------------------------------------------------------------------------

Result<Ok> Sharing::Take(v1::WorkRequest message) {
  if (!open_ && !message.has_open()) {
    return BadMessage("the first message of a Work stream must hold 'open'");
  }
  if (open_ && message.has_open()) {
    return BadMessage("'open' belongs in the first message of a Work stream only");
  }
  constexpr int kMost = static_cast<int>(limits::kBatchItems);
  if (message.transitions_size() > kMost || message.extends_size() > kMost ||
      message.relinquishes_size() > kMost) {
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 "one message holds more than " + std::to_string(kMost) + " items"};
  }
  if (message.has_open()) {
    open_ = std::move(*message.mutable_open());
    most_ = static_cast<size_t>(std::clamp(open_->max_tasks(), 1, limits::kCapacity));
  }
  Share(std::move(message));
  return Ok{};
}

Result<Ok> Sharing::Take(v1::AgentMessage message, Time now) {
  if (!open_ && (!message.has_register_() || !message.work().has_open())) {
    return BadMessage(
        "the first message of an Attach stream must hold 'register' and 'work.open'");
  }
  if (open_ && message.has_register_()) {
    return BadMessage("'register' belongs in the first message of an Attach stream only");
  }
  if (message.stops_size() > static_cast<int>(limits::kStops)) {
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 "one message holds more than " + std::to_string(limits::kStops) + " stops"};
  }
  if (!open_) register_ = std::move(*message.mutable_register_());
  if (auto taken = Take(std::move(*message.mutable_work())); !taken) return taken;
  for (auto& stop : *message.mutable_stops()) {
    const PartitionId of = PlaceOf("", stop.instance());
    if (parts_[of].open) {
      *out_[of].mutable_agent()->add_stops() = std::move(stop);
    } else {
      parts_[of].stops.push_back(std::move(stop));
    }
  }
  const bool leaves = message.leave() && !std::exchange(leaves_, true);
  for (PartitionId of = 0; leaves && of < parts_.size(); ++of) {
    if (parts_[of].open) out_[of].mutable_agent()->set_leave(true);
  }
  if (parts_[kHome].open && heard_ + kWelcome < now) {
    out_[kHome].mutable_agent();
    heard_ = now;
  }
  return Ok{};
}

// Each partition gets what is about its instances.
void Sharing::Share(v1::WorkRequest message) {
  for (auto& one : *message.mutable_transitions()) {
    const PartitionId of = PlaceOf(one.namespace_(), one.instance());
    unanswered_ += one.ByteSizeLong();
    Ask(of, Report{results_.Expect(), std::move(one)});
  }
  for (auto& one : *message.mutable_extends()) {
    const PartitionId of = PlaceOf("", one.instance());
    unanswered_ += one.ByteSizeLong();
    Ask(of, Extend{extended_.Expect(), std::move(one)});
  }
  for (auto& one : *message.mutable_relinquishes()) {
    const PartitionId of = PlaceOf(one.namespace_(), one.instance());
    if (parts_[of].open) {
      *out_[of].mutable_work()->add_relinquishes() = std::move(one);
    } else {
      parts_[of].relinquishes.push_back(std::move(one));
    }
  }
  if (!message.drain() || std::exchange(drains_, true)) return;
  for (PartitionId of = 0; of < parts_.size(); ++of) {
    if (parts_[of].open) out_[of].mutable_work()->set_drain(true);
  }
}

void Sharing::Ask(PartitionId partition, Report report) {
  Part& part = parts_[partition];
  report.sent = part.open;
  if (part.open) *out_[partition].mutable_work()->add_transitions() = report.request;
  part.reports.push_back(std::move(report));
}

void Sharing::Ask(PartitionId partition, Extend extend) {
  Part& part = parts_[partition];
  extend.sent = part.open;
  if (part.open) *out_[partition].mutable_work()->add_extends() = extend.item;
  part.extends.push_back(std::move(extend));
}

void Sharing::HalfClose() {
  half_closed_ = true;
  for (PartitionId of = 0; of < parts_.size(); ++of) {
    if (parts_[of].open) out_[of].set_end(peer::WorkPart::HALF_CLOSED);
  }
}

bool Sharing::Full() const {
  return results_.open() + extended_.open() >= kUnanswered || unanswered_ >= kUnansweredBytes;
}

PartitionId Sharing::PlaceOf(const std::string& ns, const std::string& instance) const {
  return PartitionOf(ns.empty() ? open_->namespace_() : ns, instance,
                     static_cast<uint16_t>(parts_.size()));
}

// The partitions' streams -----------------------------------------------------------------------

std::vector<peer::WorkPart> Sharing::Open(PartitionId partition, Time now) {
  Part& part = parts_[partition];
  part.open = part.looks = true;
  part.late = false;
  part.looked = now;
  peer::WorkPart first;
  first.set_look(true);
  *first.mutable_work()->mutable_open() = *open_;
  first.mutable_work()->set_drain(drains_);
  // What is being reported is not taken up: it is over, most likely.
  auto held = part.held;
  for (const Report& report : part.reports) held.erase(report.request.claim());
  /*mutant front-held-not-told*/ for (const auto& [claim, instance] : held) {
    peer::Claim& one = *first.add_held();
    one.set_instance(instance);
    one.set_claim(claim);
  } /*end*/
  for (const Refused& one : refused_) {
    if (one.until > now) *first.add_refuses() = one.work;
  }
  if (register_) {
    v1::AgentMessage& agent = *first.mutable_agent();
    *agent.mutable_register_() = *register_;
    agent.set_leave(leaves_);
    for (auto& stop : std::exchange(part.stops, {})) *agent.add_stops() = std::move(stop);
  }
  Portions portions(std::move(first));
  for (Report& report : part.reports) {
    report.again = report.again || std::exchange(report.sent, true);
    *portions.For(report.request.ByteSizeLong()).add_transitions() = report.request;
  }
  for (Extend& extend : part.extends) {
    extend.sent = true;
    *portions.For(extend.item.ByteSizeLong()).add_extends() = extend.item;
  }
  for (auto& one : std::exchange(part.relinquishes, {})) {
    *portions.For(one.ByteSizeLong()).add_relinquishes() = std::move(one);
  }
  auto all = portions.Take();
  if (half_closed_) all.back().set_end(peer::WorkPart::HALF_CLOSED);
  return all;
}

void Sharing::Answer(Part& part, v1::TransitionResult result) {
  const Report& report = part.reports.front();
  unanswered_ -= report.request.ByteSizeLong();
  if (IsOver(result)) part.held.erase(report.request.claim());
  results_.Put(report.ticket, std::move(result));
  part.reports.pop_front();
}

void Sharing::Answer(Part& part, v1::ExtendResponse::Item item) {
  unanswered_ -= part.extends.front().item.ByteSizeLong();
  extended_.Put(part.extends.front().ticket, std::move(item));
  part.extends.pop_front();
}

void Sharing::TakeReply(PartitionId partition, peer::WorkPartReply reply, Time now) {
  Part& part = parts_[partition];
  v1::WorkResponse& work = *reply.mutable_work();
  for (auto& result : *work.mutable_results()) {
    if (part.reports.empty()) break;
    const std::string claim = part.reports.front().request.claim();
    const bool again = part.reports.front().again;
    Answer(part, std::move(result));
    const auto held = again ? part.held.find(claim) : part.held.end();
    if (held == part.held.end()) continue;
    peer::Claim& one = *out_[partition].add_held();  // the worker has it still
    one.set_instance(held->second);
    one.set_claim(claim);
  }
  for (auto& item : *work.mutable_extended()) {
    if (!part.extends.empty()) Answer(part, std::move(item));
  }
  for (const v1::Task& task : work.tasks()) part.held[task.claim()] = task.instance();
  for (const peer::Claim& one : reply.again()) part.held[one.claim()] = one.instance();
  for (const std::string& claim : reply.over()) part.held.erase(claim);
  for (v1::RefusedWork& one : *reply.mutable_refuses()) NoteRefused(partition, std::move(one), now);
  /*mutant front-vain-kept*/
  part.allowed -= std::min<size_t>(part.allowed, work.tasks_size() + reply.spare()); /*end*/
  if (reply.spare() > 0) part.not_before = now + kInVain;
  if (reply.looked()) {
    part.looks = part.late = false;
    part.told = now;
    part.levels.mutable_levels()->Swap(reply.mutable_levels());
  }
  if (reply.has_order()) TakeWelcome(partition, std::move(*reply.mutable_order()), now);
  work.clear_results();
  work.clear_extended();
  next_.MergeFrom(work);
}

void Sharing::NoteRefused(PartitionId by_way_of, v1::RefusedWork work, Time now) {
  std::erase_if(refused_, [now](const Refused& one) { return one.until <= now; });
  for (PartitionId other = 0; other < parts_.size(); ++other) {
    if (other == by_way_of || !parts_[other].open) continue;
    /*mutant front-refused-not-told*/ *out_[other].add_refuses() = work; /*end*/
  }
  refused_.push_back({std::move(work), now + kRefused});
}

void Sharing::TakeWelcome(PartitionId partition, v1::AgentOrder order, Time now) {
  if (order.has_welcome()) {
    parts_[partition].welcomed = true;
    auto& lost = *order.mutable_welcome()->mutable_lost_claims();
    if (partition == kHome && !welcome_) {
      welcome_ = std::move(*order.mutable_welcome());
      welcome_by_ = now + kWelcome;
      heard_ = now;
    } else if (welcome_) {
      welcome_->mutable_lost_claims()->MergeFrom(lost);
    }
  }
  if (partition != kHome || order.drained() == drained_) return;
  drained_ = order.drained();
  news_ = true;
}

bool Sharing::MayWelcome(Time now) const {
  if (!welcome_) return false;
  return now >= welcome_by_ || std::ranges::all_of(parts_, &Part::welcomed);
}

// A transition that names no claim would be made twice.
void Sharing::DropUnrepeatable(Part& part) {
  std::deque<Report> repeated;
  for (Report& report : part.reports) {
    if (/*mutant front-unclaimed-repeated*/ !report.sent ||
        !report.request.claim().empty() /*end*/) {
      repeated.push_back(std::move(report));
      continue;
    }
    unanswered_ -= report.request.ByteSizeLong();
    v1::TransitionResult result;
    *result.mutable_error() = Unknown();
    results_.Put(report.ticket, std::move(result));
  }
  part.reports = std::move(repeated);
}

void Sharing::Lose(PartitionId partition) {
  Part& part = parts_[partition];
  part.open = part.looks = false;
  part.allowed = 0;
  part.levels.Clear();
  out_.erase(partition);
  DropUnrepeatable(part);
}

void Sharing::Refuse(PartitionId partition, const v1::Error& why) {
  Part& part = parts_[partition];
  while (!part.reports.empty()) {
    v1::TransitionResult result;
    *result.mutable_error() =
        /*mutant front-lost-report-refused*/ part.reports.front().again ? Unknown() : why /*end*/;
    Answer(part, std::move(result));
  }
  while (!part.extends.empty()) {
    v1::ExtendResponse::Item item;
    *item.mutable_error() = why;
    Answer(part, std::move(item));
  }
}

void Sharing::End(PartitionId partition) {
  Lose(partition);
  Refuse(partition, Unknown());
  parts_[partition].held.clear();
}

// What there is room for ------------------------------------------------------------------------

size_t Sharing::Room() const {
  size_t used = 0;
  for (const Part& part : parts_) {
    used += /*mutant front-lost-not-in-hand*/ part.held.size() + part.allowed /*end*/;
  }
  return /*mutant front-room-ignored*/ used < most_ ? most_ - used : 0 /*end*/;
}

std::optional<Sharing::Time> Sharing::Deal(Time now) {
  if (ends() || !open_) return std::nullopt;
  // Who is welcomed now is so before it is handed anything (TakeOrder).
  if (register_ && !greeted_ && !MayWelcome(now)) {
    return welcome_ ? std::optional(welcome_by_) : std::nullopt;
  }
  if (/*mutant front-drained-dealt*/ drained_ /*end*/) return std::nullopt;
  const size_t room = Room();
  if (room == 0) return std::nullopt;
  std::optional<Time> again;
  const auto at = [&again](Time time) { again = again ? std::min(*again, time) : time; };
  bool any = false;
  for (PartitionId of = 0; of < parts_.size(); ++of) {
    Part& part = parts_[of];
    if (!part.open) continue;
    if (part.Stale(now)) {
      part.looks = true;
      part.looked = now;
      part.levels.Clear();
      out_[of].set_look(true);
    }
    part.late = part.late || (part.looks && part.looked + kAnswer <= now);
    if (part.Awaited()) at(part.looked + kAnswer);
    any = any || !part.levels.levels().empty();
  }
  if (again || !any) return again;
  std::vector<peer::PeekResponse> found(parts_.size());
  for (PartitionId of = 0; of < parts_.size(); ++of) {
    const Part& part = parts_[of];
    if (part.levels.levels().empty()) continue;
    part.not_before > now ? at(part.not_before) : void(found[of] = part.levels);
  }
  std::map<PartitionId, uint32_t> shares;
  for (const PartitionId of : dfsmr::Deal(found, room)) ++shares[of];
  for (const auto& [of, tasks] : shares) {
    out_[of].set_allow(tasks);
    parts_[of].allowed += tasks;
    parts_[of].levels.Clear();  // what is left it tells
  }
  return again;
}

// To the worker ---------------------------------------------------------------------------------

std::optional<v1::WorkResponse> Sharing::TakeResponse() {
  while (auto result = results_.Next()) *next_.add_results() = std::move(*result);
  while (auto item = extended_.Next()) *next_.add_extended() = std::move(*item);
  if (next_.ByteSizeLong() == 0) return std::nullopt;
  std::optional<v1::WorkResponse> told(std::move(next_));
  next_.Clear();
  return told;
}

std::optional<v1::AgentOrder> Sharing::TakeOrder(Time now, bool any) {
  if (!greeted_ && !MayWelcome(now)) return std::nullopt;
  v1::AgentOrder order;
  if (!std::exchange(greeted_, true)) {
    *order.mutable_welcome() = *welcome_;
    news_ = true;
  }
  auto work = TakeResponse();
  if (!work && !std::exchange(news_, false) && !any) return std::nullopt;
  news_ = false;
  if (work) *order.mutable_work() = *std::move(work);
  order.set_drained(drained_);
  return order;
}

Sharing::Parts Sharing::Farewell(peer::WorkPart::End end, const v1::WorkResponse& writing) {
  Parts last;
  if (!open_) return last;
  for (PartitionId of = 0; of < parts_.size(); ++of) {
    if (parts_[of].open) last[of].set_end(end);
  }
  const auto add = [](const v1::Task& task, peer::Claim* claim) {
    claim->set_instance(task.instance());
    claim->set_claim(task.claim());
  };
  for (const v1::Task& task : next_.tasks()) {
    add(task, last[PlaceOf(task.namespace_(), task.instance())].add_unsent());
  }
  for (const v1::Task& task : writing.tasks()) {
    add(task, last[PlaceOf(task.namespace_(), task.instance())].add_doubtful());
  }
  next_.clear_tasks();
  return last;
}

}  // namespace dfsmr
