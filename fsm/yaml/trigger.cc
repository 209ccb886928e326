#include "fsm/yaml/trigger.h"

#include <array>

#include "fsm/yaml/fields.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 2> kKeys = {"trigger", "description"};

}  // namespace

std::span<const std::string_view> TriggerKeys() { return kKeys; }

std::shared_ptr<const TriggerSource> ReadTrigger(const YamlNode& root, Reporter* reporter) {
  const size_t errors = reporter->errors();
  const Keys keys(Field(root, "", reporter), kKeys, "a trigger has trigger and description");
  auto source = std::make_shared<TriggerSource>();
  source->written = {root.at, "trigger"};
  return reporter->errors() == errors ? source : nullptr;
}

}  // namespace dfsmr
