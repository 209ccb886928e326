// Templates and what their references stand for: template, zero byte, value.
#include "fsm/base/template.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/bytes.h"

namespace dfsmr {
namespace {

bool IsJson(std::string_view text) { return nlohmann::json::accept(text); }

void CheckReference(const Reference& reference, std::string_view value) {
  const auto again = ParseReference(reference.text);
  Check(again && again->parts == reference.parts, "a reference is read from its own text");
  (void)PathText(reference.parts);
  (void)Find(value, reference.parts);
  (void)FindTemplate(value, reference.parts);
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const std::string_view json = bytes.Line();
  const std::string value(bytes.Rest());
  (void)ParseReference(json);
  const auto references = References(json);
  if (references) {
    for (const Reference& reference : *references) CheckReference(reference, value);
  }
  const bool sound = IsJson(json) && IsJson(value);
  const auto evaluated = Evaluate(json, [&](const Reference&) { return Result(value); });
  if (sound && references) {
    Check(evaluated.has_value(), "a template whose references are sound has a value");
    Check(IsJson(*evaluated), "the value of a template is JSON");
  }
  using Put = Result<std::optional<std::string>>;
  const auto filled = Instantiate(json, [&](const Reference&) { return Put(value); });
  if (sound && references && filled) Check(IsJson(*filled), "a template in a template is JSON");
  const auto kept = Instantiate(json, [&](const Reference&) { return Put(std::nullopt); });
  Check(!references || kept.has_value(), "a template may be left as it is");
  if (IsJson(value)) {
    const std::string literal = Literal(value);
    const auto meant = Evaluate(literal, [&](const Reference&) { return Result(value); });
    Check(meant && nlohmann::json::parse(*meant) == nlohmann::json::parse(value),
          "a literal stands for itself");
  }
  return 0;
}
