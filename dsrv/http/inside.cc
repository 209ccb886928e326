#include "dsrv/http/inside.h"

#include <algorithm>
#include <vector>

#include "dsrv/access/door_key.h"

namespace dfsmr::http {
namespace {

// The value of a cookie; empty: there is none.
std::string CookieOf(const Request& request, std::string_view name) {
  for (const auto& [header, value] : request.headers) {
    if (header != "cookie") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      const std::string_view one = Trimmed(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=') {
        return std::string(one.substr(name.size() + 1));
      }
    }
  }
  return {};
}

// What metadata may hold.
std::string Printable(std::string_view text) {
  const bool fine = std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
  return fine ? std::string(text) : std::string();
}

}  // namespace

Asker ToAsker(const Request& request, const Visitor& visitor) {
  Asker asker;
  asker.peer = visitor.client.peer;
  asker.certificate = visitor.client.certificate;
  asker.request_id = visitor.request_id;
  const auto take = [&](std::string_view name) {
    return Printable(request.Header(name).value_or(""));
  };
  asker.authorization = take("authorization");
  asker.traceparent = take("traceparent");
  asker.tracestate = take("tracestate");
  if (asker.authorization.empty() && visitor.own_page) {
    const std::string secret = Printable(CookieOf(request, SessionCookie(visitor.client.secure)));
    if (!secret.empty()) asker.authorization = "Bearer " + secret;
  }
  return asker;
}

void Inside::Prepare(grpc::ClientContext* context, const Asker& asker,
                     std::optional<std::chrono::milliseconds> timeout) {
  const auto add = [context](std::string_view name, const std::string& value) {
    if (!value.empty()) context->AddMetadata(std::string(name), value);
  };
  add(door::kKey, door::Key());
  add(door::kName, "http");
  add(door::kPeer, asker.peer);
  add(door::kCertificate, asker.certificate);
  add(door::kRequestId, asker.request_id);
  add("authorization", asker.authorization);
  add("traceparent", asker.traceparent);
  add("tracestate", asker.tracestate);
  if (timeout) context->set_deadline(std::chrono::system_clock::now() + *timeout);
}

Headers Inside::Trailers(const grpc::ClientContext& context) {
  Headers trailers;
  for (const auto& [name, value] : context.GetServerTrailingMetadata()) {
    trailers.emplace_back(std::string(name.data(), name.size()),
                          std::string(value.data(), value.size()));
  }
  return trailers;
}

std::shared_ptr<Inside::Unary> Inside::Call(const std::string& method, const Asker& asker,
                                            const std::string& request,
                                            std::optional<std::chrono::milliseconds> timeout,
                                            std::function<void(Outcome)> done) {
  auto call = std::make_shared<Unary>();
  Prepare(&call->context_, asker, timeout);
  call->request_ = ToBuffer(request);
  stub_.UnaryCall(&call->context_, "/" + method, grpc::StubOptions(), &call->request_,
                  &call->reply_, [call, done = std::move(done)](const grpc::Status& status) {
                    done({status, Trailers(call->context_),
                          status.ok() ? ToBytes(call->reply_) : std::string()});
                  });
  return call;
}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::string ToBytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace dfsmr::http
