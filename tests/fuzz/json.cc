// JSON text that is read where it lies, sound or not: two texts with a zero byte between them.
#include "fsm/base/json.h"

#include <nlohmann/json.hpp>

#include "dsrv/wire/json_syntax.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/base/result.h"
#include "tests/fuzz/bytes.h"

namespace dfsmr {
namespace {

void Walk(std::string_view text, int depth) {
  (void)json::KindOf(text);
  (void)json::Unquote(text);
  (void)json::Item(text, 1);
  std::vector<std::string> items;
  json::ForEachItem(text, [&](std::string_view item) {
    items.emplace_back(item);
    if (depth > 0) Walk(item, depth - 1);
    return items.size() < 50;
  });
  size_t at = 0;
  for (const std::string& item : items) {
    const auto next = json::NextItem(text, &at);
    Check(next && *next == item, "both walks through a list find the same");
  }
  json::ForEachMember(text, [&](std::string_view name, std::string_view value) {
    if (depth > 0) Walk(value, depth - 1);
    return !name.empty();
  });
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const std::string_view a = bytes.Line();
  const std::string_view b = bytes.Rest();
  Walk(a, 8);
  if (!InvalidUtf8(a)) {
    Check(json::Unquote(json::Quote(a)) == a, "what is quoted is unquoted again");
    Check(nlohmann::json::accept(json::Quote(a)), "what is quoted is JSON");
  }
  Check(!IsJson(a, limits::kJsonDepth) || nlohmann::json::accept(json::Bounded(a)),
        "both parsers take it");
  (void)Quoted(a);
  Check(json::Same(a, b) == json::Same(b, a), "which is which does not matter");
  const std::string merged = json::Merge(a, b);
  const auto left = nlohmann::json::parse(a, nullptr, false);
  const auto right = nlohmann::json::parse(b, nullptr, false);
  // nlohmann rounds numbers, and what is nested too deep is compared as text.
  const bool plain = a.find_first_of("0123456789") == a.npos && a.size() <= limits::kJsonDepth;
  if (plain && !left.is_discarded()) {
    Check(json::Same(a, left.dump(2)), "what is written in another way says the same");
  }
  if (!left.is_object() || !right.is_object()) return 0;
  Check(nlohmann::json::accept(merged), "two objects merge into one");
  for (const auto& [name, value] : right.items()) {
    const auto member = json::Member(merged, name);
    Check(member && nlohmann::json::parse(*member) == value, "what is merged in is there");
  }
  return 0;
}
