// Batches that several servers have a share in.
#include "dsrv/cluster/scatter.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/access/door_key.h"
#include "dsrv/cluster/proof.h"
#include "dsrv/wire/pages.h"
#include "tests/dsrv/cluster/servers.h"

namespace dfsmr {

namespace {

constexpr uint16_t kInAll = 4;
constexpr const char* kBatch = "/dfsmr.v1.RunnerService/StartBatch";
constexpr const char* kExtend = "/dfsmr.v1.RunnerService/Extend";
constexpr const char* kInstances = "/dfsmr.v1.RunnerService/ListInstances";
constexpr const char* kOverview = "/dfsmr.v1.ViewService/GetOverview";

// In place of the services: starts what it is given, says what lives elsewhere, and refuses
// batches with an instance of machine "refused".
class Starter final : public grpc::CallbackGenericService {
 public:
  struct Seen {
    int calls = 0;
    std::set<std::string> partitions;  // as told
    std::set<std::string> peers;
    std::string bearer;
    int misplaced = 0;  // items of another partition than the call's
    std::set<std::string> namespaces;  // besides, as told
  };
  Seen seen() {
    const Lock lock(mutex_);
    return seen_;
  }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(Starter& starter, grpc::GenericCallbackServerContext* context)
        : starter_(starter), context_(context) {
      StartRead(&message_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) return;
      const auto reply = starter_.Answer(*context_, TextOf(message_));
      if (reply) {
        message_ = Bytes(*reply);
        return StartWriteAndFinish(&message_, {}, grpc::Status::OK);
      }
      context_->AddTrailingMetadata("dfsmr-reason", "DISK_FULL");
      Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room"));
    }
    void OnDone() override { delete this; }

   private:
    Starter& starter_;
    grpc::GenericCallbackServerContext* const context_;
    grpc::ByteBuffer message_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Reactor(*this, context);
  }
  // nullopt: refused.
  std::optional<std::string> Answer(const grpc::GenericCallbackServerContext& context,
                                    const std::string& bytes) {
    std::map<std::string, std::string> told;
    for (const auto& [key, value] : context.client_metadata()) {
      told[{key.data(), key.size()}] = {value.data(), value.size()};
    }
    const std::string partition = told.contains(kForPartition) ? told[kForPartition] : "0";
    if (context.method() == kInstances) return ListOf(std::stoi(partition), bytes);
    if (context.method() == kOverview) {
      v1::Overview overview;
      overview.mutable_now()->set_running(1);
      return overview.SerializeAsString();
    }
    v1::StartBatchRequest request;
    CHECK(request.ParseFromString(bytes));
    const Lock lock(mutex_);
    ++seen_.calls;
    seen_.partitions.insert(partition);
    seen_.peers.insert(told[std::string(door::kPeer)]);
    seen_.bearer = told["authorization"];
    seen_.namespaces.insert(told[std::string(door::kNamespaces)]);
    v1::StartBatchResponse reply;
    for (const v1::StartRequest& start : request.starts()) {
      const auto lives = PartitionOf(start.namespace_(), start.id(), kInAll);
      if (!start.id().empty() && std::to_string(lives) != partition) ++seen_.misplaced;
      if (start.machine() == "refused") return std::nullopt;
      reply.add_results()->mutable_started()->mutable_instance()->set_id(start.id());
    }
    return reply.SerializeAsString();
  }

  // Each partition has those of a hundred instances that live there.
  static std::string ListOf(int partition, const std::string& bytes) {
    v1::ListInstancesRequest request;
    CHECK(request.ParseFromString(bytes));
    std::set<std::string> ids;
    for (int i = 0; i < 100; ++i) {
      const std::string id = "i" + std::to_string(i);
      if (PartitionOf("", id, kInAll) == partition) ids.insert(id);
    }
    const auto after = ParsePageToken(FiltersOf(request), request.page_token());
    CHECK(after);
    v1::ListInstancesResponse page;
    for (auto id = ids.upper_bound(*after); id != ids.end(); ++id) {
      if (page.instances_size() == request.page_size()) {
        page.set_next_page_token(
            PageToken(FiltersOf(request), page.instances().rbegin()->id()));
        break;
      }
      page.add_instances()->set_id(*id);
    }
    return page.SerializeAsString();
  }

