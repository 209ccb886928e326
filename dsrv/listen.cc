#include "dsrv/listen.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>

#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "dsrv/access/tls.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

// Empty when it cannot be read: then the handshake says what is wrong.
std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& one) { return one->name() == "proto_server_reflection"; });
  }
};

}  // namespace

void SetReflection(grpc::ServerBuilder& builder, bool on) {
  if (on) return grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  builder.SetOption(std::make_unique<WithoutReflection>());
}

std::unique_ptr<grpc::Server> Listen(const Flags& flags,
                                     const std::function<void(grpc::ServerBuilder&)>& add,
                                     Acceptor* acceptor) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  auto handler = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      flags.tls.empty() ? grpc::InsecureServerCredentials() : TlsCredentials(flags.tls));
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMessage));
  // Clients may ping as often as every 10 s; dead ones are noticed within 80 s.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Hang up on clients that connect and then say nothing.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits::kStreamsPerConnection));
  add(builder);
  auto server = builder.BuildAndStart();
  if (!server) return nullptr;
  acceptor->Serve([handler = std::shared_ptr(std::move(handler))](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    handler->HandleNewConnection(&parameters);
  });
  return server;
}

std::shared_ptr<grpc::Channel> DialPeer(const Flags& flags, const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kLargestTrailers);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2'000);
  if (flags.tls.empty()) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  // With mutual TLS a server's certificate is its client certificate, too.
  grpc::SslCredentialsOptions options;
  const std::string& roots =
      flags.store.peer_ca.empty() ? flags.tls.client_ca : flags.store.peer_ca;
  if (!roots.empty()) options.pem_root_certs = ReadAll(roots);
  if (!flags.tls.client_ca.empty()) {
    options.pem_cert_chain = ReadAll(flags.tls.cert);
    options.pem_private_key = ReadAll(flags.tls.key);
  }
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments);
}

void SetServing(grpc::Server& server, bool serving) {
  auto* const health = server.GetHealthCheckService();
  if (!serving) return health->SetServingStatus(false);
  for (const char* name : {"", "dfsmr.v1.RunnerService", "dfsmr.v1.ScheduleService"}) {
    health->SetServingStatus(name, true);
  }
}

}  // namespace dfsmr
