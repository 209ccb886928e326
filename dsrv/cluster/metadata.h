// What of a call's metadata the front passes on, and to whom.
#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr {

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

inline std::string Text(grpc::string_ref text) { return {text.data(), text.size()}; }

// The first value of a key; empty: there is none.
std::string ValueOf(const Metadata& metadata, std::string_view key);

// The text after "Bearer" in the authorization; empty: there is none.
std::string BearerOf(const Metadata& metadata);

bool IsPrintable(std::string_view text);

// From the client to the owner: only what the services read. gRPC takes any bytes from the network,
// and ends the process that hands it one that is not printable.
void PassOn(const Metadata& metadata, grpc::ClientContext* context);

// From the owner to the client: whether it is not of one connection, or of the front itself.
bool IsPassedBack(const std::string& key);
// Those of a call's trailers that are.
void PassTrailersBack(const grpc::ClientContext& from, grpc::CallbackServerContext* to);
using Trailers = std::vector<std::pair<std::string, std::string>>;
void PassTrailersBack(const Trailers& from, grpc::CallbackServerContext* to);
// The status of a call that is refused; its reason goes with the trailers.
grpc::Status Refused(const Error& why, grpc::CallbackServerContext* call);
// The first value of a key; empty: there is none.
std::string ValueOf(const Trailers& trailers, std::string_view key);

// The trailers by which an owner's front tells another one that the end of a call is its owner's
// word, or that the owner is another one, and nothing was done.
inline constexpr const char* kBy = "dfsmr-by";
inline constexpr const char* kNotMine = "dfsmr-not-mine";

}  // namespace dfsmr
