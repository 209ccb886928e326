#include "fsm/schema/prepared.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_set>

#include "fsm/base/names.h"

namespace dfsmr::json_schema {
namespace {

using Json = nlohmann::json;
using Where = std::vector<std::string>;

// The form that a keyword's value must have.
enum class Shape {
  kSchema, kSchemas, kSchemaMap, kPatternMap, kItems, kDependencies, kType, kRef, kPattern,
  kNames, kValues, kNumber, kPositive, kCount, kBoolean, kText,
};

struct Keyword {
  std::string_view name;
  Shape shape;
  bool in_place = false;  // its schemas look at the same value, not into it
};

constexpr Keyword kKeywords[] = {
    {"$comment", Shape::kText},
    {"$ref", Shape::kRef, true},
    {"additionalItems", Shape::kSchema},
    {"additionalProperties", Shape::kSchema},
    {"allOf", Shape::kSchemas, true},
    {"anyOf", Shape::kSchemas, true},
    {"contains", Shape::kSchema},
    {"definitions", Shape::kSchemaMap},
    {"dependencies", Shape::kDependencies, true},
    {"description", Shape::kText},
    {"else", Shape::kSchema, true},
    {"enum", Shape::kValues},
    {"exclusiveMaximum", Shape::kNumber},
    {"exclusiveMinimum", Shape::kNumber},
    {"format", Shape::kText},
    {"if", Shape::kSchema, true},
    {"items", Shape::kItems},
    {"maxItems", Shape::kCount},
    {"maxLength", Shape::kCount},
    {"maxProperties", Shape::kCount},
    {"maximum", Shape::kNumber},
    {"minItems", Shape::kCount},
    {"minLength", Shape::kCount},
    {"minProperties", Shape::kCount},
    {"minimum", Shape::kNumber},
    {"multipleOf", Shape::kPositive},
    {"not", Shape::kSchema, true},
    {"oneOf", Shape::kSchemas, true},
    {"pattern", Shape::kPattern},
    {"patternProperties", Shape::kPatternMap},
    {"properties", Shape::kSchemaMap},
    {"propertyNames", Shape::kSchema},
    {"required", Shape::kNames},
    {"then", Shape::kSchema, true},
    {"title", Shape::kText},
    {"type", Shape::kType},
    {"uniqueItems", Shape::kBoolean},
};

constexpr std::string_view kTypes[] = {"array",  "boolean", "integer", "null",
                                       "number", "object",  "string"};

Where Below(Where where, std::string key) {
  where.push_back(std::move(key));
  return where;
}

bool IsSchema(const Json& value) { return value.is_object() || value.is_boolean(); }

bool IsListOfStrings(const Json& value) {
  return value.is_array() &&
         std::ranges::all_of(value, [](const Json& item) { return item.is_string(); });
}

// Keeps schemas in a queue, not on the stack, because references can make chains of any length.
class Preparation {
 public:
  Preparation(Schema* schema, std::vector<SchemaProblem>* problems)
      : schema_(schema), problems_(problems) {}

  void Run();

 private:
  struct Pending {
    const Json* schema;
    Where where;
  };

  void Fail(Where where, std::string message) {
    problems_->push_back({std::move(where), std::move(message)});
  }
  void Visit(const Pending& pending);
  void VisitKeyword(const Pending& pending, const Keyword& keyword, const Json& value);
  void CheckShape(const Keyword& keyword, const Json& value, const Where& where);
  void CheckType(const Json& value, const Where& where);
  void Enqueue(const Pending& from, const Keyword& keyword, const Json& schema, Where where);
  void EnqueueAll(const Pending& from, const Keyword& keyword, const Json& value,
                  const Where& where);
  void AddPattern(const std::string& text, const Where& where);
  void FollowRef(const Pending& from, const Keyword& keyword, const Json& value);
  void RefuseLoops();

