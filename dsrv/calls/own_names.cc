#include "dsrv/calls/own_names.h"

#include "fsm/package/own_names.h"

namespace dfsmr {
namespace {

OwnNames NamesOf(const PackageVersion& version) {
  OwnNames names(version.package);
  for (const PackageVersion::Document& one : version.documents) {
    Document document;
    document.name = one.id;
    if (one.kind == "schedule") {
      document.body = std::shared_ptr<const ScheduleSource>();
    } else if (one.kind == "trigger") {
      document.body = std::shared_ptr<const TriggerSource>();
    } else if (one.kind == "limit") {
      document.body = std::shared_ptr<const LimitSource>();
    } else {
      Machine machine;
      machine.id = one.id;
      names.Collect(machine);
      continue;
    }
    names.Collect(document);
  }
  // What is served by name, and MACHINE.NODE, are names of actions alike.
  Worker nodes;
  nodes.serves = version.nodes;
  names.Serve({nodes});
  std::vector<Worker> workers;
  for (const PackageVersion::Worker& one : version.workers) {
    Worker& worker = workers.emplace_back();
    worker.serves = one.serves;
    worker.dry_run = one.dry_run;
  }
  names.Serve(workers);
  names.HeedDryRuns(std::move(workers));
  return names;
}

}  // namespace

void OwnMachine(const PackageVersion& version, Machine* machine) {
  Qualify(NamesOf(version), machine);
}

void OwnDocument(const PackageVersion& version, Document* document) {
  Qualify(NamesOf(version), document);
}

void OwnFlow(const PackageVersion& version, PlanSource* flow) {
  *flow = *Qualified(NamesOf(version), *flow);
}

}  // namespace dfsmr
