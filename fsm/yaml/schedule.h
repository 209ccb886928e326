// Reads a document 'schedule: NAME'.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "fsm/base/diagnostic.h"
#include "fsm/when/schedule.h"
#include "fsm/when/zones.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

std::span<const std::string_view> ScheduleKeys();

// Null: it cannot be used, and errors were reported. The caller reads the name and the description.
std::shared_ptr<const ScheduleSource> ReadSchedule(const YamlNode& root, const FindZone& zones,
                                                   Reporter* reporter);

}  // namespace dfsmr
