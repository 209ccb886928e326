#include "dsrv/calls/work_stream.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/items.h"
#include "dsrv/calls/tasks.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/requests.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

Error BadMessage(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}

}  // namespace

WorkStream::WorkStream(const Backend& backend, grpc::CallbackServerContext* context)
    : backend_(backend), context_(context) {}

void WorkStream::Begin(std::shared_ptr<WorkStream> self, const Method& method) {
  self_ = std::move(self);
  // Refuses a caller who may enter no namespace at all. The first message says which namespace it
  // wants to enter.
  auto caller = backend_.access.AdmitAnywhere(GrpcOrigin(*context_), {&method});
  if (!caller) return EndWith(caller.error());
  caller_ = *std::move(caller);
  entered_ = backend_.gate.Admit();
  if (!entered_) return EndWith(Stopping());
  const Lock lock(mutex_);
  ReadOn();
}

Result<Ok> WorkStream::Post(std::function<void(Engine&)> run, size_t bytes) {
  if (backend_.loop.Post({.run = std::move(run), .drop = [] {}, .bytes = bytes})) return Ok{};
  return Overloaded();
}

void WorkStream::PostEnd(std::function<void(Engine&)> run) {
  backend_.loop.Post({.run = std::move(run), .drop = [] {}, .owed = true});
}

// Reading ----------------------------------------------------------------------------------------

Result<Ok> WorkStream::MayEnter() const {
  if (!caller_.principal()) return Ok{};
  if (caller_.principal()->revoked) return BadCredential();
  Result<Ok> entered = Ok{};
  if (incoming_.has_open()) entered = caller_.MayEnter(incoming_.open().namespace_());
  auto enter = [&](const std::string& ns) {
    if (entered && !ns.empty()) entered = caller_.MayEnter(ns);  // empty: the stream's
  };
  for (const auto& item : incoming_.transitions()) {
    enter(item.namespace_());
    EnterStarts(item, enter);
  }
  for (const auto& item : incoming_.relinquishes()) enter(item.namespace_());
  return entered;
}

Result<std::function<void(Engine&)>> WorkStream::TakeOpen() {
  auto poll = ToPoll(incoming_.open(), context_->peer(), Timestamp());
  if (!poll) return poll.error();
  auto allowed = caller_.Narrow(&poll->filter);
  if (!allowed) return allowed.error();
  backend_.access.Watch(caller_, std::weak_ptr<Revocable>(self_));
  const int32_t capacity = std::min(poll->max_tasks, limits::kCapacity);
  opened_ = true;
  ns_ = poll->filter.ns;
  return std::function<void(Engine&)>([self = self_, poll = *poll, capacity](Engine& engine) {
    self->OpenSession(engine, poll, capacity);
  });
}

Result<Ok> WorkStream::Take() {
  auto entered = MayEnter();
  if (!entered) return entered;
  std::function<void(Engine&)> open;
  if (!opened_) {
    if (!incoming_.has_open()) {
      return BadMessage("the first message of a Work stream must hold 'open'");
    }
    auto opened = TakeOpen();
    if (!opened) return opened.error();
    open = *std::move(opened);
  } else if (incoming_.has_open()) {
    return BadMessage("'open' belongs in the first message of a Work stream only");
  }
  constexpr int kMost = static_cast<int>(limits::kBatchItems);
  if (incoming_.transitions_size() > kMost || incoming_.extends_size() > kMost ||
      incoming_.relinquishes_size() > kMost) {
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 "one message holds more than " + std::to_string(kMost) + " items"};
  }
  auto few = CheckStarts(incoming_.transitions(), 0);
  if (!few) return few;
  auto rest = TakeRest();
  if (!rest) return rest.error();
  auto message = std::make_shared<Message>(Read());
  const size_t bytes = incoming_.ByteSizeLong();
  incoming_.Clear();
  {
    const Lock lock(mutex_);
    exchange_.Expect();
  }
  // At once: nothing is handed out to a stream before what came with its `open` is dealt with.
  return Post(
      [self = self_, open = std::move(open), message, rest = *std::move(rest)](Engine& engine) {
        if (open) open(engine);
        if (rest) rest(engine);
        self->Handle(engine, *message);
      },
      bytes);
}

