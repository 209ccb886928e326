// The port: what it is protected with, and when it must be.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

struct TlsFiles {
  std::string cert;       // PEM: the server's certificate, and those that lead to its root
  std::string key;        // PEM
  std::string client_ca;  // PEM: with it, clients must have a certificate that one of these signed
  bool empty() const { return cert.empty() && key.empty() && client_ca.empty(); }
};

// Whether only this machine can reach the address, HOST:PORT.
bool IsLoopback(const std::string& addr);

// What is wrong with the files: unreadable, no PEM, a key of another certificate, expired. Answers
// when the certificate expires.
Result<Timestamp> CheckTls(const TlsFiles& files, Timestamp now);

// TLS 1.2 or 1.3 with these files, which are read again when they change: connections made after
// that, within two seconds, are served the new ones.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const TlsFiles& files);

// Tells the log when the files change, and what is wrong with the new ones: then connections fail
// until that is mended. Does nothing without files.
class TlsWatch {
 public:
  TlsWatch(TlsFiles files, std::function<Timestamp()> clock);
  ~TlsWatch();

 private:
  void Watch();

  const TlsFiles files_;
  const std::function<Timestamp()> clock_;
  Mutex mutex_;
  Condition changed_;
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;
};

}  // namespace dfsmr
