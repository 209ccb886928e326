#include "fsm/yaml/schedule.h"

#include <array>

#include "fsm/yaml/fields.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 2> kKeys = {"schedule", "description"};

}  // namespace

std::span<const std::string_view> ScheduleKeys() { return kKeys; }

std::shared_ptr<const ScheduleSource> ReadSchedule(const YamlNode& root, Reporter* reporter) {
  const size_t errors = reporter->errors();
  const Keys keys(Field(root, "", reporter), kKeys, "a schedule has schedule and description");
  auto source = std::make_shared<ScheduleSource>();
  source->written = {root.at, "schedule"};
  return reporter->errors() == errors ? source : nullptr;
}

}  // namespace dfsmr
