// What the doors in front of the services (HTTP, and the front of a server that shares its store
// with others) tell them of the callers whose calls they pass on: as metadata, which counts only
// beside the key that the process has made for itself.
#pragma once

#include <string>
#include <string_view>

namespace dfsmr::door {

inline constexpr std::string_view kKey = "dfsmr-door";
inline constexpr std::string_view kName = "dfsmr-door-name";  // "http"; nothing: gRPC's port
inline constexpr std::string_view kPeer = "dfsmr-door-peer";
inline constexpr std::string_view kCertificate = "dfsmr-door-certificate-bin";
inline constexpr std::string_view kPage = "dfsmr-door-page";  // a page of the server asks
inline constexpr std::string_view kRequestId = "x-request-id";
// That the call enters besides those of its request, with a zero between two: those of a batch of
// which it is a part.
inline constexpr std::string_view kNamespaces = "dfsmr-door-namespaces-bin";

// Of this process; nobody outside knows it.
const std::string& Key();

}  // namespace dfsmr::door
