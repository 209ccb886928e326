#include "fsm/yaml/limit.h"

#include <array>

#include "fsm/yaml/fields.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 2> kKeys = {"limit", "description"};

}  // namespace

std::span<const std::string_view> LimitKeys() { return kKeys; }

std::shared_ptr<const LimitSource> ReadLimit(const YamlNode& root, Reporter* reporter) {
  const size_t errors = reporter->errors();
  const Keys keys(Field(root, "", reporter), kKeys, "a limit has limit and description");
  auto source = std::make_shared<LimitSource>();
  source->written = {root.at, "limit"};
  return reporter->errors() == errors ? source : nullptr;
}

}  // namespace dfsmr
