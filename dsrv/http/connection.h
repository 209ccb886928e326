// One connection: reads requests, has them answered one after another, and keeps the time.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "dsrv/http/exchange.h"
#include "dsrv/http/parser.h"
#include "dsrv/http/socket.h"

namespace dfsmr::http {

using Clock = std::chrono::steady_clock;

class Connection;

// Why a connection was closed.
enum class Closed : uint8_t { kAnswered, kClient, kIdle, kSlow, kFull, kStopping };
inline constexpr std::array<const char*, 6> kClosedNames = {"answered", "client", "idle",
                                                            "slow",     "full",   "stopping"};

// What a connection tells its lane. On the lane's thread.
class Lane {
 public:
  virtual ~Lane() = default;
  virtual void Post(std::function<void()> work) = 0;  // any thread
  virtual Handler& handler() = 0;
  virtual bool draining() const = 0;
  virtual void Idle(Connection& connection, bool idle) = 0;
  virtual void Serving(bool more) = 0;  // a request is under way, or is answered
  virtual void Gone(Connection& connection, Closed why) = 0;
};

// All on the thread of its lane.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `tls` null: without.
  Connection(Lane& lane, Tcp::socket socket, TlsContextPtr tls);
  void Start();
  // Closes it if a time is over. Call it often.
  void Tick(Clock::time_point now);
  // Closes it now, if no request is under way, or else when that is answered.
  void Finish();
  // Answers 503 to nothing in particular, and closes.
  void TurnAway(Response response);
  void Close(Closed why);

 private:
  class Request;  // the exchange that is under way
  enum class State {
    kHandshake,
    kIdle,  // waits for a request
    kHead,
    kBody,
    kServing,
    kLingering,  // has said its last, and lets the client read it
    kClosed,
  };

  void Enter(State state);
  // With TLS once its handshake is done.
  void Greet(std::function<void()> then);
  void Read();
  void OnRead(const ErrorCode& error, size_t size);
  void OnEnd();
  void Process();
  void OnHead();
  void Dispatch(bool streamed);
  void FeedBody();
  void Refuse(Response response);
  void Send(Response response, bool bodiless);
  void SendHead(Response response);
  void Flush();
  void OnWritten(const ErrorCode& error, size_t size);
  void EndRequest();
  void SetUnderWay(bool under_way);
  void Linger();
  bool BodyLate(Clock::time_point now) const;

  Lane& lane_;
  Socket socket_;
  Client client_;
  State state_ = State::kIdle;
  Parser parser_;
  Handler::Plan plan_;
  std::shared_ptr<Request> request_;

  std::array<char, 4096> buffer_;
  bool reading_ = false;
  bool ended_ = false;       // the client sends nothing more
  std::string ahead_;        // read, and not parsed yet
  bool first_ = true;        // nothing has come yet
  bool wants_body_ = false;  // the exchange waits for a piece of the body
  bool under_way_ = false;   // a request is

  std::string out_;      // to be written
  std::string writing_;  // being written
  size_t written_ = 0;   // of it
  bool closes_ = false;  // after the answer
  Closed why_ = Closed::kAnswered;
  bool chunked_ = false;   // the answer's body
  bool answered_ = false;  // the whole answer is in `out_`

  Clock::time_point since_;      // the state was entered
  Clock::time_point moved_;      // the client took bytes, or nothing was to be taken
  Clock::duration body_wait_{};  // time spent waiting for the body
};

}  // namespace dfsmr::http
