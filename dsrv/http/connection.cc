#include "dsrv/http/connection.h"

#include <algorithm>

#include "dsrv/http/tls.h"

namespace dfsmr::http {
namespace {

using std::chrono::seconds;

constexpr auto kHandshakeTime = seconds(10);
constexpr auto kHeadTime = seconds(10);
constexpr auto kBodyTime = seconds(30);
constexpr double kBodyRate = 16 << 10;  // bytes a second
constexpr auto kIdleTime = seconds(60);
constexpr auto kStalledTime = seconds(60);
constexpr auto kLingerTime = seconds(2);
constexpr size_t kAhead = 64 << 10;  // of requests that follow the one under way

std::string HeadText(const Response& response) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " ";
  text += PhraseOf(response.status);
  text += "\r\n";
  for (const auto& [name, value] : response.headers) {
    text += name;
    text += ": ";
    text += value;
    text += "\r\n";
  }
  return text;
}

void AppendHex(size_t number, std::string* out) {
  char text[20];
  out->append(text, static_cast<size_t>(std::snprintf(text, sizeof text, "%zx", number)));
}

}  // namespace

// The exchange that the connection is about. It outlives the connection where others hold it.
class Connection::Request final : public Exchange {
 public:
  Request(std::shared_ptr<Connection> connection, http::Request asked, Visitor from)
      : Exchange(std::move(asked), std::move(from)),
        lane_(connection->lane_),
        connection_(std::move(connection)) {}

  void Post(std::function<void()> work) override { lane_.Post(std::move(work)); }
  bool over() const override { return !connection_; }

  void Answer(Response response) override {
    if (connection_) connection_->Send(std::move(response), false);
  }
  void Begin(Response head) override {
    if (connection_) connection_->SendHead(std::move(head));
  }
  void Write(std::string_view piece) override {
    if (!connection_ || piece.empty() || request.method == "HEAD") return;
    std::string& out = connection_->out_;
    if (connection_->chunked_) {
      AppendHex(piece.size(), &out);
      out += "\r\n";
    }
    out += piece;
    if (connection_->chunked_) out += "\r\n";
    connection_->Flush();
  }
  void End() override {
    if (!connection_) return;
    if (connection_->chunked_ && request.method != "HEAD") connection_->out_ += "0\r\n\r\n";
    connection_->answered_ = true;
    connection_->Flush();
  }
  void ReadBody() override {
    if (!connection_) return;
    connection_->wants_body_ = true;
    // Not at once: who asks for a piece has not dealt with the last one yet.
    Post([connection = connection_] { connection->FeedBody(); });
  }

  void Over() {
    on_gone = nullptr;
    on_written = nullptr;
    on_body = nullptr;
    connection_ = nullptr;
  }

 private:
  Lane& lane_;
  std::shared_ptr<Connection> connection_;  // until the exchange is over
};

Connection::Connection(Lane& lane, Tcp::socket socket, TlsContextPtr tls)
    : lane_(lane), socket_(std::move(socket), std::move(tls)) {
  ErrorCode error;
  const auto end = socket_.tcp().remote_endpoint(error);
  auto address = end.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
  }
  client_.address = error ? "" : address.to_string();
  client_.peer = error             ? "unknown"
                 : address.is_v4() ? "ipv4:" + client_.address + ":" + std::to_string(end.port())
                                   : "ipv6:[" + client_.address + "]:" + std::to_string(end.port());
  client_.secure = socket_.secure();
}

void Connection::Enter(State state) {
  if (state_ == State::kClosed) return;
  lane_.Idle(*this, state == State::kIdle);
  state_ = state;
  since_ = Clock::now();
}

void Connection::Start() {
  Greet([self = shared_from_this()] {
    self->Enter(State::kIdle);
    self->Read();
  });
}

void Connection::Greet(std::function<void()> then) {
  moved_ = Clock::now();
  if (!socket_.secure()) return then();
  Enter(State::kHandshake);
  socket_.Handshake([self = shared_from_this(), then = std::move(then)](const ErrorCode& error) {
    if (self->state_ == State::kClosed) return;
    if (error) return self->Close(Closed::kClient);
    self->client_.certificate = CommonName(self->socket_.ssl());
    then();
  });
}

bool Connection::BodyLate(Clock::time_point now) const {
  const bool waits = state_ == State::kBody || (wants_body_ && reading_);
  const auto waited = body_wait_ + (waits ? now - since_ : Clock::duration());
  return waits && waited > kBodyTime &&
         std::chrono::duration<double>(waited).count() * kBodyRate >
             static_cast<double>(parser_.body_taken());
}

