// How a caller of a webhook proves who it is.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/when/trigger.h"

namespace dfsmr {

// The value of a secret of a namespace by its name; nullopt: there is none of that name.
using FindSecret =
    std::function<std::optional<std::string>(std::string_view ns, std::string_view name)>;

// Whether `proof`, the value of the header that the webhook names (nullopt: the call has none), is
// what the webhook asks for. `body` is the raw body. Takes as long for a wrong proof as for
// another.
bool Proven(const WebhookSource& webhook, const std::optional<std::string>& proof,
            std::string_view body, const std::string& secret);

}  // namespace dfsmr
