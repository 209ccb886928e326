// Accepts connections, of gRPC and of HTTP. gRPC's own listener stops for good when the process
// cannot open more files; this one turns the connections away, logs a warning, and goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr {

class Acceptor {
 public:
  // Owns the connection, a file that does not block, from the call on.
  using Handler = std::function<void(int listener, int connection)>;

  // Listens on HOST:PORT, on every address of HOST. ':PORT' means every interface, and port 0 any
  // free port. UNAVAILABLE when an address does not belong to this machine, or is in use.
  static Result<std::unique_ptr<Acceptor>> Listen(const std::string& address);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();

  int port() const { return port_; }
  // Hands connections to `handler` from now on, on a thread of its own. Call it once, when they can
  // be served.
  void Serve(Handler handler);

 private:
  Acceptor() = default;
  bool Bind(int family, const void* address, unsigned size);
  void Run();
  void Accept(int listener);

  std::vector<int> listeners_;
  int port_ = 0;
  int files_most_ = 0;  // connections beyond this are turned away
  int stop_ = -1;       // an eventfd: readable when the thread is to end
  uint64_t turned_away_ = 0;
  std::chrono::steady_clock::time_point next_warning_;
  Handler handler_;
  std::thread thread_;
};

}  // namespace dfsmr
