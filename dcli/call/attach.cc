#include "dcli/call/attach.h"

#include <atomic>
#include <deque>

#include "dcli/call/agents.h"
#include "dcli/call/calling.h"

namespace dfsmr::cli {
namespace {

using std::chrono::steady_clock;

constexpr size_t kLargestMessage = 1 << 20;  // of several taken together; the server takes 4 MiB
constexpr int kMostItems = 900;

// Whether both may go as one message.
bool Together(const v1::AgentMessage& a, const v1::AgentMessage& b) {
  const auto fits = [](int one, int other) { return one + other <= kMostItems; };
  return fits(a.work().transitions_size(), b.work().transitions_size()) &&
         fits(a.work().extends_size(), b.work().extends_size()) &&
         fits(a.work().relinquishes_size(), b.work().relinquishes_size()) &&
         fits(a.stops_size(), b.stops_size()) &&
         a.ByteSizeLong() + b.ByteSizeLong() <= kLargestMessage;
}

std::string LifeOf(const grpc::ClientContext& context) {
  const auto& said = context.GetServerInitialMetadata();
  const auto found = said.find("dfsmr-life");
  return found == said.end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace

// What is under way has a tag each; its completion is dealt with by the thread that gets it from
// the queue. Mostly a write is complete once it has begun, and then the thread that began it gets
// its completion: no other one is woken.
class AgentCalls::Attachment final : public AttachStream {
 public:
  explicit Attachment(Client& client) : client_(client) {}
  ~Attachment() override;

  Result<Ok> Live(const v1::AgentMessage& first, const Hear& hear) override;
  void Send(v1::AgentMessage message) override;
  void Cancel() override { context_.TryCancel(); }
  steady_clock::time_point written() const override {
    return steady_clock::time_point(steady_clock::duration(written_.load()));
  }

 private:
  enum Tag : intptr_t { kOpened, kRead, kWritten, kFinished };
  static void* Of(Tag tag) { return reinterpret_cast<void*>(tag); }

  // Deals with what is complete. True: a message was taken, to be written now.
  bool Done(void* tag, bool ok);
  bool Opened(bool ok);
  void HaveRead(bool ok);
  bool Written(bool ok);
  void Read();
  bool Take() REQUIRES(mutex_);  // into `current_`, when nothing is being written
  void Write();                  // what was taken, and what is taken meanwhile
  // Nothing more is read, and nothing is being written.
  void Finish() { stream_->Finish(&status_, Of(kFinished)); }

  Client& client_;
  const Hear* hear_ = nullptr;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::AgentMessage, v1::AgentOrder>> stream_;
  std::shared_ptr<v1::AgentOrder> order_;  // that is being read
  std::string life_;
  v1::AgentMessage current_;  // that is being written
  std::atomic<steady_clock::rep> written_{steady_clock::now().time_since_epoch().count()};
  grpc::Status status_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<v1::AgentMessage> out_ GUARDED(mutex_);
  bool writable_ GUARDED(mutex_) = false;
  bool writing_ GUARDED(mutex_) = false;
  bool over_ GUARDED(mutex_) = false;  // nothing more is read
  int writers_ GUARDED(mutex_) = 0;    // threads in Write
};

std::unique_ptr<AttachStream> AgentCalls::Attach() {
  return std::make_unique<Attachment>(client_);
}

AgentCalls::Attachment::~Attachment() {
  queue_.Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue_.Next(&tag, &ok);) continue;
}

Result<Ok> AgentCalls::Attachment::Live(const v1::AgentMessage& first, const Hear& hear) {
  hear_ = &hear;
  const auto connection = client_.Connected();
  SendToken(client_.credentials_, &context_);
  current_ = first;
  stream_ = connection->agents->PrepareAsyncAttach(&context_, &queue_);
  stream_->StartCall(Of(kOpened));
  void* tag = nullptr;
  for (bool ok = false; queue_.Next(&tag, &ok);) {
    if (Done(tag, ok)) Write();
  }
  {
    Lock lock(mutex_);
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return writers_ == 0; });
  }
  if (status_.ok()) return Ok{};
  const Error error = ErrorOf(status_, context_);
  client_.Lost(connection, error);
  return error;
}

bool AgentCalls::Attachment::Done(void* tag, bool ok) {
  if (tag == Of(kOpened)) return Opened(ok);
  if (tag == Of(kWritten)) return Written(ok);
  if (tag == Of(kRead)) HaveRead(ok);
  if (tag == Of(kFinished)) queue_.Shutdown();
  return false;
}

// The first message goes alone: what is sent after it may count on its having been dealt with.
bool AgentCalls::Attachment::Opened(bool ok) {
  {
    const Lock lock(mutex_);
    writable_ = writing_ = ok;
    over_ = !ok;
  }
  ok ? Read() : Finish();
  return ok;
}

void AgentCalls::Attachment::Read() {
  order_ = std::make_shared<v1::AgentOrder>();
  stream_->Read(order_.get(), Of(kRead));
}

void AgentCalls::Attachment::HaveRead(bool ok) {
  if (ok) {
    if (life_.empty()) life_ = LifeOf(context_);
    (*hear_)(std::move(order_), life_);
    return Read();
  }
  {
    const Lock lock(mutex_);
    over_ = true;
    writable_ = false;
    if (writing_) return;  // Written finishes
  }
  Finish();
}

bool AgentCalls::Attachment::Written(bool ok) {
  {
    const Lock lock(mutex_);
    writing_ = false;
    writable_ = writable_ && ok;
    if (!over_) return Take();
  }
  Finish();
  return false;
}

bool AgentCalls::Attachment::Take() {
  if (!writable_ || writing_ || out_.empty()) return false;
  writing_ = true;
  current_.Clear();
  current_.Swap(&out_.front());
  out_.pop_front();
  while (!out_.empty() && Together(current_, out_.front())) {
    current_.MergeFrom(out_.front());
    out_.pop_front();
  }
  return true;
}

void AgentCalls::Attachment::Write() {
  {
    const Lock lock(mutex_);
    ++writers_;
  }
  for (bool taken = true; taken;) {
    written_ = steady_clock::now().time_since_epoch().count();
    void* tag = nullptr;
    bool ok = false;
    const auto got = queue_.DoThenAsyncNext([this] { stream_->Write(current_, Of(kWritten)); },
                                            &tag, &ok, std::chrono::system_clock::time_point());
    taken = got == grpc::CompletionQueue::GOT_EVENT && Done(tag, ok);
  }
  const Lock lock(mutex_);
  --writers_;
  changed_.NotifyAll();
}

void AgentCalls::Attachment::Send(v1::AgentMessage message) {
  {
    const Lock lock(mutex_);
    if (over_) return;
    out_.push_back(std::move(message));
    if (!Take()) return;
  }
  Write();
}

}  // namespace dfsmr::cli
