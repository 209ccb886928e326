// TLS for the door's connections, by the files of the server's port.
#pragma once

#include <chrono>
#include <string>

#include "dsrv/access/tls.h"
#include "dsrv/http/socket.h"

namespace dfsmr::http {

// The context for the next connection. The files are read again when they have changed; as long as
// they are wrong there is none. One thread.
class TlsKeeper {
 public:
  explicit TlsKeeper(TlsFiles files) : files_(std::move(files)) {}
  bool on() const { return !files_.empty(); }
  TlsContextPtr Current();

 private:
  const TlsFiles files_;
  std::string stamp_;
  TlsContextPtr context_;
  std::chrono::steady_clock::time_point looked_{};
};

// Of the client's certificate; empty: it has shown none.
std::string CommonName(SSL* ssl);

}  // namespace dfsmr::http
