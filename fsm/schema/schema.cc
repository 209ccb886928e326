#include "fsm/schema/schema.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/schema/prepared.h"

namespace dfsmr {
namespace {

using Json = nlohmann::json;

// How deep brackets nest outside of strings. Correct for valid JSON only.
size_t DepthOf(std::string_view json) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[')) {
      deepest = std::max(deepest, ++depth);
    } else if (!in_string && (c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

// Nullopt: `text` is not JSON, or is nested too deep for code that recurses over it. (A callback of
// the parser could check the depth, but would make its time quadratic in the size of objects.)
std::optional<Json> Parse(std::string_view text) {
  if (DepthOf(text) > limits::kJsonDepth) return std::nullopt;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) json = Json::parse(json::Bounded(text), nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

std::string Join(const std::vector<std::string>& sentences) {
  constexpr size_t kSentences = 5;
  std::string out;
  for (size_t i = 0; i < sentences.size() && i < kSentences; ++i) {
    out += (i > 0 ? "; " : "") + sentences[i];
  }
  if (sentences.size() > kSentences) {
    out += "; and " + std::to_string(sentences.size() - kSentences) + " more";
  }
  return out;
}

class SchemaCheck : public ParamsCheck {
 public:
  explicit SchemaCheck(std::string_view subject) : subject_(subject) {}

  json_schema::Schema& schema() { return schema_; }

  std::optional<std::string> Violation(std::string_view text) const override try {
    std::optional<Json> json = Parse(text.empty() ? "{}" : text);
    if (!json) {
      return subject_ + ": not JSON, or nested more than " +
             std::to_string(limits::kJsonDepth) + " levels deep";
    }
    std::vector<std::string> found = json_schema::Violations(schema_, *json, subject_);
    if (found.empty()) return std::nullopt;
    return Join(found);
  } catch (const std::exception& e) {
    return subject_ + ": cannot be checked: " + e.what();
  }

 private:
  std::string subject_;
  json_schema::Schema schema_;
};

}  // namespace

std::shared_ptr<const ParamsCheck> CompileParamsSchema(std::string_view schema_json,
                                                       std::string_view subject,
                                                       std::vector<SchemaProblem>* problems) {
  const size_t before = problems->size();
  auto check = std::make_shared<SchemaCheck>(subject);
  try {
    if (auto json = Parse(schema_json)) {
      check->schema().root = std::move(*json);
      json_schema::PrepareSchema(&check->schema(), problems);
    } else {
      problems->push_back({{}, "the schema is not JSON, or nested too deep"});
    }
  } catch (const std::exception& e) {
    problems->push_back({{}, std::string("the schema cannot be read: ") + e.what()});
  }
  return problems->size() == before ? check : nullptr;
}

}  // namespace dfsmr
