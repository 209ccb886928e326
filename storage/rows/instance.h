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

// What a changed instance needs to be written, besides itself.
struct Changed {
  const Spec* spec = nullptr;       // of one that was created: written once, with its indexes
  bool has_outputs = false;         // since it was written last it got some: see PutOutput
  std::optional<Timestamp> expiry;  // it has just stopped, and may go then: it moves to the stopped
};
// What its row says now that the instance does not know yet.
struct Written {
  std::vector<uint64_t> page;  // the start of its history, a full page: now a row of its own
  bool bare = false;
};
// Writes an instance, and of a plan the steps that have changed (instance.tokens.dirty()).
Written PutInstance(const Writer& writer, const Instance& instance, const Machine& machine,
                    const Changed& changed);
// Tells the instance, which must not have changed meanwhile: then both agree again.
void Note(const Written& written, Instance* instance);

// A row of its own; the instance's says only that it has some.
void PutOutput(const Writer& writer, InstanceName name, std::string_view node,
               std::string_view json);
// The output of one node; nullopt when there is none.
Result<std::optional<std::string>> GetOutput(const Reader& reader, InstanceName name,
                                             std::string_view node);

Error NoSuchInstance(InstanceName name);  // kNotFound, in words

// kNotFound when there is no such instance.
Result<Instance> GetInstance(const Reader& reader, InstanceName name, const Resolve& resolve);
Result<Spec> GetSpec(const Reader& reader, InstanceName name);
// nullopt when there is no such instance.
Result<std::optional<Spec>> FindSpec(const Reader& reader, InstanceName name);
// By node.
Result<std::map<std::string, std::string>> GetOutputs(const Reader& reader, InstanceName name);

// Visits live or stopped instances of after.ns (of all namespaces when that is empty) with ids
// after after.id, in order of id, until `visit` returns false. Rows that cannot be what `wanted`
// asks for are skipped without being read in full, which is what makes a search through millions of
// them bearable; an instance that is visited need not match in all.
struct Wanted {
  std::string machine;  // empty, kNone: any
  std::string node;
  InstanceState state = InstanceState::kNone;
  InstanceResult result = InstanceResult::kNone;
  bool tokens = true;  // of plans that have not stopped, too: they are rows of their own
};
using VisitInstance = std::function<bool(Instance)>;
Result<Ok> ScanInstances(const Reader& reader, bool stopped, InstanceName after,
                         const Resolve& resolve, const VisitInstance& visit,
                         const Wanted& wanted = {});

// Ids of after.ns that an index holds, after after.id, in order, until `visit` returns false.
using VisitId = std::function<bool(std::string_view id)>;
Result<Ok> ScanLabel(const Reader& reader, InstanceName after, std::string_view key,
                     std::string_view value, const VisitId& visit);
Result<Ok> ScanMachine(const Reader& reader, InstanceName after, std::string_view machine,
                       const VisitId& visit);
Result<Ok> ScanChildren(const Reader& reader, InstanceName after, std::string_view parent,
                        const VisitId& visit);

}  // namespace dfsmr::rows
