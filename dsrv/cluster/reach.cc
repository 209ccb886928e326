#include "dsrv/cluster/reach.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <unordered_map>

#include "storage/place.h"

namespace dfsmr {
namespace {

struct Row {
  std::string_view method;
  Reach reach;
  std::string_view id = {};  // the field that names the instance
};

constexpr Row kRows[] = {
    {"dfsmr.v1.RunnerService/Define", Reach::kForAll},
    {"dfsmr.v1.RunnerService/ListMachines", Reach::kAll},
    {"dfsmr.v1.RunnerService/GetMachine", Reach::kAll},
    {"dfsmr.v1.RunnerService/Start", Reach::kInstance, "id"},
    {"dfsmr.v1.RunnerService/StartBatch", Reach::kItems},
    {"dfsmr.v1.RunnerService/ListInstances", Reach::kAll, "parent"},
    {"dfsmr.v1.RunnerService/GetInstance", Reach::kInstance, "id"},
    {"dfsmr.v1.RunnerService/GetHistory", Reach::kInstance, "id"},
    {"dfsmr.v1.RunnerService/Ready", Reach::kOwn},
    {"dfsmr.v1.RunnerService/Transition", Reach::kInstance, "instance"},
    {"dfsmr.v1.RunnerService/Report", Reach::kItems},
    {"dfsmr.v1.RunnerService/Relinquish", Reach::kInstance, "instance"},
    {"dfsmr.v1.RunnerService/Extend", Reach::kItems},
    {"dfsmr.v1.RunnerService/Work", Reach::kOwn},
    {"dfsmr.v1.RunnerService/Pause", Reach::kInstance, "instance"},
    {"dfsmr.v1.RunnerService/Resume", Reach::kInstance, "instance"},
    {"dfsmr.v1.RunnerService/Skip", Reach::kInstance, "instance"},
    {"dfsmr.v1.RunnerService/Cancel", Reach::kInstance, "instance"},
    {"dfsmr.v1.RunnerService/Changes", Reach::kAll, "instance"},

    {"dfsmr.v1.TokenService/CreateToken", Reach::kForAll},
    {"dfsmr.v1.TokenService/ListTokens", Reach::kAtHome},
    {"dfsmr.v1.TokenService/RevokeToken", Reach::kForAll},
    {"dfsmr.v1.TokenService/GetCaller", Reach::kAtHome},
    {"dfsmr.v1.TokenService/CreateSession", Reach::kForAll},
    {"dfsmr.v1.BackupService/Backup", Reach::kAtHome},

    {"dfsmr.v1.ScheduleService/ListSchedules", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/GetSchedule", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/PreviewSchedule", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/RunSchedule", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/BackfillSchedule", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/ListTriggers", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/GetTrigger", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/FireTrigger", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/SetPaused", Reach::kForAll},
    {"dfsmr.v1.ScheduleService/ListOccurrences", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/RetryOccurrences", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/DeleteDefinition", Reach::kForAll},
    {"dfsmr.v1.ScheduleService/GetClock", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/AdvanceClock", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/ListLimits", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/GetLimit", Reach::kAll},
    {"dfsmr.v1.ScheduleService/SetLimit", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/ListGroups", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/GetGroup", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/SetGroup", Reach::kAtHome},
    {"dfsmr.v1.ScheduleService/ControlGroup", Reach::kAtHome},

    {"dfsmr.v1.AgentService/Attach", Reach::kOwn},
    {"dfsmr.v1.AgentService/AppendLogs", Reach::kOwn},
    {"dfsmr.v1.AgentService/ReadLogs", Reach::kInstance, "instance"},
    {"dfsmr.v1.AgentService/ListAgents", Reach::kAll},
    {"dfsmr.v1.AgentService/GetAgent", Reach::kAll},
    {"dfsmr.v1.AgentService/DrainAgent", Reach::kAll},
    {"dfsmr.v1.AgentService/EvictAgent", Reach::kAll},
    {"dfsmr.v1.AgentService/ListOperations", Reach::kAll, "instance"},

    {"dfsmr.v1.PackageService/PutPackage", Reach::kForAll},
    {"dfsmr.v1.PackageService/FetchPackage", Reach::kAtHome},
    {"dfsmr.v1.PackageService/ListPackages", Reach::kAtHome},
    {"dfsmr.v1.PackageService/GetPackage", Reach::kAtHome},
    {"dfsmr.v1.PackageService/ActivatePackage", Reach::kForAll},
    {"dfsmr.v1.PackageService/DeactivatePackage", Reach::kForAll},
    {"dfsmr.v1.PackageService/RemovePackage", Reach::kForAll},
    {"dfsmr.v1.PackageService/SignPackage", Reach::kForAll},
    {"dfsmr.v1.PackageService/AddTrustedKey", Reach::kForAll},
    {"dfsmr.v1.PackageService/ListTrustedKeys", Reach::kAtHome},
    {"dfsmr.v1.PackageService/RevokeTrustedKey", Reach::kForAll},

    {"dfsmr.v1.NamespaceService/CreateNamespace", Reach::kForAll},
    {"dfsmr.v1.NamespaceService/ListNamespaces", Reach::kAll},
    {"dfsmr.v1.NamespaceService/GetNamespace", Reach::kAll},
    {"dfsmr.v1.NamespaceService/UpdateNamespace", Reach::kForAll},
    {"dfsmr.v1.NamespaceService/FreezeNamespace", Reach::kForAll},
    {"dfsmr.v1.NamespaceService/DeleteNamespace", Reach::kForAll},
    {"dfsmr.v1.NamespaceService/ExportNamespace", Reach::kAtHome},
    {"dfsmr.v1.NamespaceService/ImportNamespace", Reach::kAtHome},

    {"dfsmr.v1.SecretService/PutSecret", Reach::kAtHome},
    {"dfsmr.v1.SecretService/ListSecrets", Reach::kAtHome},
    {"dfsmr.v1.SecretService/DeleteSecret", Reach::kAtHome},
    {"dfsmr.v1.SecretService/ResolveSecrets", Reach::kInstance, "instance"},

    {"dfsmr.v1.ViewService/GetOverview", Reach::kAll},
    {"dfsmr.v1.ViewService/CountInstances", Reach::kAll},
    {"dfsmr.v1.ViewService/ListSteps", Reach::kInstance, "instance"},
    {"dfsmr.v1.ViewService/GetStep", Reach::kInstance, "instance"},
    {"dfsmr.v1.ViewService/GetDurations", Reach::kAtHome},
    {"dfsmr.v1.ViewService/ListQueues", Reach::kAll},
    {"dfsmr.v1.ViewService/ListWorkers", Reach::kAll},
    {"dfsmr.v1.ViewService/Watch", Reach::kOwn},

    {"dfsmr.v1.BulkService/StartBulk", Reach::kAll},
    {"dfsmr.v1.BulkService/GetBulk", Reach::kAll},
    {"dfsmr.v1.BulkService/ListBulks", Reach::kAll},
    {"dfsmr.v1.BulkService/StopBulk", Reach::kAll},
    {"dfsmr.v1.ClusterService/GetCluster", Reach::kAll},

    {"dfsmr.door.DoorService/ReceiveWebhook", Reach::kAtHome},
    {"dfsmr.door.DoorService/EndSession", Reach::kForAll},

    {"DistributedFSMRunner/Define", Reach::kForAll},
    {"DistributedFSMRunner/Start", Reach::kInstance, "id"},
    {"DistributedFSMRunner/Ready", Reach::kOwn},
    {"DistributedFSMRunner/Machines", Reach::kAtHome},
    {"DistributedFSMRunner/Instances", Reach::kAll},
    {"DistributedFSMRunner/Transition", Reach::kInstance, "instance"},
    {"DistributedFSMRunner/Relinquish", Reach::kInstance, "instance"},
    {"DistributedFSMRunner/Changes", Reach::kAll},
};

// What a message has on the wire.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    uint32_t number = 0;
    std::string_view bytes = {};  // of texts, messages and packed lists
  };
  // nullopt: the end, or something that is no message; see ended().
  std::optional<Field> Next() {
    if (rest_.empty()) return std::nullopt;
    const auto tag = Varint();
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > UINT32_MAX) return Broken();
    Field field{static_cast<uint32_t>(*tag >> 3)};
    switch (*tag & 7) {
      case 0:
        return Varint() ? std::optional(field) : Broken();
      case 1:
        return Take(8) ? std::optional(field) : Broken();
      case 5:
        return Take(4) ? std::optional(field) : Broken();
      case 2: {
        const auto size = Varint();
        const auto bytes = size ? Take(*size) : std::nullopt;
        if (!bytes) return Broken();
        field.bytes = *bytes;
        return field;
      }
      default:
        return Broken();
    }
  }
  bool broken() const { return broken_; }

