#include "dsrv/calls/work_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dsrv/calls/items.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/requests.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

// So many messages of a stream may be unanswered before the next one is read.
constexpr size_t kUnanswered = 32;
// So many answers may wait for a client that does not read before no more is read from it.
constexpr int kUnwritten = 10'000;

Error BadMessage(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}

void Append(std::vector<Task>* from, std::vector<Task>* to) {
  std::ranges::move(*from, std::back_inserter(*to));
  from->clear();
}

}  // namespace

// Outbox -----------------------------------------------------------------------------------------

bool Outbox::Filled() const {
  return next_.tasks_size() + next_.results_size() + next_.extended_size() +
             next_.cancelled_claims_size() + next_.killed_claims_size() >
         0;
}

void Outbox::Add(SessionUpdate update) {
  for (const Task& task : update.tasks) ToProto(task, next_.add_tasks());
  for (std::string& claim : update.cancelled) next_.add_cancelled_claims(std::move(claim));
  for (std::string& claim : update.killed) next_.add_killed_claims(std::move(claim));
  Append(&update.tasks, &next_tasks_);
}

void Outbox::Add(v1::WorkResponse* answers) {
  for (auto& result : *answers->mutable_results()) next_.add_results()->Swap(&result);
  for (auto& item : *answers->mutable_extended()) next_.add_extended()->Swap(&item);
}

const v1::WorkResponse* Outbox::Write() {
  current_.Clear();
  current_.Swap(&next_);
  current_tasks_ = std::exchange(next_tasks_, {});
  writing_ = true;
  return &current_;
}

void Outbox::Written() {
  writing_ = false;
  current_tasks_.clear();
}

void Outbox::Broke() {
  Append(&current_tasks_, &unsent_.doubtful);
  Drop();
  writing_ = false;
}

void Outbox::Drop() {
  Append(&next_tasks_, &unsent_.undelivered);
  next_.Clear();
}

void Outbox::Return(std::vector<Task> tasks) { Append(&tasks, &unsent_.undelivered); }

// WorkStream -------------------------------------------------------------------------------------

WorkStream* WorkStream::Begin(const Backend& backend, grpc::CallbackServerContext* context,
                              const Method& method) {
  auto* stream = new WorkStream(backend, context);
  stream->self_.reset(stream);
  // A caller who may enter no namespace at all need not be heard. Which one it wants to enter its
  // first message says.
  auto caller = backend.access.AdmitAnywhere(GrpcOrigin(*context), {&method});
  if (!caller) {
    stream->EndWith(caller.error());
    return stream;
  }
  stream->caller_ = *std::move(caller);
  stream->entered_ = backend.gate.Admit();
  if (!stream->entered_) {
    stream->EndWith(Stopping());
    return stream;
  }
  const Lock lock(stream->mutex_);
  stream->ReadOn();
  return stream;
}

WorkStream::WorkStream(const Backend& backend, grpc::CallbackServerContext* context)
    : backend_(backend), context_(context) {}

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
  for (const auto& item : incoming_.transitions()) enter(item.namespace_());
  for (const auto& item : incoming_.relinquishes()) enter(item.namespace_());
  return entered;
}

Result<Ok> WorkStream::TakeOpen() {
  auto poll = ToPoll(incoming_.open(), context_->peer(), Timestamp());
  if (!poll) return poll.error();
  auto allowed = caller_.Narrow(&poll->filter);
  if (!allowed) return allowed.error();
  backend_.access.Watch(caller_, std::weak_ptr<Revocable>(self_));
  const int32_t capacity = std::min(poll->max_tasks, limits::kCapacity);
  opened_ = true;
  ns_ = poll->filter.ns;
  return Post(
      [self = self_, poll = *poll, capacity](Engine& engine) {
        self->OpenSession(engine, poll.filter, poll.worker, capacity);
      },
      256);
}

