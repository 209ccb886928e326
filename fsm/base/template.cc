#include "fsm/base/template.h"

#include <algorithm>

#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kIndexDigits = 9;

Error Malformed(std::string message) {
  return {.code = Code::kInvalidArgument, .message = std::move(message)};
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_' || c == '-' ||
         c == '#' || c == '@';
}

// `[12]` at `*i`, which is moved behind it.
std::optional<size_t> ReadIndex(std::string_view text, size_t* i) {
  size_t value = 0;
  size_t at = *i + 1;
  const size_t digits = at;
  for (; at < text.size() && IsDigit(text[at]); ++at) {
    if (at - digits >= kIndexDigits) return std::nullopt;
    value = value * 10 + static_cast<size_t>(text[at] - '0');
  }
  if (at == digits || at >= text.size() || text[at] != ']') return std::nullopt;
  *i = at + 1;
  return value;
}

// What a string is made of: plain text, and what stands between braces.
struct Piece {
  bool reference = false;
  std::string text;
};

void AppendPlain(std::string_view text, std::vector<Piece>* pieces) {
  if (text.empty()) return;
  if (pieces->empty() || pieces->back().reference) pieces->push_back({});
  pieces->back().text += text;
}

Result<std::vector<Piece>> Split(std::string_view text) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < text.size();) {
    const size_t dollar = std::min(text.find('$', i), text.size());
    AppendPlain(text.substr(i, dollar - i), &pieces);
    const size_t after = std::min(text.find_first_not_of('$', dollar), text.size());
    const size_t dollars = after - dollar;
    i = after;
    if (after == text.size() || text[after] != '{') {
      AppendPlain(text.substr(dollar, dollars), &pieces);
      continue;
    }
    AppendPlain(text.substr(dollar, dollars / 2), &pieces);
    if (dollars % 2 == 0) continue;
    const size_t close = text.find('}', after);
    if (close == std::string_view::npos) {
      return Malformed(Quoted(text.substr(after - 1)) + " is not closed; add '}', or write '$${' " +
                       "for a plain '${'");
    }
    pieces.push_back({true, std::string(text.substr(after + 1, close - after - 1))});
    i = close + 1;
  }
  return pieces;
}

bool IsOneReference(const std::vector<Piece>& pieces) {
  return pieces.size() == 1 && pieces[0].reference;
}

// Plain text as it is written in a template: dollars before a brace doubled. `before_reference`: so
// are the last ones.
void AppendEscaped(std::string_view plain, bool before_reference, std::string* out) {
  for (size_t i = 0; i < plain.size();) {
    const size_t dollar = std::min(plain.find('$', i), plain.size());
    *out += plain.substr(i, dollar - i);
    i = std::min(plain.find_first_not_of('$', dollar), plain.size());
    const size_t dollars = i - dollar;
    const bool brace = i < plain.size() ? plain[i] == '{' : before_reference;
    out->append(brace ? 2 * dollars : dollars, '$');
  }
}

std::string Join(const std::vector<Piece>& pieces) {
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].reference) {
      out += "${" + pieces[i].text + "}";
    } else {
      AppendEscaped(pieces[i].text, i + 1 < pieces.size(), &out);
    }
  }
  return out;
}

// Whether a JSON text, or a string of one, could hold references or what looks like them.
bool MayRefer(std::string_view raw) {
  return raw.find('$') != std::string_view::npos || raw.find("\\u") != std::string_view::npos;
}

// The JSON text with `replace` of each string in place of those that are no names of members and
// may refer. `replace` is given the string with its quotes.
template <typename Replace>
Result<std::string> MapStrings(std::string_view json, const Replace& replace) {
  if (!MayRefer(json)) return std::string(json);
  std::string out;
  out.reserve(json.size());
  for (size_t i = 0; i < json.size();) {
    const size_t open = std::min(json.find('"', i), json.size());
    out += json.substr(i, open - i);
    if (open == json.size()) break;
    const size_t end = json::StringEnd(json, open);
    const std::string_view raw = json.substr(open, end - open);
    i = end;
    const size_t next = json.find_first_not_of(" \t\r\n", end);
    const bool name = next != std::string_view::npos && json[next] == ':';
    if (name || !MayRefer(raw)) {
      out += raw;
      continue;
    }
    Result<std::string> replaced = replace(raw);
    if (!replaced) return replaced.error();
    out += *replaced;
  }
  return out;
}

std::string AsText(std::string_view value) {
  return json::KindOf(value) == json::Kind::kString ? json::Unquote(value)
                                                    : std::string(json::Trim(value));
}

Result<std::string> EvaluateString(std::string_view raw, const Resolver& resolve) {
  Result<std::vector<Piece>> pieces = Split(json::Unquote(raw));
  if (!pieces) return pieces.error();
  std::string text;
  for (const Piece& piece : *pieces) {
    if (!piece.reference) {
      text += piece.text;
      continue;
    }
    Result<Reference> reference = ParseReference(piece.text);
    if (!reference) return reference.error();
    Result<std::string> value = resolve(*reference);
    if (!value) return value.error();
    if (IsOneReference(*pieces)) return value;
    text += AsText(*value);
  }
  return json::Quote(text);
}