  Mutex mutex_;
  Seen seen_ GUARDED(mutex_);
};

// A server with such services inside.
struct KeepingServer {
  explicit KeepingServer(const std::string& id) : server(id, kInAll) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&starter);
    services = builder.BuildAndStart();
    inside = std::make_shared<grpc::GenericStub>(services->InProcessChannel({}));
    server.front.SetOwn(
        std::make_shared<grpc::GenericStub>(server.server->InProcessChannel({})));
  }
  ~KeepingServer() {
    server.Stop();
    services->Shutdown(std::chrono::system_clock::now());
    services->Wait();
  }
  void Owns(PartitionId partition) {
    server.front.SetRoute(partition, {.kind = Route::Kind::kHere, .inside = inside});
  }

  Server server;
  Starter starter;
  std::unique_ptr<grpc::Server> services;
  std::shared_ptr<grpc::GenericStub> inside;
};

// Two servers that share four partitions.
struct Two {
  Two() {
    for (PartitionId partition = 0; partition < 2; ++partition) {
      a.Owns(partition);
      b.server.Owner(a.server, partition);
    }
    for (PartitionId partition = 2; partition < 4; ++partition) {
      b.Owns(partition);
      a.server.Owner(b.server, partition);
    }
  }
  KeepingServer a{"a"};
  KeepingServer b{"b"};
};

v1::StartBatchRequest BatchOf(int count) {
  v1::StartBatchRequest batch;
  for (int i = 0; i < count; ++i) batch.add_starts()->set_id("i" + std::to_string(i));
  return batch;
}

v1::StartBatchResponse Joined(const CallOutcome& outcome) {
  v1::StartBatchResponse reply;
  REQUIRE(outcome.status.ok());
  REQUIRE(reply.ParseFromString(outcome.reply));
  return reply;
}

}  // namespace

TEST_CASE("a batch is asked of all owners at once, and answered in its order") {
  Two two;
  const auto outcome = two.a.server.Call(kBatch, BatchOf(40).SerializeAsString(),
                                         {{"authorization", "Bearer x"}, {kForPartition, "1"}});
  const auto reply = Joined(outcome);
  REQUIRE(reply.results_size() == 40);
  for (int i = 0; i < 40; ++i) {
    CHECK(reply.results(i).started().instance().id() == "i" + std::to_string(i));
  }
  const auto a = two.a.starter.seen();
  const auto b = two.b.starter.seen();
  CHECK(a.calls == 2);
  CHECK(b.calls == 2);
  CHECK(a.partitions == std::set<std::string>{"0", "1"});
  CHECK(b.partitions == std::set<std::string>{"2", "3"});
  CHECK(a.misplaced + b.misplaced == 0);
  CHECK(a.bearer == "Bearer x");
  CHECK(b.bearer == "Bearer x");
  REQUIRE(b.peers.size() == 1);
  CHECK(b.peers.begin()->starts_with("ipv4:127.0.0.1:"));  // the client's, not a server's
  CHECK(a.peers == b.peers);
}

TEST_CASE("what one partition refuses is refused item by item") {
  Two two;
  auto batch = BatchOf(40);
  int refused = -1;
  for (int i = 0; i < 40 && refused < 0; ++i) {
    if (PartitionOf("", batch.starts(i).id(), kInAll) == 2) refused = i;
  }
  batch.mutable_starts(refused)->set_machine("refused");
  const auto reply = Joined(two.a.server.Call(kBatch, batch.SerializeAsString()));
  for (int i = 0; i < 40; ++i) {
    const bool there = PartitionOf("", "i" + std::to_string(i), kInAll) == 2;
    CHECK(reply.results(i).has_started() == !there);
    CHECK(reply.results(i).error().reason() == (there ? "DISK_FULL" : ""));
    CHECK(reply.results(i).error().code() == (there ? 8 : 0));
  }
}

