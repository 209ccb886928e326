// TCP connections that speak as much HTTP/2 as they like, and no more.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace dfsmr::chaos {

class RawConnection {
 public:
  explicit RawConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd_ >= 0 && connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      close(fd_);
      fd_ = -1;
    }
  }
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawConnection& operator=(RawConnection&&) = delete;
  ~RawConnection() {
    if (fd_ >= 0) close(fd_);
  }

  bool open() const { return fd_ >= 0; }
  bool Send(const std::string& bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // What comes within that time, "" when nothing does; `ended`: the server has hung up.
  std::string Receive(int within_ms, bool* ended) const {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, within_ms) <= 0) return "";
    char buffer[16'384];
    const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
    *ended = count <= 0;
    return count > 0 ? std::string(buffer, static_cast<std::size_t>(count)) : "";
  }

 private:
  int fd_;
};

inline const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// A frame without a stream.
inline std::string Frame(char type, const std::string& payload) {
  std::string frame(9, '\0');
  frame[2] = static_cast<char>(payload.size());
  frame[3] = type;
  return frame + payload;
}
inline std::string Settings() { return Frame(4, ""); }
inline std::string Ping() { return Frame(6, "01234567"); }

}  // namespace dfsmr::chaos
