#include "dsrv/http/door.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <optional>
#include <thread>
#include <unordered_map>

#include "dsrv/http/connection.h"
#include "dsrv/http/failure.h"
#include "dsrv/http/tls.h"

namespace dfsmr::http {
namespace {

constexpr size_t kThreads = 2;
constexpr auto kTick = std::chrono::milliseconds(500);
// Beyond the most: with TLS to be turned away takes a handshake. Others are closed at once.
constexpr size_t kTurnedAway = 64;

Response Full() {
  return ToResponse(Failure::Of(
      {Code::kUnavailable, Reason::kOverloaded,
       "the door has as many connections as it may (--http-connections), and none is idle"}));
}

int FamilyOf(int file) {
  int family = AF_INET;
  socklen_t size = sizeof family;
  getsockopt(file, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family;
}

}  // namespace

// A thread with its connections.
class Door::Thread final : public Lane {
 public:
  Thread(Door& door, Handler& handler) : door_(door), handler_(handler), timer_(context_) {
    thread_ = std::thread([this] { context_.run(); });
  }
  ~Thread() override {
    context_.stop();
    thread_.join();
    // What is left waits in the context, which goes last.
    connections_.clear();
  }

  // `evict`: for this one another has to go.
  void Take(int file, TlsContextPtr tls, bool evict) {
    Post([this, file, tls = std::move(tls), evict] {
      Tcp::socket socket(context_);
      ErrorCode error;
      socket.assign(FamilyOf(file) == AF_INET6 ? Tcp::v6() : Tcp::v4(), file, error);
      if (error) {
        close(file);
        door_.open_.fetch_sub(1);
        return;
      }
      const auto connection = std::make_shared<Connection>(*this, std::move(socket), tls);
      connections_[connection.get()] = connection;
      if (connections_.size() == 1) Tick();
      if (!evict || EvictOne()) return connection->Start();
      const bool crowded = tls && door_.open_ > door_.most_ + kTurnedAway;
      crowded ? connection->Close(Closed::kFull) : connection->TurnAway(Full());
    });
  }
  void FinishAll() {
    Post([this] {
      const auto all = connections_;  // they leave while they are asked to
      for (const auto& [raw, connection] : all) connection->Finish();
    });
  }
  // When the connection that is idle for longest became so; INT64_MAX: none is.
  int64_t idle_since() const { return idle_since_.load(std::memory_order_relaxed); }

  void Post(std::function<void()> work) override { boost::asio::post(context_, std::move(work)); }
  Handler& handler() override { return handler_; }
  bool draining() const override { return door_.draining_.load(std::memory_order_relaxed); }
  void Idle(Connection& connection, bool idle) override {
    const auto at = places_.find(&connection);
    if (idle && at == places_.end()) {
      idle_.emplace_back(&connection, Clock::now());
      places_[&connection] = std::prev(idle_.end());
    } else if (!idle && at != places_.end()) {
      idle_.erase(at->second);
      places_.erase(at);
    }
    idle_since_.store(idle_.empty() ? INT64_MAX : idle_.front().second.time_since_epoch().count(),
                      std::memory_order_relaxed);
  }
  void Serving(bool more) override { door_.CountServing(more); }
  void Gone(Connection& connection, Closed why) override {
    Idle(connection, false);
    if (connections_.erase(&connection) == 0) return;
    door_.open_.fetch_sub(1);
    door_.closed_[static_cast<size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }

 private:
  bool EvictOne() {
    if (idle_.empty()) return false;
    idle_.front().first->Close(Closed::kFull);
    return true;
  }
  void Tick() {
    timer_.expires_after(kTick);
    timer_.async_wait([this](const ErrorCode& error) {
      if (error) return;
      const auto now = Clock::now();
      const auto all = connections_;  // some close themselves
      for (const auto& [raw, connection] : all) connection->Tick(now);
      if (!connections_.empty()) Tick();
    });
  }

  Door& door_;
  Handler& handler_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ =
      boost::asio::make_work_guard(context_);
  boost::asio::steady_timer timer_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::list<std::pair<Connection*, Clock::time_point>> idle_;  // the longest first
  std::unordered_map<Connection*, decltype(idle_)::iterator> places_;
  std::atomic<int64_t> idle_since_{INT64_MAX};
  std::thread thread_;
};

Door::Door(std::unique_ptr<Acceptor> acceptor, TlsFiles tls, size_t most)
    : acceptor_(std::move(acceptor)),
      tls_(std::make_unique<TlsKeeper>(std::move(tls))),
      most_(most) {}

Result<std::unique_ptr<Door>> Door::Listen(const std::string& address, TlsFiles tls,
                                           size_t connections) {
  auto acceptor = Acceptor::Listen(address);
  if (!acceptor) return acceptor.error();
  return std::unique_ptr<Door>(new Door(*std::move(acceptor), std::move(tls), connections));
}

Door::~Door() {
  acceptor_.reset();
  threads_.clear();
}

std::map<std::string, uint64_t> Door::closed() const {
  std::map<std::string, uint64_t> counts;
  for (size_t i = 0; i < closed_.size(); ++i) counts[kClosedNames[i]] = closed_[i];
  return counts;
}

int Door::port() const { return acceptor_->port(); }

void Door::Serve(Handler& handler) {
  for (size_t i = 0; i < kThreads; ++i) {
    threads_.push_back(std::make_unique<Thread>(*this, handler));
  }
  acceptor_->Serve([this](int, int file) { Accept(file); });
}

void Door::Accept(int file) {
  TlsContextPtr tls = tls_->on() ? tls_->Current() : nullptr;
  if (tls_->on() && !tls) {
    close(file);
    return;
  }
  Thread* thread = threads_[next_++ % threads_.size()].get();
  const bool full = open_.fetch_add(1) >= most_;
  if (full) {
    for (const auto& other : threads_) {
      if (other->idle_since() < thread->idle_since()) thread = other.get();
    }
  }
  thread->Take(file, std::move(tls), full);
}

void Door::CountServing(bool more) {
  if (more) {
    serving_.fetch_add(1);
    return;
  }
  if (serving_.fetch_sub(1) > 1 || !draining_.load()) return;
  { const Lock lock(mutex_); }
  answered_.NotifyAll();
}

void Door::Drain() {
  draining_.store(true);
  for (const auto& thread : threads_) thread->FinishAll();
}

bool Door::AwaitAnswers(std::chrono::steady_clock::time_point until) {
  Lock lock(mutex_);
  return answered_.WaitUntil(lock, until, [this] { return serving_.load() == 0; });
}

}  // namespace dfsmr::http
