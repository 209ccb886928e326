#include "storage/postgres/address.h"

#include <libpq-fe.h>

#include <map>
#include <memory>
#include <string_view>

namespace dfsmr {
namespace {

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> items(1);
  for (const char c : text) {
    if (c == ',') {
      items.emplace_back();
    } else {
      items.back().push_back(c);
    }
  }
  return items;
}

Error NotAnAddress(const std::string& why) {
  return {Code::kInvalidArgument, Reason::kNone,
          "the store's URL is not one that libpq takes, such as "
          "postgresql://user@host1,host2/database" +
              (why.empty() ? "" : ": " + why)};
}

// One item for each host, or the one item for all.
const std::string& ItemOf(const std::vector<std::string>& items, size_t index) {
  return items.size() == 1 ? items.front() : items[index];
}

std::string Shown(const PgAddress& address, const std::map<std::string, std::string>& given) {
  const auto find = [&given](const char* key) {
    const auto found = given.find(key);
    return found == given.end() ? std::string() : found->second;
  };
  std::string text = "postgresql://";
  if (const std::string user = find("user"); !user.empty()) text += user + "@";
  for (size_t i = 0; i < address.hosts.size(); ++i) {
    const auto& [host, numeric, port] = address.hosts[i];
    text += (i == 0 ? "" : ",") + (host.empty() ? numeric : host);
    if (!port.empty()) text += ":" + port;
  }
  return text + "/" + find("dbname");
}

}  // namespace

bool IsPgAddress(const std::string& text) {
  return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

Result<PgAddress> ParsePgAddress(const std::string& uri) {
  if (!IsPgAddress(uri)) return NotAnAddress("it begins with postgresql://");
  char* raw = nullptr;
  const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> options(
      PQconninfoParse(uri.c_str(), &raw), PQconninfoFree);
  const std::unique_ptr<char, void (*)(void*)> why(raw, PQfreemem);
  // libpq repeats parts of the text, which may be parts of a password.
  const bool secret = uri.find('@') != uri.npos || uri.find("password") != uri.npos;
  if (!options) return NotAnAddress(why && !secret ? why.get() : "");

  PgAddress address;
  std::map<std::string, std::string> given;
  for (const PQconninfoOption* one = options.get(); one->keyword; ++one) {
    if (!one->val || *one->val == '\0') continue;
    given.emplace(one->keyword, one->val);
    const std::string_view key = one->keyword;
    // Hosts are tried here, one by one, and who takes writes is found here.
    if (key == "host" || key == "hostaddr" || key == "port" || key == "target_session_attrs" ||
        key == "connect_timeout" || key == "load_balance_hosts") {
      continue;
    }
    address.settings.emplace_back(one->keyword, one->val);
  }
  const auto hosts = SplitList(given["host"]);
  const auto numeric = SplitList(given["hostaddr"]);
  const auto ports = SplitList(given["port"]);
  const size_t count = std::max(hosts.size(), numeric.size());
  for (const auto* items : {&hosts, &numeric, &ports}) {
    if (items->size() == 1 || items->size() == count) continue;
    return NotAnAddress("it has " + std::to_string(count) + " hosts, but " +
                        std::to_string(items->size()) + " ports or addresses");
  }
  for (size_t i = 0; i < count; ++i) {
    address.hosts.push_back({ItemOf(hosts, i), ItemOf(numeric, i), ItemOf(ports, i)});
  }
  address.shown = Shown(address, given);
  return address;
}

}  // namespace dfsmr
