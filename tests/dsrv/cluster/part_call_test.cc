// What a front asks of the services of its process without gRPC: it is answered as any call is,
// also when the partition is given away or lost meanwhile, and when nobody waits any more.
#include "dsrv/cluster/part_call.h"

#include <doctest/doctest.h>

#include <optional>
#include <thread>
#include <vector>

#include "dsrv/cluster/part_batch.h"
#include "dsrv/cluster/metadata.h"
#include "tests/dsrv/cluster/servers.h"

namespace dfsmr {
namespace {

using Reply = DirectServices::Reply;

// Answers with the request when it is told to.
class Direct final : public DirectServices {
 public:
  struct One final : public DirectServices::Call {
    void Cancel() override { cancelled = true; }
    std::atomic<bool> cancelled = false;
    std::string method;
    std::string request;
    std::shared_ptr<const DirectOrigin> origin;
    Done done;
  };

  std::shared_ptr<DirectServices::Call> Ask(const std::string& path, const std::string& request,
                                            std::shared_ptr<const DirectOrigin> origin, Deadline,
                                            Done done) override {
    if (path == kUnknown) return nullptr;
    auto one = std::make_shared<One>();
    one->method = path;
    one->request = request;
    one->origin = std::move(origin);
    one->done = std::move(done);
    {
      const Lock lock(mutex_);
      asked_.push_back(one);
    }
    if (at_once) one->done({.status = grpc::Status::OK, .bytes = request});
    changed_.NotifyAll();
    return one;
  }
  // The nth that was asked, once it was.
  std::shared_ptr<One> Asked(size_t which) {
    Lock lock(mutex_);
    CHECK(changed_.WaitFor(lock, seconds(10), [&]() REQUIRES(mutex_) {
      return asked_.size() > which;
    }));
    return asked_.at(which);
  }
  size_t count() {
    const Lock lock(mutex_);
    return asked_.size();
  }

  static inline const std::string kUnknown = "/dfsmr.v1.RunnerService/Transition";
  std::atomic<bool> at_once = false;

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::shared_ptr<One>> asked_ GUARDED(mutex_);
};

struct DirectServer {
  DirectServer() { server.front.SetOwn(own); }
  void Owns() {
    server.front.SetRoute(kHome, {.kind = Route::Kind::kHere,
                                  .peer = {},
                                  .inside = server.inside,
                                  .direct = direct});
  }

