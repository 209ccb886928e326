// The rows of definitions.
#pragma once

#include <functional>
#include <string>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct MachineRow {
  std::string ns;
  std::string id;
  uint32_t version = 0;
  std::string source;
  Timestamp define_time;
};
void PutMachine(const Writer& writer, const MachineRow& row);
Result<Ok> ScanMachines(const Reader& reader, const std::function<void(MachineRow)>& visit);

}  // namespace dfsmr::rows
