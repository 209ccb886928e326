#include "dsrv/http/message.h"

#include <algorithm>

namespace dfsmr::http {

std::optional<std::string_view> Find(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

namespace {

// The items of a list in a header, each with the parameters behind it, until `visit` returns true.
template <typename Visit>
bool AnyItem(std::string_view list, Visit visit) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const size_t end = std::min(item.find(';'), item.size());
    if (visit(Trimmed(item.substr(0, end)), item.substr(end))) return true;
  }
  return false;
}

// Whether parameters such as ";q=0.0" say that it is not wanted.
bool Unwanted(std::string_view parameters) {
  const size_t weight = Lower(parameters).find("q=");
  if (weight == std::string::npos) return false;
  const std::string_view value = Trimmed(parameters.substr(weight + 2));
  return !value.empty() && value.find_first_not_of("0.") == value.npos;
}

}  // namespace

bool ListHas(std::string_view list, std::string_view word) {
  return AnyItem(list, [word](std::string_view item, std::string_view) {
    return Lower(item) == word;
  });
}

bool Accepts(std::string_view header, std::string_view coding) {
  return AnyItem(header, [coding](std::string_view item, std::string_view parameters) {
    return Lower(item) == coding && !Unwanted(parameters);
  });
}

bool Request::KeepsAlive() const {
  for (const auto& [name, value] : headers) {
    if (name == "connection" && ListHas(value, "close")) return false;
  }
  return minor >= 1;
}

std::string_view PhraseOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

}  // namespace dfsmr::http
