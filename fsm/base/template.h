// Templates: JSON text whose strings may hold references, `${step.output.path[1]}`. A string that
// is one reference and nothing else becomes what it refers to, whatever that is; inside a longer
// string the value is put in as text. `$${` is a plain `${`: before a brace, a doubled dollar is a
// plain one, so `$$${a}` is a dollar and what a refers to. Names of members are never references.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr {

struct Reference {
  struct Part {
    std::string key;            // empty: an index
    size_t index = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts;      // at least one, the first a key
  std::string text;             // as written, between the braces

  friend bool operator==(const Reference&, const Reference&) = default;
};

// `text` is what stands between the braces: keys of letters, digits, '_', '-', '#' and '@' (the
// last two for compiled references), separated by '.', and indexes in brackets:
// `a.output.list[1].name`.
// A key that is all digits is a key. kInvalidArgument with what is wrong.
Result<Reference> ParseReference(std::string_view text);
// "a.b[1]", of some of the parts.
std::string PathText(std::span<const Reference::Part> parts);

// All references of a template, in the order of the text; an error for the first that is malformed
// or not closed, naming it.
Result<std::vector<Reference>> References(std::string_view json);

// What a reference stands for: JSON text.
using Resolver = std::function<Result<std::string>(const Reference&)>;

// The value of a template: every reference resolved, `$${` unescaped. Fails as the resolver does.
Result<std::string> Evaluate(std::string_view json, const Resolver& resolve);

// Puts templates into a template: what `substitute` gives is a template itself, nullopt leaves the
// reference as it is. Inside a longer string a string is put in with the references it holds; of
// other kinds only those without references can be, as text: else kInvalidArgument.
using Substitute = std::function<Result<std::optional<std::string>>(const Reference&)>;
Result<std::string> Instantiate(std::string_view json, const Substitute& substitute);

// A template that evaluates to this JSON text.
std::string Literal(std::string_view json);

// The value at `path` in a JSON value; nullopt when there is none.
std::optional<std::string_view> Find(std::string_view json, std::span<const Reference::Part> path);
// The same in a template: a path that leads into a reference is that reference, prolonged:
// [a, b] in {"a": "${x.output}"} gives "${x.output.b}" (with quotes, as JSON text).
std::optional<std::string> FindTemplate(std::string_view json,
                                        std::span<const Reference::Part> path);

}  // namespace dfsmr
