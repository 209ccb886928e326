#include "dcli/call/attach.h"

#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "dcli/call/agents.h"
#include "dcli/call/client.h"
#include "dfsmr/v1/agent.grpc.pb.h"

namespace dfsmr::cli {
namespace {

using ServerSide = grpc::ServerReaderWriter<v1::AgentOrder, v1::AgentMessage>;

// A server whose streams do as they are told.
class Attached final : public v1::AgentService::Service {
 public:
  using Serve = std::function<grpc::Status(grpc::ServerContext*, ServerSide*)>;

  explicit Attached(Serve serve) : serve_(std::move(serve)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    client = std::make_unique<Client>("127.0.0.1:" + std::to_string(port),
                                      std::chrono::seconds(10));
  }
  ~Attached() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Attach(grpc::ServerContext* context, ServerSide* stream) override {
    context->AddInitialMetadata("dfsmr-life", "a life");
    return serve_(context, stream);
  }

  std::unique_ptr<Client> client;

 private:
  const Serve serve_;
  std::unique_ptr<grpc::Server> server_;
};

v1::AgentMessage Of(const std::string& claim, size_t note = 0) {
  v1::AgentMessage message;
  v1::ExtendRequest::Item* item = message.mutable_work()->add_extends();
  item->set_claim(claim);
  item->set_note(std::string(note, 'x'));
  return message;
}

v1::AgentOrder Told(const std::string& claim) {
  v1::AgentOrder order;
  order.mutable_work()->add_cancelled_claims(claim);
  return order;
}

void Ignore(const AttachStream::Order&, const std::string&) {}

}  // namespace

TEST_CASE("what several threads send arrives in the order of each, and so do the answers") {
  constexpr int kThreads = 3;
  constexpr int kEach = 3'000;
  Attached server([](grpc::ServerContext*, ServerSide* stream) {
    v1::AgentMessage message;
    for (int left = kThreads * kEach + 1; left > 0 && stream->Read(&message);) {
      for (const auto& item : message.work().extends()) {
        stream->Write(Told(item.claim()));
        --left;
      }
    }
    return grpc::Status::OK;
  });
  const auto stream = server.client->agents().Attach();
  std::vector<int> next(kThreads);
  int heard = 0;
  bool in_order = true;
  std::thread reader([&] {
    const auto over = stream->Live(Of("first"), [&](const auto& order, const std::string& life) {
      const std::string& claim = order->work().cancelled_claims(0);
      in_order = in_order && life == "a life" && (heard > 0) == (claim != "first");
      if (heard++ == 0) return;
      const auto thread = static_cast<size_t>(claim[0] - '0');
      in_order = in_order && std::stoi(claim.substr(2)) == next[thread]++;
    });
    CHECK(over);
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < kEach; ++n) {
        stream->Send(Of(std::to_string(i) + "-" + std::to_string(n)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  reader.join();
  CHECK(in_order);
  CHECK(heard == kThreads * kEach + 1);
  stream->Send(Of("too late"));
}

TEST_CASE("nobody waits for a server that does not read") {
  constexpr int kMessages = 100;
  constexpr size_t kBytes = 300'000;
  std::promise<void> sent;
  Attached server([&](grpc::ServerContext*, ServerSide* stream) {
    sent.get_future().get();
    v1::AgentMessage message;
    for (int number = 0; number < kMessages && stream->Read(&message);) {
      CHECK(message.ByteSizeLong() < 2 << 20);
      for (const auto& item : message.work().extends()) {
        if (item.claim() != "first") CHECK(item.claim() == std::to_string(number++));
      }
    }
    return grpc::Status::OK;
  });
  const auto stream = server.client->agents().Attach();
  std::thread reader([&] { CHECK(stream->Live(Of("first"), Ignore)); });
  for (int i = 0; i < kMessages; ++i) stream->Send(Of(std::to_string(i), kBytes));
  sent.set_value();
  reader.join();
}

TEST_CASE("a stream's end says why it is over") {
  Attached server([](grpc::ServerContext* context, ServerSide*) {
    context->AddTrailingMetadata("dfsmr-reason", "AGENT_EXISTS");
    return grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "there is one");
  });
  const auto stream = server.client->agents().Attach();
  const auto over = stream->Live(Of("first"), Ignore);
  REQUIRE_FALSE(over);
  CHECK(over.error().reason == Reason::kAgentExists);
  CHECK(over.error().message == "there is one");
}

TEST_CASE("a stream is given up by whoever cancels it, also before it is opened") {
  Attached server([](grpc::ServerContext*, ServerSide* stream) {
    stream->Write(Told("one"));
    v1::AgentMessage message;
    while (stream->Read(&message)) continue;
    return grpc::Status::OK;
  });
  const auto early = server.client->agents().Attach();
  early->Cancel();
  CHECK(early->Live(Of("first"), Ignore).error().code == Code::kCancelled);
  const auto stream = server.client->agents().Attach();
  const auto over = stream->Live(Of("first"), [&](const auto&, const auto&) { stream->Cancel(); });
  CHECK(over.error().code == Code::kCancelled);
  const auto never = server.client->agents().Attach();
  never->Send(Of("unsent"));
}

TEST_CASE("the first message goes alone, whatever is sent before it has gone") {
  Attached server([](grpc::ServerContext*, ServerSide* stream) {
    v1::AgentMessage message;
    REQUIRE(stream->Read(&message));
    CHECK(message.work().extends_size() == 1);
    CHECK(message.work().extends(0).claim() == "first");
    REQUIRE(stream->Read(&message));
    CHECK(message.work().extends_size() == 2);
    return grpc::Status::OK;
  });
  const auto stream = server.client->agents().Attach();
  stream->Send(Of("second"));
  stream->Send(Of("third"));
  CHECK(stream->Live(Of("first"), Ignore));
}

TEST_CASE("a stream to nobody is over") {
  Client client("127.0.0.1:1", std::chrono::seconds(10));
  const auto stream = client.agents().Attach();
  stream->Send(Of("early"));
  CHECK(stream->Live(Of("first"), Ignore).error().code == Code::kUnavailable);
}

}  // namespace dfsmr::cli
