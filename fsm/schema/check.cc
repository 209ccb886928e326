#include <algorithm>
#include <span>

#include "fsm/base/names.h"
#include "fsm/schema/prepared.h"
#include "fsm/schema/values.h"

namespace dfsmr::json_schema {
namespace {

using Json = nlohmann::json;
using Sentences = std::vector<std::string>;

// A check that needs more steps than this is given up: some schemas would take for ever.
constexpr size_t kWorkMax = 1'000'000;
constexpr int kDepthMax = 600;
constexpr size_t kReasonMax = 200;
constexpr size_t kSentencesMax = 20;

// Where a value is, as a list from the inside out. The path is made only when the value is wrong.
struct Place {
  const Place* outer;
  std::string_view key;  // of an object
  size_t index = 0;      // of an array, when key has no data
};

std::string PathOf(const Place& place) {
  if (!place.outer) return std::string(place.key);
  std::string path = PathOf(*place.outer);
  if (place.key.data() == nullptr) return path + "[" + std::to_string(place.index) + "]";
  return path + "." + OneLine(Head(place.key, kShownMax));
}

class Checker {
 public:
  explicit Checker(const Schema& schema) : schema_(schema) {}

  // False: there are violations, and `out` has them. `out` null: stops at the first.
  bool Check(const Json& schema, const Json& value, const Place& place, Sentences* out);
  bool exhausted() const { return exhausted_; }

 private:
  // A value to check, and the schema to check it by.
  struct At {
    const Json& schema;
    const Json& value;
    const Place& place;
    Sentences* out;

    const Json* Keyword(const char* name) const {
      auto it = schema.find(name);
      return it == schema.end() ? nullptr : &*it;
    }
    bool Fail(const std::string& message) const {
      if (out && out->size() < kSentencesMax) out->push_back(PathOf(place) + ": " + message);
      return false;
    }
  };
  using Rule = bool (Checker::*)(const At&);

  bool Spend(size_t work) {
    work_ += work;
    if (work_ > kWorkMax) exhausted_ = true;
    return !exhausted_;
  }
  bool CheckAll(const At& at);

  bool Type(const At& at);
  bool Values(const At& at);
  bool Numbers(const At& at);
  bool Strings(const At& at);
  bool Items(const At& at);
  bool ItemCounts(const At& at);
  bool Unique(const At& at);
  bool Contains(const At& at);
  bool Required(const At& at);
  bool Properties(const At& at);
  bool Property(const At& at, const std::string& key, const Json& value);
  bool PropertyNames(const At& at);
  bool Dependencies(const At& at);
  bool AllOf(const At& at);
  bool AnyOf(const At& at);
  bool OneOf(const At& at);
  bool Not(const At& at);
  bool IfThenElse(const At& at);
  bool NoAlternative(const At& at, const Json& alternatives);

  bool Matches(const std::string& pattern, std::string_view text) {
    auto it = schema_.patterns.find(pattern);
    if (it == schema_.patterns.end()) return true;
    return Spend(text.size() * it->second.size() / 50 + 1) && it->second.Matches(text);
  }

