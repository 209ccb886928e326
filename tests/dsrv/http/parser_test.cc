// Requests out of bytes, however they are cut, and what is refused.
#include "dsrv/http/parser.h"

#include <doctest/doctest.h>

#include <vector>

namespace dfsmr::http {
namespace {

// Takes `bytes` in pieces of `size`, and returns what is left behind the first request.
std::string Feed(Parser* parser, std::string_view bytes, size_t size) {
  std::string waiting;
  while (!bytes.empty() && !parser->malformed() && !parser->has_all()) {
    waiting += bytes.substr(0, size);
    bytes.remove_prefix(std::min(size, bytes.size()));
    for (size_t taken = 1; taken > 0;) {
      taken = parser->Take(waiting);
      waiting.erase(0, taken);
    }
  }
  return waiting + std::string(bytes);
}

int StatusOf(std::string_view bytes) {
  int status = -1;
  for (const size_t size : {size_t{1}, size_t{3}, bytes.size() + 1}) {
    Parser parser;
    Feed(&parser, bytes, size);
    const int found = parser.malformed() ? parser.malformed()->status : 0;
    CHECK((status == -1 || status == found));
    status = found;
  }
  return status;
}

std::string Get(const std::string& headers) {
  return "GET / HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

}  // namespace

TEST_CASE("a request is read whole, however its bytes are cut") {
  const std::string bytes =
      "POST /a/b?c=d HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nX-Y:  z \t\r\n\r\nhelloGET";
  for (size_t size = 1; size <= bytes.size(); ++size) {
    Parser parser;
    CHECK(Feed(&parser, bytes, size) == "GET");
    REQUIRE(parser.has_all());
    CHECK(parser.request().method == "POST");
    CHECK(parser.request().path == "/a/b");
    CHECK(parser.request().query == "c=d");
    CHECK(parser.request().Header("x-y") == "z");
    CHECK(parser.request().body == "hello");
    CHECK(parser.request().KeepsAlive());
  }
}

TEST_CASE("chunks are put together, and what follows the last is read and left out") {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\nA;name=value\r\n, world!!!\r\n0\r\nTrailer: 1\r\n\r\nnext";
  for (size_t size = 1; size <= bytes.size(); ++size) {
    Parser parser;
    CHECK(Feed(&parser, bytes, size) == "next");
    REQUIRE(parser.has_all());
    CHECK(parser.request().body == "hello, world!!!");
    CHECK(parser.body_taken() == 15);
  }
}

TEST_CASE("after Next another request is read") {
  Parser parser;
  Feed(&parser, Get(""), 7);
  REQUIRE(parser.has_all());
  parser.Next();
  CHECK(!parser.begun());
  Feed(&parser, "\r\nHEAD /x HTTP/1.0\r\n\r\n", 2);  // one line too many is let pass
  REQUIRE(parser.has_all());
  CHECK(parser.request().method == "HEAD");
  CHECK(!parser.request().KeepsAlive());
}

TEST_CASE("what two readers could take for different requests is refused") {
  CHECK(StatusOf(Get("")) == 0);
  const std::vector<std::string> bad = {
      Get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
      Get("Content-Length: 1\r\nContent-Length: 1\r\n"),
      Get("Content-Length: 1, 1\r\n"),
      Get("Content-Length: +1\r\n"),
      Get("Content-Length: -1\r\n"),
      Get("Content-Length: 0x1\r\n"),
      Get("Content-Length:\r\n"),
      Get("Content-Length: 99999999999999999999\r\n"),
      Get("Transfer-Encoding: gzip, chunked\r\n"),
      Get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
      Get("Transfer-Encoding: xchunked\r\n"),
      Get("Host: other\r\n"),
      Get("Name : value\r\n"),
      Get(" folded: value\r\n"),
      Get("no colon\r\n"),
      Get("a: b\n"),
      Get("a: b\rc\r\n"),
      Get(std::string("a: \0b\r\n", 7)),
      Get("a: \x7f\r\n"),
      "GET / HTTP/1.1\nHost: x\n\n",
      "GET /\r\n\r\n",
      "GET  / HTTP/1.1\r\n\r\n",
      "GET  HTTP/1.1\r\n\r\n",
      "GET / HTTP/2.0\r\n\r\n",
      "GET / http/1.1\r\n\r\n",
      "G\"T / HTTP/1.1\r\n\r\n",
      "GET http://x/ HTTP/1.1\r\n\r\n",
      "GET /\x80 HTTP/1.1\r\n\r\n",
      "GET /#a HTTP/1.1\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
  };
  for (const std::string& bytes : bad) {
    CAPTURE(bytes);
    CHECK(StatusOf(bytes) == 400);
  }
}

TEST_CASE("malformed chunks are refused") {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  CHECK(StatusOf(head + "1\r\na\r\n0\r\n\r\n") == 0);
  for (const char* chunks : {"\r\n", "x\r\n", "-1\r\n", "1\na\r\n", "1\r\nab\r\n", "1\r\na\n",
                             "1 \r\na", "1;\x01\r\n", "fffffffffffff\r\n", "0\r\n\n"}) {
    CAPTURE(chunks);
    CHECK(StatusOf(head + chunks) == 400);
  }
  CHECK(StatusOf(head + "1;" + std::string(300, 'x') + "\r\n") == 400);
}

TEST_CASE("a head that is too large is refused, also when its end never comes") {
  const auto line = [](size_t size) { return "GET /" + std::string(size, 'a'); };
  CHECK(StatusOf(line(8000) + " HTTP/1.1\r\n\r\n") == 0);
  CHECK(StatusOf(line(8200) + " HTTP/1.1\r\n\r\n") == 414);
  CHECK(StatusOf(line(8200)) == 414);
  std::string many;
  for (int i = 0; i < 99; ++i) many += "a: b\r\n";
  CHECK(StatusOf(Get(many)) == 0);
  CHECK(StatusOf(Get(many + "a: b\r\n")) == 431);
  CHECK(StatusOf(Get("a: " + std::string(17'000, 'x') + "\r\n")) == 431);
  CHECK(StatusOf("GET / HTTP/1.1\r\na: " + std::string(17'000, 'x')) == 431);
}

TEST_CASE("a body beyond its limit is refused, when it is announced or when it comes") {
  Parser announced;
  Feed(&announced, "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", 100);
  announced.LimitBody(10);
  REQUIRE(announced.malformed());
  CHECK(announced.malformed()->status == 413);

  Parser chunked;
  Feed(&chunked, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 100);
  chunked.LimitBody(10);
  CHECK(!chunked.malformed());
  Feed(&chunked, "6\r\nsix666\r\n5\r\nfive5\r\n", 4);
  REQUIRE(chunked.malformed());
  CHECK(chunked.malformed()->status == 413);
}

}  // namespace dfsmr::http