TEST_CASE("a batch that all of its partitions refuse is refused, with the reason") {
  Two two;
  v1::StartBatchRequest batch;
  batch.add_starts()->set_machine("refused");
  const auto outcome = two.b.server.Call(kBatch, batch.SerializeAsString());
  CHECK(outcome.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(outcome.reason == "DISK_FULL");
}

TEST_CASE("items of a partition without owner say so, when the others are done") {
  Two two;
  two.a.server.front.SetRoute(3, {});
  const auto reply = Joined(two.a.server.Call(kBatch, BatchOf(40).SerializeAsString()));
  for (int i = 0; i < 40; ++i) {
    const bool nobody = PartitionOf("", "i" + std::to_string(i), kInAll) == 3;
    CHECK(reply.results(i).has_started() == !nobody);
    CHECK(reply.results(i).error().reason() == (nobody ? "NO_OWNER" : ""));
  }
}

TEST_CASE("what is no batch is refused, and an empty one is for home to judge") {
  Two two;
  const auto outcome = two.b.server.Call(kExtend, "\x0b");
  CHECK(outcome.status.error_code() == grpc::StatusCode::INTERNAL);
  CHECK(Joined(two.b.server.Call(kBatch, "")).results_size() == 0);
  CHECK(two.a.starter.seen().calls == 1);
}

TEST_CASE("the parts of a batch enter the namespaces of the whole, on both servers") {
  Two two;
  auto batch = BatchOf(40);
  batch.mutable_starts(7)->set_namespace_("other");
  Joined(two.a.server.Call(kBatch, batch.SerializeAsString(),
                           {{std::string(door::kNamespaces), "of a client"}}));
  const std::string both = std::string("default") + '\0' + "other";
  CHECK(two.a.starter.seen().namespaces == std::set<std::string>{both});
  CHECK(two.b.starter.seen().namespaces == std::set<std::string>{both});
  Two others;
  Joined(others.a.server.Call(kBatch, BatchOf(40).SerializeAsString(),
                              {{std::string(door::kNamespaces), "of a client"}}));
  CHECK(others.a.starter.seen().namespaces == std::set<std::string>{""});
  CHECK(others.b.starter.seen().namespaces == std::set<std::string>{""});
}

TEST_CASE("a list of all partitions is one list, whichever server is asked for a page") {
  Two two;
  v1::ListInstancesRequest request;
  request.set_page_size(7);
  std::vector<std::string> seen;
  for (int pages = 0; pages < 20; ++pages) {
    KeepingServer& asked = pages % 2 == 0 ? two.a : two.b;
    const auto outcome = asked.server.Call(kInstances, request.SerializeAsString());
    v1::ListInstancesResponse page;
    REQUIRE(outcome.status.ok());
    REQUIRE(page.ParseFromString(outcome.reply));
    for (const auto& instance : page.instances()) seen.push_back(instance.id());
    request.set_page_token(page.next_page_token());
    if (page.next_page_token().empty()) break;
  }
  CHECK(seen.size() == 100);
  CHECK(std::ranges::is_sorted(seen));
}

TEST_CASE("a partition without owner fails a list, and is missing in an overview") {
  Two two;
  two.a.server.front.SetRoute(3, {});
  auto list = two.a.server.Begin(kInstances, "");
  const auto outcome = two.a.server.Call(kOverview, "");
  REQUIRE(outcome.status.ok());
  CHECK(outcome.took >= milliseconds(400));
  CHECK(outcome.took < milliseconds(1'500));
  v1::Overview overview;
  REQUIRE(overview.ParseFromString(outcome.reply));
  CHECK(overview.now().running() == 3);
  REQUIRE(overview.missing_size() == 1);
  CHECK(overview.missing(0) == "the owner of partition 3");
  const auto failed = list.get();
  CHECK(failed.status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(failed.reason == "NO_OWNER");
}

TEST_CASE("who gives up a batch gives up its parts") {
  Two two;
  two.a.server.front.SetRoute(3, {});
  grpc::GenericStub stub(two.a.server.channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + milliseconds(300));
  const auto in = Bytes(BatchOf(40).SerializeAsString());
  grpc::ByteBuffer out;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, kBatch, {}, &in, &out,
                 [&done](const grpc::Status& status) { done.set_value(status); });
  CHECK(done.get_future().get().error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  // No call is left long before the two seconds that one waits for an owner.
  CHECK(two.a.server.front.AwaitAll(std::chrono::steady_clock::now() + seconds(1)));
}

}  // namespace dfsmr
