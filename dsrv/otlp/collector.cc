#include "dsrv/otlp/collector.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "fsm/base/names.h"

namespace dfsmr::otlp {
namespace {

using std::chrono::steady_clock;

constexpr size_t kHead = 16 << 10;  // of an answer

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// False: not in time.
bool Await(int fd, short events, steady_clock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Delivered Later(std::string why) { return {Delivery::kLater, std::move(why)}; }
Delivered Failed() { return Later(std::strerror(errno)); }

// Connects; "" when it has.
std::string Connect(const addrinfo& to, int fd, steady_clock::time_point until) {
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0) return "";
  if (errno != EINPROGRESS) return std::strerror(errno);
  if (!Await(fd, POLLOUT, until)) return "no connection in time";
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::strerror(error);
}

std::string RequestOf(const Collector& collector, const std::string& json) {
  const std::string host =
      collector.host.find(':') == std::string::npos ? collector.host : "[" + collector.host + "]";
  return "POST " + collector.path + " HTTP/1.1\r\nHost: " + host + ":" + collector.port +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(json.size()) +
         "\r\nConnection: close\r\n\r\n" + json;
}

// Of "HTTP/1.1 200 OK".
Delivered Judge(const std::string& answer) {
  const std::string line = answer.substr(0, answer.find_first_of("\r\n"));
  const bool http = line.starts_with("HTTP/1.") && line.size() >= 12;
  const std::string status = http ? line.substr(9, 3) : "";
  const bool number = std::ranges::all_of(status, [](char c) { return c >= '0' && c <= '9'; });
  if (!http || !number) return Later("its answer is not HTTP");
  if (status.front() == '2') return {Delivery::kTaken, ""};
  // As OTLP/HTTP says.
  const bool again =
      status == "408" || status == "429" || status == "502" || status == "503" || status == "504";
  return {again ? Delivery::kLater : Delivery::kNever, "it answers " + line};
}

Delivered Exchange(int fd, const std::string& request, steady_clock::time_point until) {
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t bytes = send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (bytes > 0) {
      sent += static_cast<size_t>(bytes);
    } else if (errno == EAGAIN && Await(fd, POLLOUT, until)) {
      continue;
    } else {
      return errno == EAGAIN ? Later("it takes nothing") : Failed();
    }
  }
  std::string answer;
  while (answer.find("\r\n") == std::string::npos && answer.size() < kHead) {
    char bytes[1024];
    const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    if (got > 0) {
      answer.append(bytes, static_cast<size_t>(got));
    } else if (got == 0) {
      return Later("it hung up without an answer");
    } else if (errno != EAGAIN) {
      return Failed();
    } else if (!Await(fd, POLLIN, until)) {
      return Later("no answer in time");
    }
  }
  return Judge(answer);
}

}  // namespace

Result<Collector> ParseCollector(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const auto bad = [&] {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "--otlp " + Quoted(url) + " is not an address such as http://localhost:4318"};
  };
  if (!url.starts_with(kScheme)) return bad();
  const std::string rest = url.substr(kScheme.size());
  const bool plain = std::ranges::all_of(rest, [](char c) { return c > ' ' && c < 0x7f; });
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string authority = rest.substr(0, slash);
  Collector to{.host = {}, .port = "4318", .path = rest.substr(slash)};
  if (to.path.empty() || to.path == "/") to.path = "/v1/traces";
  const size_t colon = authority.rfind(':');
  const bool bracketed = authority.starts_with('[');
  if (colon != authority.npos && (!bracketed || authority[colon - 1] == ']')) {
    to.port = authority.substr(colon + 1);
    authority.resize(colon);
  }
  if (bracketed) {
    if (authority.size() < 3 || !authority.ends_with(']')) return bad();
    authority = authority.substr(1, authority.size() - 2);
  }
  to.host = authority;
  const bool port = !to.port.empty() && to.port.size() <= 5 &&
                    to.port.find_first_not_of("0123456789") == to.port.npos &&
                    std::stoul(to.port) >= 1 && std::stoul(to.port) <= 65'535;
  const bool host = !to.host.empty() && to.host.find_first_of("@?#") == to.host.npos &&
                    (bracketed || to.host.find(':') == to.host.npos);
  return plain && port && host ? Result<Collector>(std::move(to)) : bad();
}

Delivered Post(const Collector& collector, const std::string& json,
               std::chrono::milliseconds most) {
  const auto until = steady_clock::now() + most;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(collector.host.c_str(), collector.port.c_str(), &hints, &found);
  if (failed != 0) return Later(gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  std::string why = "it has no address";
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    const Socket socket(
        ::socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol));
    if (socket.fd() < 0) return Failed();
    why = Connect(*to, socket.fd(), until);
    if (why.empty()) return Exchange(socket.fd(), RequestOf(collector, json), until);
  }
  return Later(why);
}

}  // namespace dfsmr::otlp
