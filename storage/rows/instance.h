// The rows of instances, and the indexes that find them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/machine/machine.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// The machine that an instance is pinned to; null when there is no such version.
using Resolve =
    std::function<const Machine*(std::string_view ns, std::string_view machine, uint32_t version)>;

// What PutInstance needs to know of a change, besides the instance.
struct Changed {
  const Spec* spec = nullptr;       // set when it was created: written once, with its indexes
  bool has_outputs = false;         // it got outputs since it was last written: see PutOutput
  std::optional<Timestamp> expiry;  // set when it has stopped: it moves to the stopped instances
};
// What the row says that the instance in memory does not say yet.
struct Written {
  std::vector<uint64_t> page;  // the full page of its history that is now a row of its own
  bool bare = false;
};
// Writes an instance, and for a plan also the steps that have changed (instance.tokens.dirty()).
Written PutInstance(const Writer& writer, const Instance& instance, const Machine& machine,
                    const Changed& changed);
// Brings the instance up to date with its row. It must not have changed since PutInstance.
void Note(const Written& written, Instance* instance);

// The output has a row of its own; the instance's row says only that there are outputs.
void PutOutput(const Writer& writer, InstanceName name, std::string_view node,
               std::string_view json);
// The output of one node; nullopt when there is none.
void DropOutput(const Writer& writer, InstanceName name, std::string_view node);
Result<std::optional<std::string>> GetOutput(const Reader& reader, InstanceName name,
                                             std::string_view node);

// The same for the worker that reported `ok` of a node, or of a plan's step.
void PutWorker(const Writer& writer, InstanceName name, std::string_view node,
               std::string_view worker);
Result<std::optional<std::string>> GetWorker(const Reader& reader, InstanceName name,
                                             std::string_view node);

Error NoSuchInstance(InstanceName name);  // kNotFound, with a message

// kNotFound when there is no such instance.
Result<Instance> GetInstance(const Reader& reader, InstanceName name, const Resolve& resolve);
Result<Spec> GetSpec(const Reader& reader, InstanceName name);
// nullopt when there is no such instance.
Result<std::optional<Spec>> FindSpec(const Reader& reader, InstanceName name);
// By node.
Result<std::map<std::string, std::string>> GetOutputs(const Reader& reader, InstanceName name);

// Visits live or stopped instances of after.ns (of all namespaces when that is empty) with ids
// after after.id, in order of id, until `visit` returns false. Rows that cannot match `wanted` are
// skipped without being decoded, which makes a search through millions of rows bearable. An
// instance that is visited may still not match: check it.
struct Wanted {
  std::string machine;  // empty, kNone: any
  std::string node;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kNone;
  bool tokens = true;  // read the tokens of live plans, which have rows of their own
  std::string from;    // ids from this one on
  // Called with the id of each row that is looked at, before the others of these are asked. False:
  // ends the scan. Absent: nobody asks.
  std::function<bool(std::string_view id)> look = nullptr;
};
using VisitInstance = std::function<bool(Instance)>;
Result<Ok> ScanInstances(const Reader& reader, bool stopped, InstanceName after,
                         const Resolve& resolve, const VisitInstance& visit,
                         const Wanted& wanted = {});

// Visits the ids of after.ns in an index, those after after.id, in order, until `visit` returns
// false.
using VisitId = std::function<bool(std::string_view id)>;
Result<Ok> ScanLabel(const Reader& reader, InstanceName after, std::string_view key,
                     std::string_view value, const VisitId& visit);
Result<Ok> ScanMachine(const Reader& reader, InstanceName after, std::string_view machine,
                       const VisitId& visit);
Result<Ok> ScanChildren(const Reader& reader, InstanceName after, std::string_view parent,
                        const VisitId& visit);
Result<Ok> ScanMembers(const Reader& reader, InstanceName after, std::string_view group,
                       const VisitId& visit);
Result<Ok> ScanCause(const Reader& reader, InstanceName after, std::string_view cause,
                     const VisitId& visit);

// Whether there is an instance that has not stopped, without reading what it holds.
Result<bool> IsLive(const Reader& reader, InstanceName name);

}  // namespace dfsmr::rows
