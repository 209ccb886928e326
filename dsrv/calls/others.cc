#include "dsrv/calls/others.h"

#include <memory>
#include <utility>

#include "dsrv/calls/backend.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/restoring.h"
#include "dsrv/engine/elsewhere.h"
#include "dsrv/engine/limits.h"
#include "dsrv/wire/replies.h"

namespace dfsmr {
namespace {

// Answers once, at the latest when nobody can any more.
class OneAnswer {
 public:
  explicit OneAnswer(std::function<void(peer::Answer)> done) : done_(std::move(done)) {}
  ~OneAnswer() { Fail(Stopping()); }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  void Fail(const Error& error) {
    peer::Answer answer;
    ToProto(error, answer.mutable_failure());
    Give(std::move(answer));
  }
  void Give(peer::Answer answer) {
    const auto done = std::exchange(done_, nullptr);
    if (done) done(std::move(answer));
  }

 private:
  std::function<void(peer::Answer)> done_;
};
using OneAnswerPtr = std::shared_ptr<OneAnswer>;

void VersionToProto(const LiveCount& count, peer::LiveCounts::Version* out) {
  out->set_machine(count.machine);
  out->set_version(count.version);
  out->set_live(count.live);
  out->set_dry_runs(count.dry_runs);
  if (count.results == rows::ResultCounts{}) return;
  for (const uint64_t one : count.results) out->add_results(one);
}

// Has the engine fill in the answer, which goes out when all that it tells of is durable.
void FillIn(const Backend& backend, size_t bytes, const OneAnswerPtr& reply,
            std::function<void(Engine&, peer::Answer*)> fill) {
  Mailbox::Mail mail{.run =
                         [reply, fill = std::move(fill)](Engine& engine) {
                           peer::Answer answer;
                           fill(engine, &answer);
                           engine.AfterCommit([reply, answer] { reply->Give(answer); });
                         },
                     .drop = [reply] { reply->Fail(DeadlinePassed()); }};
  mail.bytes = bytes;
  if (!backend.loop.Post(std::move(mail))) reply->Fail(Overloaded());
}

void Count(Engine& engine, const peer::CountLive& asked, peer::LiveCounts* counts) {
  if (asked.settle()) (void)engine.Settle(asked.namespace_(), "");
  const LiveCounts here = engine.elsewhere().CountHere(asked.namespace_());
  for (const LiveCount& one : here.versions) VersionToProto(one, counts->add_versions());
  for (const CauseCount& one : here.causes) {
    auto* const to = counts->add_causes();
    to->set_cause(one.cause);
    to->set_running(one.running);
    to->set_waiting(one.waiting);
  }
  for (const FeedPlace& one : here.places) {
    auto* const to = counts->add_places();
    to->set_trigger(one.trigger);
    to->set_partition(one.partition);
    to->set_position(one.position);
    to->set_lag(one.lag);
  }
}

// At home.
void ReserveAll(Engine& engine, const peer::Reserve& asked, peer::Reservations* all) {
  for (const std::string& question : asked.questions()) {
    auto* const refused = all->add_refused();
    const auto may = engine.limits().Reserve(question);
    if (!may) ToProto(may.error(), refused);
  }
}

void ExplainAll(Engine& engine, const peer::Explain& asked, peer::Explained* all) {
  for (const peer::Explain::Wait& one : asked.waits()) {
    WaitView wait{.kind = WaitView::Kind::kLimit, .key = one.key()};
    wait.priority = static_cast<int32_t>(one.priority());
    wait.order = one.order();
    auto* const to = all->add_waits();
    to->set_has_room(!engine.limits().reader().Fill(asked.namespace_(), one.instance(),
                                                    one.visit(), &wait));
    ToProto(wait, to->mutable_wait());
  }
}

void AnswerRestore(const Backend& backend, const peer::Restore& asked, const OneAnswerPtr& reply) {
  RestoreOrder order{.ns = asked.namespace_(),
                     .by = asked.by(),
                     .upload = {asked.upload_epoch(), asked.upload_number()},
                     .pieces = asked.pieces(),
                     .graphs = {asked.graphs().begin(), asked.graphs().end()},
                     .follow = asked.follow()};
  Restoring::Begin(backend, std::move(order), [] { return false; },
                   [reply](const Result<Imported>& done) {
                     if (!done) return reply->Fail(done.error());
                     peer::Answer answer;
                     peer::Restored& restored = *answer.mutable_restored();
                     restored.set_instances(done->instances);
                     restored.set_already_there(done->already_there);
                     restored.set_follows(done->follows);
                     reply->Give(std::move(answer));
                   });
}

}  // namespace

void ToProto(const Error& error, peer::Failure* out) {
  out->set_code(static_cast<uint32_t>(error.code));
  out->set_reason(std::string(Name(error.reason)));
  out->set_message(error.message);
}

Error FromProto(const peer::Failure& failure) {
  return {static_cast<Code>(failure.code()), ReasonNamed(failure.reason()), failure.message()};
}

void AnswerQuestion(const Backend& backend, const peer::Question& question,
                    std::function<void(peer::Answer)> done) {
  auto reply = std::make_shared<OneAnswer>(std::move(done));
  const size_t bytes = question.ByteSizeLong();
  switch (question.what_case()) {
    case peer::Question::kCountLive:
      return FillIn(backend, bytes, reply, [question](Engine& engine, peer::Answer* answer) {
        Count(engine, question.count_live(), answer->mutable_live());
      });
    case peer::Question::kReserve:
      return FillIn(backend, bytes, reply, [question](Engine& engine, peer::Answer* answer) {
        ReserveAll(engine, question.reserve(), answer->mutable_reservations());
      });
    case peer::Question::kExplain:
      return FillIn(backend, bytes, reply, [question](Engine& engine, peer::Answer* answer) {
        ExplainAll(engine, question.explain(), answer->mutable_explained());
      });
    case peer::Question::kRestore:
      return AnswerRestore(backend, question.restore(), reply);
    case peer::Question::WHAT_NOT_SET:
      break;
  }
  reply->Fail({Code::kUnimplemented, Reason::kNone, "this server does not know the question"});
}

}  // namespace dfsmr
