// Webhooks: what the HTTP door does with POST /hooks/NAMESPACE/PATH.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "dsrv/loop/mailbox.h"
#include "dsrv/wire/schedules.h"
#include "dsrv/wire/webhook.h"
#include "fsm/base/result.h"
#include "fsm/when/occurrence.h"

namespace dfsmr {

inline constexpr size_t kWebhookBody = 1 << 20;

// What webhooks need of the server.
struct WebhookDoor {
  std::function<bool(Mailbox::Mail)> post;  // to the loop; false: it has no room
  // Runs a job that may take a while: the proof of a body.
  std::function<void(std::function<void()>)> elsewhere;
};

// The HTTP status: 202 with an occurrence, which may be unlisted (FILTERED, DUPLICATE, GATHERED);
// else with an error: 401 no proof, 404 no such path, 413 too large a body, 429 no room in the
// loop or on the disk, 503 the trigger is paused, or its secret is sealed with a key that the
// server does not have.
struct WebhookAnswer {
  int status = 202;
  std::string trigger;  // whose occurrence it is
  std::optional<Occurrence> occurrence;
  std::optional<Error> error;
  // Of the instance that it started.
  std::optional<std::pair<InstanceState, InstanceResult>> standing = std::nullopt;
};

// Takes the call as an item, if it is proven. `answer` is called once, from any thread, and with an
// occurrence only when that is durable. A call without a proof leaves no trace. `door` outlives it.
void ReceiveWebhook(const WebhookDoor& door, WebhookRequest request,
                    std::function<void(WebhookAnswer)> answer);

}  // namespace dfsmr