 private:
  std::nullopt_t Broken() {
    broken_ = true;
    return std::nullopt;
  }
  std::optional<std::string_view> Take(uint64_t size) {
    if (size > rest_.size()) return std::nullopt;
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::optional<uint64_t> Varint() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      number |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return number;
    }
    return std::nullopt;
  }

  std::string_view rest_;
  bool broken_ = false;
};

// The number of a field of the method's request; 0: it has none of this name.
uint32_t NumberOf(const std::string& method, std::string_view field) {
  const auto* const found =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(method);
  if (!found || field.empty()) return 0;
  const auto* const named = found->input_type()->FindFieldByName(std::string(field));
  return named ? static_cast<uint32_t>(named->number()) : 0;
}

std::unordered_map<std::string, MethodReach> MakeTable() {
  std::unordered_map<std::string, MethodReach> table;
  for (const Row& row : kRows) {
    std::string name(row.method);
    std::ranges::replace(name, '/', '.');
    table["/" + std::string(row.method)] = {row.reach, NumberOf(name, "namespace"),
                                            NumberOf(name, row.id)};
  }
  return table;
}

}  // namespace

std::optional<MethodReach> NamedReachOf(const std::string& path) {
  static const auto* const table = new std::unordered_map<std::string, MethodReach>(MakeTable());
  const auto found = table->find(path);
  return found == table->end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string_view> TextOfField(std::string_view message, uint32_t number) {
  WireReader reader(message);
  std::string_view text;
  while (const auto field = reader.Next()) {
    if (field->number == number) text = field->bytes;
  }
  return reader.broken() ? std::nullopt : std::optional(text);
}

Destination DestinationOf(const MethodReach& method, std::string_view request,
                          uint16_t partitions) {
  using Kind = Destination::Kind;
  if (partitions == 1 || method.AtHome()) return {};
  if (method.reach == Reach::kItems || method.reach == Reach::kOwn) return {Kind::kSeveral};
  const auto id = TextOfField(request, method.id);
  if (!id) return {};  // its services say what is wrong with it
  if (id->empty()) return {method.reach == Reach::kAll ? Kind::kSeveral : Kind::kAnyOne};
  const auto ns = method.ns == 0 ? std::string_view() : *TextOfField(request, method.ns);
  return {Kind::kOne, PartitionOf(ns, *id, partitions)};
}

}  // namespace dfsmr