void Connection::Tick(Clock::time_point now) {
  const auto lasted = now - since_;
  const bool writes = !writing_.empty() || !out_.empty();
  if (writes && now - moved_ > kStalledTime) return Close(Closed::kSlow);
  switch (state_) {
    case State::kHandshake:
      if (lasted > kHandshakeTime) Close(Closed::kSlow);
      return;
    case State::kIdle:
      if (lasted > (first_ ? Clock::duration(kHeadTime) : Clock::duration(kIdleTime))) {
        Close(Closed::kIdle);
      }
      return;
    case State::kHead:
      if (lasted > kHeadTime) Close(Closed::kSlow);
      return;
    case State::kBody:
      if (!BodyLate(now)) return;
      return Refuse(lane_.handler().Refuse(
          {408, "the body comes too slowly: within 30 s, or longer at 16 KiB/s"}, parser_.request(),
          client_));
    case State::kServing:
      if (BodyLate(now)) OnEnd();
      return;
    case State::kLingering:
      if (lasted > kLingerTime) Close(why_);
      return;
    case State::kClosed:
      return;
  }
}

void Connection::Finish() {
  closes_ = true;
  why_ = Closed::kStopping;
  if (state_ == State::kIdle && ahead_.empty()) Close(why_);
}

// From its whole head to its answer, so that a stop waits for what comes slowly, too.
void Connection::SetUnderWay(bool under_way) {
  if (under_way_ == under_way) return;
  under_way_ = under_way;
  lane_.Serving(under_way);
}

void Connection::TurnAway(Response response) {
  closes_ = true;
  why_ = Closed::kFull;
  Greet([self = shared_from_this(), response = std::move(response)] { self->Refuse(response); });
}

void Connection::Close(Closed why) {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  Enter(State::kClosed);
  if (request_) {
    auto gone = std::exchange(request_->on_gone, nullptr);
    request_->Over();
    request_ = nullptr;
    if (gone) gone();
  }
  SetUnderWay(false);
  ErrorCode ignored;
  socket_.tcp().close(ignored);
  lane_.Gone(*this, why);
}

void Connection::Read() {
  if (reading_ || ended_ || state_ == State::kClosed || ahead_.size() >= kAhead) return;
  reading_ = true;
  socket_.ReadSome(boost::asio::buffer(buffer_),
                   [self = shared_from_this()](const ErrorCode& error, size_t size) {
                     self->OnRead(error, size);
                   });
}

void Connection::OnRead(const ErrorCode& error, size_t size) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) return OnEnd();
  if (state_ == State::kLingering) return Read();
  first_ = false;
  ahead_.append(buffer_.data(), size);
  Process();
}

// The client is gone, or at least sends nothing more.
void Connection::OnEnd() {
  ended_ = true;
  if (state_ != State::kServing) {
    return Close(state_ == State::kLingering ? why_ : Closed::kClient);
  }
  closes_ = true;
  wants_body_ = false;
  if (auto gone = std::exchange(request_->on_gone, nullptr)) gone();
}

void Connection::Process() {
  if (state_ == State::kIdle || state_ == State::kHead) {
    const size_t taken = parser_.Take(ahead_);
    ahead_.erase(0, taken);
    if (parser_.begun() && state_ == State::kIdle) Enter(State::kHead);
    if (parser_.malformed()) {
      return Refuse(lane_.handler().Refuse(*parser_.malformed(), parser_.request(), client_));
    }
    if (parser_.has_head()) OnHead();
  }
  if (state_ == State::kBody) {
    ahead_.erase(0, parser_.Take(ahead_));
    if (parser_.malformed()) {
      return Refuse(lane_.handler().Refuse(*parser_.malformed(), parser_.request(), client_));
    }
    if (parser_.has_all()) Dispatch(false);
  }
  if (state_ == State::kServing && wants_body_) FeedBody();
  Read();
}

void Connection::OnHead() {
  plan_ = lane_.handler().Look(parser_.request(), client_);
  if (!parser_.request().KeepsAlive() || lane_.draining()) closes_ = true;
  if (plan_.refusal) return Refuse(*std::move(plan_.refusal));
  const bool streamed = plan_.body_most == UINT64_MAX;
  if (!streamed) parser_.LimitBody(plan_.body_most);
  if (parser_.malformed()) {
    return Refuse(lane_.handler().Refuse(*parser_.malformed(), parser_.request(), client_));
  }
  const auto expects = parser_.request().Header("expect");
  if (expects && Lower(*expects) == "100-continue" && !parser_.has_all()) {
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    Flush();
  }
  if (streamed || parser_.has_all()) return Dispatch(streamed);
  SetUnderWay(true);
  Enter(State::kBody);
}

