// What the names in a package's documents mean: the one place that knows. `dcli package check` and
// the server, when it checks, activates or reads a package's documents again, see them through
// this.
//
// Document NAME of package P is P.NAME. Where P's documents, or the flows and children that its
// workers report, name a machine, plan, action, schedule, trigger or limit, NAME (or P.NAME) is P's
// own if P has it, else the namespace's. P has its documents, what its workers serve by name, and
// its machines' MACHINE.NODE. Queues, labels, secrets and middleware get no prefix, nor do limit
// keys whose part before the first slash is no limit of P.
//
// Parse each document, give it to Collect, and when all were given have Qualify rewrite each:
//   OwnNames names("etl");
//   names.Serve(manifest.workers);
//   for (…) names.Collect(machine); for (…) names.Collect(document);
//   for (…) Qualify(names, &machine); …
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/machine/machine.h"
#include "fsm/package/worker.h"
#include "fsm/plan/source.h"
#include "fsm/when/document.h"

namespace dfsmr {

class OwnNames {
 public:
  explicit OwnNames(std::string package) : package_(std::move(package)), prefix_(package_ + ".") {}

  // Before Qualify, with the names as they are written.
  void Collect(const Machine& machine);
  void Collect(const Document& document);
  void Serve(const std::vector<Worker>& workers);
  // All workers, for what Qualify gives to those of them with `dry_run: true`; without it none has.
  void HeedDryRuns(std::vector<Worker> workers) { workers_ = std::move(workers); }

  const std::string& package() const { return package_; }
  // "P.NAME": what the package's document NAME is defined as.
  std::string Defined(std::string_view name) const { return prefix_ + std::string(name); }
  // A name as P's documents write it, in full.
  std::string Definition(std::string_view name) const { return In(definitions_, name); }
  std::string Action(std::string_view name) const;
  std::string Of(DocumentKind kind, std::string_view name) const;
  // Of a key, or the template of one: "env/${params.env}".
  std::string LimitKey(std::string_view key) const;
  // "schedule:NAME" and "trigger:NAME", as of Change.cause.
  std::string Cause(std::string_view cause) const;
  // Whether the worker of an action, by its full name, heeds dry runs.
  bool HeedsDryRun(std::string_view action) const;
  // The other way: NAME of P.NAME, and any other name as it is. What `serves` is held against.
  std::string_view Local(std::string_view full) const;

 private:
  using Names = std::set<std::string, std::less<>>;
  std::string In(const Names& names, std::string_view name) const;

  std::string package_;
  std::string prefix_;
  Names definitions_;   // machines, plans and actions
  Names actions_;       // served by name, and MACHINE.NODE
  Names documents_[4];  // by DocumentKind
  std::vector<Worker> workers_;
};

// Has all names in it be those in full, its own, too, and work of workers that heed dry runs go to
// them in those, unless the work says another thing. Its text stays; its fingerprint changes with
// the meaning of its names, so that documents with equal ones mean the same.
void Qualify(const OwnNames& names, Machine* machine);
void Qualify(const OwnNames& names, Document* document);
// A flow that a worker of the package has reported, or that an instance of it was started with. Its
// own id, if it has one, stays.
std::shared_ptr<const PlanSource> Qualified(const OwnNames& names, const PlanSource& flow);

}  // namespace dfsmr
