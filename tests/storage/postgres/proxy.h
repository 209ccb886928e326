// Between a client and a PostgreSQL, on sockets in folders: it passes bytes on, and cuts, freezes
// or loses them when it is told.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {

// As dsrv does: who writes to a connection that the other side has ended gets an error, no signal.
inline const auto kSignalBefore = std::signal(SIGPIPE, SIG_IGN);

class Proxy {
 public:
  enum class Mode {
    kPass,
    kRefuse,   // new connections are closed at once
    kFreeze,   // nothing is passed on, in either direction, and nothing is closed
    kSwallow,  // what the server answers is lost, and the connection with it
  };

  explicit Proxy(std::filesystem::path target) : target_(std::move(target)) {
    listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un address = AddressIn(folder_ / "");
    bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    listen(listener_, 16);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~Proxy() {
    over_ = true;
    acceptor_.join();
    for (std::thread& one : pumps_) one.join();
    close(listener_);
  }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  std::string Uri() const {
    return "postgresql://tester@/postgres?host=" + (folder_ / "").string();
  }
  void Set(Mode mode) { mode_ = mode; }
  // Where new connections go.
  void Aim(std::filesystem::path target) {
    const std::lock_guard lock(mutex_);
    target_ = std::move(target);
  }
  // Closes all connections.
  void Cut() { ++cuts_; }
  int swallowed() const { return swallowed_; }

 private:
  static constexpr int kTick = 5;  // ms

  static sockaddr_un AddressIn(const std::filesystem::path& folder) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder / ".s.PGSQL.5432";
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }

  void Accept() {
    while (!over_) {
      pollfd wanted{listener_, POLLIN, 0};
      if (poll(&wanted, 1, kTick) <= 0) continue;
      const int client = accept(listener_, nullptr, nullptr);
      if (mode_ == Mode::kRefuse) {
        close(client);
        continue;
      }
      const int server = socket(AF_UNIX, SOCK_STREAM, 0);
      sockaddr_un address;
      {
        const std::lock_guard lock(mutex_);
        address = AddressIn(target_);
      }
      if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        close(client);
        close(server);
        continue;
      }
      pumps_.emplace_back([this, client, server] { Pump(client, server); });
    }
  }

  void Pump(int client, int server) {
    const int cuts = cuts_;
    bool open = true;
    while (open && !over_ && cuts_ == cuts) {
      if (mode_ == Mode::kFreeze) {
        usleep(kTick * 1'000);
        continue;
      }
      pollfd wanted[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if (poll(wanted, 2, kTick) <= 0) continue;
      char bytes[1 << 16];
      if (wanted[0].revents != 0) open = Pass(client, server, bytes, sizeof bytes);
      if (open && wanted[1].revents != 0) {
        if (mode_ == Mode::kSwallow) {
          // The server has done all of it once it is ready for more.
          const ssize_t size = read(server, bytes, sizeof bytes);
          if (size <= 0) break;
          if (std::string_view(bytes, static_cast<size_t>(size)).find("Z") ==
              std::string_view::npos) {
            continue;
          }
          ++swallowed_;
          mode_ = after_swallow_.load();
          break;
        }
        open = Pass(server, client, bytes, sizeof bytes);
      }
    }
    close(client);
    close(server);
  }

  static bool Pass(int from, int to, char* bytes, size_t most) {
    const ssize_t size = read(from, bytes, most);
    return size > 0 && write(to, bytes, static_cast<size_t>(size)) == size;
  }

 public:
  // What it does once it has swallowed an answer.
  void AfterSwallow(Mode mode) { after_swallow_ = mode; }

 private:
  const TemporaryFolder folder_;
  std::mutex mutex_;
  std::filesystem::path target_;
  int listener_ = -1;
  std::atomic<Mode> mode_ = Mode::kPass;
  std::atomic<Mode> after_swallow_ = Mode::kPass;
  std::atomic<int> cuts_ = 0;
  std::atomic<int> swallowed_ = 0;
  std::atomic<bool> over_ = false;
  std::thread acceptor_;
  std::vector<std::thread> pumps_;
};

}  // namespace dfsmr
