#include "dsrv/cluster/metadata.h"

#include <algorithm>

#include "dsrv/access/door_key.h"
#include "dsrv/cluster/proof.h"
#include "fsm/base/reason.h"

namespace dfsmr {
namespace {

constexpr std::string_view kForServices[] = {"authorization", "traceparent", "tracestate"};

}  // namespace

bool IsPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

std::string ValueOf(const Metadata& metadata, std::string_view key) {
  const auto found = metadata.find({key.data(), key.size()});
  return found == metadata.end() ? std::string() : Text(found->second);
}

std::string BearerOf(const Metadata& metadata) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string value = ValueOf(metadata, "authorization");
  if (value.size() < kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if ((value[i] | 0x20) != kScheme[i]) return {};
  }
  return value.substr(kScheme.size());
}

void PassOn(const Metadata& metadata, grpc::ClientContext* context) {
  for (const std::string_view key : kForServices) {
    const auto [begin, end] = metadata.equal_range({key.data(), key.size()});
    for (auto one = begin; one != end; ++one) {
      const std::string value = Text(one->second);
      if (IsPrintable(value)) context->AddMetadata(std::string(key), value);
    }
  }
}

bool IsPassedBack(const std::string& key) {
  return !key.starts_with(':') && !key.starts_with("dfsmr-door") && key != kPassedOn &&
         key != door::kRequestId && key != "user-agent" && key != kBy &&
         (!key.starts_with("grpc-") || key == "grpc-retry-pushback-ms");
}

void PassTrailersBack(const grpc::ClientContext& from, grpc::CallbackServerContext* to) {
  for (const auto& [key, value] : from.GetServerTrailingMetadata()) {
    const std::string name = Text(key);
    if (IsPassedBack(name)) to->AddTrailingMetadata(name, Text(value));
  }
}

void PassTrailersBack(const Trailers& from, grpc::CallbackServerContext* to) {
  for (const auto& [key, value] : from) {
    if (IsPassedBack(key)) to->AddTrailingMetadata(key, value);
  }
}

std::string ValueOf(const Trailers& trailers, std::string_view key) {
  const auto found = std::ranges::find(trailers, key, &Trailers::value_type::first);
  return found == trailers.end() ? std::string() : found->second;
}

grpc::Status Refused(const Error& why, grpc::CallbackServerContext* call) {
  if (why.reason != Reason::kNone) {
    call->AddTrailingMetadata("dfsmr-reason", std::string(Name(why.reason)));
  }
  return {static_cast<grpc::StatusCode>(why.code), why.message};
}

}  // namespace dfsmr
