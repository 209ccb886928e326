#include "storage/rows/machine.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {

void PutMachine(const Writer& writer, const MachineRow& row) {
  record::Machine out;
  out.set_source(row.source);
  out.set_define_time(Micros(row.define_time));
  out.set_package(row.package);
  out.set_package_version(row.package_version);
  out.set_candidate(row.candidate);
  out.set_retired(row.retired);
  out.set_graph(row.graph);
  writer.batch.Put(Key(writer.partition, kMachine).Text(row.ns).Text(row.id).Version(row.version),
                   out.SerializeAsString());
}

static Result<Ok> ScanFrom(const Reader& reader, const std::string& begin,
                           const std::function<void(MachineRow)>& visit) {
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Machine in;
                   if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                     return Corrupt("machine", key);
                   }
                   KeyReader parts(key);
                   MachineRow row;
                   row.ns = parts.Text();
                   row.id = parts.Text();
                   row.version = static_cast<uint32_t>(parts.Number(4));
                   row.source = in.source();
                   row.define_time = FromMicros(in.define_time());
                   row.package = in.package();
                   row.package_version = in.package_version();
                   row.candidate = in.candidate();
                   row.retired = in.retired();
                   row.graph = std::move(*in.mutable_graph());
                   visit(std::move(row));
                   return true;
                 });
}

Result<Ok> ScanMachines(const Reader& reader, const std::function<void(MachineRow)>& visit) {
  return ScanFrom(reader, Key(reader.partition, kMachine), visit);
}

Result<Ok> ScanMachinesOf(const Reader& reader, std::string_view ns,
                          const std::function<void(MachineRow)>& visit) {
  return ScanFrom(reader, Key(reader.partition, kMachine).Text(ns), visit);
}

}  // namespace dfsmr::rows
