#include "dsrv/cluster/inner.h"

#include <chrono>
#include <string_view>

#include "dsrv/access/door_key.h"
#include "dsrv/cluster/metadata.h"
#include "dsrv/cluster/proof.h"

namespace dfsmr {

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::string ToBytes(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (buffer.Length() == 0 || !buffer.DumpToSingleSlice(&slice).ok()) return {};
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

void AskInner(const grpc::GenericCallbackServerContext& outer,
              std::optional<PartitionId> partition, grpc::ClientContext* inner) {
  const Metadata& metadata = outer.client_metadata();
  PassOn(metadata, inner);
  const auto add = [inner](std::string_view key, const std::string& value) {
    if (!value.empty()) inner->AddMetadata(std::string(key), value);
  };
  if (ValueOf(metadata, door::kKey) == door::Key()) {
    for (const auto key : {door::kPeer, door::kCertificate, door::kName, door::kRequestId,
                           door::kPage}) {
      add(key, ValueOf(metadata, key));
    }
  } else {
    add(door::kPeer, outer.peer());
    for (const auto& name : outer.auth_context()->FindPropertyValues("x509_common_name")) {
      add(door::kCertificate, Text(name));
    }
  }
  add(door::kKey, door::Key());
  if (partition) add(kForPartition, std::to_string(*partition));
  if (outer.deadline() != std::chrono::system_clock::time_point::max()) {
    inner->set_deadline(outer.deadline());
  }
}

bool IsInner(const grpc::GenericCallbackServerContext& context) {
  const Metadata& metadata = context.client_metadata();
  if (!ValueOf(metadata, kPassedOn).empty()) return true;
  return ValueOf(metadata, door::kKey) == door::Key() && !ValueOf(metadata, kForPartition).empty();
}

}  // namespace dfsmr
