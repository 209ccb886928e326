// What clients hand back as they were given it, or not: cursors, page tokens and the requests that
// carry them. The first byte says which.
#include "dsrv/feed/cursor.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/requests.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/quiet.h"

namespace dfsmr {
namespace {

void ReadCursor(std::string_view text) {
  const auto cursor = ParseCursor(text);
  if (!cursor) return;
  const auto again = ParseCursor(CursorText(*cursor));
  Check(again && *again == *cursor, "a cursor is read from its own text");
}

void ReadToken(const std::string& filters, const std::string& token) {
  const auto last = ParsePageToken(filters, token);
  if (last && !token.empty()) Check(PageToken(filters, *last) == token, "a token is one of ours");
  const auto own = ParsePageToken(filters, PageToken(filters, token));
  Check(token.empty() || (own && *own == token), "our own tokens are accepted");
}

template <typename Request, typename Read>
void ReadRequest(std::string_view bytes, Read read) {
  Request request;
  if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) read(request);
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  switch (bytes.Below(4)) {
    case 0:
      ReadCursor(bytes.Rest());
      break;
    case 1: {
      const std::string filters(bytes.Line());
      ReadToken(filters, std::string(bytes.Rest()));
      break;
    }
    case 2:
      ReadRequest<v1::ListInstancesRequest>(bytes.Rest(), [](v1::ListInstancesRequest& request) {
        (void)ToQuery(request, FromMicros(1));
        request.set_page_token(PageToken(FiltersOf(request), "an-id"));
        const auto query = ToQuery(request, FromMicros(1));
        if (query) Check(query->after == "an-id", "the token of these filters is accepted");
      });
      break;
    default:
      ReadRequest<v1::ChangesRequest>(bytes.Rest(), [](const v1::ChangesRequest& request) {
        (void)ToChangeFilter(request);
        ReadCursor(request.after());
      });
  }
  return 0;
}
