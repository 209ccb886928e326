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

// One call on its way: the loop finds the webhook, the proof is checked elsewhere, and the loop
// takes the item.
class Receiving : public std::enable_shared_from_this<Receiving> {
 public:
  Receiving(WebhookDoor door, WebhookRequest request,
            std::function<void(Result<WebhookAnswer>)> answer)
      : door_(std::move(door)), request_(std::move(request)), answer_(std::move(answer)) {}

  void Find() {
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
      return answer_(Error{Code::kNotFound, Reason::kNoSuchTrigger,
                           "no trigger of namespace " + Quoted(request_.ns) +
                               " has a webhook at " + Quoted(request_.path)});
    }
    const WebhookSource& webhook = hook_->source;
    std::string secret;  // empty: nothing proves that the caller knows it
    if (secret_ && *secret_) {
      auto open = (**secret_).Open();
      if (!open) {
        return answer_(Error{Code::kUnavailable, open.error().reason, open.error().message});
      }
      secret = *std::move(open);
    }
    if (!Proven(webhook, request_.Header(webhook.header), request_.body, secret)) {
      return answer_(Error{Code::kUnauthenticated, Reason::kBadToken,
                           "the header " + Quoted(webhook.header) +
                               " does not prove that the caller knows the webhook's secret"});
    }
    Post([self = shared_from_this(), item = ItemOf(request_, webhook),
          trace = ReadTraceparent(request_.Header("traceparent").value_or(""))](Engine& engine) {
      auto taken = engine.triggers().Receive(self->request_.ns, self->request_.path, item, trace);
      const auto standing =
          taken ? engine.StandingOf(self->request_.ns, taken->instance) : std::nullopt;
      engine.AfterCommit([self, standing, taken = std::move(taken)] {
        if (!taken) return self->answer_(taken.error());
        self->answer_(WebhookAnswer{self->hook_->trigger, *taken, standing});
      });
    });
  }

  void Post(std::function<void(Engine&)> run) {
    Mailbox::Mail mail{.run = std::move(run),
                       .drop = [self = shared_from_this()] { self->answer_(Overloaded()); }};
    mail.bytes = request_.body.size();
    if (!door_.post(std::move(mail))) answer_(Overloaded());
  }

  const WebhookDoor door_;
  const WebhookRequest request_;
  const std::function<void(Result<WebhookAnswer>)> answer_;
  std::optional<Hook> hook_;
  std::optional<Result<SealedValue>> secret_;
};

}  // namespace

void ReceiveWebhook(WebhookDoor door, WebhookRequest request,
                    std::function<void(Result<WebhookAnswer>)> answer) {
  std::make_shared<Receiving>(std::move(door), std::move(request), std::move(answer))->Find();
}

void ServeWebhook(Call& call, const door::Webhook& request, v1::Occurrence* reply) {
  if (call.Door() != "http") {
    return call.Refuse({Code::kUnimplemented, Reason::kNone,
                        "webhooks are received over HTTP: POST /hooks/NAMESPACE/PATH"});
  }
  if (!call.Enter()) return;
  const Backend& backend = call.backend();
  WebhookDoor door{
      .post = [&backend](Mailbox::Mail mail) { return backend.loop.Post(std::move(mail)); },
      .elsewhere = [&backend](std::function<void()> job) { backend.pool.Post(std::move(job)); }};
  WebhookRequest asked{
      request.namespace_(), request.path(), request.query(), {}, request.body()};
  for (const auto& header : request.headers()) {
    asked.headers.emplace_back(header.name(), header.value());
  }
  ReceiveWebhook(std::move(door), std::move(asked),
                 [&call, ns = request.namespace_(), reply](const Result<WebhookAnswer>& answer) {
                   if (!answer) return call.Fail(answer.error());
                   ToProto({ns, DocumentKind::kTrigger, answer->trigger}, answer->occurrence,
                           reply);
                   if (answer->standing) {
                     ShowStanding(answer->standing->first, answer->standing->second, reply);
                   }
                   call.Succeed();
                 });
}

}  // namespace dfsmr
