// One request under way, as those see it who answer it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dsrv/http/failure.h"
#include "dsrv/http/guard.h"
#include "dsrv/http/message.h"
#include "dsrv/http/parser.h"

namespace dfsmr::http {

// Everything but Post happens on the thread of the connection, and nothing after the answer.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Request asked, Visitor from) : request(std::move(asked)), visitor(std::move(from)) {}
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Has `work` run on the exchange's thread, also when the exchange is over. Any thread.
  virtual void Post(std::function<void()> work) = 0;

  // Either the whole answer, or a stream: its head, pieces, and its end. What comes after the end
  // does nothing.
  virtual void Answer(Response response) = 0;
  virtual void Begin(Response head) = 0;
  virtual void Write(std::string_view piece) = 0;
  virtual void End() = 0;
  virtual bool over() const = 0;
  // Of a body that is read as a stream: hands the next piece to on_body, once.
  virtual void ReadBody() = 0;

  // The answer to what the door itself refuses, once somebody has counted it.
  Response Refused(const Failure& failure) const {
    NoteRefused(failure);
    return ToResponse(failure);
  }
  void NoteRefused(const Failure& failure) const {
    if (on_refused) on_refused(failure, visitor);
  }
  std::function<void(const Failure&, const Visitor&)> on_refused;

  const Request request;
  const Visitor visitor;

  // The client has hung up: it wants no answer any more.
  std::function<void()> on_gone;
  // All that was written is on its way to the client.
  std::function<void()> on_written;
  // `last`: nothing follows.
  std::function<void(std::string piece, bool last)> on_body;
};

// Decides what becomes of requests. Any thread of the door's.
class Handler {
 public:
  virtual ~Handler() = default;

  // What to do once the head of a request is there.
  struct Plan {
    std::optional<Response> refusal;  // and the body is not read
    uint64_t body_most = 0;           // UINT64_MAX: it is read as a stream
    Visitor visitor;
  };
  virtual Plan Look(const Request& request, const Client& client) = 0;
  virtual void Serve(std::shared_ptr<Exchange> exchange) = 0;
  // To bytes that are no request.
  virtual Response Refuse(const Malformed& malformed, const Request& request,
                          const Client& client) = 0;
  // Adds what all answers have, before it goes out.
  virtual void Dress(const Request& request, const Visitor& visitor, Response* response) = 0;
};

}  // namespace dfsmr::http