WorkStream::Message WorkStream::Read() const {
  Message message;
  for (v1::TransitionRequest transition : incoming_.transitions()) {
    if (transition.namespace_().empty()) transition.set_namespace_(ns_);
    message.reports.push_back({transition.instance(), ToReport(transition)});
  }
  for (const auto& item : incoming_.extends()) message.extends.push_back(ToExtend(ns_, item));
  for (v1::RelinquishRequest item : incoming_.relinquishes()) {
    if (item.namespace_().empty()) item.set_namespace_(ns_);
    auto relinquish = ToRelinquish(item);
    if (relinquish) message.relinquishes.push_back(*std::move(relinquish));  // else: no answer
  }
  message.drain = incoming_.drain();
  return message;
}

void WorkStream::ReadDone(bool ok) {
  if (!ok) {
    {
      const Lock lock(mutex_);
      exchange_.ReadEnded();
      half_closed_ = exchange_.serving();
    }
    // The tasks in hand are given back, and then the stream ends. Those that a session keeps wait
    // for the end: only then it is known that the stream was half-closed and has not broken.
    PostEnd([self = self_, how = EndOf(false)](Engine& engine) {
      if (!self->keeps_ && how != StreamEnd::kUnknown) self->CloseSession(engine, how);
      engine.AfterCommit([self] {
        const Lock lock(self->mutex_);
        self->exchange_.End(grpc::Status::OK);
        self->WriteOrFinish();
      });
    });
    return;
  }
  auto taken = Take();
  if (!taken) return EndWith(taken.error());
  const Lock lock(mutex_);
  exchange_.ReadDone();
  ReadOn();
}

void WorkStream::ReadOn() {
  if (exchange_.BeginRead()) ReadNext();
}

// The loop ---------------------------------------------------------------------------------------

Result<SessionId> WorkStream::OpenIn(Engine& engine, const PollArgs& poll, int32_t capacity,
                                     SessionSink sink) {
  return engine.OpenSession(poll.filter, poll.worker, capacity, std::move(sink), poll.terms);
}

void WorkStream::OpenSession(Engine& engine, const PollArgs& poll, int32_t capacity) {
  if (session_ == Session::kClosed) return;
  auto session = OpenIn(engine, poll, capacity, [self = shared_from_this()](SessionUpdate update) {
    self->Update(std::move(update));
  });
  if (!session) return EndWith(session.error());
  session_ = Session::kOpen;
  session_id_ = *session;
  keeps_ = poll.terms.keep_for > Duration();
}

void WorkStream::Handle(Engine& engine, Message& message) {
  auto answers = std::make_shared<v1::WorkResponse>();
  for (auto& [instance, report] : message.reports) {
    auto answer = report ? ReportAs(engine, caller_, *report) : Result<Answer>(report.error());
    ToProto(instance, answer, answers->add_results());
  }
  bool early = !message.extends.empty();
  for (const auto& extend : message.extends) {
    const Extended extended = ExtendAs(engine, caller_, extend, session_id_);
    early = early && extended.early;
    ToProto(extended, answers->add_extended());
  }
  for (RelinquishCommand& relinquish : message.relinquishes) {
    (void)RelinquishAs(engine, caller_, relinquish);
  }
  const auto self = shared_from_this();  // the call may be done by now, and self_ with it
  const bool all = message.reports.empty();
  const bool takes = answers->extended_size() > 0 && TakeExtends(early);
  if (takes) {
    auto extended = std::make_shared<v1::WorkResponse>();
    extended->mutable_extended()->Swap(answers->mutable_extended());
    engine.AfterPass(session_id_, [self, extended, all](bool more) {
      self->AnswerEarly(extended.get(), all, more);
    });
  }
  if (!takes || !all) {
    engine.AfterCommit(session_id_,
                       [self, answers](bool more) { self->AnswerWith(answers.get(), more); });
  }
  if (message.drain && session_id_ != 0) engine.DrainSession(session_id_);
}