  std::shared_ptr<Direct> direct = std::make_shared<Direct>();
  Server server{"a"};
  std::shared_ptr<grpc::GenericStub> own =
      std::make_shared<grpc::GenericStub>(server.server->InProcessChannel({}));
};

}  // namespace

TEST_CASE("a call of this process's partition goes to its services without gRPC") {
  DirectServer one;
  one.Owns();
  auto call = one.server.Begin(kChange, "text", {{"authorization", "Bearer secret"}});
  const auto asked = one.direct->Asked(0);
  CHECK(asked->method == kChange);
  CHECK(asked->request == "text");
  CHECK(asked->origin->Bearer() == "secret");
  CHECK(asked->origin->Peer().starts_with("ipv4:127.0.0.1:"));
  CHECK(one.server.front.parts().Any(kHome));
  CHECK_FALSE(one.server.front.parts().Any(PartitionId{1}));
  asked->done({.status = grpc::Status::OK, .bytes = "reply"});
  const CallOutcome outcome = call.get();
  CHECK(outcome.status.ok());
  CHECK(outcome.reply == "reply");
  CHECK_FALSE(one.server.front.parts().Any({}));
}

TEST_CASE("services that answer at once, or refuse, are heard") {
  DirectServer one;
  one.Owns();
  one.direct->at_once = true;
  CHECK(one.server.Call(kChange, "text").reply == "text");
  one.direct->at_once = false;
  auto call = one.server.Begin(kChange, "text");
  one.direct->Asked(1)->done({.status = {grpc::StatusCode::NOT_FOUND, "none"},
                              .trailers = {{"dfsmr-reason", "NO_SUCH_INSTANCE"}}});
  const CallOutcome outcome = call.get();
  CHECK(outcome.status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(outcome.reason == "NO_SUCH_INSTANCE");
  // A method that has no direct way, and streams, go on as ever.
  CHECK(one.server.Call(Direct::kUnknown, "text").reply == "text");
  CHECK(one.direct->count() == 2);
}

TEST_CASE("what is lost in the process is told so, as far as it is known") {
  DirectServer one;
  one.Owns();
  auto change = one.server.Begin(kChange, "text");
  const auto asked = one.direct->Asked(0);
  auto read = one.server.Begin(kRead, "text");
  const auto reading = one.direct->Asked(1);
  one.server.front.ClearRoutes();
  one.server.front.LoseInside();
  CHECK(change.get().reason == "OUTCOME_UNKNOWN");
  CHECK(read.get().reason == "NO_OWNER");
  CHECK(asked->cancelled);
  asked->done({.status = grpc::Status::OK, .bytes = "late"});  // heard by nobody
  reading->done({.status = grpc::Status::OK, .bytes = "late"});
}

TEST_CASE("what the services do not let in waits for the next owner") {
  DirectServer one;
  one.Owns();
  auto call = one.server.Begin(kChange, "text");
  const auto asked = one.direct->Asked(0);
  one.server.front.SetRoute(kHome, {});
  asked->done({.status = {grpc::StatusCode::UNAVAILABLE, "the server is stopping"}});
  one.server.front.SetRoute(kHome, {.kind = Route::Kind::kHere, .inside = one.server.inside});
  CHECK(call.get().reply == "text");  // of the services that it has then
}

TEST_CASE("without the lease nothing is told that was decided") {
  DirectServer one;
  one.Owns();
  auto call = one.server.Begin(kChange, "text");
  const auto asked = one.direct->Asked(0);
  one.server.lease = false;
  asked->done({.status = grpc::Status::OK, .bytes = "reply"});
  CHECK(call.wait_for(milliseconds(50)) == std::future_status::timeout);
  CHECK(one.server.front.parts().Any(kHome));
  one.server.lease = true;
  CHECK(call.get().reply == "reply");
}

TEST_CASE("a part ends when its time is over, or nobody waits for it") {
  DirectServer one;
  one.Owns();
  const auto origin = std::make_shared<const DirectOrigin>(DirectOrigin::Told{});
  const auto ask = [&](std::chrono::system_clock::time_point deadline) {
    auto told = std::make_shared<std::promise<Reply>>();
    auto call = std::make_shared<PartCall>(
        one.server.front, origin,
        PartCall::Ask{.partition = kHome,
                      .method = kChange,
                      .request = "text",
                      .deadline = deadline},
        [told](Reply reply) { told->set_value(std::move(reply)); });
    call->Begin();
    return std::pair(call, told->get_future());
  };
  auto late = ask(std::chrono::system_clock::now() + milliseconds(20));
  CHECK(late.second.get().status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  CHECK(one.direct->Asked(0)->cancelled);
  auto gone = ask(std::chrono::system_clock::time_point::max());
  gone.first->Cancel();
  CHECK(gone.second.get().status.error_code() == grpc::StatusCode::CANCELLED);
  CHECK(one.direct->Asked(1)->cancelled);
  CHECK_FALSE(one.server.front.parts().Any({}));
  // One that is given up before it begins is not asked.
  std::promise<Reply> told;
  auto never = std::make_shared<PartCall>(one.server.front, origin,
                                          PartCall::Ask{.method = kChange, .request = "text"},
                                          [&told](Reply reply) { told.set_value(reply); });
  never->Cancel();
  never->Begin();
  CHECK(told.get_future().get().status.error_code() == grpc::StatusCode::CANCELLED);
  CHECK(one.direct->count() == 2);
  CHECK_FALSE(one.server.front.parts().Any({}));
}

namespace {

// Of four partitions the last two are another server's.
struct Apart {
  Apart() {
    here.front.SetOwn(own);
    for (PartitionId id = 2; id < 4; ++id) {
      there.front.SetRoute(id, Direct());
      here.Owner(there, id);
    }
  }
  Route Direct() {
    return {.kind = Route::Kind::kHere, .peer = {}, .inside = there.inside, .direct = direct};
  }
  // Parts for both, of which each tells its reply.
  std::vector<std::future<Reply>> Ask(const std::string& method) {
    std::vector<std::future<Reply>> replies;
    std::vector<std::shared_ptr<PartCall>> calls;
    for (PartitionId id = 2; id < 4; ++id) {
      auto told = std::make_shared<std::promise<Reply>>();
      replies.push_back(told->get_future());
      calls.push_back(std::make_shared<PartCall>(
          here.front, origin,
          PartCall::Ask{.partition = id, .method = method, .request = "to " + std::to_string(id)},
          [told](Reply reply) { told->set_value(std::move(reply)); }));
    }
    BeginAll(here.front, calls);
    return replies;
  }

  std::shared_ptr<dfsmr::Direct> direct = std::make_shared<dfsmr::Direct>();
  Server there{"b", 4};
  Server here{"a", 4};
  std::shared_ptr<grpc::GenericStub> own =
      std::make_shared<grpc::GenericStub>(here.server->InProcessChannel({}));
  std::shared_ptr<const DirectOrigin> origin = std::make_shared<const DirectOrigin>(
      DirectOrigin::Told{.peer = "somebody", .bearer = "secret", .besides = "other"});
};

}  // namespace

TEST_CASE("parts for the same server go there together, in the name of who asks") {
  Apart apart;
  auto replies = apart.Ask(kChange);
  for (size_t i = 0; i < 2; ++i) {
    const auto asked = apart.direct->Asked(i);
    CHECK(asked->request == "to " + std::to_string(2 + i));
    CHECK(asked->origin->Peer() == "somebody");
    CHECK(asked->origin->Bearer() == "secret");
    CHECK(asked->origin->Besides() == "other");
  }
  apart.direct->Asked(1)->done({.status = {grpc::StatusCode::NOT_FOUND, "none"},
                                .trailers = {{"dfsmr-reason", "NO_SUCH_INSTANCE"}}});
  apart.direct->Asked(0)->done({.status = grpc::Status::OK, .bytes = "reply"});
  CHECK(replies[0].get().bytes == "reply");
  const Reply second = replies[1].get();
  CHECK(second.status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(second.trailers == Trailers{{"dfsmr-reason", "NO_SUCH_INSTANCE"}});
  CHECK_FALSE(apart.here.front.parts().Any({}));
  CHECK_FALSE(apart.there.front.parts().Any({}));
}

TEST_CASE("a part that is not taken there goes the way of any call") {
  Apart apart;
  apart.direct->at_once = true;
  apart.there.front.SetRoute(3, {});
  auto replies = apart.Ask(kChange);
  CHECK(replies[0].get().bytes == "to 2");
  apart.there.front.SetRoute(3, {.kind = Route::Kind::kHere, .inside = apart.there.inside});
  CHECK(replies[1].get().bytes == "to 3");  // without the direct way
  CHECK(apart.direct->count() == 1);
}

TEST_CASE("of parts that are lost together those that read are asked again") {
  Apart apart;
  auto changes = apart.Ask(kChange);
  apart.direct->Asked(1);
  auto reads = apart.Ask(kRead);
  apart.direct->Asked(3);
  CHECK_FALSE(apart.here.front.parts().Any(PartitionId{2}));  // not in this process
  CHECK(apart.here.front.parts().Any({}));
  for (PartitionId id = 2; id < 4; ++id) apart.here.Owns(id);
  for (auto& change : changes) {
    const Reply reply = change.get();
    CHECK(reply.status.error_code() == grpc::StatusCode::UNAVAILABLE);
    CHECK(reply.trailers == Trailers{{"dfsmr-reason", "OUTCOME_UNKNOWN"}});
  }
  CHECK(reads[0].get().bytes == "to 2");
  CHECK(reads[1].get().bytes == "to 3");
  for (size_t i = 0; i < 4; ++i) apart.direct->Asked(i)->done({.status = grpc::Status::OK});
}

}  // namespace dfsmr
