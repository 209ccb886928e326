// Requests and responses of HTTP/1.1, as values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dfsmr::http {

// Names are in lower case.
using Headers = std::vector<std::pair<std::string, std::string>>;

// The value of the first header of this name; nullopt: there is none.
std::optional<std::string_view> Find(const Headers& headers, std::string_view name);

std::string Lower(std::string_view text);
// Whether the comma-separated list holds the word, in any case; what follows a ';' is left out.
bool ListHas(std::string_view list, std::string_view word);
// Whether the header accept-encoding allows a coding: it names it, and not with q=0.
bool Accepts(std::string_view header, std::string_view coding);
// Without spaces and tabs at both ends.
std::string_view Trimmed(std::string_view text);

struct Request {
  std::string method;
  std::string path;   // as it came, without the query
  std::string query;  // without the question mark
  int minor = 1;      // of HTTP/1.x
  Headers headers;
  std::string body;  // unless it is read as a stream

  std::optional<std::string_view> Header(std::string_view name) const {
    return Find(headers, name);
  }
  // Whether the client wants the connection to stay open.
  bool KeepsAlive() const;
};

struct Response {
  int status = 200;
  Headers headers;
  std::string body;

  void Set(std::string name, std::string value) {
    headers.emplace_back(std::move(name), std::move(value));
  }
};

// "Not Found" for 404.
std::string_view PhraseOf(int status);

}  // namespace dfsmr::http
