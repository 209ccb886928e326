#include "dsrv/loop/carrier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "dsrv/engine/messages.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr size_t kPortion = 250;  // messages: about what a turn takes
constexpr milliseconds kShortPause{10};
constexpr milliseconds kLongPause{500};

// Returns up to which number all are applied with this turn; nullopt: nobody here can read them.
std::optional<uint64_t> Apply(Engine& engine, const Carrier::Portion& portion) {
  std::optional<uint64_t> applied;
  for (const Outgoing::Numbered& one : portion.messages) {
    auto up_to = engine.messages().Deliver(portion.from, one.number, one.text);
    if (!up_to) {
      spdlog::error("message {} of partition {} to partition {} waits: {}", one.number,
                    portion.from, portion.to, up_to.error().message);
      return applied;
    }
    applied = *up_to;
    if (*up_to < one.number) break;
  }
  return applied;
}

}  // namespace

Carrier::Carrier(Deliver deliver) : deliver_(std::move(deliver)) {
  thread_ = std::thread([this] { Work(); });
}

Carrier::~Carrier() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Carrier::Join(PartitionId from, std::shared_ptr<Outgoing> outgoing, Loop& loop) {
  auto sender = std::make_shared<Sender>(Sender{from, outgoing, loop, {}});
  {
    const Lock lock(mutex_);
    senders_[from] = sender;
  }
  outgoing->Notify([this, sender = std::weak_ptr(sender)](PartitionId to) { Wake(sender, to); });
}

void Carrier::Leave(PartitionId from) {
  Lock lock(mutex_);
  const auto found = senders_.find(from);
  if (found == senders_.end()) return;
  const SenderPtr sender = std::move(found->second);
  senders_.erase(found);
  changed_.Wait(lock, [&]() REQUIRES(mutex_) { return read_ != sender; });
  lock.Unlock();
  sender->outgoing->Notify({});
}

uint64_t Carrier::waiting() const {
  const Lock lock(mutex_);
  uint64_t count = 0;
  for (const auto& [from, sender] : senders_) count += sender->outgoing->waiting();
  return count;
}

uint64_t Carrier::waiting(PartitionId from) const {
  const Lock lock(mutex_);
  const auto found = senders_.find(from);
  return found == senders_.end() ? 0 : found->second->outgoing->waiting();
}

void Carrier::Take(Loop& loop, Portion portion, Told told) {
  size_t bytes = 0;
  for (const Outgoing::Numbered& one : portion.messages) bytes += one.text.size();
  auto shared = std::make_shared<const Portion>(std::move(portion));
  // There is one portion of each partition at a time: it does not flood a full mailbox.
  Mailbox::Mail mail{.run =
                         [shared, told](Engine& engine) {
                           const auto up_to = Apply(engine, *shared);
                           engine.AfterCommit([told, up_to] { told(up_to); });
                         },
                     .drop = [told] { told({}); },
                     .bytes = bytes,
                     .owed = true};
  if (!loop.Post(std::move(mail))) told({});
}

Carrier::SenderPtr Carrier::Find(const std::weak_ptr<Sender>& sender) const {
  SenderPtr found = sender.lock();
  if (!found) return nullptr;
  const auto joined = senders_.find(found->from);
  return joined != senders_.end() && joined->second == found ? found : nullptr;
}

void Carrier::Wake(const std::weak_ptr<Sender>& sender, PartitionId to) {
  const Lock lock(mutex_);
  const SenderPtr found = Find(sender);
  if (!found) return;
  Way& way = found->ways[to];
  way.more = true;
  if (!way.under_way) Queue(found, to, Moment());
}

// It is under way from now on, so that it is not queued twice.
void Carrier::Queue(const SenderPtr& sender, PartitionId to, Moment when) {
  sender->ways[to].under_way = true;
  due_.emplace(when, Due{sender, to});
  changed_.NotifyAll();
}

void Carrier::Work() {
  Lock lock(mutex_);
  while (!ended_) {
    if (due_.empty()) {
      changed_.Wait(lock, [this]() REQUIRES(mutex_) { return ended_ || !due_.empty(); });
      continue;
    }
    const Moment first = due_.begin()->first;
    if (first > std::chrono::steady_clock::now()) {
      changed_.WaitUntil(lock, first, [this, first]() REQUIRES(mutex_) {
        return ended_ || due_.empty() || due_.begin()->first < first;
      });
      continue;
    }
    const Due due = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    const SenderPtr sender = Find(due.sender);
    if (!sender) continue;
    Way& way = sender->ways[due.to];
    way.more = false;
    const uint64_t after = way.applied;
    read_ = sender;
    lock.Unlock();
    Carry(sender, due.to, after);
    lock.Relock();
  }
}

void Carrier::Carry(const SenderPtr& sender, PartitionId to, uint64_t after) {
  auto next = sender->outgoing->Next(to, after, kPortion);
  {
    const Lock lock(mutex_);
    read_ = nullptr;
    changed_.NotifyAll();
    if (next && next->empty()) {
      Way& way = sender->ways[to];
      way.under_way = false;
      if (way.more) Queue(sender, to, Moment());
      return;
    }
  }
  if (!next) return Hear(sender, to, {});
  deliver_({sender->from, to, *std::move(next)},
           [this, sender = std::weak_ptr(sender), to](std::optional<uint64_t> up_to) {
             Hear(sender, to, up_to);
           });
}

void Carrier::Hear(const std::weak_ptr<Sender>& sender, PartitionId to,
                   std::optional<uint64_t> up_to) {
  const Lock lock(mutex_);
  const SenderPtr found = Find(sender);
  if (!found) return;
  Way& way = found->ways[to];
  if (up_to && *up_to > way.applied) {
    way.applied = *up_to;
    way.pause = milliseconds(0);
    found->loop.Post({.run = [to, up_to](Engine& engine) { engine.messages().Applied(to, *up_to); },
                      .drop = [] {},
                      .owed = true});
    return Queue(found, to, Moment());
  }
  way.pause = std::clamp(way.pause * 2, kShortPause, kLongPause);
  Queue(found, to, std::chrono::steady_clock::now() + way.pause);
}

}  // namespace dfsmr
