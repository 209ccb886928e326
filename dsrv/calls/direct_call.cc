#include "dsrv/calls/direct_call.h"

#include "dsrv/calls/deadline.h"
#include "dsrv/wire/replies.h"

namespace dfsmr {

bool DirectCall::Read(const std::string& request) {
  {
    const Lock lock(mutex_);
    self_ = shared_from_this();
  }
  if (messages_->request().ParseFromString(request)) return true;
  const Error error{Code::kInternal, Reason::kNone, "the request could not be read"};
  Send(&error);
  return false;
}

Timestamp DirectCall::Deadline() const {
  return ByClock(deadline_, std::chrono::system_clock::now(), backend().clock());
}

void DirectCall::Send(const Error* error) {
  if (error) {
    reply_.status = ToStatus(*error);
  } else {
    reply_.bytes = messages_->reply().SerializeAsString();
  }
  {
    const Lock lock(mutex_);
    sent_ = true;
    if (cancelling_) return;  // Cancel ends it
  }
  End();
}

void DirectCall::Cancel() {
  {
    const Lock lock(mutex_);
    if (sent_ || cancelled_) return;
    cancelled_ = cancelling_ = true;
  }
  Cancelled(Code::kCancelled);
  {
    const Lock lock(mutex_);
    cancelling_ = false;
    if (!sent_) return;
  }
  End();
}

// What waits for the reply goes on before what follows the call.
void DirectCall::End() {
  std::shared_ptr<DirectCall> self;  // perhaps the last one
  bool cancelled = false;
  {
    const Lock lock(mutex_);
    self.swap(self_);
    cancelled = cancelled_;
  }
  done_(std::move(reply_));
  Done(cancelled);
}

std::shared_ptr<DirectServices::Call> DirectRows::Ask(const std::string& path,
                                                      const std::string& request,
                                                      std::shared_ptr<const DirectOrigin> origin,
                                                      Deadline deadline, Done done) {
  const auto found = rows_.find(path);
  if (found == rows_.end()) return nullptr;
  const Row& row = found->second;
  CallMessages* const messages = row.make();
  auto call = std::make_shared<DirectCall>(backend_, messages, std::move(origin), deadline,
                                           std::move(done));
  if (call->Read(request)) row.serve(*call, *messages);
  return call;
}

}  // namespace dfsmr
