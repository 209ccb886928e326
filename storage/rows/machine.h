// The rows of definitions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct MachineRow {
  std::string ns;
  std::string id;
  uint32_t version = 0;
  std::string source;
  Timestamp define_time;
  std::string package = {};  // that it belongs to; empty: it was defined by hand
  std::string package_version = {};
  bool candidate = false;  // it never was the active one, and no strategy was applied
  bool retired = false;    // it was the active one when its package no longer had it
  std::string graph = {};  // of a plan: the GraphRow of what it was compiled to; may be empty
};
void PutMachine(const Writer& writer, const MachineRow& row);
Result<Ok> ScanMachines(const Reader& reader, const std::function<void(MachineRow)>& visit);
// Those of a namespace, by id and version.
Result<Ok> ScanMachinesOf(const Reader& reader, std::string_view ns,
                          const std::function<void(MachineRow)>& visit);

}  // namespace dfsmr::rows
