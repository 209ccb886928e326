// Reuses the messages of a busy method: their fields keep their memory, so that a batch of tasks
// does not cost an allocation for each text in it.
#pragma once

#include <grpcpp/support/message_allocator.h>

#include <memory>
#include <vector>

#include "fsm/base/mutex.h"

namespace dfsmr {

// Any thread. Must outlive the server that it is given to.
template <typename Request, typename Reply>
class MessagePool : public grpc::MessageAllocator<Request, Reply> {
 public:
  grpc::MessageHolder<Request, Reply>* AllocateMessages() override {
    const Lock lock(mutex_);
    if (spare_.empty()) return new Pair(*this);
    Pair* pair = spare_.back().release();
    spare_.pop_back();
    return pair;
  }

 private:
  class Pair : public grpc::MessageHolder<Request, Reply> {
   public:
    explicit Pair(MessagePool& pool) : pool_(pool) {
      this->set_request(&request_);
      this->set_response(&reply_);
    }
    void Release() override {
      std::unique_ptr<Pair> self(this);
      // A message that was large keeps its memory, which is too much to keep.
      if (request_.ByteSizeLong() > kBytes || reply_.ByteSizeLong() > kBytes) return;
      request_.Clear();
      reply_.Clear();
      const Lock lock(pool_.mutex_);
      if (pool_.spare_.size() < kSpare) pool_.spare_.push_back(std::move(self));
    }

   private:
    MessagePool& pool_;
    Request request_;
    Reply reply_;
  };

  static constexpr size_t kSpare = 64;
  static constexpr size_t kBytes = 64 << 10;

  Mutex mutex_;
  std::vector<std::unique_ptr<Pair>> spare_ GUARDED(mutex_);
};

}  // namespace dfsmr