  const Schema& schema_;
  size_t work_ = 0;
  int depth_ = 0;
  bool exhausted_ = false;
};

bool Checker::Check(const Json& schema, const Json& value, const Place& place, Sentences* out) {
  if (!Spend(1) || depth_ >= kDepthMax) {
    exhausted_ = true;
    return false;
  }
  At at{schema, value, place, out};
  if (schema.is_boolean()) return schema.get<bool>() || at.Fail("nothing is allowed here");
  ++depth_;
  auto ref = schema_.refs.find(&schema);
  bool sound = ref != schema_.refs.end() ? Check(*ref->second, value, place, out) : CheckAll(at);
  --depth_;
  return sound;
}

bool Checker::CheckAll(const At& at) {
  static constexpr Rule kAny[] = {&Checker::Type,  &Checker::Values, &Checker::AllOf,
                                  &Checker::AnyOf, &Checker::OneOf,  &Checker::Not,
                                  &Checker::IfThenElse};
  static constexpr Rule kNumber[] = {&Checker::Numbers};
  static constexpr Rule kString[] = {&Checker::Strings};
  static constexpr Rule kArray[] = {&Checker::ItemCounts, &Checker::Unique, &Checker::Items,
                                    &Checker::Contains};
  static constexpr Rule kObject[] = {&Checker::Required, &Checker::Properties,
                                     &Checker::PropertyNames, &Checker::Dependencies};
  bool sound = true;
  auto apply = [this, &at, &sound](std::span<const Rule> rules) {
    for (Rule rule : rules) {
      if ((!sound && !at.out) || exhausted_) return;
      if (!(this->*rule)(at)) sound = false;
    }
  };
  apply(kAny);
  if (at.value.is_number()) apply(kNumber);
  if (at.value.is_string()) apply(kString);
  if (at.value.is_array()) apply(kArray);
  if (at.value.is_object()) apply(kObject);
  return sound;
}

bool Checker::Type(const At& at) {
  const Json* type = at.Keyword("type");
  if (!type) return true;
  if (type->is_string()) {
    const auto& name = type->get_ref<const std::string&>();
    return HasType(at.value, name) ||
           at.Fail("expected " + WithArticle(name) + ", but it is " + Show(at.value));
  }
  std::string expected;
  for (const Json& name : *type) {
    if (HasType(at.value, name.get_ref<const std::string&>())) return true;
    expected += (expected.empty() ? "" : " or ") + WithArticle(name.get_ref<const std::string&>());
  }
  return at.Fail("expected " + expected + ", but it is " + Show(at.value));
}

bool Checker::Values(const At& at) {
  bool sound = true;
  if (const Json* value = at.Keyword("const"); value && *value != at.value) {
    sound = at.Fail("expected " + Show(*value) + ", but it is " + Show(at.value));
  }
  const Json* values = at.Keyword("enum");
  if (!values || !Spend(values->size()) ||
      std::ranges::find(*values, at.value) != values->end()) {
    return sound;
  }
  std::string expected;
  for (size_t i = 0; i < values->size() && i < 10; ++i) {
    expected += (i > 0 ? ", " : "") + Show((*values)[i]);
  }
  if (values->size() > 10) expected += ", …";
  return at.Fail("expected one of " + expected + ", but it is " + Show(at.value));
}

bool Checker::Numbers(const At& at) {
  struct Bound {
    const char* keyword;
    std::string_view words;
    bool (*holds)(long double, long double);
  };
  using N = long double;
  static constexpr Bound kBounds[] = {
      {"minimum", "at least ", [](N value, N bound) { return value >= bound; }},
      {"maximum", "at most ", [](N value, N bound) { return value <= bound; }},
      {"exclusiveMinimum", "more than ", [](N value, N bound) { return value > bound; }},
      {"exclusiveMaximum", "less than ", [](N value, N bound) { return value < bound; }}};
  bool sound = true;
  for (const Bound& bound : kBounds) {
    const Json* limit = at.Keyword(bound.keyword);
    if (!limit || bound.holds(Number(at.value), Number(*limit))) continue;
    sound = at.Fail("expected " + std::string(bound.words) + Show(*limit) + ", but it is " +
                    Show(at.value));
  }
  const Json* divisor = at.Keyword("multipleOf");
  if (!divisor || IsMultiple(at.value, *divisor)) return sound;
  return at.Fail("expected a multiple of " + Show(*divisor) + ", but it is " + Show(at.value));
}

bool Checker::Strings(const At& at) {
  const auto& text = at.value.get_ref<const std::string&>();
  bool sound = true;
  const Json* least = at.Keyword("minLength");
  const Json* most = at.Keyword("maxLength");
  const size_t length = least || most ? Characters(text) : 0;
  if (least && length < least->get<size_t>()) {
    sound = at.Fail("expected at least " + Count(least->get<size_t>(), "character", "characters") +
                    ", but it has " + std::to_string(length));
  }
  if (most && length > most->get<size_t>()) {
    sound = at.Fail("expected at most " + Count(most->get<size_t>(), "character", "characters") +
                    ", but it has " + std::to_string(length));
  }
  const Json* pattern = at.Keyword("pattern");
  if (!pattern || Matches(pattern->get_ref<const std::string&>(), text)) return sound;
  return at.Fail("expected text that matches " + Quoted(pattern->get_ref<const std::string&>()) +
                 ", but it is " + Show(at.value));
}

bool Checker::ItemCounts(const At& at) {
  bool sound = true;
  const Json* least = at.Keyword("minItems");
  const Json* most = at.Keyword("maxItems");
  if (least && at.value.size() < least->get<size_t>()) {
    sound = at.Fail("expected at least " + Count(least->get<size_t>(), "item", "items") +
                    ", but it has " + std::to_string(at.value.size()));
  }
  if (most && at.value.size() > most->get<size_t>()) {
    sound = at.Fail("expected at most " + Count(most->get<size_t>(), "item", "items") +
                    ", but it has " + std::to_string(at.value.size()));
  }
  return sound;
}

bool Checker::Unique(const At& at) {
  const Json* unique = at.Keyword("uniqueItems");
  if (!unique || !unique->get<bool>()) return true;
  std::vector<const Json*> items;
  for (const Json& item : at.value) items.push_back(&item);
  if (!Spend(items.size())) return false;
  std::ranges::sort(items, [](const Json* a, const Json* b) { return *a < *b; });
  auto twice = std::ranges::adjacent_find(items,
                                          [](const Json* a, const Json* b) { return *a == *b; });
  return twice == items.end() || at.Fail("expected no item twice, but " + Show(**twice) + " is");
}

bool Checker::Items(const At& at) {
  const Json* items = at.Keyword("items");
  if (!items) return true;
  const Json* additional = at.Keyword("additionalItems");
  bool sound = true;
  for (size_t i = 0; i < at.value.size() && (sound || at.out) && !exhausted_; ++i) {
    const Json* schema = items;
    if (items->is_array()) schema = i < items->size() ? &(*items)[i] : additional;
    if (!schema) break;
    Place inner{&at.place, {}, i};
    if (!Check(*schema, at.value[i], inner, at.out)) sound = false;
  }
  return sound;
}

bool Checker::Contains(const At& at) {
  const Json* wanted = at.Keyword("contains");
  if (!wanted) return true;
  for (const Json& item : at.value) {
    if (Check(*wanted, item, at.place, nullptr)) return true;
    if (exhausted_) return false;
  }
  return at.Fail("no item is what 'contains' asks for");
}

bool Checker::Required(const At& at) {
  bool sound = true;
  if (const Json* names = at.Keyword("required"); names && Spend(names->size())) {
    for (const Json& name : *names) {
      const auto& key = name.get_ref<const std::string&>();
      if (!at.value.contains(key)) sound = at.Fail("missing required " + Quoted(key));
    }
  }
  const Json* least = at.Keyword("minProperties");
  const Json* most = at.Keyword("maxProperties");
  if (least && at.value.size() < least->get<size_t>()) {
    sound = at.Fail("expected at least " + Count(least->get<size_t>(), "key", "keys") +
                    ", but it has " + std::to_string(at.value.size()));
  }
  if (most && at.value.size() > most->get<size_t>()) {
    sound = at.Fail("expected at most " + Count(most->get<size_t>(), "key", "keys") +
                    ", but it has " + std::to_string(at.value.size()));
  }
  return sound;
}

bool Checker::Properties(const At& at) {
  if (!at.Keyword("properties") && !at.Keyword("patternProperties") &&
      !at.Keyword("additionalProperties")) {
    return true;
  }
  bool sound = true;
  for (auto it = at.value.begin(); it != at.value.end(); ++it) {
    if ((!sound && !at.out) || exhausted_) break;
    if (!Property(at, it.key(), it.value())) sound = false;
  }
  return sound;
}

bool Checker::Property(const At& at, const std::string& key, const Json& value) {
  Place inner{&at.place, key};
  bool sound = true;
  bool known = false;
  const Json* named = at.Keyword("properties");
  if (named && named->contains(key)) {
    known = true;
    sound = Check((*named)[key], value, inner, at.out);
  }
  if (const Json* patterns = at.Keyword("patternProperties")) {
    for (auto it = patterns->begin(); it != patterns->end(); ++it) {
      if (!Matches(it.key(), key)) continue;
      known = true;
      if (!Check(it.value(), value, inner, at.out)) sound = false;
    }
  }
  const Json* additional = at.Keyword("additionalProperties");
  if (known || !additional) return sound;
  if (additional->is_object() || additional->get<bool>()) {
    return Check(*additional, value, inner, at.out);
  }
  if (!at.out || at.out->size() >= kSentencesMax) return false;
  Nearest nearest(key);
  if (named && key.size() <= 128) {
    for (auto it = named->begin(); it != named->end(); ++it) nearest.Try(it.key());
  }
  return at.Fail("unknown key " + Quoted(key) + nearest.Hint());
}

bool Checker::PropertyNames(const At& at) {
  const Json* names = at.Keyword("propertyNames");
  if (!names) return true;
  bool sound = true;
  for (auto it = at.value.begin(); it != at.value.end() && (sound || at.out); ++it) {
    Place key{nullptr, "its name"};
    Sentences why;
    if (Check(*names, Json(it.key()), key, at.out ? &why : nullptr)) continue;
    if (exhausted_) return false;
    sound = at.Fail("key " + Quoted(it.key()) + " is not allowed: " +
                    (why.empty() ? "" : why.front()));
  }
  return sound;
}

bool Checker::Dependencies(const At& at) {
  const Json* dependencies = at.Keyword("dependencies");
  if (!dependencies) return true;
  bool sound = true;
  for (auto it = dependencies->begin(); it != dependencies->end(); ++it) {
    if (!Spend(1)) return false;
    if (!at.value.contains(it.key())) continue;
    if (!it.value().is_array()) {
      if (!Check(it.value(), at.value, at.place, at.out)) sound = false;
      continue;
    }
    for (const Json& name : it.value()) {
      const auto& key = name.get_ref<const std::string&>();
      if (at.value.contains(key)) continue;
      sound = at.Fail("missing " + Quoted(key) + ", which is required beside " + Quoted(it.key()));
    }
  }
  return sound;
}

bool Checker::AllOf(const At& at) {
  const Json* schemas = at.Keyword("allOf");
  if (!schemas) return true;
  bool sound = true;
  for (const Json& schema : *schemas) {
    if ((!sound && !at.out) || exhausted_) break;
    if (!Check(schema, at.value, at.place, at.out)) sound = false;
  }
  return sound;
}

bool Checker::AnyOf(const At& at) {
  const Json* schemas = at.Keyword("anyOf");
  if (!schemas) return true;
  for (const Json& schema : *schemas) {
    if (Check(schema, at.value, at.place, nullptr)) return true;
    if (exhausted_) return false;
  }
  return NoAlternative(at, *schemas);
}

bool Checker::OneOf(const At& at) {
  const Json* schemas = at.Keyword("oneOf");
  if (!schemas) return true;
  size_t matches = 0;
  for (const Json& schema : *schemas) {
    if (Check(schema, at.value, at.place, nullptr)) ++matches;
    if (exhausted_) return false;
  }
  if (matches == 1) return true;
  if (matches == 0) return NoAlternative(at, *schemas);
  return at.Fail("fits " + std::to_string(matches) + " of the " +
                 std::to_string(schemas->size()) + " alternatives; exactly one is allowed");
}

bool Checker::NoAlternative(const At& at, const Json& alternatives) {
  if (!at.out) return false;
  std::string message = "fits none of " + Count(alternatives.size(), "alternative", "alternatives");
  for (size_t i = 0; i < alternatives.size() && i < 3 && !exhausted_; ++i) {
    Sentences why;
    Check(alternatives[i], at.value, at.place, &why);
    message += (i == 0 ? ": (" : ", (") + std::to_string(i + 1) + ") " +
               (why.empty() ? "not allowed" : Shorten(why.front(), kReasonMax));
  }
  return at.Fail(message);
}

bool Checker::Not(const At& at) {
  const Json* schema = at.Keyword("not");
  if (!schema || !Check(*schema, at.value, at.place, nullptr)) return true;
  return at.Fail("is what 'not' excludes");
}

bool Checker::IfThenElse(const At& at) {
  const Json* condition = at.Keyword("if");
  if (!condition) return true;
  const bool holds = Check(*condition, at.value, at.place, nullptr);
  if (exhausted_) return false;
  const Json* schema = at.Keyword(holds ? "then" : "else");
  return !schema || Check(*schema, at.value, at.place, at.out);
}

}  // namespace

std::vector<std::string> Violations(const Schema& schema, const nlohmann::json& value,
                                    std::string_view subject) {
  Checker checker(schema);
  Place root{nullptr, subject};
  Sentences found;
  bool sound = checker.Check(schema.root, value, root, &found);
  if (checker.exhausted()) {
    return {std::string(subject) + ": too large for its schema to be checked in reasonable time"};
  }
  if (!sound && found.empty()) {
    found.push_back(std::string(subject) + ": not what the schema wants");
  }
  return found;
}

}  // namespace dfsmr::json_schema
