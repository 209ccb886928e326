// Bytes of a connection: requests, one after another, that are cut in two ways. Whatever they are,
// both ways read the same.
#include "dsrv/http/guard.h"
#include "dsrv/http/parser.h"
#include "dsrv/http/url.h"
#include "fsm/base/result.h"
#include "tests/fuzz/bytes.h"

namespace dfsmr::http {
namespace {

// What was read, as text.
std::string Read(std::string_view bytes, size_t piece) {
  Parser parser;
  std::string all;
  std::string waiting;
  while (!parser.malformed() && (!bytes.empty() || !waiting.empty())) {
    waiting += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    size_t taken = 0;
    do {
      const bool had_head = parser.has_head();
      taken = parser.Take(waiting);
      Check(taken <= waiting.size(), "no more is taken than is there");
      waiting.erase(0, taken);
      if (!had_head && parser.has_head()) parser.LimitBody(1'000);
      if (parser.has_all() && !parser.malformed()) {
        const Request& request = parser.request();
        Check(request.body.size() == parser.body_taken(), "the body is what was taken");
        Check(request.headers.size() <= kHeaderLines,
              "there are no more headers than there may be");
        all += request.method + ' ' + request.path + '?' + request.query + '\n';
        for (const auto& [name, value] : request.headers) all += name + ':' + value + '\n';
        all += request.body + '\n';
        (void)ReadQuery(request.query);
        (void)request.KeepsAlive();
        (void)Guard({.proxies = {*ToAddressRange("0.0.0.0/0")}})
            .Admit(request, {.peer = "", .address = "1.2.3.4"}, false);
        parser.Next();
        taken = waiting.size();
      }
    } while (taken > 0 && !waiting.empty() && !parser.malformed());
    if (bytes.empty()) break;
  }
  return all + (parser.malformed() ? std::to_string(parser.malformed()->status) : "");
}

}  // namespace
}  // namespace dfsmr::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const size_t piece = bytes.Below(32) + 1;
  const std::string_view rest = bytes.Rest();
  Check(http::Read(rest, piece) == http::Read(rest, rest.size() + 1),
        "how the bytes are cut makes no difference");
  return 0;
}
