// A call of a service that streams, as the door sees it: everything happens on the thread of the
// exchange that it serves, and what is told arrives there.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dsrv/http/exchange.h"
#include "dsrv/http/inside.h"

namespace dfsmr::http {

class ServiceStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public std::enable_shared_from_this<ServiceStream> {
 public:
  struct Events {
    std::function<void(std::string bytes)> message;  // then call Next for the one after it
    std::function<void()> sent;                      // what Send was given is taken
    std::function<void(const grpc::Status&, const Headers& trailers)> end;  // once
  };
  static std::shared_ptr<ServiceStream> Begin(Inside& inside, const std::string& method,
                                              const Asker& asker,
                                              std::optional<std::chrono::milliseconds> timeout,
                                              std::shared_ptr<Exchange> exchange, Events events);

  void Next();
  void Send(const std::string& bytes);  // one at a time
  void CloseSend();
  void Cancel() { context_.TryCancel(); }

 private:
  explicit ServiceStream(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Ended();

  grpc::ClientContext context_;
  const std::shared_ptr<Exchange> exchange_;
  Events events_;
  std::shared_ptr<ServiceStream> self_;  // until it is done
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  bool ended_ = false;   // nothing more is read, or sent
  bool closed_ = false;  // nothing more is sent
};

}  // namespace dfsmr::http
