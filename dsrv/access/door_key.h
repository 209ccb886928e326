// What the HTTP door tells the services of the callers whose calls it passes on: as metadata, which
// counts only beside the key that the process has made for itself.
#pragma once

#include <string>
#include <string_view>

namespace dfsmr::door {

inline constexpr std::string_view kKey = "dfsmr-door";
inline constexpr std::string_view kPeer = "dfsmr-door-peer";
inline constexpr std::string_view kCertificate = "dfsmr-door-certificate-bin";
inline constexpr std::string_view kPage = "dfsmr-door-page";  // a page of the server asks
inline constexpr std::string_view kRequestId = "x-request-id";

// Of this process; nobody outside knows it.
const std::string& Key();

}  // namespace dfsmr::door
