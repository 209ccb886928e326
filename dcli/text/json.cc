#include "dcli/text/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dcli/text/text.h"
#include "fsm/base/json.h"

namespace dfsmr::cli {
namespace {

using Json = nlohmann::ordered_json;

// Walks over JSON that is known to be valid.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void SkipSpace() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // The text of the value that comes next.
  std::string_view Value() {
    SkipSpace();
    const size_t begin = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        SkipString();
      } else if (c == '{' || c == '[') {
        ++depth, ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) break;
        --depth, ++at_;
      } else if (depth == 0 && (c == ',' || c == ':')) {
        break;
      } else {
        ++at_;
      }
    }
    const std::string_view value = text_.substr(begin, at_ - begin);
    return value.substr(0, value.find_last_not_of(" \t\r\n") + 1);
  }

 private:
  void SkipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Readers of YAML take some plain scalars for numbers, booleans or times; only words that no reader
// mistakes are left without quotes.
std::string YamlText(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ||
           c == '/';
  };
  static const std::vector<std::string> kTaken = {"true", "false", "null", "yes", "no",
                                                  "on",   "off",   "y",    "n"};
  const bool word = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) &&
                    std::all_of(text.begin(), text.end(), plain);
  const bool taken = std::find(kTaken.begin(), kTaken.end(), Lower(text)) != kTaken.end();
  return word && !taken ? text : JsonString(text);
}

void WriteYaml(const Json& value, size_t indent, std::string* out);

void WriteYamlMember(const Json& value, size_t indent, std::string* out) {
  if (value.is_structured() && !value.empty()) {
    *out += '\n';
    WriteYaml(value, indent, out);
  } else {
    *out += ' ';
    WriteYaml(value, indent, out);
    *out += '\n';
  }
}

void WriteYaml(const Json& value, size_t indent, std::string* out) {
  const std::string margin(indent, ' ');
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) {
      *out += margin + YamlText(key) + ":";
      WriteYamlMember(member, member.is_array() ? indent : indent + 2, out);
    }
  } else if (value.is_array() && !value.empty()) {
    for (const Json& item : value) {
      std::string nested;
      WriteYaml(item, indent + 2, &nested);
      const bool block = item.is_structured() && !item.empty();
      *out += margin + "- " + (block ? nested.substr(indent + 2) : nested + "\n");
    }
  } else if (value.is_string()) {
    *out += YamlText(value.get_ref<const std::string&>());
  } else {
    *out += value.dump();
  }
}

}  // namespace

bool IsJson(std::string_view text) {
  return Json::accept(text) || Json::accept(json::Bounded(text));
}

bool IsJsonObject(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{' && IsJson(text);
}

std::vector<Member> Members(std::string_view object) {
  std::vector<Member> members;
  Scanner scanner(object);
  scanner.Take('{');
  while (!scanner.Take('}')) {
    std::string key = Unquoted(scanner.Value());
    if (!scanner.Take(':')) break;
    members.push_back({std::move(key), std::string(scanner.Value())});
    scanner.Take(',');
  }
  return members;
}

std::vector<std::string> Items(std::string_view array) {
  std::vector<std::string> items;
  Scanner scanner(array);
  scanner.Take('[');
  while (!scanner.Take(']')) {
    const std::string_view item = scanner.Value();
    if (item.empty()) break;
    items.emplace_back(item);
    scanner.Take(',');
  }
  return items;
}

const Member* Find(const std::vector<Member>& members, std::string_view key) {
  const auto found = std::find_if(members.rbegin(), members.rend(),
                                  [&](const Member& member) { return member.key == key; });
  return found == members.rend() ? nullptr : &*found;
}

void Set(std::vector<Member>* members, Member member) {
  for (Member& old : *members) {
    if (old.key != member.key) continue;
    old = std::move(member);
    return;
  }
  members->push_back(std::move(member));
}

std::string ObjectOf(const std::vector<Member>& members) {
  std::string object = "{";
  for (const Member& member : members) {
    if (object.size() > 1) object += ',';
    object += JsonString(member.key) + ":" + member.value;
  }
  return object + "}";
}

std::string JsonString(std::string_view text) {
  const std::string json =
      Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  // JSON lets DEL and U+0080 to U+009F stand as they are, YAML and terminals do not.
  std::string quoted;
  for (size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : 0);
    const bool c1 = byte == 0xC2 && next < 0xA0;
    if (!c1 && byte != 0x7F) {
      quoted += json[i];
      continue;
    }
    constexpr std::string_view kHex = "0123456789abcdef";
    const unsigned control = c1 ? next : byte;
    quoted += "\\u00";
    quoted += kHex[control >> 4];
    quoted += kHex[control & 15];
    if (c1) ++i;
  }
  return quoted;
}

std::string Unquoted(std::string_view json) { return Json::parse(json).get<std::string>(); }

std::string YamlOf(std::string_view json) {
  const Json value = Json::parse(Json::accept(json) ? std::string(json) : json::Bounded(json));
  std::string yaml;
  WriteYaml(value, 0, &yaml);
  if (!yaml.ends_with('\n')) yaml += '\n';
  return yaml;
}

}  // namespace dfsmr::cli
