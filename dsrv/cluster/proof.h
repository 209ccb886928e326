// How a server proves to another one of the same store that it passes a call on, and for whom: by a
// code over what it says, made with the secret in the store. Who can read the store can do
// everything anyway.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dfsmr {

// Of one call that is passed on.
struct PassedOn {
  std::string sender;    // servers' ids
  std::string receiver;  // made anew at each start: what was meant for another is not for this one
  std::string method;
  std::string partition = {};  // that it is for; empty: home
  // Who calls, as the sender was told.
  std::string peer;
  std::string certificate;
  std::string door;
  std::string request_id;
  std::string namespaces = {};  // that it enters besides, see door::kNamespaces
};

// The metadata with the number of the partition that a call is for, where that is not home: between
// fronts, and from a front to the services of its process.
inline constexpr const char* kForPartition = "dfsmr-partition";

// The metadata that holds sender, receiver and code.
inline constexpr std::string_view kPassedOn = "dfsmr-peer";

// The value of that metadata.
std::string Prove(std::string_view secret, const PassedOn& call);

// Sender and receiver of a value, if its code is that of `call` with them; else false.
bool Proven(std::string_view secret, std::string_view value, PassedOn* call);

}  // namespace dfsmr
