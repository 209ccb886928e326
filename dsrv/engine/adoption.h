// What belongs to all partitions has its rows at home. The engines of the others read them there:
// all when they open, and what has changed since when they are told to.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/package_table.h"
#include "dsrv/engine/registry.h"
#include "storage/rows/machine.h"
#include "storage/rows/space.h"
#include "storage/rows/trigger.h"
#include "storage/rows/trust.h"

namespace dfsmr {

// A version of a machine, plan or action.
struct AdoptedMachine {
  rows::MachineRow row;
  // Compiled; null: the engine had it when this was read.
  std::shared_ptr<MachineVersion> version = {};
  std::shared_ptr<const Machine> shown = {};  // a plan's nodes
};

// A trigger that stands, as home has it.
struct AdoptedTrigger {
  std::string ns;
  std::string name;
  uint32_t version = 0;
  rows::TriggerRow row;
};

struct Adoption {
  std::string ns;  // of which namespace; empty: of all
  std::vector<std::pair<std::string, rows::SpaceRow>> spaces;  // namespaces
  PackageTable packages;
  std::vector<AdoptedMachine> machines;  // by namespace, id, version
  std::vector<std::pair<std::string, rows::TrustedKeyRow>> keys;  // with their namespaces
  std::vector<AdoptedTrigger> triggers;

  bool Has(std::string_view of) const { return ns.empty() || ns == of; }
};

// A stored version, compiled. kDataLoss: it is not accepted any more.
using CompileSource = std::function<Result<Machine>(std::string_view source)>;
Result<AdoptedMachine> CompileRow(rows::MachineRow row, const CompileSource& compile);

// The triggers of a namespace; empty: of all.
Result<std::vector<AdoptedTrigger>> ReadTriggers(const rows::Reader& home, const std::string& ns);
// Reads home's rows, and compiles what the registry does not have. Any thread.
Result<Adoption> ReadAdoption(const Reader& reader, PartitionId at, const CompileSource& compile,
                              const std::string& ns);

}  // namespace dfsmr
