// The outputs of nodes, and who reported them.
#include "storage/rows/instance.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {

void PutOutput(const Writer& writer, InstanceName name, std::string_view node,
               std::string_view json) {
  writer.batch.Put(Key(writer.partition, kOutput).Of(name).Text(node), std::string(json));
}

void DropOutput(const Writer& writer, InstanceName name, std::string_view node) {
  writer.batch.Delete(Key(writer.partition, kOutput).Of(name).Text(node));
}

Result<std::optional<std::string>> GetOutput(const Reader& reader, InstanceName name,
                                             std::string_view node) {
  return reader.view.Get(Key(reader.partition, kOutput).Of(name).Text(node).bytes());
}

// A worker stands beside the node's output, under a name that no node with an output has.
static std::string WorkerKey(PartitionId partition, InstanceName name, std::string_view node) {
  return Key(partition, kOutput).Of(name).Text(std::string(node) + "/worker").bytes();
}

void PutWorker(const Writer& writer, InstanceName name, std::string_view node,
               std::string_view worker) {
  writer.batch.Put(WorkerKey(writer.partition, name, node), std::string(worker));
}

Result<std::optional<std::string>> GetWorker(const Reader& reader, InstanceName name,
                                             std::string_view node) {
  return reader.view.Get(WorkerKey(reader.partition, name, node));
}

}  // namespace dfsmr::rows
