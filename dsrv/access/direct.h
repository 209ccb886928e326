// Unary methods of the services of one partition, for callers in the same process: what a front
// asks of a partition that it serves itself need not go through gRPC, which costs more than the
// method.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/access/access.h"

namespace dfsmr {

// Who asks, as the front has been told; and what else a call brings.
class DirectOrigin final : public Origin {
 public:
  struct Told {
    std::string peer;
    std::string bearer;
    std::string certificate;
    std::string door;
    std::string request_id;
    std::string besides;
    std::string traceparent;
  };
  explicit DirectOrigin(Told told) : told_(std::move(told)) {}

  std::string Peer() const override { return told_.peer; }
  std::string_view Bearer() const override { return told_.bearer; }
  std::string Certificate() const override { return told_.certificate; }
  std::string_view Door() const override { return told_.door; }
  std::string RequestId() const override { return told_.request_id; }
  std::string_view Besides() const override { return told_.besides; }
  const std::string& traceparent() const { return told_.traceparent; }

 private:
  const Told told_;
};

class DirectServices {
 public:
  struct Reply {
    grpc::Status status;
    std::vector<std::pair<std::string, std::string>> trailers = {};
    std::string bytes = {};
    bool let_in = true;  // false: nothing was done, since the partition goes to another server
  };
  using Done = std::function<void(Reply)>;
  using Deadline = std::chrono::system_clock::time_point;
  class Call {
   public:
    virtual ~Call() = default;
    // Nobody waits for the reply any more. Any thread; does nothing once the call has ended.
    virtual void Cancel() = 0;
  };

  virtual ~DirectServices() = default;
  // Calls `done` once, from any thread, perhaps before it returns. Null: there is no such method,
  // and `done` is never called. The caller sees to it that the services live as long as the call.
  virtual std::shared_ptr<Call> Ask(const std::string& path, const std::string& request,
                                    std::shared_ptr<const DirectOrigin> origin, Deadline deadline,
                                    Done done) = 0;
};

}  // namespace dfsmr
