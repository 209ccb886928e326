// One YAML document → one machine. Behind yaml.h.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fsm/machine/machine.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {

std::span<const std::string_view> MachineKeys();

// Nullopt when anything is wrong with it; all of that goes to `reporter`. `root` is a map.
std::optional<Machine> ReadMachine(const YamlNode& root, Reporter* reporter);

}  // namespace dfsmr
