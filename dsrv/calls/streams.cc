#include "dsrv/calls/streams.h"

#include <algorithm>
#include <set>

#include "dsrv/calls/polls.h"
#include "fsm/base/limits.h"
#include "fsm/base/mutex.h"

namespace dfsmr {
namespace {

// So many messages of a stream may be under way before the next one is read.
constexpr size_t kUnanswered = 32;
// So many answers may wait for a client that does not read before no more is read from it.
constexpr int kUnwritten = 10'000;
constexpr auto kBeat = std::chrono::milliseconds(2'500);  // promised: a message every 5 s

Error Crowded() {
  return {Code::kResourceExhausted, Reason::kOverloaded,
          "the server serves " + std::to_string(limits::kWatchers) + " watchers already"};
}

struct Watchers {
  Mutex mutex;
  std::set<ChangesStream*> open;
};
// One process serves one feed; what shutdown must end is known here.
Watchers& watchers() {
  static Watchers all;
  return all;
}

}  // namespace

// Work -------------------------------------------------------------------------------------------

WorkStream* WorkStream::Begin(const Backend& backend, grpc::CallbackServerContext* context,
                              const Method& method) {
  auto* stream = new WorkStream(backend, context);
  stream->self_.reset(stream);
  // Who may not enter at all need not be heard. Where it wants to, its first message says.
  auto caller = backend.access.AdmitAnywhere(*context, method);
  if (!caller) {
    stream->EndWith(caller.error());
    return stream;
  }
  stream->caller_ = *std::move(caller);
  stream->admitted_ = backend.gate.Admit();
  if (!stream->admitted_) {
    stream->EndWith(Stopping());
    return stream;
  }
  Lock lock(stream->mutex_);
  stream->ReadOn(lock);
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

// Whether all that the message names may be entered.
Result<Ok> WorkStream::Admit() {
  if (!caller_.principal()) return Ok{};
  if (caller_.principal()->revoked) return BadToken();
  Result<Ok> entered = Ok{};
  if (incoming_.has_open()) entered = caller_.MayEnter(incoming_.open().namespace_());
  auto enter = [&](const std::string& ns) {
    if (entered && !ns.empty()) entered = caller_.MayEnter(ns);  // empty: the stream's
  };
  for (const auto& item : incoming_.transitions()) enter(item.namespace_());
  for (const auto& item : incoming_.relinquishes()) enter(item.namespace_());
  return entered;
}

void WorkStream::Revoke(const Error& error) { EndWith(error); }

void WorkStream::OnReadDone(bool ok) {
  // As long as reading_ holds, nobody else reads on, and incoming_ is ours.
  if (!ok) {
    {
      const Lock lock(mutex_);
      reading_ = false;
      read_ended_ = true;
    }
    // Half-closed, or gone: what is in hand goes back, and then the stream ends.
    PostEnd([self = self_](Engine& engine) {
      self->CloseSession(engine);
      engine.AfterCommit([self] { self->End(grpc::Status::OK); });
    });
    return;
  }
  auto entered = Admit();
  if (!entered) return EndWith(entered.error());
  if (!opened_) {
    if (!incoming_.has_open()) {
      return EndWith({Code::kInvalidArgument, Reason::kBadRequest,
                      "the first message of a Work stream must hold 'open'"});
    }
    auto poll = ToPoll(incoming_.open(), context_->peer(), Timestamp());
    if (!poll) return EndWith(poll.error());
    auto allowed = caller_.Narrow(&poll->filter);
    if (!allowed) return EndWith(allowed.error());
    backend_.access.Watch(caller_, std::weak_ptr<Revocable>(self_));
    const int32_t capacity = std::min(poll->max_tasks, limits::kCapacity);
    auto posted = Post(
        [self = self_, poll = *poll, capacity](Engine& engine) {
          self->Open(engine, poll.filter, poll.worker, capacity);
        },
        256);
    if (!posted) return EndWith(posted.error());
    opened_ = true;
  } else if (incoming_.has_open()) {
    return EndWith({Code::kInvalidArgument, Reason::kBadRequest,
                    "'open' belongs in the first message of a Work stream only"});
  }
  if (incoming_.transitions_size() > static_cast<int>(limits::kBatchItems) ||
      incoming_.extends_size() > static_cast<int>(limits::kBatchItems) ||
      incoming_.relinquishes_size() > static_cast<int>(limits::kBatchItems)) {
    return EndWith(
        {Code::kInvalidArgument, Reason::kTooLarge,
         "one message holds more than " + std::to_string(limits::kBatchItems) + " items"});
  }
  auto request = std::make_shared<v1::WorkRequest>(std::move(incoming_));
  incoming_.Clear();
  {
    const Lock lock(mutex_);
    ++unanswered_;
  }
  auto posted = Post([self = self_, request](Engine& engine) { self->Handle(engine, *request); },
                     request->ByteSizeLong());
  if (!posted) return EndWith(posted.error());
  Lock lock(mutex_);
  reading_ = false;
  ReadOn(lock);
}

void WorkStream::ReadOn(Lock&) {
  if (reading_ || read_ended_ || end_ || unanswered_ >= kUnanswered) return;
  if (next_.results_size() + next_.extended_size() >= kUnwritten) return;
  reading_ = true;
  StartRead(&incoming_);
}

void WorkStream::Open(Engine& engine, Filter filter, std::string worker, int32_t capacity) {
  if (closed_) return;
  ns_ = filter.ns;
  auto session = engine.OpenSession(std::move(filter), std::move(worker), capacity,
                                    [self = shared_from_this()](SessionUpdate update) {
                                      self->Update(std::move(update));
                                    });
  if (session) {
    session_ = *session;
  } else {
    EndWith(session.error());
  }
}

void WorkStream::Handle(Engine& engine, const v1::WorkRequest& request) {
  auto answers = std::make_shared<v1::WorkResponse>();
  for (v1::TransitionRequest transition : request.transitions()) {
    if (transition.namespace_().empty()) transition.set_namespace_(ns_);
    auto report = ToReport(transition);
    Result<dfsmr::Answer> answer = report ? ReportAs(caller_, engine, &*report)
                                          : Result<dfsmr::Answer>(report.error());
    ToProto(transition.instance(), answer, answers->add_results());
  }
  for (const auto& item : request.extends()) {
    auto extend = ToExtend(item);
    Engine::Extended extended;
    if (extend) {
      auto allowed = caller_.MayReport(engine, ns_, extend->instance, extend->claim);
      if (!allowed) extend = allowed.error();
    }
    if (extend) {
      extended = engine.Extend(ns_, extend->instance, extend->claim, extend->by, extend->progress);
    } else {
      extended.error = extend.error();
    }
    ToProto(extended, answers->add_extended());
  }
  for (const auto& item : request.relinquishes()) {
    auto ns = item.namespace_().empty() ? Result<std::string>(ns_) : ToNamespace(item.namespace_());
    if (ns && CheckInstanceId(item.instance()) &&
        caller_.MayReport(engine, *ns, item.instance(), item.claim())) {
      (void)engine.Relinquish(*ns, item.instance(), item.claim(), "");
    }
  }
  // The call may be done by now, and self_ with it.
  engine.AfterCommit(session_, [self = shared_from_this(), answers](bool more) {
    self->Answer(answers, more);
  });
  if (request.drain() && session_ != 0) engine.DrainSession(session_);
}

void WorkStream::CloseSession(Engine& engine) {
  closed_ = true;
  std::vector<Task> undelivered;
  std::vector<Task> doubtful;
  {
    const Lock lock(mutex_);
    undelivered.swap(undelivered_);
    doubtful.swap(doubtful_);
  }
  engine.Undelivered(undelivered, /*perhaps=*/false);
  engine.Undelivered(doubtful, /*perhaps=*/true);
  if (session_ != 0) engine.CloseSession(session_);
}

void WorkStream::Update(SessionUpdate update) {
  Lock lock(mutex_);
  if (end_) {  // OnDone, which is to come or closes the session again, gives them back
    std::ranges::move(update.tasks, std::back_inserter(undelivered_));
    if (finished_ && !self_) {
      lock.Unlock();
      PostEnd([self = shared_from_this()](Engine& engine) { self->CloseSession(engine); });
    }
    return;
  }
  for (const Task& task : update.tasks) ToProto(task, next_.add_tasks());
  for (std::string& claim : update.cancelled) next_.add_cancelled_claims(std::move(claim));
  for (std::string& claim : update.killed) next_.add_killed_claims(std::move(claim));
  next_filled_ = next_filled_ || next_.ByteSizeLong() > 0;
  std::ranges::move(update.tasks, std::back_inserter(next_tasks_));
  // Tasks that time out unread make room for others, which nobody would read, either.
  if (next_tasks_.size() > static_cast<size_t>(limits::kCapacity)) context_->TryCancel();
  if (update.drained) end_ = grpc::Status::OK;
  WriteOrFinish(lock);
}

void WorkStream::Answer(std::shared_ptr<v1::WorkResponse> answers, bool more) {
  Lock lock(mutex_);
  --unanswered_;
  next_filled_ = next_filled_ || answers->results_size() > 0 || answers->extended_size() > 0;
  for (auto& result : *answers->mutable_results()) next_.add_results()->Swap(&result);
  for (auto& item : *answers->mutable_extended()) next_.add_extended()->Swap(&item);
  ReadOn(lock);
  if (!more) WriteOrFinish(lock);
}

// One write at a time; what comes meanwhile is merged into the next one.
void WorkStream::WriteOrFinish(Lock& lock) {
  if (write_pending_ || finished_) return;
  if (next_filled_) {
    writing_.Clear();
    writing_.Swap(&next_);
    writing_tasks_ = std::exchange(next_tasks_, {});
    next_filled_ = false;
    write_pending_ = true;
    StartWrite(&writing_);
    ReadOn(lock);
  } else if (end_ && unanswered_ == 0) {
    finished_ = true;
    Finish(*end_);
  }
}

void WorkStream::OnWriteDone(bool ok) {
  Lock lock(mutex_);
  write_pending_ = false;
  if (!ok) {
    // The stream is broken; OnReadDone or OnDone gives everything back.
    std::ranges::move(writing_tasks_, std::back_inserter(doubtful_));
    std::ranges::move(next_tasks_, std::back_inserter(undelivered_));
    next_tasks_.clear();
    next_filled_ = false;
    unanswered_ = 0;
    if (!end_) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke");
  }
  writing_tasks_.clear();
  WriteOrFinish(lock);
}

void WorkStream::End(const grpc::Status& status) {
  Lock lock(mutex_);
  if (!end_) end_ = status;
  WriteOrFinish(lock);
}

void WorkStream::EndWith(const Error& error) {
  Lock lock(mutex_);
  if (!end_) end_ = Refuse(context_, error);
  unanswered_ = 0;
  WriteOrFinish(lock);
}

void WorkStream::OnCancel() {
  Lock lock(mutex_);
  if (!end_) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the call was cancelled");
  std::ranges::move(next_tasks_, std::back_inserter(undelivered_));
  next_tasks_.clear();
  next_.Clear();
  next_filled_ = false;
  unanswered_ = 0;
  WriteOrFinish(lock);
}

void WorkStream::OnDone() {
  std::shared_ptr<WorkStream> self;
  {
    const Lock lock(mutex_);
    finished_ = true;
    self.swap(self_);
  }
  PostEnd([self](Engine& engine) { self->CloseSession(engine); });
  if (admitted_) backend_.gate.Leave();
}

// Changes ----------------------------------------------------------------------------------------

ChangesStream* ChangesStream::Begin(const Backend& backend, grpc::CallbackServerContext* context,
                                    const Result<Caller>& caller,
                                    const std::function<Result<Open>()>& open, Encode encode) {
  auto* stream = new ChangesStream(backend, context, std::move(encode));
  stream->self_.reset(stream);
  stream->admitted_ = backend.gate.Admit();
  bool crowded = false;
  {
    const Lock lock(watchers().mutex);
    crowded = watchers().open.size() >= limits::kWatchers;
    watchers().open.insert(stream);
  }
  Result<Open> opened = !caller              ? Result<Open>(caller.error())
                        : !stream->admitted_ ? Stopping()
                        : crowded            ? Crowded()
                                             : open();
  if (opened) {
    stream->open_ = *std::move(opened);
    backend.access.Watch(*caller, std::weak_ptr<Revocable>(stream->self_));
  } else {
    stream->End(Refuse(context, opened.error()));
  }
  {
    const Lock lock(stream->mutex_);
    stream->busy_ = false;
  }
  stream->Step();
  return stream;
}

void ChangesStream::EndAll() {
  std::vector<std::shared_ptr<ChangesStream>> open;
  {
    const Lock lock(watchers().mutex);
    for (ChangesStream* stream : watchers().open) {
      const Lock stream_lock(stream->mutex_);
      if (stream->self_) open.push_back(stream->self_);
    }
  }
  for (const auto& stream : open) {
    stream->End(
        {grpc::StatusCode::UNAVAILABLE, "the server is stopping; resume from the last cursor"});
    stream->Step();
  }
}

ChangesStream::ChangesStream(const Backend& backend, grpc::CallbackServerContext* context,
                             Encode encode)
    : changes_(backend.changes),
      gate_(backend.gate),
      context_(context),
      encode_(std::move(encode)) {}

void ChangesStream::End(grpc::Status status) {
  const Lock lock(mutex_);
  if (!end_) end_ = std::move(status);
}

// Does whatever is next: send, finish, read on, or wait to be woken.
void ChangesStream::Step() {
  std::shared_ptr<ChangesStream> self;  // a cancel may end the stream while this goes on
  while (true) {
    Lock lock(mutex_);
    if (busy_ || finished_) return;
    self = self_;
    if (end_) {
      finished_ = true;
      Finish(*end_);
      return;
    }
    if (!messages_.empty()) {
      busy_ = true;
      first_ = false;
      last_message_ = std::chrono::steady_clock::now();
      StartWrite(&messages_.front());
      return;
    }
    if (!first_ && open_.after >= open_.until) {
      end_ = grpc::Status::OK;
      continue;
    }
    busy_ = true;
    lock.Unlock();
    auto portion = changes_.Read(open_.after, open_.until, open_.filter);
    if (!portion) {
      changes_.pool().Post([self] {
        auto read = self->changes_.ReadStore(self->open_.after, self->open_.until,
                                             self->open_.filter);
        if (read) {
          self->Take(*read);
        } else {
          self->End(Refuse(self->context_, read.error()));
        }
        {
          const Lock done(self->mutex_);
          self->busy_ = false;
        }
        self->Step();
      });
      return;
    }
    const bool at_head = portion->at_head;
    Take(portion);
    lock.Relock();
    busy_ = false;
    const bool idle = messages_.empty() && at_head && open_.after < open_.until;
    lock.Unlock();
    if (idle) {
      changes_.WakeLater(self, open_.after);
      return;
    }
  }
}

void ChangesStream::Take(const Changes::PortionPtr& portion) {
  open_.after = std::max(open_.after, portion->up_to);
  const bool silent = std::chrono::steady_clock::now() - last_message_ >= kBeat;
  if (portion->changes.empty() && !(open_.beats && (first_ || silent))) {
    const Lock lock(mutex_);
    if (!open_.beats) first_ = false;
    return;
  }
  const Lock lock(mutex_);
  encode_(portion, CursorText(changes_.CursorAt(open_.after)), &messages_);
}

void ChangesStream::Wake() { Step(); }

void ChangesStream::Revoke(const Error& error) {
  {
    const Lock lock(mutex_);
    if (!end_) end_ = Refuse(context_, error);
  }
  Step();
}

void ChangesStream::OnWriteDone(bool ok) {
  {
    const Lock lock(mutex_);
    busy_ = false;
    messages_.pop_front();
    if (!ok && !end_) end_ = grpc::Status(grpc::StatusCode::CANCELLED, "the stream broke");
  }
  Step();
}

void ChangesStream::OnCancel() {
  End({grpc::StatusCode::CANCELLED, "the call was cancelled"});
  Step();
}

void ChangesStream::OnDone() {
  {
    const Lock lock(watchers().mutex);
    watchers().open.erase(this);
  }
  if (admitted_) gate_.Leave();
  std::shared_ptr<ChangesStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
