#include "dsrv/calls/call.h"

namespace dfsmr {

Error Overloaded() {
  return {Code::kResourceExhausted, Reason::kOverloaded,
          "more requests wait than the server can answer soon; wait a little, then try again, each "
          "time for longer"};
}

Error DeadlinePassed() {
  return {Code::kDeadlineExceeded, Reason::kNone,
          "the deadline passed before the server came to the request"};
}

Error Stopping() {
  return {Code::kUnavailable, Reason::kNotReady,
          "the server is stopping; try again when it is back"};
}

void Call::Refuse(const Error& error) {
  backend_.refusals.Note(error, Peer(), RequestId());
  if (error.reason != Reason::kNone) AddTrailer("dfsmr-reason", std::string(Name(error.reason)));
  if (error.retry_ms > 0) AddTrailer("grpc-retry-pushback-ms", std::to_string(error.retry_ms));
  End(&error);
}

void Call::Fail(const Error& error) {
  caller_.Note(&error);
  Refuse(error);
}

void Call::Succeed() {
  caller_.Note(nullptr);
  End(nullptr);
}

void Call::Counts(const Method& method) {
  if (!backend_.calls) return;
  method_ = &method;
  begun_ = std::chrono::steady_clock::now();
  backend_.calls->Began();
}

void Call::End(const Error* error) {
  if (method_) {
    const auto took = std::chrono::steady_clock::now() - begun_;
    const Code code = error ? error->code : gone_.load(std::memory_order_relaxed);
    backend_.calls->Ended({method_->name, ByHttp(), code},
                          waits_ ? std::nullopt : std::optional(took));
  }
  Send(error);
}

bool Call::Enter() {
  entered_ = backend_.gate.Admit();
  if (!entered_) Fail(Stopping());
  return entered_;
}

void Call::Cancelled(Code how) {
  gone_.store(how, std::memory_order_relaxed);
  if (follower_) follower_->OnCancel();
}

void Call::Done(bool cancelled) {
  if (follower_) follower_->OnDone(cancelled);
  if (entered_) backend_.gate.Leave();
}

}  // namespace dfsmr
