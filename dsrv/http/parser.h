// Reads requests of HTTP/1.1 from the bytes of a connection. Strict where two readers could take
// the same bytes for different requests: a proxy in front must never see another request than we
// do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dsrv/http/message.h"

namespace dfsmr::http {

inline constexpr size_t kRequestLine = 8 << 10;
inline constexpr size_t kHeadSize = 16 << 10;  // the request line and all headers
inline constexpr size_t kHeaderLines = 100;

// Why bytes are not a request, and the status to answer before the connection is closed.
struct Malformed {
  int status = 400;
  std::string message;
};

// One request after another: Take until it has a head, then until it has all of the body; Next
// begins another. What is malformed stays so.
class Parser {
 public:
  // Takes bytes up to the end of what it reads at present (the head, or the body), and returns how
  // many. The body's bytes are added to the request's body.
  size_t Take(std::string_view bytes);

  bool begun() const { return begun_; }  // a byte of the request has come
  bool has_head() const { return part_ >= Part::kBody; }
  bool has_all() const { return part_ == Part::kEnd; }
  const std::optional<Malformed>& malformed() const { return malformed_; }

  // Once there is a head.
  Request& request() { return request_; }
  // As announced; nullopt: it comes in chunks.
  std::optional<uint64_t> body_size() const { return body_size_; }
  uint64_t body_taken() const { return body_taken_; }
  // A larger body is malformed, 413. Without it there is no limit.
  void LimitBody(uint64_t most);

  void Next();

 private:
  enum class Part { kHead, kBody, kEnd };
  enum class Chunk { kSize, kData, kDataEnd, kTrailer };

  size_t TakeHead(std::string_view bytes);
  size_t TakeChunks(std::string_view bytes);
  // One byte of what stands between the chunks' data.
  void TakeFraming(char c);
  size_t TakeData(std::string_view bytes, uint64_t most);
  void EndLine();
  void ReadRequestLine(std::string_view line);
  void ReadHeader(std::string_view line);
  void EndHead();
  void EndSizeLine();
  void Fail(int status, std::string message);
  void LimitHead();

  Part part_ = Part::kHead;
  bool begun_ = false;
  std::optional<Malformed> malformed_;
  Request request_;

  std::string line_;       // of the head, so far; of a chunk's framing
  size_t head_size_ = 0;   // bytes of it so far
  bool return_ = false;    // the last byte was a carriage return
  bool has_line_ = false;  // the request line was read

  std::optional<uint64_t> body_size_;
  uint64_t body_taken_ = 0;
  uint64_t body_most_ = UINT64_MAX;
  Chunk chunk_ = Chunk::kSize;
  uint64_t chunk_left_ = 0;
  size_t trailer_size_ = 0;
};

}  // namespace dfsmr::http
