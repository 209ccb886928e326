#include "dsrv/loop/mailbox.h"

#include <algorithm>

namespace dfsmr {
namespace {

// Less than this may be a few clients that load much at once, and wait for their answers: it is no
// crowd. Where at most kFew items wait, less than kFewBytes is none.
constexpr size_t kCrowdBytes = 2 << 20;
constexpr size_t kFew = 64;
constexpr size_t kFewBytes = 8 << 20;
// Of the pace so far, with each full turn.
constexpr double kRemembered = 0.9;

double ToSeconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

bool Mailbox::FullAt(Moment now) const {
  if (mail_.size() >= limits::kMailboxItems || bytes_ >= limits::kMailboxBytes) return true;
  const bool crowd = mail_.size() > limits::kTurnItems ||
                     bytes_ > (mail_.size() > kFew ? kCrowdBytes : kFewBytes);
  if (!crowd) return false;
  const double waiting = static_cast<double>(bytes_);
  return now - mail_.front().posted > limits::kMailboxWait ||
         (busy_bytes_ > 0 &&
          waiting * busy_seconds_ > ToSeconds(limits::kMailboxWait) * busy_bytes_);
}

bool Mailbox::Full() {
  const auto now = std::chrono::steady_clock::now();
  const Lock lock(mutex_);
  return FullAt(now);
}

size_t Mailbox::size() {
  const Lock lock(mutex_);
  return mail_.size();
}

bool Mailbox::Post(Mail mail) {
  mail.posted = std::chrono::steady_clock::now();
  bool first;
  {
    const Lock lock(mutex_);
    if (closed_ || (!mail.owed && FullAt(mail.posted))) return false;
    first = mail_.empty();
    bytes_ += mail.bytes;
    mail_.push_back(std::move(mail));
  }
  if (first) arrived_.NotifyOne();
  return true;
}

std::optional<Mailbox::Taken> Mailbox::Take(std::chrono::steady_clock::time_point until,
                                            const std::atomic<bool>* meanwhile) {
  Lock lock(mutex_);
  const bool busy = !mail_.empty();
  wakeable_ = meanwhile != nullptr;
  arrived_.WaitUntil(lock, until, [&]() REQUIRES(mutex_) {
    return closed_ || !mail_.empty() || (meanwhile && !*meanwhile);
  });
  wakeable_ = false;
  if (closed_ && mail_.empty()) return std::nullopt;
  const Moment now = std::chrono::steady_clock::now();
  if (left_over_) {  // the turn before was full: only full turns show the pace of a crowd
    const auto took = std::min<std::chrono::nanoseconds>(now - taken_at_, limits::kMailboxWait);
    busy_seconds_ = busy_seconds_ * kRemembered + ToSeconds(took);
    busy_bytes_ = busy_bytes_ * kRemembered + taken_bytes_;
  } else if (!busy) {
    busy_seconds_ = busy_bytes_ = 0;
  }
  Taken taken;
  while (!mail_.empty() && taken.mail.size() < limits::kTurnItems && taken.bytes < kTurnBytes) {
    taken.bytes += mail_.front().bytes;
    taken.mail.push_back(std::move(mail_.front()));
    mail_.pop_front();
  }
  bytes_ -= taken.bytes;
  taken_at_ = now;
  taken_bytes_ = static_cast<double>(taken.bytes);
  left_over_ = !mail_.empty();
  return taken;
}

void Mailbox::Wake() {
  {
    const Lock lock(mutex_);
    if (!wakeable_) return;
  }
  arrived_.NotifyOne();
}

void Mailbox::Close() {
  {
    const Lock lock(mutex_);
    closed_ = true;
  }
  arrived_.NotifyOne();
}

}  // namespace dfsmr
