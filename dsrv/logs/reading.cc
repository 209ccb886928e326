#include "dsrv/logs/reading.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/engine.h"
#include "dsrv/engine/part.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kPortion = 256 << 10;  // of text, in one message
constexpr auto kBeat = milliseconds(4'500);
constexpr auto kAskEvery = milliseconds(900);
// After the end: lines are on their way for so long, but no longer than was promised in all.
constexpr auto kQuiet = milliseconds(1'500);
constexpr auto kAtMost = milliseconds(3'500);

void Fill(LogEntry& entry, v1::LogEntry* out) {
  const LogClaim& claim = *entry.claim;
  out->set_node(claim.node);
  out->set_visit(claim.visit);
  out->set_attempt(claim.attempt);
  out->set_worker(claim.worker);
  out->set_line(entry.line.number);
  ToProto(entry.line.time, out->mutable_time());
  out->set_stream(static_cast<v1::LogLine::Stream>(entry.line.stream));
  out->set_text(std::move(entry.line.text));
  out->set_left_out(entry.left_out);
  out->set_dry_run(claim.dry_run);
  out->set_claim(claim.claim);
}

}  // namespace

Result<Ok> LogReading::Check(const v1::ReadLogsRequest& request) {
  return All(
      [&] { return CheckInstanceId(request.instance()); },
      [&] { return request.node().empty() ? Result<Ok>(Ok{}) : CheckNode("node", request.node()); },
      [&]() -> Result<Ok> {
        if (ParseLogCursor(request.after())) return Ok{};
        return Bad("'after' is " + Quoted(request.after()) +
                   ", which is no cursor of ReadLogs: use one that it gave, or none");
      });
}

LogReading::LogReading(Logs& logs, v1::ReadLogsRequest request, std::string ns,
                       std::weak_ptr<Sink> sink)
    : logs_(logs), request_(std::move(request)), ns_(std::move(ns)), sink_(std::move(sink)) {}

void LogReading::AskScope(std::function<void(const Result<Traces::Scope>&)> then) {
  asked_ = Clock::now();
  auto run = [self = shared_from_this(), then](Engine& engine) {
    auto scope = engine.traces().ScopeOf(self->ns_, self->request_.instance(),
                                         self->request_.node(), self->request_.visit());
    self->logs_.PostRead([then, scope = std::move(scope)] { then(scope); });
  };
  if (logs_.loop().Post({.run = std::move(run), .drop = [] {}, .bytes = 256})) return;
  logs_.PostRead([then] {
    then(
        Error{Code::kResourceExhausted, Reason::kOverloaded,
              "more requests wait than the server can answer soon; wait a little, then try again"});
  });
}

void LogReading::Begin() {
  AskScope([self = shared_from_this()](const Result<Traces::Scope>& scope) { self->Open(scope); });
}

void LogReading::Open(const Result<Traces::Scope>& scope) {
  if (!scope) return EndWith(scope.error());
  if (!logs_.keeps()) return EndWith(std::nullopt);
  const auto after = ParseLogCursor(request_.after());
  LogQuery query{{ns_, request_.instance(), scope->born},
                 request_.node(),
                 request_.visit(),
                 request_.attempt(),
                 request_.tail(),
                 after.value_or(0)};
  reader_.emplace(logs_.store(), std::move(query));
  if (!scope->named) {  // a version before this one may have had it
    auto had = reader_->Has(request_.node());
    if (!had) return EndWith(had.error());
    if (!*had) {
      return EndWith(Error{Code::kNotFound, Reason::kNoSuchNode,
                           "instance " + Quoted(request_.instance()) + " has no node or step " +
                               Quoted(request_.node())});
    }
  }
  if (request_.follow()) {
    const Lock lock(mutex_);  // Close may come at any time
    if (stage_ == Stage::kEnded) return;
    follows_ = true;
    logs_.Follow(ns_, request_.instance(), shared_from_this());
  }
  NoteScope(*scope);
  Step();
}

void LogReading::NoteScope(const Traces::Scope& scope) {
  stood_ = stood_ || scope.stands;
  // A machine comes to its nodes again and again: one has ended that was there, or has lines.
  const bool over = scope.over || (!request_.node().empty() && request_.visit() == 0 && stood_ &&
                                   !scope.stands && scope.named);
  if (!over) return over_.reset();
  if (over_) return;
  over_ = Clock::now();
  if (scope.end_time == Timestamp() || logs_.loop().has_virtual_clock()) return;
  const Duration ago = logs_.loop().Now() - scope.end_time;
  *over_ -= std::clamp<Duration>(ago, Duration(0), std::chrono::hours(1));
}

// Whether no more lines are on their way.
bool LogReading::MayEnd() const {
  if (!over_) return false;
  const auto now = Clock::now();
  return now - std::max(*over_, last_line_) >= kQuiet || now - *over_ >= kAtMost;
}

void LogReading::Step() {
  auto sink = sink_.lock();
  if (!sink) return;
  bool news;
  std::optional<Error> stops;
  {
    const Lock lock(mutex_);
    if (stage_ == Stage::kEnded) return;
    woken_ = false;
    news = std::exchange(news_, false);
    stops = stop_;
  }
  if (stops) return EndWith(stops);
  auto portion = news ? reader_->Next(kPortion) : Result<LogReader::Portion>(LogReader::Portion());
  if (!portion) return EndWith(portion.error());
  if (portion->more || !portion->entries.empty()) {
    const Lock lock(mutex_);
    news_ = true;
  }
  if (!portion->entries.empty()) return SendLines(*sink, *portion);
  if (portion->more) return logs_.PostRead([self = shared_from_this()] { self->Step(); });
  const bool ends = !request_.follow() || MayEnd();
  if (ends && told_) return EndWith(std::nullopt);
  if (!ends && Clock::now() - sent_ < kBeat) return Rest();
  SendPlace(*sink);
}

void LogReading::SendLines(Sink& sink, LogReader::Portion& portion) {
  v1::ReadLogsResponse response;
  for (LogEntry& entry : portion.entries) Fill(entry, response.add_entries());
  response.set_cursor(LogCursorText(reader_->position()));
  told_ = stood_ = true;
  last_line_ = sent_ = Clock::now();
  sink.Send(response);
}

// Says where it has come to, and thereby that there were lines once.
void LogReading::SendPlace(Sink& sink) {
  auto ever = reader_->Ever();
  if (!ever) return EndWith(ever.error());
  v1::ReadLogsResponse response;
  if (*ever) response.set_cursor(LogCursorText(reader_->position()));
  told_ = true;
  sent_ = Clock::now();
  sink.Send(response);
}

// Waits for news, and asks now and then whether there will be any.
void LogReading::Rest() {
  if (Clock::now() - asked_ >= kAskEvery) {
    return AskScope([self = shared_from_this()](const Result<Traces::Scope>& scope) {
      if (scope) {
        self->NoteScope(*scope);
      } else if (scope.error().code == Code::kNotFound) {
        return self->EndWith(std::nullopt);  // it was removed, and its logs with it
      }
      self->Step();
    });
  }
  bool again;
  {
    const Lock lock(mutex_);
    again = woken_ || stop_;
    if (!again && stage_ == Stage::kBusy) stage_ = Stage::kIdle;
  }
  if (again) logs_.PostRead([self = shared_from_this()] { self->Step(); });
}

void LogReading::Sent() {
  logs_.PostRead([self = shared_from_this()] { self->Step(); });
}

void LogReading::Wake(bool news) {
  {
    const Lock lock(mutex_);
    news_ = news_ || news;
    woken_ = true;
    if (stage_ != Stage::kIdle) return;
    stage_ = Stage::kBusy;
  }
  logs_.PostRead([self = shared_from_this()] { self->Step(); });
}

void LogReading::Stop() {
  {
    const Lock lock(mutex_);
    stop_ = Error{Code::kUnavailable, Reason::kNotReady,
                  "the server is stopping; go on from the last cursor"};
  }
  Wake(/*news=*/false);
}

void LogReading::Close() {
  bool follows;
  {
    const Lock lock(mutex_);
    stage_ = Stage::kEnded;
    follows = std::exchange(follows_, false);
  }
  if (follows) logs_.Unfollow(ns_, request_.instance(), this);
}

void LogReading::EndWith(const std::optional<Error>& error) {
  {
    const Lock lock(mutex_);
    if (stage_ == Stage::kEnded) return;
    stage_ = Stage::kEnded;
  }
  if (auto sink = sink_.lock()) sink->End(error);
}

}  // namespace dfsmr
