#include "dsrv/engine/upgrades.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/throttle.h"
#include "dsrv/engine/turn.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kScannedAtOnce = 1'024;

}  // namespace

void Upgrades::LeaveBehind(VersionState& latest) {
  MachineState& machine = *latest.machine;
  const auto goes_on = [](const auto& one) { return one.second.stands_for != nullptr; };
  if (std::ranges::none_of(machine.versions, goes_on)) {
    throttle_.Forget(machine);
    agenda_.DropVersions(machine.ns, machine.id, latest.definition->version);
  }
  for (auto& [number, version] : machine.versions) {
    if (number >= latest.definition->version) break;
    // The queue of a version that goes on is left to run empty.
    if (version.stands_for) {
      for (auto& [name, node] : version.nodes) node.queue = nullptr;
      continue;
    }
    for (auto& [name, node] : version.nodes) node.queue = node.last_queue = nullptr;
  }
  machine.swept.clear();
  /*mutant upgrade-leaves-untouched*/ moving_.insert(&machine); /*end*/
  // Copied, since moving an instance adds to the list.
  const std::vector<Resident*> dirty =
      /*mutant upgrade-misses-dirty*/ residents_.dirty() /*end*/;
  for (Resident* resident : dirty) {
    if (resident->version->machine != &machine) continue;
    const auto [ns, id] = NameOf(*resident);
    (void)changer_.Touch(std::string(ns), std::string(id));
  }
}

void Upgrades::MoveSome() {
  if (moving_.empty()) return;
  MoveSome(**moving_.begin());
  if (!moving_.empty()) turn_.WantMore();
}

void Upgrades::MoveSome(MachineState& machine) {
  std::vector<std::string> ids;
  size_t scanned = 0;
  bool done = true;
  auto outcome = rows::ScanInstances(
      turn_.reader(), /*stopped=*/false, {machine.ns, machine.swept}, catalog_.resolve(),
      [&](const Instance& instance) {
        if (ids.size() == kMovesAtOnce || scanned == kScannedAtOnce) {
          /*mutant upgrade-skips-one*/ done = false; /*end*/
          return false;
        }
        ++scanned;
        machine.swept = instance.id;
        if (instance.machine == machine.id) ids.push_back(instance.id);
        return true;
      },
      {.tokens = false});
  if (!outcome) {
    turn_.Trust(outcome);
    return;
  }
  for (const std::string& id : ids) (void)changer_.Touch(machine.ns, id);
  if (done) moving_.erase(&machine);
}

bool Upgrades::MoveFor(const Filter& filter) {
  for (MachineState* machine : moving_) {
    if (machine->ns != filter.ns) continue;
    if (!filter.machine.empty() && machine->id != filter.machine) continue;
    MoveSome(*machine);
    return true;
  }
  return false;
}

}  // namespace dfsmr
