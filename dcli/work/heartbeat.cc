#include "dcli/work/heartbeat.h"

#include <algorithm>

#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Beats come after a third of the time that is left, so that two may fail, and at least this often:
// a beat also brings the news of a cancellation, and our clock may differ from the server's.
constexpr milliseconds kSlowest{2'000};
constexpr milliseconds kFastest{25};

}  // namespace

Heartbeat::Heartbeat(Client& client, const v1::Task& task, Canceller* cancel)
    : client_(client), cancel_(cancel) {
  request_.set_namespace_(task.namespace_());
  auto* item = request_.add_items();
  item->set_instance(task.instance());
  item->set_claim(task.claim());
  Schedule(task.has_deadline() ? &task.deadline() : nullptr);
}

void Heartbeat::Schedule(const google::protobuf::Timestamp* deadline) {
  milliseconds wait = kSlowest;
  if (deadline != nullptr) {
    const auto left = FromProto(*deadline) - std::chrono::system_clock::now();
    wait = std::clamp(std::chrono::duration_cast<milliseconds>(left / 3), kFastest, kSlowest);
  }
  next_ = steady_clock::now() + wait;
}

milliseconds Heartbeat::Left() const {
  return std::max(std::chrono::ceil<milliseconds>(next_ - steady_clock::now()), milliseconds(0));
}

Heartbeat::News Heartbeat::Beat(std::string* why) {
  const auto reply = client_.Extend(request_, cancel_);
  if (!reply || reply->items_size() != 1) {
    next_ = steady_clock::now() + backoff_.Next();  // the claim may outlive the server's absence
    return News::kNone;
  }
  backoff_.Reset();
  const auto& item = reply->items(0);
  Schedule(item.has_deadline() ? &item.deadline() : nullptr);
  if (item.kill_requested()) return News::kKill;
  if (item.has_error() && !Passing(FromProto(item.error()))) {
    *why = item.error().message();
    return News::kLost;
  }
  return item.cancel_requested() ? News::kCancel : News::kNone;
}

}  // namespace dfsmr::cli
