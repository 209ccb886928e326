// The HTTP door: listens, and keeps the connections on two threads. A connection stays on one of
// them, so that nothing of it needs a lock.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/access/acceptor.h"
#include "dsrv/access/tls.h"
#include "dsrv/http/exchange.h"
#include "fsm/base/mutex.h"
#include "fsm/base/result.h"

namespace dfsmr::http {

class TlsKeeper;

class Door {
 public:
  // Listens on HOST:PORT; nothing is accepted yet.
  static Result<std::unique_ptr<Door>> Listen(const std::string& address, TlsFiles tls,
                                              size_t connections);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  int port() const;
  // For those who scrape the server: how many connections are open, and how many were closed, by
  // why. Any thread.
  size_t open() const { return open_.load(std::memory_order_relaxed); }
  std::map<std::string, uint64_t> closed() const;
  // `handler` outlives the door.
  void Serve(Handler& handler);

  // From now on each answer is the last of its connection, and idle ones are closed.
  void Drain();
  // Waits until all requests under way are answered. False: some were not by `until`.
  bool AwaitAnswers(std::chrono::steady_clock::time_point until);

 private:
  class Thread;
  friend class Thread;

  Door(std::unique_ptr<Acceptor> acceptor, TlsFiles tls, size_t most);
  void Accept(int file);
  void CountServing(bool more);

  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<TlsKeeper> tls_;
  const size_t most_;
  std::atomic<size_t> open_{0};
  std::array<std::atomic<uint64_t>, 6> closed_{};  // by Closed
  std::atomic<bool> draining_{false};
  std::atomic<size_t> serving_{0};
  Mutex mutex_;
  ConditionVariable answered_;
  std::vector<std::unique_ptr<Thread>> threads_;
  size_t next_ = 0;  // thread that gets the next connection
};

}  // namespace dfsmr::http