  Schema* schema_;
  std::vector<SchemaProblem>* problems_;
  std::vector<Pending> queue_;
  std::unordered_map<const Json*, Where> seen_;
  // For each schema, those that it applies to the same value.
  std::unordered_map<const Json*, std::vector<const Json*>> in_place_;
};

void Preparation::Run() {
  queue_.push_back({&schema_->root, {}});
  seen_.emplace(&schema_->root, Where());
  for (size_t next = 0; next < queue_.size(); ++next) {
    Pending pending = std::move(queue_[next]);  // Visit may grow the queue
    Visit(pending);
  }
  RefuseLoops();
}

void Preparation::Visit(const Pending& pending) {
  const Json& schema = *pending.schema;
  if (schema.is_boolean()) return;
  if (!schema.is_object()) {
    Fail(pending.where, "a schema must be a map (or true or false)");
    return;
  }
  if (auto ref = schema.find("$ref"); ref != schema.end()) {
    // By the draft, a schema with a $ref ignores its other keywords.
    return VisitKeyword(pending, {"$ref", Shape::kRef, true}, *ref);
  }
  for (const Keyword& keyword : kKeywords) {
    auto it = schema.find(keyword.name);
    if (it != schema.end()) VisitKeyword(pending, keyword, *it);
  }
}

void Preparation::VisitKeyword(const Pending& pending, const Keyword& keyword,
                               const Json& value) {
  Where where = Below(pending.where, std::string(keyword.name));
  switch (keyword.shape) {
    case Shape::kSchema:
      return Enqueue(pending, keyword, value, std::move(where));
    case Shape::kItems:
      if (value.is_array()) return EnqueueAll(pending, keyword, value, where);
      return Enqueue(pending, keyword, value, std::move(where));
    case Shape::kSchemas:
      if (!value.is_array() || value.empty()) {
        return Fail(where, Quoted(keyword.name) + " must be a list of one schema or more");
      }
      return EnqueueAll(pending, keyword, value, where);
    case Shape::kSchemaMap:
    case Shape::kPatternMap:
    case Shape::kDependencies:
      if (!value.is_object()) return Fail(where, Quoted(keyword.name) + " must be a map");
      return EnqueueAll(pending, keyword, value, where);
    case Shape::kRef:
      return FollowRef(pending, keyword, value);
    case Shape::kPattern:
      if (!value.is_string()) return Fail(where, "'pattern' must be text");
      return AddPattern(value.get_ref<const std::string&>(), where);
    case Shape::kType:
      return CheckType(value, where);
    default:
      return CheckShape(keyword, value, where);
  }
}

void Preparation::CheckShape(const Keyword& keyword, const Json& value, const Where& where) {
  auto require = [&](bool condition, std::string_view what) {
    if (!condition) Fail(where, Quoted(keyword.name) + " must be " + std::string(what));
  };
  switch (keyword.shape) {
    case Shape::kNames:
      return require(IsListOfStrings(value), "a list of keys, such as [url, name]");
    case Shape::kValues:
      return require(value.is_array() && !value.empty(), "a list of one value or more");
    case Shape::kNumber:
      return require(value.is_number(), "a number");
    case Shape::kPositive:
      return require(value.is_number() && value.get<double>() > 0, "a number greater than 0");
    case Shape::kCount:
      return require(value.is_number_unsigned() ||
                         (value.is_number_integer() && value.get<int64_t>() >= 0) ||
                         (value.is_number_float() && value.get<double>() >= 0 &&
                          value.get<double>() < 1e15 &&
                          value.get<double>() == std::floor(value.get<double>())),
                     "a whole number, 0 or more");
    case Shape::kBoolean:
      return require(value.is_boolean(), "true or false");
    default:
      return require(value.is_string(), "text");
  }
}

void Preparation::CheckType(const Json& value, const Where& where) {
  auto known = [](const Json& name) {
    return name.is_string() &&
           std::ranges::find(kTypes, name.get_ref<const std::string&>()) != std::end(kTypes);
  };
  const bool sound = value.is_array() ? !value.empty() && std::ranges::all_of(value, known)
                                      : known(value);
  if (sound) return;
  std::string hint = value.is_string() ? Hint(value.get_ref<const std::string&>(), kTypes) : "";
  const std::string is =
      value.is_string() ? Quoted(value.get_ref<const std::string&>()) + " is no type: " : "";
  Fail(where,
       is +
           "'type' must be array, boolean, integer, null, number, object or string, or a list "
           "of those" +
           hint);
}

void Preparation::Enqueue(const Pending& from, const Keyword& keyword, const Json& schema,
                          Where where) {
  if (!IsSchema(schema)) {
    return Fail(std::move(where), "a schema must be a map (or true or false)");
  }
  if (keyword.in_place) in_place_[from.schema].push_back(&schema);
  if (!seen_.emplace(&schema, where).second) return;
  queue_.push_back({&schema, std::move(where)});
}

void Preparation::EnqueueAll(const Pending& from, const Keyword& keyword, const Json& value,
                             const Where& where) {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      Enqueue(from, keyword, value[i], Below(where, std::to_string(i)));
    }
    return;
  }
  for (const auto& [key, item] : value.items()) {
    if (keyword.shape == Shape::kPatternMap) AddPattern(key, Below(where, key));
    if (keyword.shape == Shape::kDependencies && item.is_array()) {
      if (!IsListOfStrings(item)) {
        Fail(Below(where, key), "a dependency lists keys, or is a schema");
      }
      continue;
    }
    Enqueue(from, keyword, item, Below(where, key));
  }
}

