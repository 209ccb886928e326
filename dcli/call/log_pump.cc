#include "dcli/call/log_pump.h"

#include <algorithm>

#include "dcli/text/json.h"
#include "dcli/text/values.h"
#include "fsm/base/names.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kHeadBytes = 64 << 10;
constexpr size_t kTailBytes = 1 << 20;
constexpr size_t kAllTails = 64 << 20;  // of all claims together
// Short lines take more room than their text.
constexpr size_t kHeadLines = 32 << 10;
constexpr size_t kTailLines = 128 << 10;
constexpr size_t kMessageBytes = 900'000;  // of one message, with room for what surrounds texts
constexpr size_t kLineCost = 40;           // of a line beside its text, in a message
constexpr size_t kInTurn = 128 << 10;      // from one claim, before it is another one's turn
constexpr size_t kUnanswered = 16;
constexpr milliseconds kGather{50};  // lines that come together are sent together
constexpr milliseconds kApart{20};   // and those of claims that end one soon after the other
// What the server keeps of a visit is little more than a mebibyte: sending more than a reader can
// read would only take processor time from transitions.
constexpr double kBurst = 4 << 20;
constexpr double kRate = 2 << 20;  // bytes a second

// What a line counts for head and tail.
size_t TextBytes(const std::string& text) { return std::max<size_t>(text.size(), 1); }

std::string Utf8(std::string text) {
  return InvalidUtf8(text) ? Unquoted(cli::JsonString(text)) : std::move(text);
}

}  // namespace

size_t LogQueue::MostOfTail() const {
  return std::clamp(kAllTails / std::max<size_t>(claims_.size(), 1), kHeadBytes, kTailBytes);
}

void LogQueue::Add(const std::string& instance, const std::string& name, Stream stream,
                   std::string text, Timestamp time) {
  Claim& claim = claims_[name];
  if (claim.instance.empty()) claim.instance = instance;
  const size_t size = TextBytes(text);
  Line line{claim.next++, stream, time, std::move(text)};
  ++lines_;
  const bool room = claim.head_bytes + size <= kHeadBytes && claim.head_lines < kHeadLines;
  if (room && claim.tail.empty()) {
    claim.head_bytes += size;
    ++claim.head_lines;
    claim.head.push_back(std::move(line));
    return;
  }
  claim.head_bytes = kHeadBytes;
  claim.tail_bytes += size;
  claim.tail.push_back(std::move(line));
  const size_t most = MostOfTail();
  const size_t most_lines = kTailLines / (kTailBytes / most);
  while (claim.tail.size() > 1 && (claim.tail_bytes > most || claim.tail.size() > most_lines)) {
    claim.tail_bytes -= TextBytes(claim.tail.front().text);
    claim.tail.pop_front();
    --lines_;
  }
}

void LogQueue::End(const std::string& name) {
  const auto found = claims_.find(name);
  if (found == claims_.end()) return;
  found->second.ended = true;
  if (found->second.head.empty() && found->second.tail.empty()) claims_.erase(found);
}

void LogQueue::Drop(const std::string& name) {
  const auto found = claims_.find(name);
  if (found == claims_.end()) return;
  lines_ -= found->second.head.size() + found->second.tail.size();
  claims_.erase(found);
}

void LogQueue::TakeFrom(const std::string& name, Claim* claim, size_t* room,
                        v1::AppendLogsRequest* to) {
  v1::LogBatch* batch = nullptr;
  size_t turn = kInTurn;
  for (std::deque<Line>* lines : {&claim->head, &claim->tail}) {
    while (!lines->empty()) {
      Line& line = lines->front();
      const size_t size = line.text.size() + kLineCost;
      const size_t counted = TextBytes(line.text);
      if (size > *room || size > turn) return;
      *room -= size;
      turn -= size;
      if (batch == nullptr) {
        batch = to->add_batches();
        batch->set_instance(claim->instance);
        batch->set_claim(name);
        batch->set_first(line.number);
      }
      v1::LogLine* sent = batch->add_lines();
      *sent->mutable_time() = ToProto(line.time);
      sent->set_stream(line.stream);
      sent->set_text(Utf8(std::move(line.text)));
      sent->set_left_out(line.number - claim->sent - 1);
      claim->sent = line.number;
      if (lines == &claim->tail) claim->tail_bytes -= counted;
      lines->pop_front();
      --lines_;
    }
  }
}

v1::AppendLogsRequest LogQueue::Take() {
  v1::AppendLogsRequest request;
  size_t room = kMessageBytes;
  auto next = claims_.upper_bound(last_);
  for (size_t left = claims_.size(); left > 0 && room > 0; --left) {
    if (next == claims_.end()) next = claims_.begin();
    last_ = next->first;
    Claim& claim = next->second;
    TakeFrom(next->first, &claim, &room, &request);
    const bool over = claim.ended && claim.head.empty() && claim.tail.empty();
    next = over ? claims_.erase(next) : std::next(next);
  }
  return request;
}

LogPump::LogPump(Client& client, std::string name_space)
    : client_(client), name_space_(std::move(name_space)), sender_([this] { Run(); }) {}

LogPump::~LogPump() {
  {
    const Lock lock(mutex_);
    stopped_ = true;
  }
  changed_.NotifyAll();
  sender_.join();
  if (stream_ != nullptr) stream_->Cancel();
  if (reader_.joinable()) reader_.join();
}

