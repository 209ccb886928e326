// Webhooks: what the HTTP door asks for with POST /hooks/NAMESPACE/PATH.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "dfsmr/door.pb.h"
#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/loop/mailbox.h"
#include "dsrv/wire/schedules.h"
#include "dsrv/wire/webhook.h"
#include "fsm/base/result.h"
#include "fsm/when/occurrence.h"

namespace dfsmr {

// What webhooks need of the server.
struct WebhookDoor {
  std::function<bool(Mailbox::Mail)> post;  // to the loop; false: it has no room
  // Runs a job that may take a while: the proof of a body.
  std::function<void(std::function<void()>)> elsewhere;
};

struct WebhookAnswer {
  std::string trigger;    // whose occurrence it is
  Occurrence occurrence;  // may be unlisted: FILTERED, DUPLICATE, GATHERED
  // Of the instance that it started.
  std::optional<std::pair<InstanceState, InstanceResult>> standing = std::nullopt;
};

// Takes the call as an item, if it is proven. `answer` is called once, from any thread, and with an
// occurrence only when that is durable. Errors: UNAUTHENTICATED without a proof, NOT_FOUND without
// such a path, RESOURCE_EXHAUSTED where the loop or the disk has no room, UNAVAILABLE while the
// trigger is paused, or its secret is sealed with a key that the server does not have. A call
// without a proof leaves no trace.
void ReceiveWebhook(WebhookDoor door, WebhookRequest request,
                    std::function<void(Result<WebhookAnswer>)> answer);

void ServeWebhook(Call& call, const door::Webhook& request, v1::Occurrence* reply);

}  // namespace dfsmr