void WorkStream::CloseSession(Engine& engine, StreamEnd how) {
  Outbox::Unsent unsent;
  {
    const Lock lock(mutex_);
    unsent = exchange_.TakeUnsent();
  }
  engine.Undelivered(unsent.undelivered, /*perhaps=*/false);
  engine.Undelivered(unsent.doubtful, /*perhaps=*/true);
  session_ = Session::kClosed;
  if (session_id_ != 0) engine.CloseSession(session_id_, how);
}

// Writing ----------------------------------------------------------------------------------------

void WorkStream::Update(SessionUpdate update) {
  const std::optional<Error> end = std::move(update.end);
  if (update.drained) {  // whoever hears of the stream's end finds it closed
    PostEnd([self = shared_from_this()](Engine& engine) {
      self->CloseSession(engine, StreamEnd::kBroken);
    });
  }
  const bool answers_first = update.answers_first;
  Lock lock(mutex_);
  Heeded(update);
  if (!exchange_.Add(std::move(update))) {
    // Done closes the session and gives the tasks back. If it has run already, they are given
    // back here.
    const bool done = exchange_.done();
    lock.Unlock();
    if (done) {
      PostEnd([self = shared_from_this()](Engine& engine) {
        self->CloseSession(engine, self->EndOf(false));
      });
    }
    return;
  }
  // Tasks that time out unread make room for others, which nobody would read, either.
  if (exchange_.tasks() > static_cast<size_t>(limits::kCapacity)) context_->TryCancel();
  if (end && answers_first) exchange_.End(RefuseStream(backend_, context_, *end));
  WriteOrFinish();
  lock.Unlock();
  if (end && !answers_first) EndWith(*end);
}

void WorkStream::AnswerWith(v1::WorkResponse* answers, bool more) {
  const Lock lock(mutex_);
  exchange_.Answer(answers);
  ReadOn();
  if (!more) WriteOrFinish();
}

bool WorkStream::TakeExtends(bool early) {
  const Lock lock(mutex_);
  return exchange_.TakeExtends(early);
}

void WorkStream::AnswerEarly(v1::WorkResponse* extended, bool all, bool more) {
  const Lock lock(mutex_);
  exchange_.AnswerEarly(extended, all);
  ReadOn();
  if (!more) WriteOrFinish();
}

void WorkStream::WriteOrFinish() {
  if (const auto* message = MayWrite() ? exchange_.BeginWrite() : nullptr) {
    WriteNext(*message);
    ReadOn();
  } else if (auto end = exchange_.TakeEnd()) {
    EndCall(*end);
  }
}

void WorkStream::WriteDone(bool ok) {
  const Lock lock(mutex_);
  // ReadDone or Done gives back what was not delivered.
  exchange_.WriteDone(ok);
  WriteOrFinish();
}

// The end ----------------------------------------------------------------------------------------

void WorkStream::EndWith(const Error& error) {
  const Lock lock(mutex_);
  exchange_.Break(exchange_.serving() ? RefuseStream(backend_, context_, error) : ToStatus(error));
  WriteOrFinish();
}

void WorkStream::Revoke(const Error& error) {
  revoked_ = true;
  EndWith(error);
}

void WorkStream::Cancelled() {
  const Lock lock(mutex_);
  exchange_.Cancel({grpc::StatusCode::CANCELLED, "the call was cancelled"});
  WriteOrFinish();
}

void WorkStream::Done() {
  std::shared_ptr<WorkStream> self;
  auto how = StreamEnd::kBroken;
  {
    const Lock lock(mutex_);
    exchange_.Done();
    how = EndOf(revoked_ || (half_closed_ && !context_->IsCancelled()));
    self.swap(self_);
  }
  PostEnd([self, how](Engine& engine) { self->CloseSession(engine, how); });
  if (entered_) backend_.gate.Leave();
}

}  // namespace dfsmr
