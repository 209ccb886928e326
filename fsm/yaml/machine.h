// One YAML document → one machine.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fsm/machine/machine.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

std::span<const std::string_view> MachineKeys();

// Reports everything that is wrong to `reporter`; then nullopt. `root` is a map.
std::optional<Machine> ReadMachine(const YamlNode& root, Reporter* reporter);

}  // namespace dfsmr
