// A connection's socket, with TLS or without.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <memory>
#include <string>
#include <utility>

namespace dfsmr::http {

using Tcp = boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using TlsContextPtr = std::shared_ptr<boost::asio::ssl::context>;

class Socket {
 public:
  // Null: without TLS.
  Socket(Tcp::socket socket, TlsContextPtr tls)
      : plain_(std::move(socket)), context_(std::move(tls)) {
    if (context_) tls_ = std::make_unique<Tls>(plain_, *context_);
  }

  Socket(const Socket&) = delete;  // TLS refers to the socket beneath
  Socket& operator=(const Socket&) = delete;

  bool secure() const { return tls_ != nullptr; }
  Tcp::socket& tcp() { return plain_; }
  SSL* ssl() { return tls_->native_handle(); }

  template <typename Done>
  void Handshake(Done done) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::move(done));
  }
  template <typename Done>
  void ReadSome(boost::asio::mutable_buffer buffer, Done done) {
    tls_ ? tls_->async_read_some(buffer, std::move(done))
         : plain_.async_read_some(buffer, std::move(done));
  }
  template <typename Done>
  void WriteSome(boost::asio::const_buffer buffer, Done done) {
    tls_ ? tls_->async_write_some(buffer, std::move(done))
         : plain_.async_write_some(buffer, std::move(done));
  }

 private:
  using Tls = boost::asio::ssl::stream<Tcp::socket&>;
  Tcp::socket plain_;
  TlsContextPtr context_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace dfsmr::http
