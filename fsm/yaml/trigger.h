// Reads a document 'trigger: NAME'.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "fsm/base/diagnostic.h"
#include "fsm/when/trigger.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

std::span<const std::string_view> TriggerKeys();

// Null: it cannot be used, and errors were reported. The caller reads the name and the description.
std::shared_ptr<const TriggerSource> ReadTrigger(const YamlNode& root, Reporter* reporter);

}  // namespace dfsmr
