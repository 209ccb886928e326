// The protection of the server's port by TLS.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

struct TlsFiles {
  std::string cert;       // PEM: the server's certificate, and those between it and its root
  std::string key;        // PEM
  std::string client_ca;  // PEM; if given, clients must have a certificate that it has signed
  bool empty() const { return cert.empty() && key.empty() && client_ca.empty(); }
};

// Whether only this machine can reach the address, HOST:PORT.
bool IsLoopback(const std::string& addr);
// Whether the address, HOST:PORT, is one to listen at on every interface, so that nobody can be
// reached at it.
bool NamesNoHost(const std::string& addr);

// Checks the files, and returns when the certificate expires. The error says which file is
// unreadable, not PEM, expired, or a key of another certificate.
Result<Timestamp> CheckTls(const TlsFiles& files, Timestamp now);

// A text that differs whenever one of the files was written or replaced.
std::string StampOf(const TlsFiles& files);

// TLS 1.2 or 1.3 with these files. When they change they are read again within two seconds, and new
// connections use the new files.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const TlsFiles& files);

// When the certificate expires that is served; kNever: there is none. Any thread.
using TlsExpiry = std::atomic<Timestamp>;

// Logs that the files have changed, and what is wrong with the new ones; as long as they are wrong,
// connections fail. Does nothing when there are no files. `expiry` is that of the files.
class TlsWatch {
 public:
  TlsWatch(TlsFiles files, std::function<Timestamp()> clock, TlsExpiry& expiry);
  ~TlsWatch();

 private:
  void Watch();

  const TlsFiles files_;
  const std::function<Timestamp()> clock_;
  TlsExpiry& expiry_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;
};

}  // namespace dfsmr
