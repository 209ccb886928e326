#include "dsrv/engine/adoption.h"

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/reader.h"
#include "storage/rows/document.h"

namespace dfsmr {

Result<AdoptedMachine> CompileRow(rows::MachineRow row, const CompileSource& compile) {
  const auto lost = [&row](const std::string& why) {
    return Error{Code::kDataLoss, Reason::kStoreFailed,
                 "version " + std::to_string(row.version) + " of machine '" + row.id +
                     "' in the store " + why};
  };
  auto machine = compile(row.source);
  if (!machine) return lost("is not accepted any more: " + machine.error().message);
  auto shown = ShownOf(row.id, row.graph);
  if (!shown && !row.graph.empty()) return lost("has a damaged graph");
  auto version = std::make_shared<MachineVersion>(
      MachineVersion{row.ns, row.version, *std::move(machine), row.define_time});
  return AdoptedMachine{std::move(row), std::move(version), std::move(shown)};
}

Result<std::vector<AdoptedTrigger>> ReadTriggers(const rows::Reader& home, const std::string& ns) {
  std::vector<AdoptedTrigger> triggers;
  auto scanned = rows::ScanTriggers(home, [&](rows::TriggerName name, rows::TriggerRow row) {
    if (row.deleted || (!ns.empty() && name.ns != ns)) return;
    triggers.push_back({std::string(name.ns), std::string(name.name), 0, std::move(row)});
  });
  if (!scanned) return scanned.error();
  for (AdoptedTrigger& one : triggers) {
    auto head = rows::GetDocumentHead(home, {one.ns, DocumentKind::kTrigger, one.name});
    if (!head) return head.error();
    if (*head && !(*head)->deleted) one.version = (*head)->version;
  }
  std::erase_if(triggers, [](const AdoptedTrigger& one) { return one.version == 0; });
  return triggers;
}

Result<Adoption> ReadAdoption(const Reader& reader, PartitionId at, const CompileSource& compile,
                              const std::string& ns) {
  const auto moment = reader.store.Snapshot();
  const rows::Reader home{*moment, at};
  Adoption adoption;
  adoption.ns = ns;
  auto read = rows::ScanSpaces(home, [&](std::string_view of, rows::SpaceRow row) {
    if (adoption.Has(of)) adoption.spaces.emplace_back(of, std::move(row));
  });
  if (read) read = adoption.packages.Recover(home);
  if (!read) return read.error();
  read = rows::ScanTrustedKeys(home, [&](std::string_view of, rows::TrustedKeyRow row) {
    if (adoption.Has(of)) adoption.keys.emplace_back(of, std::move(row));
  });
  if (!read) return read.error();
  auto triggers = ReadTriggers(home, ns);
  if (!triggers) return triggers.error();
  adoption.triggers = *std::move(triggers);
  Result<Ok> outcome = Ok{};
  const auto visit = [&](rows::MachineRow row) {
    if (!outcome) return;
    AdoptedMachine one{std::move(row)};
    if (!reader.registry.Find(one.row.ns, one.row.id, one.row.version)) {
      auto compiled = CompileRow(std::move(one.row), compile);
      if (!compiled) outcome = compiled.error();
      if (!compiled) return;
      one = *std::move(compiled);
    }
    adoption.machines.push_back(std::move(one));
  };
  auto scanned =
      ns.empty() ? rows::ScanMachines(home, visit) : rows::ScanMachinesOf(home, ns, visit);
  if (!scanned) return scanned.error();
  if (!outcome) return outcome.error();
  return adoption;
}

}  // namespace dfsmr
