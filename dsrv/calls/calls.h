// What every call has in common: its way into the loop, its answer, its refusal.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "dsrv/access/access.h"
#include "dsrv/engine/engine.h"
#include "dsrv/feed/changes.h"
#include "dsrv/loop/loop.h"
#include "dsrv/runtime/gate.h"
#include "dsrv/runtime/log.h"
#include "dsrv/runtime/pool.h"
#include "dsrv/wire/convert.h"
#include "fsm/base/limits.h"

namespace dfsmr {

// All that a service needs to serve. Owned by main.
struct Backend {
  const Engine& engine;  // its registry and store only: the rest belongs to the loop
  Loop& loop;
  Changes& changes;
  Pool& pool;
  Gate& gate;
  Access& access;
  std::function<Timestamp()> clock;
};

inline Error Overloaded() {
  return {Code::kResourceExhausted, Reason::kOverloaded,
          "more requests wait than the server can answer soon; wait a little, then try again, each "
          "time for longer"};
}
inline Error Dropped() {
  return {Code::kDeadlineExceeded, Reason::kNone,
          "the deadline passed before the server came to the request"};
}

inline Error Stopping() {
  return {Code::kUnavailable, Reason::kNotReady,
          "the server is stopping; try again when it is back"};
}

// Turns an error into the call's status, with its reason in the trailer.
inline grpc::Status Refuse(grpc::CallbackServerContext* context, const Error& error) {
  NoteRefusal(error, context->peer());
  if (error.reason != Reason::kNone) {
    context->AddTrailingMetadata("dfsmr-reason", std::string(Name(error.reason)));
  }
  return ToStatus(error);
}

inline Timestamp DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return kNever;
  return std::chrono::time_point_cast<Duration>(deadline);
}

// A unary call on its way. Deletes itself when it is done.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(const Backend& backend, grpc::CallbackServerContext* context, Caller caller)
      : context_(context),
        caller_(std::move(caller)),
        gate_(backend.gate),
        admitted_(gate_.Admit()) {
    if (!admitted_) FinishWith(Stopping());
  }
  // False: it has been answered already, the server stops.
  bool admitted() const { return admitted_; }
  void FinishWith(const Error& error) {
    caller_.Note(&error);
    Finish(Refuse(context_, error));
  }
  void FinishWell() {
    caller_.Note(nullptr);
    Finish(grpc::Status::OK);
  }
  void OnDone() override {
    if (admitted_) gate_.Leave();
    delete this;
  }
  // As gRPC's default reactor does: what follows the end of a call, or its cancellation, is too
  // short to be worth another thread. gRPC does not promise to ask; then it costs that thread.
  bool InternalInlineable() final { return true; }

 protected:
  grpc::CallbackServerContext* const context_;
  const Caller caller_;

 private:
  Gate& gate_;
  const bool admitted_;
};

// A unary call that the loop decides. `decide` runs in the loop, once, and answers a Result; `fill`
// turns its value into the reply, after the commit.
template <typename Reply, typename Decide, typename Fill>
grpc::ServerUnaryReactor* Decided(const Backend& backend, grpc::CallbackServerContext* context,
                                  Caller caller, size_t bytes, Reply* reply, Decide decide,
                                  Fill fill) {
  auto* reactor = new UnaryCall(backend, context, std::move(caller));
  if (!reactor->admitted()) return reactor;
  Mailbox::Mail mail;
  mail.deadline = DeadlineOf(*context);
  mail.bytes = bytes;
  mail.run = [reactor, reply, decide = std::move(decide),
              fill = std::move(fill)](Engine& engine) mutable {
    auto outcome = decide(engine);
    engine.AfterCommit([reactor, reply, fill = std::move(fill), outcome = std::move(outcome)] {
      if (outcome) {
        fill(*outcome, reply);
        reactor->FinishWell();
      } else {
        reactor->FinishWith(outcome.error());
      }
    });
  };
  mail.drop = [=] { reactor->FinishWith(Dropped()); };
  if (!backend.loop.Post(std::move(mail))) reactor->FinishWith(Overloaded());
  return reactor;
}

inline grpc::ServerUnaryReactor* Refused(grpc::CallbackServerContext* context, const Error& error) {
  auto* reactor = context->DefaultReactor();
  reactor->Finish(Refuse(context, error));
  return reactor;
}

// A unary call that reads the store: `settle` runs in the loop first, and when all that it knows is
// durable, `read` runs in the pool.
template <typename Reply, typename Settle, typename Read>
grpc::ServerUnaryReactor* SettledRead(const Backend& backend, grpc::CallbackServerContext* context,
                                      Caller caller, Reply* reply, Settle settle, Read read) {
  auto* reactor = new UnaryCall(backend, context, std::move(caller));
  if (!reactor->admitted()) return reactor;
  Pool* pool = &backend.pool;
  if (pool->Behind(limits::kMailboxWait)) {
    reactor->FinishWith(Overloaded());
    return reactor;
  }
  Mailbox::Mail mail;
  mail.deadline = DeadlineOf(*context);
  mail.run = [=](Engine& engine) {
    auto settled = settle(engine);
    engine.AfterCommit([=, settled = std::move(settled)] {
      if (!settled) return reactor->FinishWith(settled.error());
      pool->Post([=] {
        auto outcome = read(reply);
        outcome ? reactor->FinishWell() : reactor->FinishWith(outcome.error());
      });
    });
  };
  mail.drop = [=] { reactor->FinishWith(Dropped()); };
  if (!backend.loop.Post(std::move(mail))) reactor->FinishWith(Overloaded());
  return reactor;
}

}  // namespace dfsmr
