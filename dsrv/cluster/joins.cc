// How the replies of partitions are joined, method by method.
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "dsrv/cluster/batches.h"
#include "dsrv/cluster/bulk_calls.h"
#include "dsrv/cluster/counts.h"
#include "dsrv/cluster/instance_lists.h"
#include "dsrv/cluster/parted.h"
#include "dsrv/cluster/reach.h"
#include "dsrv/cluster/row_lists.h"
#include "dsrv/cluster/sums.h"
#include "dsrv/wire/checks.h"
#include "fsm/base/limits.h"
#include "fsm/machine/limit.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

using Made = std::unique_ptr<PartedCall>;

// All partitions are asked the same. --------------------------------------------------------------

template <typename Request, typename Reply>
class Joined final : public Gathering {
 public:
  // `first`: what is asked before all others are.
  Joined(Request request, std::vector<Question> questions, std::optional<Question> first = {})
      : request_(std::move(request)), questions_(std::move(questions)), first_(std::move(first)) {}

 private:
  std::vector<Question> Begin() override {
    return first_ ? std::vector<Question>{*first_} : std::exchange(questions_, {});
  }
  std::vector<Question> Go(const std::vector<Question>&, std::vector<PartAnswer> answers) override {
    if (std::exchange(first_, std::nullopt)) return std::exchange(questions_, {});
    std::vector<Reply> parts;
    std::set<std::string> missing;
    for (PartAnswer& answer : answers) {
      if (answer.status.ok()) {
        if (!Read(answer.reply, &parts.emplace_back())) return {};
        answer.reply.clear();
      } else if (answer.status.error_code() != grpc::StatusCode::NOT_FOUND) {
        missing.insert(std::move(answer.server));
      }
    }
    Reply reply = JoinParts(request_, std::move(parts));
    NoteMissing({missing.begin(), missing.end()}, &reply);
    reply_ = reply.SerializeAsString();
    return {};
  }
  std::string JoinedReply() override { return std::move(reply_); }

  const Request request_;
  std::vector<Question> questions_;
  std::optional<Question> first_;
  std::string reply_;
};

template <typename Request, typename Reply, Needs kNeeds>
Made MakeJoined(const std::string& bytes, const Parting& parting) {
  Request request;
  if (!request.ParseFromString(bytes)) return nullptr;
  return std::make_unique<Joined<Request, Reply>>(std::move(request),
                                                  AskAll(bytes, parting, kNeeds));
}

// Home has all that have asked for a key, and decides; of built-in keys each partition knows what
// holds them without having asked.
Made MakeGetLimit(const std::string& bytes, const Parting& parting) {
  v1::GetLimitRequest request;
  if (!request.ParseFromString(bytes)) return nullptr;
  const bool whole = BuiltInOf(request.key()) == BuiltIn::kNone || !request.page_token().empty();
  if (whole) return AskOne(kHome, bytes);
  return MakeJoined<v1::GetLimitRequest, v1::Limit, Needs::kOfHome>(bytes, parting);
}

// Home alone keeps which agents are drained; what they have in hand all tell.
Made MakeDrain(const std::string& bytes, const Parting& parting) {
  v1::DrainAgentRequest request;
  if (!request.ParseFromString(bytes)) return nullptr;
  v1::GetAgentRequest look;
  look.set_namespace_(request.namespace_());
  look.set_name(request.name());
  std::vector<Question> looks = AskAll(look.SerializeAsString(), parting, Needs::kOfHome);
  for (Question& one : looks) one.method = "/dfsmr.v1.AgentService/GetAgent";
  return std::make_unique<Joined<v1::GetAgentRequest, v1::Agent>>(
      std::move(look), std::move(looks), Question{.partition = kHome, .request = bytes});
}

// Batches of items. -------------------------------------------------------------------------------

template <typename Request, typename Reply>
class Batched final : public PartedCall {
 public:
  Batched(BatchParts<Request> parts, std::vector<std::string> namespaces,
          std::optional<v1::ReadyRequest> wanted)
      : parts_(std::move(parts)),
        replies_(parts_.size()),
        namespaces_(std::move(namespaces)),
        wanted_(std::move(wanted)) {}

  std::vector<Question> Next() override {
    std::vector<Question> questions;
    if (std::exchange(asked_, true)) return questions;
    for (const BatchPart<Request>& part : parts_) {
      questions.push_back({part.partition, part.request.SerializeAsString()});
    }
    return questions;
  }
  void Take(size_t part, PartAnswer answer) override {
    Reply reply;
    PartReply<Reply>& to = replies_[part];
    const grpc::Status& status = answer.status;
    if (status.ok() && reply.ParseFromString(answer.reply)) {
      to.reply = std::move(reply);
      return;
    }
    to.error.set_code(status.ok() ? grpc::StatusCode::INTERNAL : status.error_code());
    to.error.set_reason(answer.reason);
    to.error.set_message(status.ok() ? "the owner's answer could not be read"
                                     : status.error_message());
  }
  // It fails only where all its parts do.
  CallEnd End() override {
    Reply reply;
    if (JoinReplies(parts_, std::move(replies_), &reply)) return {.as_question = 0};
    return {.reply = reply.SerializeAsString()};
  }
  const v1::ReadyRequest* Wanted() const override { return wanted_ ? &*wanted_ : nullptr; }
  std::vector<std::string> Namespaces() const override { return namespaces_; }

 private:
  bool asked_ = false;
  const BatchParts<Request> parts_;
  std::vector<PartReply<Reply>> replies_;
  const std::vector<std::string> namespaces_;
  const std::optional<v1::ReadyRequest> wanted_;
};