Result<Ok> WorkStream::Take() {
  auto entered = MayEnter();
  if (!entered) return entered;
  if (!opened_) {
    if (!incoming_.has_open()) {
      return BadMessage("the first message of a Work stream must hold 'open'");
    }
    auto opened = TakeOpen();
    if (!opened) return opened;
  } else if (incoming_.has_open()) {
    return BadMessage("'open' belongs in the first message of a Work stream only");
  }
  constexpr int kMost = static_cast<int>(limits::kBatchItems);
  if (incoming_.transitions_size() > kMost || incoming_.extends_size() > kMost ||
      incoming_.relinquishes_size() > kMost) {
    return Error{Code::kInvalidArgument, Reason::kTooLarge,
                 "one message holds more than " + std::to_string(kMost) + " items"};
  }
  auto message = std::make_shared<Message>(Read());
  const size_t bytes = incoming_.ByteSizeLong();
  incoming_.Clear();
  {
    const Lock lock(mutex_);
    ++unanswered_;
  }
  return Post([self = self_, message](Engine& engine) { self->Handle(engine, *message); }, bytes);
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

void WorkStream::OnReadDone(bool ok) {
  if (!ok) {
    {
      const Lock lock(mutex_);
      reading_ = Reading::kEnded;
    }
    // What is in hand goes back, and then the stream ends.
    PostEnd([self = self_](Engine& engine) {
      self->CloseSession(engine);
      engine.AfterCommit([self] {
        const Lock lock(self->mutex_);
        self->End(grpc::Status::OK);
        self->WriteOrFinish();
      });
    });
    return;
  }
  auto taken = Take();
  if (!taken) return EndWith(taken.error());
  const Lock lock(mutex_);
  reading_ = Reading::kPaused;
  ReadOn();
}

void WorkStream::ReadOn() {
  if (reading_ != Reading::kPaused || stage_ != Stage::kServing) return;
  if (unanswered_ >= kUnanswered || outbox_.answers() >= kUnwritten) return;
  reading_ = Reading::kActive;
  StartRead(&incoming_);
}

// The loop ---------------------------------------------------------------------------------------

void WorkStream::OpenSession(Engine& engine, Filter filter, std::string worker, int32_t capacity) {
  if (session_ == Session::kClosed) return;
  auto session = engine.OpenSession(std::move(filter), std::move(worker), capacity,
                                    [self = shared_from_this()](SessionUpdate update) {
                                      self->Update(std::move(update));
                                    });
  if (!session) return EndWith(session.error());
  session_ = Session::kOpen;
  session_id_ = *session;
}

void WorkStream::Handle(Engine& engine, Message& message) {
  auto answers = std::make_shared<v1::WorkResponse>();
  for (auto& [instance, report] : message.reports) {
    auto answer = report ? ReportAs(engine, caller_, *report) : Result<Answer>(report.error());
    ToProto(instance, answer, answers->add_results());
  }
  for (const auto& extend : message.extends) {
    ToProto(ExtendAs(engine, caller_, extend), answers->add_extended());
  }
  for (RelinquishCommand& relinquish : message.relinquishes) {
    (void)RelinquishAs(engine, caller_, relinquish);
  }
  // The call may be done by now, and self_ with it.
  engine.AfterCommit(session_id_, [self = shared_from_this(), answers](bool more) {
    self->AnswerWith(answers.get(), more);
  });
  if (message.drain && session_id_ != 0) engine.DrainSession(session_id_);
}

void WorkStream::CloseSession(Engine& engine) {
  Outbox::Unsent unsent;
  {
    const Lock lock(mutex_);
    unsent = outbox_.TakeUnsent();
  }
  engine.Undelivered(unsent.undelivered, /*perhaps=*/false);
  engine.Undelivered(unsent.doubtful, /*perhaps=*/true);
  session_ = Session::kClosed;
  if (session_id_ != 0) engine.CloseSession(session_id_);
}

// Writing ----------------------------------------------------------------------------------------

void WorkStream::Update(SessionUpdate update) {
  Lock lock(mutex_);
  if (stage_ != Stage::kServing) {
    outbox_.Return(std::move(update.tasks));
    // Until then OnDone, which is to come, closes the session (again) and gives them back.
    const bool done = stage_ == Stage::kDone;
    lock.Unlock();
    if (done) PostEnd([self = shared_from_this()](Engine& engine) { self->CloseSession(engine); });
    return;
  }
  const bool drained = update.drained;
  outbox_.Add(std::move(update));
  // Tasks that time out unread make room for others, which nobody would read, either.
  if (outbox_.tasks() > static_cast<size_t>(limits::kCapacity)) context_->TryCancel();
  if (drained) End(grpc::Status::OK);
  WriteOrFinish();
}

void WorkStream::AnswerWith(v1::WorkResponse* answers, bool more) {
  const Lock lock(mutex_);
  if (unanswered_ > 0) --unanswered_;
  outbox_.Add(answers);
  ReadOn();
  if (!more) WriteOrFinish();
}

void WorkStream::WriteOrFinish() {
  if (outbox_.writing() || stage_ >= Stage::kFinished) return;
  if (outbox_.Ready()) {
    StartWrite(outbox_.Write());
    ReadOn();
  } else if (stage_ == Stage::kEnding && unanswered_ == 0) {
    stage_ = Stage::kFinished;
    Finish(*end_);
  }
}

void WorkStream::OnWriteDone(bool ok) {
  const Lock lock(mutex_);
  if (ok) {
    outbox_.Written();
  } else {
    // OnReadDone or OnDone gives back what was not delivered.
    outbox_.Broke();
    unanswered_ = 0;
    End({grpc::StatusCode::CANCELLED, "the stream broke"});
  }
  WriteOrFinish();
}

// The end ----------------------------------------------------------------------------------------

void WorkStream::End(const grpc::Status& status) {
  if (stage_ != Stage::kServing) return;
  stage_ = Stage::kEnding;
  end_ = status;
}

void WorkStream::EndWith(const Error& error) {
  const Lock lock(mutex_);
  if (stage_ == Stage::kServing) End(RefuseStream(backend_, context_, error));
  unanswered_ = 0;
  WriteOrFinish();
}

void WorkStream::OnCancel() {
  const Lock lock(mutex_);
  End({grpc::StatusCode::CANCELLED, "the call was cancelled"});
  outbox_.Drop();
  unanswered_ = 0;
  WriteOrFinish();
}

void WorkStream::OnDone() {
  std::shared_ptr<WorkStream> self;
  {
    const Lock lock(mutex_);
    stage_ = Stage::kDone;
    self.swap(self_);
  }
  PostEnd([self](Engine& engine) { self->CloseSession(engine); });
  if (entered_) backend_.gate.Leave();
}

}  // namespace dfsmr
