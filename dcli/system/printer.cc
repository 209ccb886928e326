#include "dcli/system/printer.h"

#include <chrono>
#include <utility>

namespace dfsmr::cli {

Printer::~Printer() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Printer::Add(size_t bytes, std::function<void()> print) {
  {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    jobs_.push_back({bytes, std::move(print)});
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  changed_.notify_all();
}

bool Printer::Full() const {
  constexpr size_t kMost = 1 << 20;
  const std::lock_guard lock(mutex_);
  return bytes_ >= kMost;
}

bool Printer::Finish() {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return jobs_.empty() && !busy_; };
  changed_.wait(lock, [&] { return done() || hurry_; });
  return changed_.wait_for(lock, std::chrono::seconds(1), done);
}

void Printer::HurryUp() {
  {
    const std::lock_guard lock(mutex_);
    hurry_ = true;
  }
  changed_.notify_all();
}

void Printer::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !jobs_.empty() || ended_; });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    job.print();
    lock.lock();
    busy_ = false;
    bytes_ -= job.bytes;
    changed_.notify_all();
  }
}

}  // namespace dfsmr::cli
