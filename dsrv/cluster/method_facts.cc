#include "dsrv/cluster/method_facts.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>

namespace dfsmr {

MethodFacts FactsOf(const std::string& path) {
  std::string name = path.substr(std::min<size_t>(1, path.size()));
  std::ranges::replace(name, '/', '.');
  const auto* const method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  if (!method) return {};
  return {.name = method->name(),
          .many_requests = method->client_streaming(),
          .many_replies = method->server_streaming(),
          .reads_only = method->options().idempotency_level() ==
                        google::protobuf::MethodOptions::NO_SIDE_EFFECTS,
          .waits = method->input_type()->FindFieldByName("wait") != nullptr};
}

}  // namespace dfsmr
