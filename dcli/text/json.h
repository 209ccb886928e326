// JSON that is passed on as it is: the values inside an object keep every digit and space.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dfsmr::cli {

struct Member {
  std::string key;
  std::string value;  // JSON text, as it was written
  friend bool operator==(const Member&, const Member&) = default;
};

bool IsJson(std::string_view text);
bool IsJsonObject(std::string_view text);

// The members of `object`, in order. REQUIRES: IsJsonObject(object).
std::vector<Member> Members(std::string_view object);
// The items of `array`, as they were written. REQUIRES: it is a JSON array.
std::vector<std::string> Items(std::string_view array);
// The value of `key` (the last one, when it is there twice), or null.
const Member* Find(const std::vector<Member>& members, std::string_view key);
// Replaces the value of `member.key` in its place, or adds the member at the end.
void Set(std::vector<Member>* members, Member member);
std::string ObjectOf(const std::vector<Member>& members);

// A JSON string; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);
// What a JSON string says. REQUIRES: `json` is one.
std::string Unquoted(std::string_view json);

// The same data as YAML, ending with a line break. REQUIRES: IsJson(json).
std::string YamlOf(std::string_view json);

}  // namespace dfsmr::cli
