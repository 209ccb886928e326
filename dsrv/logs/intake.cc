#include "dsrv/logs/intake.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "dsrv/engine/engine.h"
#include "dsrv/engine/traces.h"
#include "dsrv/logs/claim_history.h"
#include "dsrv/wire/checks.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr Duration kAfterEnd = std::chrono::seconds(60);  // lines of a claim are taken so long
constexpr size_t kAllowed = 10'000;                       // claims remembered of a stream
constexpr int kQuestions = 3;                             // about the claims of one request
constexpr auto kPostAgain = std::chrono::milliseconds(100);   // when the loop has no room

std::string NameOf(const v1::LogBatch& batch) {
  return "a batch of instance " + Quoted(batch.instance());
}

Result<Ok> CheckLine(const v1::LogBatch& batch, const v1::LogLine& line) {
  if (line.text().size() > limits::kLogText) {
    auto error = TooLarge("a line of a log", line.text().size(), limits::kLogText);
    error.message += "; send a longer one as several";
    return error;
  }
  if (line.text().find('\n') != std::string::npos) {
    return Bad(NameOf(batch) + " has a line with a line break in it: send it as several lines");
  }
  if (!v1::LogLine::Stream_IsValid(line.stream())) {
    return Bad(NameOf(batch) + " has a line of the unknown stream " +
               std::to_string(line.stream()));
  }
  if (!line.has_time()) return Ok{};
  auto time = ToTimestamp("the time of a line", line.time());
  return time ? Result<Ok>(Ok{}) : time.error();
}

Result<Ok> CheckBatchOfLines(const v1::LogBatch& batch) {
  auto checked = CheckInstanceId(batch.instance());
  if (!checked) return checked;
  if (batch.claim().empty()) return Bad(NameOf(batch) + " has no 'claim'");
  if (batch.lines().empty()) return Ok{};
  if (batch.first() == 0) return Bad(NameOf(batch) + " has no 'first': lines are counted from 1");
  uint64_t number = batch.first();
  for (int i = 0; i < batch.lines_size(); ++i) {
    const v1::LogLine& line = batch.lines(i);
    // Those that were left out in front of the first line are numbered before it.
    const uint64_t skipped = i == 0 ? 0 : line.left_out();
    if (number > limits::kLogNumber || skipped > limits::kLogNumber) {
      return Bad(NameOf(batch) + " has lines with numbers beyond " +
                 std::to_string(limits::kLogNumber));
    }
    number += skipped + 1;
    auto sound = CheckLine(batch, line);
    if (!sound) return sound;
  }
  return Ok{};
}

// The lines of a batch with their numbers.
std::vector<LogLine> LinesOf(const v1::LogBatch& batch, Timestamp now) {
  std::vector<LogLine> lines;
  lines.reserve(static_cast<size_t>(batch.lines_size()));
  uint64_t number = batch.first();
  for (int i = 0; i < batch.lines_size(); ++i) {
    const v1::LogLine& line = batch.lines(i);
    if (i > 0) number += line.left_out() + 1;
    const auto time = line.has_time() ? ToTimestamp("time", line.time()) : Result<Timestamp>(now);
    const auto stream =
        line.stream() == v1::LogLine::STREAM_UNSPECIFIED ? v1::LogLine::OUT : line.stream();
    lines.push_back({number, time ? *time : now, static_cast<uint32_t>(stream), line.text()});
  }
  return lines;
}

}  // namespace

Result<Ok> CheckLogs(const v1::AppendLogsRequest& request, bool first) {
  if (!first && !request.namespace_().empty()) {
    return Bad("'namespace' belongs in the first message of AppendLogs only");
  }
  for (const v1::LogBatch& batch : request.batches()) {
    auto checked = CheckBatchOfLines(batch);
    if (!checked) return checked;
  }
  return Ok{};
}

struct LogIntake::Answer {
  Question question;
  ClaimRef claim;
  Traces::Trace trace;
  Timestamp time;  // by the server's clock, when it was asked
};

void LogIntake::Take(Parse parse, size_t bytes) {
  logs_.Queued(static_cast<int64_t>(bytes));
  logs_.Post([self = shared_from_this(), parse = std::move(parse), bytes] {
    self->Arrived(parse, bytes);
  });
}

void LogIntake::Arrived(const Parse& parse, size_t bytes) {
  Waiting waiting;
  waiting.bytes = bytes;
  Result<Ok> sound = Ok{};
  if (ended_) {
    sound = Bad("");
  } else if (!parse(&waiting.request)) {
    sound = Bad("the message is no AppendLogsRequest, or a text in it is not UTF-8");
  } else {
    sound = Check(waiting.request);
  }
  if (!sound) {
    logs_.Queued(-static_cast<int64_t>(bytes));
    return Refuse(sound.error());
  }
  waiting_.push_back(std::move(waiting));
  GoOn();
}

Result<Ok> LogIntake::Check(const v1::AppendLogsRequest& request) {
  const bool first = !std::exchange(opened_, true);
  auto checked = CheckLogs(request, first);
  if (!checked || !first) return checked;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  ns_ = *std::move(ns);
  return caller_.MayEnter(ns_);
}