// Puts a template into a longer string.
Result<Ok> Splice(const Reference& reference, std::string_view value, std::vector<Piece>* out) {
  if (json::KindOf(value) == json::Kind::kString) {
    Result<std::vector<Piece>> pieces = Split(json::Unquote(value));
    if (!pieces) return pieces.error();
    for (Piece& piece : *pieces) {
      if (piece.reference) {
        out->push_back(std::move(piece));
      } else {
        AppendPlain(piece.text, out);
      }
    }
    return Ok{};
  }
  Result<std::string> text = Evaluate(value, [&](const Reference& inner) -> Result<std::string> {
    return Malformed("'${" + reference.text + "}' cannot be put into a longer string: it is no " +
                     "string itself, and holds '${" + inner.text + "}'");
  });
  if (!text) return text.error();
  AppendPlain(json::Trim(*text), out);
  return Ok{};
}

Result<std::string> InstantiateString(std::string_view raw, const Substitute& substitute) {
  Result<std::vector<Piece>> pieces = Split(json::Unquote(raw));
  if (!pieces) return pieces.error();
  std::vector<Piece> out;
  bool changed = false;
  for (Piece& piece : *pieces) {
    if (!piece.reference) {
      AppendPlain(piece.text, &out);
      continue;
    }
    Result<Reference> reference = ParseReference(piece.text);
    if (!reference) return reference.error();
    Result<std::optional<std::string>> value = substitute(*reference);
    if (!value) return value.error();
    if (!*value) {
      out.push_back(std::move(piece));
      continue;
    }
    if (IsOneReference(*pieces)) return **value;
    changed = true;
    if (Result<Ok> spliced = Splice(*reference, **value, &out); !spliced) return spliced.error();
  }
  return changed ? json::Quote(Join(out)) : std::string(raw);
}

}  // namespace

Result<Reference> ParseReference(std::string_view text) {
  const std::string name = Quoted("${" + std::string(text) + "}");
  Reference reference;
  reference.text = text;
  size_t i = 0;
  bool key_next = true;
  while (key_next || i < text.size()) {
    if (key_next) {
      const size_t begin = i;
      while (i < text.size() && IsKeyCharacter(text[i])) ++i;
      if (i == begin) break;
      reference.parts.push_back({.key = std::string(text.substr(begin, i - begin)), .index = 0});
    } else {
      std::optional<size_t> index = ReadIndex(text, &i);
      if (!index) return Malformed(name + ": an index is a number in brackets, as in 'list[0]'");
      reference.parts.push_back({.key = "", .index = *index});
    }
    if (i == text.size()) return reference;
    if (text[i] != '.' && text[i] != '[') break;
    key_next = text[i] == '.';
    if (key_next) ++i;
  }
  return Malformed(name + " is no reference; one looks like '${step.output.list[0].name}': keys " +
                   "of letters, digits, '_' and '-', and indexes");
}

std::string PathText(std::span<const Reference::Part> parts) {
  std::string text;
  for (const Reference::Part& part : parts) {
    if (part.key.empty()) {
      text += "[" + std::to_string(part.index) + "]";
    } else {
      if (!text.empty()) text += '.';
      text += part.key;
    }
  }
  return text;
}

Result<std::vector<Reference>> References(std::string_view json) {
  std::vector<Reference> references;
  Result<std::string> walked = Instantiate(
      json, [&](const Reference& reference) -> Result<std::optional<std::string>> {
        references.push_back(reference);
        return std::optional<std::string>();
      });
  if (!walked) return walked.error();
  return references;
}

Result<std::string> Evaluate(std::string_view json, const Resolver& resolve) {
  return MapStrings(json, [&](std::string_view raw) { return EvaluateString(raw, resolve); });
}

Result<std::string> Instantiate(std::string_view json, const Substitute& substitute) {
  return MapStrings(json, [&](std::string_view raw) { return InstantiateString(raw, substitute); });
}

std::string Literal(std::string_view json) {
  auto escape = [](std::string_view raw) -> Result<std::string> {
    std::string escaped;
    AppendEscaped(json::Unquote(raw), false, &escaped);
    return json::Quote(escaped);
  };
  return *MapStrings(json, escape);
}

std::optional<std::string_view> Find(std::string_view json,
                                     std::span<const Reference::Part> path) {
  std::optional<std::string_view> at = json::Trim(json);
  for (const Reference::Part& part : path) {
    at = part.key.empty() ? json::Item(*at, part.index) : json::Member(*at, part.key);
    if (!at) return std::nullopt;
  }
  return at;
}

std::optional<std::string> FindTemplate(std::string_view json,
                                        std::span<const Reference::Part> path) {
  std::string_view at = json::Trim(json);
  for (size_t i = 0; i < path.size(); ++i) {
    if (json::KindOf(at) == json::Kind::kString) {
      Result<std::vector<Piece>> pieces = Split(json::Unquote(at));
      if (!pieces || !IsOneReference(*pieces)) return std::nullopt;
      std::string rest = PathText(path.subspan(i));
      if (!path[i].key.empty()) rest.insert(0, ".");
      return json::Quote("${" + (*pieces)[0].text + rest + "}");
    }
    std::optional<std::string_view> next = Find(at, path.subspan(i, 1));
    if (!next) return std::nullopt;
    at = *next;
  }
  return std::string(at);
}

}  // namespace dfsmr
