#include "dsrv/wire/pages.h"

#include <algorithm>
#include <map>

#include "dsrv/wire/checks.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

uint64_t Hash(std::string_view text) {
  uint64_t hash = 1469598103934665603ull;  // FNV-1a
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return hash;
}

}  // namespace

Result<size_t> ToPageSize(int32_t given) {
  if (given < 0) return Bad("page_size must not be negative");
  return static_cast<size_t>(given == 0 ? limits::kPageDefault : std::min(given, limits::kPage));
}

std::string PageToken(const std::string& filters, const std::string& last) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string token;
  uint64_t hash = Hash(filters);
  for (int i = 0; i < 16; ++i, hash >>= 4) token += kHex[hash & 15];
  for (char c : last) {
    token += kHex[static_cast<uint8_t>(c) >> 4];
    token += kHex[static_cast<uint8_t>(c) & 15];
  }
  return token;
}

Result<std::string> ParsePageToken(const std::string& filters, const std::string& token) {
  if (token.empty()) return std::string();
  const Error malformed =
      Bad("page_token does not come from this server; leave it empty for the first page");
  if (token.size() < 18 || token.size() % 2 != 0) return malformed;
  auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string last;
  for (size_t i = 16; i < token.size(); i += 2) {
    const int high = value(token[i]);
    const int low = value(token[i + 1]);
    if (high < 0 || low < 0) return malformed;
    last += static_cast<char>(high << 4 | low);
  }
  if (PageToken(filters, last) != token) {
    return Bad(
        "page_token belongs to a list with other filters; ask for the first page of this one");
  }
  return last;
}

std::string FiltersOf(const v1::ListInstancesRequest& request) {
  v1::ListInstancesRequest filters = request;
  if (filters.namespace_().empty()) filters.set_namespace_("default");
  filters.clear_page_size();
  filters.clear_page_token();
  filters.clear_labels();
  std::string text = filters.SerializeAsString();
  const std::map<std::string, std::string> labels(request.labels().begin(), request.labels().end());
  for (const auto& [key, value] : labels) text += key + '\0' + value + '\0';
  return text;
}

}  // namespace dfsmr
