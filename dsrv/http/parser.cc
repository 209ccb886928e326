#include "dsrv/http/parser.h"

#include <algorithm>

#include "dsrv/http/url.h"

namespace dfsmr::http {
namespace {

constexpr size_t kChunkLine = 256;  // a chunk's size with its extensions
constexpr size_t kTrailers = 8 << 10;

// Characters of a method and of a header's name.
bool IsToken(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != kOthers.npos;
  });
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

void Parser::Fail(int status, std::string message) {
  if (!malformed_) malformed_ = Malformed{status, std::move(message)};
}

size_t Parser::Take(std::string_view bytes) {
  if (malformed_ || bytes.empty() || part_ == Part::kEnd) return 0;
  begun_ = true;
  if (part_ == Part::kHead) return TakeHead(bytes);
  if (!body_size_) return TakeChunks(bytes);
  const size_t taken = TakeData(bytes, *body_size_ - body_taken_);
  if (body_taken_ == *body_size_) part_ = Part::kEnd;
  return taken;
}

void Parser::LimitHead() {
  if (!has_line_ && line_.size() > kRequestLine) {
    Fail(414, "the request line is longer than 8 KiB; send what is long in the body of a POST");
  } else if (head_size_ > kHeadSize) {
    Fail(431, "the request's headers are longer than 16 KiB");
  }
}

size_t Parser::TakeHead(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size() && part_ == Part::kHead && !malformed_) {
    const char c = bytes[at++];
    ++head_size_;
    if (return_ != (c == '\n')) {
      Fail(400,
           "a line of the head ends with a carriage return and a line feed, and has neither "
           "elsewhere");
    } else if (c == '\n') {
      return_ = false;
      EndLine();
    } else if (c == '\r') {
      return_ = true;
    } else if (IsControl(c) && c != '\t') {
      Fail(400, "the head holds a control character");
    } else {
      line_ += c;
    }
    LimitHead();
  }
  return at;
}

void Parser::EndLine() {
  std::string line;
  line.swap(line_);
  if (!has_line_) {
    if (line.empty()) return;  // some clients end a body with one line too many
    return ReadRequestLine(line);
  }
  line.empty() ? EndHead() : ReadHeader(line);
}

void Parser::ReadRequestLine(std::string_view line) {
  has_line_ = true;
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == line.npos || first == last) {
    return Fail(400, "a request line is METHOD /PATH HTTP/1.1");
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  request_.method = line.substr(0, first);
  if (!IsToken(request_.method))
    return Fail(400,
                "the request's method holds other characters "
                "than a method has");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return Fail(400, "this is HTTP/1.1, not another version");
  }
  request_.minor = version.back() - '0';
  const bool printable =
      std::ranges::all_of(target, [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
  if (!printable || (!target.starts_with('/') && target != "*")) {
    return Fail(400, "the request's target is a path that begins with a slash, in printable ASCII");
  }
  const size_t question = std::min(target.find('?'), target.size());
  request_.path = target.substr(0, question);
  request_.query = target.substr(std::min(question + 1, target.size()));
}

void Parser::ReadHeader(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos || !IsToken(line.substr(0, colon))) {
    return Fail(400, "a header is NAME: VALUE on one line, without space in front of the colon");
  }
  if (request_.headers.size() >= kHeaderLines) {
    return Fail(431, "the request has more than 100 headers");
  }
  request_.headers.emplace_back(Lower(line.substr(0, colon)),
                                std::string(Trimmed(line.substr(colon + 1))));
}

void Parser::EndHead() {
  const std::string* size = nullptr;
  const std::string* coding = nullptr;
  const std::string* host = nullptr;
  for (const auto& [name, value] : request_.headers) {
    const std::string** slot = name == "content-length"      ? &size
                               : name == "transfer-encoding" ? &coding
                               : name == "host"              ? &host
                                                             : nullptr;
    if (!slot) continue;
    if (*slot) return Fail(400, "the request has two headers '" + name + "'");
    *slot = &value;
  }
  if (coding && size) {
    return Fail(400,
                "a request has content-length or transfer-encoding, not both: nobody knows "
                "which one counts");
  }
  if (coding && (Lower(*coding) != "chunked" || request_.minor == 0)) {
    return Fail(400, "the only transfer-encoding is chunked, in HTTP/1.1");
  }
  body_size_ = coding ? std::nullopt : std::optional<uint64_t>(0);
  if (size) {
    const bool digits =
        !size->empty() && size->size() <= 18 && size->find_first_not_of("0123456789") == size->npos;
    if (!digits) return Fail(400, "content-length is a number of bytes");
    body_size_ = std::stoull(*size);
  }
  part_ = body_size_ == uint64_t{0} ? Part::kEnd : Part::kBody;
}

void Parser::LimitBody(uint64_t most) {
  body_most_ = most;
  if (body_size_.value_or(body_taken_) > most) {
    Fail(413, "the body may have " + std::to_string(most) + " bytes");
  }
}

size_t Parser::TakeData(std::string_view bytes, uint64_t most) {
  const std::string_view data = bytes.substr(0, std::min<uint64_t>(most, bytes.size()));
  body_taken_ += data.size();
  if (body_taken_ > body_most_) {
    Fail(413, "the body may have " + std::to_string(body_most_) + " bytes");
    return 0;
  }
  request_.body += data;
  return data.size();
}

size_t Parser::TakeChunks(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size() && part_ == Part::kBody && !malformed_) {
    if (chunk_ != Chunk::kData) {
      TakeFraming(bytes[at++]);
      continue;
    }
    const size_t taken = TakeData(bytes.substr(at), chunk_left_);
    at += taken;
    chunk_left_ -= taken;
    if (chunk_left_ == 0) chunk_ = Chunk::kDataEnd;
  }
  return at;
}

void Parser::TakeFraming(char c) {
  if (return_ != (c == '\n')) return Fail(400, "the body's chunks are malformed");
  if (c == '\r') {
    return_ = true;
    return;
  }
  if (c != '\n') {
    const bool fits = chunk_ != Chunk::kDataEnd && (!IsControl(c) || c == '\t') &&
                      line_.size() < kChunkLine + (chunk_ == Chunk::kTrailer ? kTrailers : 0);
    if (!fits) return Fail(400, "the body's chunks are malformed");
    line_ += c;
    return;
  }
  return_ = false;
  if (chunk_ == Chunk::kDataEnd) {
    chunk_ = Chunk::kSize;
  } else if (chunk_ == Chunk::kSize) {
    EndSizeLine();
  } else if (line_.empty()) {
    part_ = Part::kEnd;
  } else if ((trailer_size_ += line_.size()) > kTrailers) {
    Fail(431, "what follows the last chunk is longer than 8 KiB");
  }
  line_.clear();
}

void Parser::EndSizeLine() {
  uint64_t size = 0;
  size_t at = 0;
  for (; at < line_.size() && HexDigit(line_[at]) >= 0; ++at) {
    size = size << 4 | static_cast<uint64_t>(HexDigit(line_[at]));
  }
  if (at == 0 || at > 12 || (at < line_.size() && line_[at] != ';')) {
    return Fail(400, "a chunk begins with its size in hexadecimal digits");
  }
  chunk_left_ = size;
  chunk_ = size > 0 ? Chunk::kData : Chunk::kTrailer;
}

void Parser::Next() { *this = Parser(); }

}  // namespace dfsmr::http
