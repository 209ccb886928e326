// The messages of unary calls.
#pragma once

#include <google/protobuf/message_lite.h>

#include <memory>
#include <utility>
#include <vector>

#include "fsm/base/mutex.h"

namespace dfsmr {

// The request and the reply of one call.
class CallMessages {
 public:
  virtual google::protobuf::MessageLite& request() = 0;
  virtual google::protobuf::MessageLite& reply() = 0;
  // The call is over: nobody uses them any more.
  virtual void Release() { delete this; }

 protected:
  virtual ~CallMessages() = default;
};

template <typename Request, typename Reply>
class MessagesOf : public CallMessages {
 public:
  Request& request() override { return request_; }
  Reply& reply() override { return reply_; }

 private:
  Request request_;
  Reply reply_;
};

// Reuses the messages of a busy method: their fields keep their memory, so that a batch of tasks
// does not cost an allocation for each text in it. Any thread. Outlives the calls.
template <typename Request, typename Reply>
class MessagePool {
 public:
  MessagesOf<Request, Reply>* Take() {
    const Lock lock(mutex_);
    if (spare_.empty()) return new Pair(*this);
    Pair* pair = spare_.back().release();
    spare_.pop_back();
    return pair;
  }

 private:
  class Pair final : public MessagesOf<Request, Reply> {
   public:
    explicit Pair(MessagePool& pool) : pool_(pool) {}
    ~Pair() override = default;
    void Release() override {
      std::unique_ptr<Pair> self(this);
      // A message that was large keeps its memory, which is too much to keep.
      if (this->request().ByteSizeLong() > kBytes || this->reply().ByteSizeLong() > kBytes) return;
      this->request().Clear();
      this->reply().Clear();
      const Lock lock(pool_.mutex_);
      if (pool_.spare_.size() < kSpare) pool_.spare_.push_back(std::move(self));
    }

   private:
    MessagePool& pool_;
  };

  static constexpr size_t kSpare = 64;
  static constexpr size_t kBytes = 64 << 10;

  Mutex mutex_;
  std::vector<std::unique_ptr<Pair>> spare_ GUARDED(mutex_);
};

}  // namespace dfsmr
