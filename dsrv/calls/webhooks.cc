#include "dsrv/calls/webhooks.h"

#include <memory>
#include <utility>

#include "dsrv/access/proof.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/engine.h"
#include "dsrv/engine/secrets.h"
#include "dsrv/engine/triggers.h"
#include "dsrv/wire/checks.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

int StatusOf(const Error& error) {
  switch (error.code) {
    case Code::kNotFound:
      return 404;
    case Code::kUnauthenticated:
      return 401;
    case Code::kUnavailable:
      return 503;
    case Code::kResourceExhausted:
      return 429;
    default:
      return 400;
  }
}

// One call on its way: the loop finds the webhook, the proof is checked elsewhere, and the loop
// takes the item.
class Receiving : public std::enable_shared_from_this<Receiving> {
 public:
  Receiving(const WebhookDoor& door, WebhookRequest request,
            std::function<void(WebhookAnswer)> answer)
      : door_(door), request_(std::move(request)), answer_(std::move(answer)) {}

  void Find() {
    if (request_.body.size() > kWebhookBody) {
      return Fail(TooLarge("the body", request_.body.size(), kWebhookBody), 413);
    }
    Post([self = shared_from_this()](Engine& engine) {
      self->hook_ = engine.triggers().HookOf(self->request_.ns, self->request_.path);
      self->FindSecret(engine);
      self->door_.elsewhere([self] { self->Prove(); });
    });
  }

 private:
  // The server opens it by itself: the trigger that names it is of its namespace.
  void FindSecret(Engine& engine) {
    if (!hook_ || hook_->source.proof == WebhookSource::Proof::kOpen) return;
    secret_ = engine.secrets().Newest(request_.ns, hook_->source.secret);
  }

  void Prove() {
    if (!hook_) {
      return Fail({Code::kNotFound, Reason::kNoSuchTrigger,
                   "no trigger of namespace " + Quoted(request_.ns) + " has a webhook at " +
                       Quoted(request_.path)});
    }
    const WebhookSource& webhook = hook_->source;
    std::string secret;  // empty: nothing proves that the caller knows it
    if (secret_ && *secret_) {
      auto open = (**secret_).Open();
      if (!open) return Fail(open.error(), 503);
      secret = *std::move(open);
    }
    if (!Proven(webhook, request_.Header(webhook.header), request_.body, secret)) {
      return Fail({Code::kUnauthenticated, Reason::kBadToken,
                   "the header " + Quoted(webhook.header) +
                       " does not prove that the caller knows the webhook's secret"});
    }
    Post([self = shared_from_this(), item = ItemOf(request_, webhook),
          trace = ReadTraceparent(request_.Header("traceparent").value_or(""))](Engine& engine) {
      auto taken = engine.triggers().Receive(self->request_.ns, self->request_.path, item, trace);
      const auto standing =
          taken ? engine.StandingOf(self->request_.ns, taken->instance) : std::nullopt;
      engine.AfterCommit([self, standing, taken = std::move(taken)] {
        if (!taken) return self->Fail(taken.error());
        self->answer_({202, self->hook_->trigger, *taken, std::nullopt, standing});
      });
    });
  }

  void Post(std::function<void(Engine&)> run) {
    Mailbox::Mail mail{.run = std::move(run),
                       .drop = [self = shared_from_this()] { self->Fail(Overloaded()); }};
    mail.bytes = request_.body.size();
    if (!door_.post(std::move(mail))) Fail(Overloaded());
  }

  void Fail(const Error& error) { Fail(error, StatusOf(error)); }
  void Fail(const Error& error, int status) { answer_({status, "", std::nullopt, error}); }

  const WebhookDoor& door_;
  const WebhookRequest request_;
  const std::function<void(WebhookAnswer)> answer_;
  std::optional<Hook> hook_;
  std::optional<Result<SealedValue>> secret_;
};

}  // namespace

void ReceiveWebhook(const WebhookDoor& door, WebhookRequest request,
                    std::function<void(WebhookAnswer)> answer) {
  std::make_shared<Receiving>(door, std::move(request), std::move(answer))->Find();
}

}  // namespace dfsmr