void Preparation::AddPattern(const std::string& text, const Where& where) {
  if (schema_->patterns.contains(text)) return;
  Result<Pattern> pattern = Pattern::Compile(text);
  if (!pattern) return Fail(where, pattern.error().message);
  schema_->patterns.emplace(text, std::move(*pattern));
}

// Decodes a part of a JSON pointer: first %XX, then ~1 and ~0.
std::optional<std::string> DecodePart(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '%') {
      unsigned value = 0;
      const char* hex = part.data() + i + 1;
      if (i + 2 >= part.size() || std::from_chars(hex, hex + 2, value, 16).ptr != hex + 2) {
        return std::nullopt;
      }
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += part[i];
    }
  }
  for (size_t i = out.find('~'); i != std::string::npos; i = out.find('~', i + 1)) {
    if (i + 1 == out.size() || (out[i + 1] != '0' && out[i + 1] != '1')) return std::nullopt;
    out.replace(i, 2, out[i + 1] == '1' ? "/" : "~");
  }
  return out;
}

// The schema that `#/a/b` refers to, and the path to it; null: there is none.
const Json* Resolve(const Json& root, std::string_view ref, Where* where) {
  const Json* at = &root;
  ref.remove_prefix(1);
  while (!ref.empty()) {
    if (ref[0] != '/') return nullptr;
    size_t end = std::min(ref.find('/', 1), ref.size());
    std::optional<std::string> part = DecodePart(ref.substr(1, end - 1));
    ref.remove_prefix(end);
    if (!part) return nullptr;
    if (at->is_object() && at->contains(*part)) {
      at = &(*at)[*part];
    } else if (at->is_array() && !part->empty() && part->size() < 9 &&
               part->find_first_not_of("0123456789") == std::string::npos &&
               std::stoul(*part) < at->size()) {
      at = &(*at)[std::stoul(*part)];
    } else {
      return nullptr;
    }
    where->push_back(std::move(*part));
  }
  return at;
}

void Preparation::FollowRef(const Pending& from, const Keyword& keyword, const Json& value) {
  Where here = Below(from.where, "$ref");
  if (!value.is_string()) return Fail(here, "'$ref' must be text, such as '#/definitions/NAME'");
  const std::string& ref = value.get_ref<const std::string&>();
  if (!ref.empty() && ref != "#" && !ref.starts_with("#/")) {
    return Fail(here, "'$ref: " + OneLine(Head(ref, 80)) + "' is not local; only references "
                      "into this schema, such as '#/definitions/NAME', are followed");
  }
  Where where;
  const Json* target = Resolve(schema_->root, ref.empty() ? "#" : ref, &where);
  if (!target) return Fail(here, "there is nothing at " + Quoted(ref) + " in this schema");
  schema_->refs[from.schema] = target;
  Enqueue(from, keyword, *target, std::move(where));
}

// Refuses a schema that leads back to itself without looking into the value: checking it would
// never end. The search is depth-first, with a stack of its own.
void Preparation::RefuseLoops() {
  enum class State : uint8_t { kNew, kOpen, kDone };
  std::unordered_map<const Json*, State> states;
  std::vector<std::pair<const Json*, size_t>> path;
  for (const Pending& origin : queue_) {
    if (states[origin.schema] == State::kNew) path.push_back({origin.schema, 0});
    while (!path.empty()) {
      auto& [schema, next] = path.back();
      states[schema] = State::kOpen;
      auto edges = in_place_.find(schema);
      if (edges == in_place_.end() || next == edges->second.size()) {
        states[schema] = State::kDone;
        path.pop_back();
        continue;
      }
      const Json* target = edges->second[next++];
      if (states[target] == State::kNew) {
        path.push_back({target, 0});
      } else if (states[target] == State::kOpen) {
        Fail(seen_[target], "the schema leads back to itself without looking into the value; "
                            "checking it would never end");
      }
    }
  }
}

}  // namespace

void PrepareSchema(Schema* schema, std::vector<SchemaProblem>* problems) {
  Preparation(schema, problems).Run();
}

}  // namespace dfsmr::json_schema
