#include "dsrv/http/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "fsm/base/result.h"

namespace dfsmr::http {
namespace {

constexpr int kGzip = 15 + 16;  // the largest window, with gzip's header
constexpr size_t kPiece = 64 << 10;

Bytef* BytesOf(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib only reads them
}

}  // namespace

std::string Packed(std::string_view bytes) {
  z_stream stream{};
  Check(deflateInit2(&stream, 4, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib has no memory");
  std::string packed(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = BytesOf(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = BytesOf(packed);
  stream.avail_out = static_cast<uInt>(packed.size());
  const int done = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  Check(done == Z_STREAM_END, "zlib keeps within the bound that it gave");
  return packed;
}

std::optional<std::string> Unpacked(std::string_view packed, size_t most, bool* too_large) {
  *too_large = false;
  z_stream stream{};
  Check(inflateInit2(&stream, kGzip) == Z_OK, "zlib has no memory");
  stream.next_in = BytesOf(packed);
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string bytes;
  int state = Z_OK;
  while (state == Z_OK && bytes.size() <= most) {
    const size_t before = bytes.size();
    bytes.resize(before + kPiece);
    stream.next_out = BytesOf(std::string_view(bytes).substr(before));
    stream.avail_out = kPiece;
    state = inflate(&stream, Z_NO_FLUSH);
    bytes.resize(bytes.size() - stream.avail_out);
  }
  const bool whole = state == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  *too_large = bytes.size() > most;
  if (!whole || *too_large) return std::nullopt;
  return bytes;
}

}  // namespace dfsmr::http
