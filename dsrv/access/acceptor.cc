#include "dsrv/access/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace dfsmr {
namespace {

constexpr int kReserved = 200;  // open files for the store and the rest of the server
constexpr auto kBetweenWarnings = std::chrono::seconds(10);

struct HostPort {
  std::string host;  // empty: every interface
  std::string port;
};

std::optional<HostPort> Split(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) return std::nullopt;
  HostPort parts{address.substr(0, colon), address.substr(colon + 1)};
  if (parts.host.starts_with('[') && parts.host.ends_with(']')) {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  if (!std::ranges::all_of(parts.port, [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  return parts;
}

Error CannotListen(const std::string& address) {
  return {Code::kUnavailable, Reason::kNone,
          "cannot listen on " + address +
              ": the address is not this machine's, or something listens there already"};
}

int FileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1'024;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& address) {
  const auto parts = Split(address);
  if (!parts) return CannotListen(address);
  std::unique_ptr<Acceptor> acceptor(new Acceptor);
  const int limit = FileLimit();
  acceptor->files_most_ = std::max(limit - kReserved, limit / 2);
  acceptor->stop_ = eventfd(0, EFD_CLOEXEC);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string host = parts->host.empty() ? "::" : parts->host;
  if (getaddrinfo(host.c_str(), parts->port.c_str(), &hints, &found) != 0) {
    return CannotListen(address);
  }
  bool taken = false;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (!acceptor->Bind(one->ai_family, one->ai_addr, one->ai_addrlen)) {
      taken = taken || errno == EADDRINUSE;
    }
  }
  freeaddrinfo(found);
  if (host == "::" && acceptor->listeners_.empty() && !taken) {  // a machine without IPv6
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<uint16_t>(std::stoi(parts->port)));
    acceptor->Bind(AF_INET, &any, sizeof(any));
  }
  if (taken || acceptor->listeners_.empty()) return CannotListen(address);
  return acceptor;
}

// False: errno says why.
bool Acceptor::Bind(int family, const void* address, unsigned size) {
  sockaddr_storage own{};
  std::memcpy(&own, address, std::min<std::size_t>(size, sizeof(own)));
  // Any free port, but the same one on every address.
  const bool six = family == AF_INET6;
  in_port_t& port = six ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                        : reinterpret_cast<sockaddr_in*>(&own)->sin_port;
  if (port == 0) port = htons(static_cast<uint16_t>(port_));
  const int listener = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) return false;
  const int yes = 1;
  const int no = 0;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (six) setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  auto* generic = reinterpret_cast<sockaddr*>(&own);
  socklen_t length = size;
  if (bind(listener, generic, size) != 0 || listen(listener, SOMAXCONN) != 0 ||
      getsockname(listener, generic, &length) != 0) {
    const int why = errno;
    close(listener);
    errno = why;
    return false;
  }
  port_ = ntohs(port);
  listeners_.push_back(listener);
  return true;
}

void Acceptor::Serve(Handler handler) {
  handler_ = std::move(handler);
  thread_ = std::thread([this] { Run(); });
}

Acceptor::~Acceptor() {
  const uint64_t one = 1;
  (void)!write(stop_, &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (const int listener : listeners_) close(listener);
  close(stop_);
}

void Acceptor::Run() {
  std::vector<pollfd> ready;
  for (const int listener : listeners_) ready.push_back({listener, POLLIN, 0});
  ready.push_back({stop_, POLLIN, 0});
  while (true) {
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return;
    if (ready.back().revents != 0) return;
    for (const pollfd& one : ready) {
      if (one.revents != 0) Accept(one.fd);
    }
  }
}

void Acceptor::Accept(int listener) {
  const int connection = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  // A new file gets the lowest free number, so the number tells how many files are open.
  const bool full = connection >= files_most_ || (connection < 0 && (errno == EMFILE ||
                                                                     errno == ENFILE));
  if (full) {
    ++turned_away_;
    if (connection >= 0) close(connection);
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_warning_) {
      next_warning_ = now + kBetweenWarnings;
      spdlog::warn(
          "{} connections turned away so far: of the {} open files that this process may have, the "
          "last {} are kept for the store; raise the limit (ulimit -Hn, LimitNOFILE)",
          turned_away_, FileLimit(), FileLimit() - files_most_);
    }
    if (connection < 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return;
  }
  if (connection < 0) return;  // the client has hung up already
  const int yes = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  handler_(listener, connection);
}

}  // namespace dfsmr
