#include "dsrv/wire/pages.h"

#include <algorithm>
#include <map>

#include "dsrv/wire/checks.h"
#include "fsm/base/hex.h"
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
  return ToHex(Hash(filters)) + ToHex(last);
}

Error MalformedToken() {
  return Bad("page_token does not come from this server; leave it empty for the first page");
}

Result<std::string> ParsePageToken(const std::string& filters, const std::string& token) {
  if (token.empty()) return std::string();
  const auto last = FromHex(std::string_view(token).substr(std::min<size_t>(token.size(), 16)));
  if (token.size() < 18 || !last) return MalformedToken();
  if (PageToken(filters, *last) != token) {
    return Bad(
        "page_token belongs to a list with other filters; ask for the first page of this one");
  }
  return *last;
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

std::string FiltersOf(const v1::ListMachinesRequest& request) {
  const std::string ns = request.namespace_().empty() ? "default" : request.namespace_();
  return ns + (request.all_versions() ? "*" : "");
}

std::string PlaceOf(const v1::Machine& machine) {
  return machine.id() + '\n' + std::to_string(machine.version());
}

// PLACE PLACE …;LAST
std::string TextOf(const PlacesOfPage& places) {
  std::string text;
  for (const std::string& place : places.items) text += (text.empty() ? "" : " ") + place;
  return text + ';' + places.last;
}

std::optional<PlacesOfPage> PlacesIn(const std::string& text) {
  const size_t end = text.find(';');
  if (end == std::string::npos) return std::nullopt;
  PlacesOfPage places{.last = text.substr(end + 1)};
  for (size_t begin = 0; begin < end;) {
    const size_t next = std::min(end, text.find(' ', begin));
    places.items.push_back(text.substr(begin, next - begin));
    begin = next + 1;
  }
  return places;
}

bool TakeTellsPlaces(std::string* after) {
  const bool tells = after->starts_with(kTellsPlaces);
  if (tells) after->erase(0, 1);
  return tells;
}

}  // namespace dfsmr
