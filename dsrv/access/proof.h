// How a caller of a webhook proves who it is.
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

}  // namespace dfsmr