template <typename Request>
std::optional<v1::ReadyRequest> WantedBy(const Request&) {
  return std::nullopt;
}
std::optional<v1::ReadyRequest> WantedBy(const v1::ReportRequest& request) {
  return request.has_next() ? std::optional(request.next()) : std::nullopt;
}

template <typename Request, typename Reply>
Made MakeBatch(const std::string& bytes, const Parting& parting) {
  Request request;
  if (!request.ParseFromString(bytes)) return nullptr;
  std::vector<std::string> namespaces = NamespacesOf(request);
  std::optional<v1::ReadyRequest> wanted = WantedBy(request);
  if (wanted) {
    if (auto wait = ToDuration("wait", wanted->wait(), limits::kWait); !wait) {
      return Refusing(wait.error());
    }
  }
  return std::make_unique<Batched<Request, Reply>>(
      Split(std::move(request), parting.partitions, parting.any), std::move(namespaces),
      std::move(wanted));
}

// Each partition counts what it has; who has which any server knows.
Made MakeCluster(const std::string& bytes, const Parting& parting) {
  v1::GetClusterRequest request;
  if (!request.ParseFromString(bytes)) return nullptr;
  if (!request.with_counts()) return AskOne(parting.any, bytes);
  return MakeJoined<v1::GetClusterRequest, v1::Cluster, Needs::kAnyOne>(bytes, parting);
}

// The table. --------------------------------------------------------------------------------------

struct JoinRow {
  std::string_view method;
  Made (*make)(const std::string& request, const Parting& parting);
};

constexpr JoinRow kJoins[] = {
    {"dfsmr.v1.RunnerService/StartBatch", MakeBatch<v1::StartBatchRequest, v1::StartBatchResponse>},
    {"dfsmr.v1.RunnerService/Report", MakeBatch<v1::ReportRequest, v1::ReportResponse>},
    {"dfsmr.v1.RunnerService/Extend", MakeBatch<v1::ExtendRequest, v1::ExtendResponse>},

    {"dfsmr.v1.RunnerService/ListMachines",
     MakeJoined<v1::ListMachinesRequest, v1::ListMachinesResponse, Needs::kOfHome>},
    {"dfsmr.v1.RunnerService/GetMachine",
     MakeJoined<v1::GetMachineRequest, v1::Machine, Needs::kOfHome>},
    {"dfsmr.v1.RunnerService/ListInstances", MakeInstanceList},

    {"dfsmr.v1.ScheduleService/GetLimit", MakeGetLimit},

    {"dfsmr.v1.AgentService/ListAgents",
     MakeJoined<v1::ListAgentsRequest, v1::ListAgentsResponse, Needs::kOfHome>},
    {"dfsmr.v1.AgentService/GetAgent", MakeJoined<v1::GetAgentRequest, v1::Agent, Needs::kOfHome>},
    {"dfsmr.v1.AgentService/DrainAgent", MakeDrain},
    {"dfsmr.v1.AgentService/EvictAgent",
     MakeJoined<v1::EvictAgentRequest, v1::EvictAgentResponse, Needs::kOfHome>},
    {"dfsmr.v1.AgentService/ListOperations", MakeOperationList},

    {"dfsmr.v1.NamespaceService/ListNamespaces",
     MakeJoined<v1::ListNamespacesRequest, v1::ListNamespacesResponse, Needs::kOfHome>},
    {"dfsmr.v1.NamespaceService/GetNamespace",
     MakeJoined<v1::GetNamespaceRequest, v1::Namespace, Needs::kOfHome>},

    {"dfsmr.v1.ClusterService/GetCluster", MakeCluster},

    {"dfsmr.v1.ViewService/GetOverview",
     MakeJoined<v1::GetOverviewRequest, v1::Overview, Needs::kAnyOne>},
    {"dfsmr.v1.ViewService/CountInstances", MakeCount},
    {"dfsmr.v1.ViewService/ListQueues",
     MakeJoined<v1::ListQueuesRequest, v1::ListQueuesResponse, Needs::kAnyOne>},
    {"dfsmr.v1.ViewService/ListWorkers",
     MakeJoined<v1::ListWorkersRequest, v1::ListWorkersResponse, Needs::kAnyOne>},

    {"dfsmr.v1.BulkService/StartBulk", MakeStartBulk},
    {"dfsmr.v1.BulkService/GetBulk", MakeGetBulk},
    {"dfsmr.v1.BulkService/ListBulks", MakeBulkList},
    {"dfsmr.v1.BulkService/StopBulk", MakeStopBulk},

    {"DistributedFSMRunner/Instances",
     MakeJoined<::InstancesRequest, ::InstancesReply, Needs::kEach>},
};

const JoinRow* RowOf(const std::string& method) {
  static const auto* const rows = [] {
    auto* const made = new std::unordered_map<std::string, const JoinRow*>;
    for (const JoinRow& row : kJoins) made->emplace("/" + std::string(row.method), &row);
    return made;
  }();
  const auto found = rows->find(method);
  return found == rows->end() ? nullptr : found->second;
}

}  // namespace

bool IsParted(const std::string& method) { return RowOf(method) != nullptr; }

std::unique_ptr<PartedCall> MakeParted(const std::string& method, const std::string& request,
                                       const Parting& parting) {
  const JoinRow* const row = RowOf(method);
  if (!row) return nullptr;
  const MethodReach reach = ReachOf(method);
  const Destination to = DestinationOf(reach, request, parting.partitions);
  const bool of_one = reach.reach == Reach::kAll && to.kind == Destination::Kind::kOne;
  return of_one ? AskOne(to.partition, request) : row->make(request, parting);
}

}  // namespace dfsmr
