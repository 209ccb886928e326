#include "dsrv/access/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cstdio>
#include <ctime>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr unsigned kRefreshSeconds = 1;

struct Free {
  void operator()(FILE* file) const { std::fclose(file); }
  void operator()(X509* cert) const { X509_free(cert); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Error Bad(const std::string& what, const std::string& path, const std::string& problem) {
  return {Code::kInvalidArgument, Reason::kNone, what + " " + Quoted(path) + " " + problem};
}

Result<Owned<FILE>> OpenFile(const std::string& what, const std::string& path) {
  Owned<FILE> file(std::fopen(path.c_str(), "re"));
  if (!file) return Bad(what, path, "cannot be read");
  return file;
}

Result<Owned<X509>> ReadCertificate(const std::string& what, const std::string& path) {
  auto file = OpenFile(what, path);
  if (!file) return file.error();
  Owned<X509> cert(PEM_read_X509(file->get(), nullptr, nullptr, nullptr));
  if (!cert) return Bad(what, path, "holds no certificate in PEM");
  return cert;
}

Timestamp ExpiryOf(const X509* cert) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &parts) != 1) return kNever;
  return FromMicros(int64_t{timegm(&parts)} * 1'000'000);
}

}  // namespace

bool IsLoopback(const std::string& addr) {
  if (addr.starts_with("unix:")) return true;
  const std::string host = addr.substr(0, addr.rfind(':'));
  if (host == "localhost" || host == "[::1]" || host == "::1") return true;
  // 127.0.0.0/8, in digits: a host name may begin with "127.", too.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

bool NamesNoHost(const std::string& addr) {
  const std::string host = addr.substr(0, addr.rfind(':'));
  return host.empty() || host == "0.0.0.0" || host == "[::]" || host == "::" || host == "*";
}

Result<Timestamp> CheckTls(const TlsFiles& files, Timestamp now) {
  if (files.cert.empty() || files.key.empty()) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "TLS takes both --tls-cert FILE and --tls-key FILE"};
  }
  auto cert = ReadCertificate("--tls-cert", files.cert);
  if (!cert) return cert.error();
  auto file = OpenFile("--tls-key", files.key);
  if (!file) return file.error();
  // A key with a password is refused: nobody could type the password when the file is read again.
  char none[] = "";
  Owned<EVP_PKEY> key(PEM_read_PrivateKey(file->get(), nullptr, nullptr, none));
  if (!key) return Bad("--tls-key", files.key, "holds no private key in PEM without a password");
  if (X509_check_private_key(cert->get(), key.get()) != 1) {
    return Bad("--tls-key", files.key, "is not the key of the certificate " + Quoted(files.cert));
  }
  const Timestamp expiry = ExpiryOf(cert->get());
  if (expiry <= now) return Bad("--tls-cert", files.cert, "has expired");
  if (!files.client_ca.empty()) {
    auto ca = ReadCertificate("--tls-client-ca", files.client_ca);
    if (!ca) return ca.error();
  }
  return expiry;
}

std::string StampOf(const TlsFiles& files) {
  std::string stamp;
  for (const std::string& path : {files.cert, files.key, files.client_ca}) {
    struct stat there {};
    if (path.empty() || stat(path.c_str(), &there) != 0) continue;
    for (auto number : {there.st_mtim.tv_sec, there.st_mtim.tv_nsec,
                        static_cast<time_t>(there.st_ino), static_cast<time_t>(there.st_size)}) {
      stamp += std::to_string(number) + ' ';
    }
  }
  return stamp;
}

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const TlsFiles& files) {
  using namespace grpc::experimental;
  auto watcher = std::make_shared<FileWatcherCertificateProvider>(
      files.key, files.cert, files.client_ca, kRefreshSeconds);
  TlsServerCredentialsOptions options(watcher);
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return TlsServerCredentials(options);
}

TlsWatch::TlsWatch(TlsFiles files, std::function<Timestamp()> clock, TlsExpiry& expiry)
    : files_(std::move(files)), clock_(std::move(clock)), expiry_(expiry) {
  if (!files_.empty()) thread_ = std::thread([this] { Watch(); });
}

TlsWatch::~TlsWatch() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void TlsWatch::Watch() {
  std::string seen = StampOf(files_);
  Lock lock(mutex_);
  const auto tick = std::chrono::seconds(kRefreshSeconds);
  while (!changed_.WaitFor(lock, tick, [this]() REQUIRES(mutex_) { return ended_; })) {
    const std::string now = StampOf(files_);
    if (now == std::exchange(seen, now)) continue;
    auto checked = CheckTls(files_, clock_());
    if (checked) {
      expiry_ = *checked;
      spdlog::info("TLS: the changed files are served from now on; expires_in_days={:.0f}",
                   Seconds(*checked - clock_()) / 86'400);
    } else {
      spdlog::error("TLS: the files have changed, and connections fail until this is mended: {}",
                    checked.error().message);
    }
  }
}

}  // namespace dfsmr