const Logs::Known* LogIntake::Find(const std::string& claim) {
  const Principal* who = caller_.principal();
  if (who && who->Limited() && !allowed_.contains(claim)) return nullptr;
  return logs_.Find(claim);
}

// Writes what can be written, in the order in which it came.
void LogIntake::GoOn() {
  while (!asking_ && !ended_ && !waiting_.empty()) {
    Waiting& next = waiting_.front();
    std::vector<Question> unknown;
    std::set<std::string> seen = next.refused;
    for (const v1::LogBatch& batch : next.request.batches()) {
      if (!Find(batch.claim()) && seen.insert(batch.claim()).second) {
        unknown.push_back({batch.instance(), batch.claim()});
      }
    }
    if (++next.asked > kQuestions) unknown.clear();  // what was learned is forgotten too soon
    if (!unknown.empty()) return Ask(std::move(unknown));
    Append(next);
    waiting_.pop_front();
  }
}

void LogIntake::Ask(std::vector<Question> questions) {
  asking_ = true;
  auto answers = std::make_shared<std::vector<Answer>>();
  for (Question& one : questions) {
    ClaimRef claim(one.claim);
    answers->push_back({std::move(one), std::move(claim), {}, {}});
  }
  auto run = [self = shared_from_this(), answers](Engine& engine) {
    bool over = false;
    for (Answer& answer : *answers) {
      const std::string& instance = answer.question.instance;
      answer.time = engine.clock();
      if (!self->caller_.MayReport(engine, self->ns_, instance, answer.claim)) continue;
      answer.trace = engine.traces().TraceOf(self->ns_, instance, answer.claim);
      if (answer.trace.kind != Traces::Trace::Kind::kOver) continue;
      over = true;
      (void)engine.Settle(self->ns_, instance);  // for its history
    }
    auto tell = [self, answers] { self->logs_.Post([self, answers] { self->Learn(*answers); }); };
    over ? engine.AfterCommit(tell) : tell();
  };
  if (logs_.loop().Post({.run = std::move(run), .drop = [] {}, .bytes = 256 * answers->size()})) {
    return;
  }
  logs_.PostLater(kPostAgain, [self = shared_from_this(), answers] {
    std::vector<Question> again;
    for (const Answer& answer : *answers) again.push_back(answer.question);
    self->Ask(std::move(again));
  });
}

void LogIntake::Learn(const std::vector<Answer>& answers) {
  asking_ = false;
  for (const Answer& answer : answers) {
    using Kind = Traces::Trace::Kind;
    Traces::Trace trace = answer.trace;
    Timestamp until = After(answer.time, kAfterEnd);
    if (trace.kind == Kind::kOver) {
      auto end = FindClaimEnd(logs_.reader(), ns_, answer.question.instance, answer.claim, trace,
                              answer.time - kAfterEnd);
      if (end) {
        trace = std::move(end->trace);
        until = After(end->time, kAfterEnd);
      } else {
        trace.kind = Kind::kUnknown;
      }
    }
    if (trace.kind == Kind::kUnknown) {
      if (!waiting_.empty()) waiting_.front().refused.insert(answer.question.claim);
      continue;
    }
    if (allowed_.size() >= kAllowed) allowed_.clear();
    allowed_.insert(answer.question.claim);
    logs_.Learn({{ns_, answer.question.instance, trace.born},
                 {answer.question.claim, trace.node, trace.visit, trace.attempt, trace.worker,
                  trace.dry_run},
                 until});
  }
  GoOn();
}

void LogIntake::Append(Waiting& waiting) {
  v1::AppendLogsResponse response;
  std::vector<LogStore::Piece> pieces;
  const Timestamp now = logs_.loop().Now();
  for (const v1::LogBatch& batch : waiting.request.batches()) {
    const Logs::Known* known = Find(batch.claim());
    const bool ours = known && known->owner.ns == ns_ && known->owner.instance == batch.instance();
    if (!ours) {
      waiting.refused.insert(batch.claim());
    } else if (!batch.lines().empty()) {
      pieces.push_back({known->owner, known->claim, LinesOf(batch, now)});
    }
  }
  for (const std::string& claim : waiting.refused) response.add_refused_claims(claim);
  response.set_requests(++taken_);
  logs_.Append(std::move(pieces), waiting.bytes,
               [self = shared_from_this(), bytes = waiting.bytes, response = std::move(response)] {
                 self->logs_.Queued(-static_cast<int64_t>(bytes));
                 if (self->ended_) return;
                 if (auto sink = self->sink_.lock()) sink->Answer(response);
               });
}

void LogIntake::Refuse(const Error& error) {
  if (std::exchange(ended_, true)) return;
  for (const Waiting& waiting : waiting_) logs_.Queued(-static_cast<int64_t>(waiting.bytes));
  waiting_.clear();
  if (auto sink = sink_.lock()) sink->Refuse(error);
}

}  // namespace dfsmr