void LogPump::Enable(bool logs) {
  {
    const Lock lock(mutex_);
    enabled_ = logs;
    dropped_ = !logs;
    if (!logs) queue_ = LogQueue();
  }
  changed_.NotifyAll();
}

void LogPump::Add(const std::string& instance, const std::string& claim, LogQueue::Stream stream,
                  std::string text) {
  const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  const Lock lock(mutex_);
  if (dropped_) return;
  const bool first = queue_.empty();
  queue_.Add(instance, claim, stream, std::move(text), now);
  if (first) changed_.NotifyAll();
}

void LogPump::End(const std::string& claim) {
  {
    const Lock lock(mutex_);
    queue_.End(claim);
    if (queue_.empty() || hurry_) return;  // its sender has nothing new to do
    hurry_ = true;
  }
  changed_.NotifyAll();
}

void LogPump::Finish(milliseconds at_most) {
  Lock lock(mutex_);
  hurry_ = true;
  finishing_ = true;
  changed_.NotifyAll();
  changed_.WaitFor(lock, at_most, [this]() REQUIRES(mutex_) {
    return dropped_ || !enabled_ || (queue_.empty() && unanswered_.empty());
  });
}

// False: there is nothing more to do.
bool LogPump::WaitForLines() {
  Lock lock(mutex_);
  changed_.Wait(lock, [this]() REQUIRES(mutex_) {
    return stopped_ || (enabled_ && (!queue_.empty() || resent_ < unanswered_.size() ||
                                     (broken_ && !unanswered_.empty())));
  });
  if (stopped_) return false;
  changed_.WaitFor(lock, kGather, [this]() REQUIRES(mutex_) { return stopped_ || hurry_; });
  changed_.WaitUntil(lock, sent_ + kApart,
                     [this]() REQUIRES(mutex_) {
                       return stopped_ || finishing_ || resent_ < unanswered_.size();
                     });
  changed_.Wait(lock, [this]() REQUIRES(mutex_) {
    return stopped_ || broken_ || resent_ < unanswered_.size() || unanswered_.size() < kUnanswered;
  });
  return !stopped_;
}

void LogPump::Run() {
  filled_ = steady_clock::now();
  room_ = kBurst;
  while (WaitForLines()) {
    const auto now = steady_clock::now();
    room_ += std::chrono::duration<double>(now - filled_).count() * kRate;
    room_ = std::min(room_, kBurst);
    filled_ = now;
    if (room_ < 0) {
      const milliseconds wait(static_cast<int64_t>(-room_ / kRate * 1000) + 1);
      Lock lock(mutex_);
      changed_.WaitFor(lock, wait, [this]() REQUIRES(mutex_) { return stopped_; });
    }
    if (SendOne()) continue;
    Lock lock(mutex_);
    broken_ = true;
    changed_.WaitFor(lock, backoff_.Next(), [this]() REQUIRES(mutex_) { return stopped_; });
  }
}

bool LogPump::SendOne() {
  bool broken = false;
  {
    const Lock lock(mutex_);
    broken = broken_;
  }
  if (broken && !Connect()) return false;
  v1::AppendLogsRequest request;
  {
    const Lock lock(mutex_);
    if (dropped_ || broken_) return !broken_;
    if (resent_ < unanswered_.size()) {
      request = unanswered_[resent_++];
    } else {
      request = queue_.Take();
      hurry_ = hurry_ && !queue_.empty();
      if (request.batches_size() == 0) return true;
      unanswered_.push_back(request);
      ++resent_;
    }
    if (resent_ + counted_ == 1) request.set_namespace_(name_space_);
  }
  sent_ = steady_clock::now();
  room_ -= static_cast<double>(request.ByteSizeLong());
  const Lock writing(writing_);
  return stream_->Write(request);
}

bool LogPump::Connect() {
  if (stream_ != nullptr) stream_->Cancel();
  if (reader_.joinable()) reader_.join();
  {
    const Lock lock(mutex_);
    broken_ = false;
    resent_ = 0;
    counted_ = 0;
  }
  stream_ = client_.agents().AppendLogs();
  reader_ = std::thread([this, stream = stream_.get()] { Hear(stream); });
  return true;
}

void LogPump::Answered(const v1::AppendLogsResponse& response) {
  {
    const Lock lock(mutex_);
    for (; counted_ < response.requests() && !unanswered_.empty() && resent_ > 0; ++counted_) {
      unanswered_.pop_front();
      --resent_;
    }
    for (const std::string& claim : response.refused_claims()) queue_.Drop(claim);
  }
  backoff_.Reset();
  changed_.NotifyAll();
}

void LogPump::Hear(AppendStream* stream) {
  v1::AppendLogsResponse response;
  while (stream->Read(&response)) Answered(response);
  {
    const Lock lock(mutex_);
    broken_ = true;
  }
  changed_.NotifyAll();
  stream->Cancel();  // a write that waits for room ends
  const Lock writing(writing_);
  const auto finished = stream->Finish();
  const bool never = !finished && (finished.error().code == Code::kUnimplemented ||
                                   finished.error().code == Code::kPermissionDenied);
  if (never) Enable(false);
}

}  // namespace dfsmr::cli
