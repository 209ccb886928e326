#include "dsrv/http/tls.h"

#include <openssl/x509.h>

namespace dfsmr::http {
namespace {

namespace ssl = boost::asio::ssl;

// Null: a file is missing or wrong; TlsWatch logs it.
TlsContextPtr Load(const TlsFiles& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  ErrorCode error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                           ssl::context::no_sslv3 | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1 | ssl::context::single_dh_use,
                       error);
  if (!error) context->use_certificate_chain_file(files.cert, error);
  if (!error) context->use_private_key_file(files.key, ssl::context::pem, error);
  if (!error && !files.client_ca.empty()) {
    context->load_verify_file(files.client_ca, error);
    if (!error) {
      context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
    }
  }
  if (error) return nullptr;
  return context;
}

}  // namespace

TlsContextPtr TlsKeeper::Current() {
  const auto now = std::chrono::steady_clock::now();
  if (looked_ != std::chrono::steady_clock::time_point() &&
      now - looked_ < std::chrono::seconds(1)) {
    return context_;
  }
  looked_ = now;
  std::string stamp = StampOf(files_);
  if (stamp == stamp_ && context_) return context_;
  stamp_ = std::move(stamp);
  context_ = Load(files_);
  return context_;
}

std::string CommonName(SSL* ssl) {
  X509* const certificate = SSL_get1_peer_certificate(ssl);
  if (!certificate) return {};
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
  X509_free(certificate);
  return name;
}

}  // namespace dfsmr::http
