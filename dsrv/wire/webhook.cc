#include "dsrv/wire/webhook.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "dsrv/wire/checks.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// JSON holds UTF-8 only: each byte that is none becomes U+FFFD.
std::string Utf8(std::string_view bytes) {
  std::string text;
  while (auto wrong = InvalidUtf8(bytes)) {
    text += bytes.substr(0, *wrong);
    text += "\xEF\xBF\xBD";
    bytes.remove_prefix(*wrong + 1);
  }
  return text.append(bytes);
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// %41 and + of a form or query.
std::string Decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && DigitOf(text[i + 1]) >= 0 &&
                        DigitOf(text[i + 2]) >= 0;
    if (escape) {
      plain += static_cast<char>(DigitOf(text[i + 1]) * 16 + DigitOf(text[i + 2]));
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return Utf8(plain);
}

using Fields = std::map<std::string, std::vector<std::string>>;

// a=1&b=2: a field that comes several times is a list.
std::string Object(const Fields& fields) {
  std::string json = "{";
  for (const auto& [name, values] : fields) {
    if (json.size() > 1) json += ',';
    json += json::Quote(name) + ":";
    if (values.size() == 1) {
      json += json::Quote(values.front());
      continue;
    }
    std::string list;
    for (const std::string& value : values) {
      list += (list.empty() ? "[" : ",") + json::Quote(value);
    }
    json += list + "]";
  }
  return json + "}";
}

std::string FormOf(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(field.size() + 1, text.size()));
    if (field.empty()) continue;
    const size_t equals = std::min(field.find('='), field.size());
    const std::string_view value = field.substr(std::min(equals + 1, field.size()));
    fields[Decoded(field.substr(0, equals))].push_back(Decoded(value));
  }
  return Object(fields);
}

std::string HeadersOf(const WebhookRequest& request, const WebhookSource& webhook) {
  Fields fields;
  for (const auto& [name, value] : request.headers) {
    const std::string lower = Lower(Utf8(name));
    const bool proof = webhook.proof != WebhookSource::Proof::kOpen && lower == webhook.header;
    if (lower == "authorization" || lower == "cookie" || proof) continue;
    // Of several the first: what follows is rarely of interest, and a text stays a text.
    if (fields[lower].empty()) fields[lower].push_back(Utf8(value));
  }
  return Object(fields);
}

// JSON or a form by its type; anything else, and JSON that is none, is text.
std::string BodyOf(const WebhookRequest& request) {
  const std::string type = Lower(request.Header("content-type").value_or(""));
  const std::string kind(json::Trim(std::string_view(type).substr(0, type.find(';'))));
  if (kind == "application/x-www-form-urlencoded") return FormOf(request.body);
  const bool json = kind == "application/json" || kind.ends_with("+json");
  if (json && CheckAnyJson("the body", request.body)) return request.body;
  return json::Quote(Utf8(request.body));
}

}  // namespace

std::optional<std::string> WebhookRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (Lower(key) == name) return value;
  }
  return std::nullopt;
}

std::string ItemOf(const WebhookRequest& request, const WebhookSource& webhook) {
  return "{\"method\":\"POST\",\"path\":" + json::Quote(webhook.path) +
         ",\"query\":" + FormOf(request.query) + ",\"headers\":" + HeadersOf(request, webhook) +
         ",\"body\":" + BodyOf(request) + "}";
}

}  // namespace dfsmr