void Connection::Dispatch(bool streamed) {
  Enter(State::kServing);
  http::Request asked = streamed ? parser_.request() : std::move(parser_.request());
  request_ =
      std::make_shared<Request>(shared_from_this(), std::move(asked), std::move(plan_.visitor));
  SetUnderWay(true);
  lane_.handler().Serve(request_);
}

// Of a body that is read as a stream.
void Connection::FeedBody() {
  if (!wants_body_ || state_ != State::kServing) return;
  ahead_.erase(0, parser_.Take(ahead_));
  std::string piece;
  piece.swap(parser_.request().body);
  const bool last = parser_.has_all() || parser_.malformed();
  if (parser_.malformed()) return OnEnd();
  if (piece.empty() && !last) {
    since_ = Clock::now();
    return Read();
  }
  body_wait_ += Clock::now() - since_;
  wants_body_ = false;
  // A copy: the exchange may end in it.
  if (auto on_body = request_->on_body) on_body(std::move(piece), last);
}

void Connection::Refuse(Response response) {
  if (!parser_.has_all()) closes_ = true;
  const bool bodiless = parser_.request().method == "HEAD";
  if (state_ != State::kServing) {
    Enter(State::kServing);
    SetUnderWay(true);
    request_ = std::make_shared<Request>(shared_from_this(), http::Request(), plan_.visitor);
  }
  Send(std::move(response), bodiless);
}

void Connection::Send(Response response, bool bodiless) {
  bodiless = bodiless || request_->request.method == "HEAD" || response.status == 304 ||
             response.status == 204;
  lane_.handler().Dress(request_->request, request_->visitor, &response);
  if (response.status != 304 && response.status != 204) {
    response.Set("content-length", std::to_string(response.body.size()));
  }
  if (closes_) response.Set("connection", "close");
  out_ += HeadText(response);
  out_ += "\r\n";
  if (!bodiless) out_ += response.body;
  answered_ = true;
  Flush();
}

void Connection::SendHead(Response response) {
  lane_.handler().Dress(request_->request, request_->visitor, &response);
  // Whoever has not sent all of a request will send the rest of it.
  if (!parser_.has_all()) closes_ = true;
  chunked_ = request_->request.minor >= 1;
  closes_ = closes_ || !chunked_;
  out_ += HeadText(response);
  if (chunked_) out_ += "transfer-encoding: chunked\r\n";
  if (closes_) out_ += "connection: close\r\n";
  out_ += "\r\n";
  Flush();
}

void Connection::Flush() {
  if (!writing_.empty() || out_.empty() || state_ == State::kClosed) {
    if (writing_.empty() && answered_) EndRequest();
    return;
  }
  writing_.swap(out_);
  written_ = 0;
  moved_ = Clock::now();
  socket_.WriteSome(boost::asio::buffer(writing_),
                    [self = shared_from_this()](const ErrorCode& error, size_t size) {
                      self->OnWritten(error, size);
                    });
}

void Connection::OnWritten(const ErrorCode& error, size_t size) {
  if (state_ == State::kClosed) return;
  if (error) return Close(Closed::kClient);
  moved_ = Clock::now();
  written_ += size;
  if (written_ < writing_.size()) {
    const auto rest = boost::asio::buffer(writing_) + written_;
    return socket_.WriteSome(rest, [self = shared_from_this()](const ErrorCode& failed, size_t n) {
      self->OnWritten(failed, n);
    });
  }
  writing_.clear();
  if (!out_.empty()) return Flush();
  if (answered_) return EndRequest();
  if (request_ && request_->on_written) {
    const auto on_written = request_->on_written;  // a copy: the exchange may end in it
    on_written();
  }
}

void Connection::EndRequest() {
  answered_ = false;
  if (request_) {
    request_->Over();
    request_ = nullptr;
  }
  SetUnderWay(false);
  if (!parser_.has_all()) closes_ = true;
  if (closes_ || lane_.draining()) return Linger();
  parser_.Next();
  chunked_ = false;
  body_wait_ = {};
  Enter(State::kIdle);
  // Not from here: the answers of many requests in a row would stand on one another.
  if (!ahead_.empty()) {
    return lane_.Post([self = shared_from_this()] {
      if (self->state_ == State::kIdle) self->Process();
    });
  }
  Read();
}

// An answer is lost when its connection is closed while bytes of the client wait to be read.
void Connection::Linger() {
  if (ended_ || socket_.secure()) return Close(why_);
  Enter(State::kLingering);
  ahead_.clear();
  ErrorCode error;
  socket_.tcp().shutdown(Tcp::socket::shutdown_send, error);
  if (error) return Close(why_);
  Read();
}

}  // namespace dfsmr::http
