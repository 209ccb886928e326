// How a caller proves who it is: to a webhook, and a server to another one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fsm/when/trigger.h"

namespace dfsmr {

// Whether `proof`, the value of the header that the webhook names (nullopt: the call has none), is
// what the webhook asks for. `body` is the raw body. Takes as long for a wrong proof as for
// another.
bool Proven(const WebhookSource& webhook, const std::optional<std::string>& proof,
            std::string_view body, const std::string& secret);

// HMAC with SHA-256 (RFC 2104) of `text`: 32 bytes.
std::string Hmac(std::string_view secret, std::string_view text);

// Whether two texts are equal. Takes as long for any two of one length.
bool SameText(std::string_view a, std::string_view b);

}  // namespace dfsmr
