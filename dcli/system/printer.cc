#include "dcli/system/printer.h"

#include <chrono>
#include <utility>

namespace dfsmr::cli {

Printer::~Printer() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Printer::Add(size_t bytes, std::function<void()> print) {
  {
    const Lock lock(mutex_);
    bytes_ += bytes;
    jobs_.push_back({bytes, std::move(print)});
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.NotifyAll();
}

bool Printer::Full() const {
  constexpr size_t kMost = 1 << 20;
  const Lock lock(mutex_);
  return bytes_ >= kMost;
}

bool Printer::Finish() {
  Lock lock(mutex_);
  const auto done = [this]() REQUIRES(mutex_) { return jobs_.empty() && !busy_; };
  changed_.Wait(lock, [&]() REQUIRES(mutex_) { return done() || hurry_; });
  return changed_.WaitFor(lock, std::chrono::seconds(1), done);
}

void Printer::HurryUp() {
  {
    const Lock lock(mutex_);
    hurry_ = true;
  }
  changed_.NotifyAll();
}

void Printer::Run() {
  Lock lock(mutex_);
  while (true) {
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return !jobs_.empty() || ended_; });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.Unlock();
    job.print();
    lock.Relock();
    busy_ = false;
    bytes_ -= job.bytes;
    changed_.NotifyAll();
  }
}

}  // namespace dfsmr::cli
