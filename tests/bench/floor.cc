// The floor: the least that a server of this contract can do. It decides nothing and remembers
// nothing. Ready answers made-up tasks from memory; every transition becomes 3 puts and 1 delete on
// random instance keys, group-committed to RocksDB with one fsync before the reply. What dsrv does
// beyond this is what its rules cost; see bench.cc, which runs both in turns.
#include <grpcpp/grpcpp.h>
#include <pthread.h>
#include <rocksdb/db.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dfsmr/v1/runner.grpc.pb.h"
#include "dsrv/loop/meter.h"

namespace dfsmr::bench {
namespace {

constexpr std::size_t kValueBytes = 200;
constexpr uint64_t kInstances = 1'000'000;

struct Options {
  std::string address = "127.0.0.1:3004";
  std::string data = "./floor-data";
  std::size_t params_bytes = 200;     // a task's instance_params
  std::size_t node_params_bytes = 0;  // a task's node_params
  uint64_t stop_every = 0;            // every n-th transition ends its instance; 0: none does
};

std::string JsonOfSize(std::size_t bytes) {
  constexpr std::string_view kFrame = R"({"p":""})";
  if (bytes < kFrame.size()) return {};
  return R"({"p":")" + std::string(bytes - kFrame.size(), 'x') + R"("})";
}

// What one request wants on disk, and what to do once it is there.
struct Job {
  std::vector<std::size_t> item_bytes;  // the payload of each transition
  std::function<void()> reply;
};

using Clock = std::chrono::steady_clock;

// One thread that drains what is waiting, commits the lot with one fsync, then replies.
class Writer {
 public:
  explicit Writer(const std::string& directory) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 20;
    options.compression = rocksdb::kNoCompression;
    options.IncreaseParallelism(2);
    rocksdb::DB* opened = nullptr;
    MustBeOk(rocksdb::DB::Open(options, directory, &opened));
    db_.reset(opened);
    thread_ = std::thread([this] { Run(); });
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    Submit({});
    thread_.join();
  }

  // Any thread. A job without a reply ends the writer.
  void Submit(Job job) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(job));
    if (waiting_.size() == 1) arrived_.notify_one();
  }

  // Any thread.
  const Meter& meter() const { return meter_; }

 private:
  static void MustBeOk(const rocksdb::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "floor: %s\n", status.ToString().c_str());
    std::abort();
  }

  void Run() {
    StageClock clock(meter_);
    std::vector<Job> jobs;
    for (bool ended = false; !ended; jobs.clear()) {
      Drain(&jobs);
      Stage(jobs);
      clock.Lap(Meter::kEncodeUs);
      Commit();
      clock.Lap(Meter::kCommitUs);
      for (const Job& job : jobs) {
        if (job.reply) {
          job.reply();
        } else {
          ended = true;
        }
      }
      clock.Lap(Meter::kReplyUs);
    }
  }

  void Drain(std::vector<Job>* jobs) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !waiting_.empty(); });
    jobs->swap(waiting_);
  }

  void Stage(const std::vector<Job>& jobs) {
    batch_.Clear();
    for (const Job& job : jobs) {
      for (const std::size_t bytes : job.item_bytes) Stage(bytes);
    }
  }

  void Commit() {
    const uint64_t items = batch_.Count() / kRows;
    if (items == 0) return;
    const auto begin = Clock::now();
    rocksdb::WriteOptions options;
    options.sync = true;
    MustBeOk(db_->Write(options, &batch_));
    const auto took = Clock::now() - begin;
    meter_.Add(Meter::kTurns, 1);
    meter_.Add(Meter::kCommits, 1);
    meter_.Add(Meter::kPuts, items * (kRows - 1));
    meter_.Add(Meter::kDeletes, items);
    meter_.Add(Meter::kBytes, batch_.GetDataSize());
    meter_.Add(Meter::kWriteUs, static_cast<uint64_t>(took / std::chrono::microseconds(1)));
  }

  // An instance's row, its line of history, and its move from one ready queue to another.
  void Stage(std::size_t bytes) {
    if (filler_.size() < bytes) filler_.resize(bytes, 'v');
    const rocksdb::Slice value(filler_.data(), kValueBytes);
    const rocksdb::Slice row(filler_.data(), std::max(bytes, kValueBytes));
    const std::string instance = std::to_string(kInstances + random_() % kInstances);
    batch_.Put("i/" + instance, row);
    batch_.Put("h/" + instance + "/" + std::to_string(++sequence_), value);
    batch_.Put("q/next/" + instance, value);
    batch_.Delete("q/from/" + instance);
  }

  static constexpr uint64_t kRows = 4;  // of one item

  std::unique_ptr<rocksdb::DB> db_;
  Meter meter_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Job> waiting_;  // guarded by mutex_
  rocksdb::WriteBatch batch_;
  std::string filler_ = std::string(kValueBytes, 'v');
  std::minstd_rand random_{1};
  uint64_t sequence_ = 0;
  std::thread thread_;
};

// Makes tasks and answers up.
class Fiction {
 public:
  explicit Fiction(const Options& options) : stop_every_(options.stop_every) {
    model_.set_namespace_("default");
    model_.set_machine("bench");
    model_.set_version(1);
    model_.set_node("n0");
    model_.set_attempt(1);
    model_.set_instance_params(JsonOfSize(options.params_bytes));
    model_.set_node_params(JsonOfSize(options.node_params_bytes));
    model_.set_action("bench.n0");
    model_.set_queue("default");
  }

  void Fill(v1::Task* task) {
    const uint64_t number = ++tasks_;
    *task = model_;
    task->set_instance("bench-" + std::to_string(number * 7'919 % kInstances));
    task->set_visit(number);
    task->set_claim("claim-" + std::to_string(number));
    task->mutable_deadline()->set_seconds(std::time(nullptr) + 60);
  }

  void Fill(const v1::TransitionRequest& request, v1::TransitionResponse* response) {
    const uint64_t number = ++transitions_;
    response->set_instance(request.instance());
    response->set_prev_node("n0");
    response->set_node("n1");
    response->add_nodes("n1");
    response->set_visit(number);
    const bool stopped = stop_every_ > 0 && number % stop_every_ == 0;
    response->set_state(stopped ? v1::Instance::STOPPED : v1::Instance::RUNNING);
    response->set_result(stopped ? v1::Instance::SUCCESS : v1::Instance::PENDING);
  }

  static void Fill(const v1::StartRequest& request, v1::StartResponse* response) {
    response->mutable_instance()->set_id(request.id());
    response->mutable_instance()->set_machine(request.machine());
    response->mutable_instance()->set_state(v1::Instance::RUNNING);
    response->set_created(true);
  }

 private:
  v1::Task model_;
  const uint64_t stop_every_;
  std::atomic<uint64_t> tasks_ = 0;
  std::atomic<uint64_t> transitions_ = 0;
};

// A long poll that nothing will ever answer.
class ParkedPoll final : public grpc::ServerUnaryReactor {
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

using WorkReactor = grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>;

// One Work stream: reports go to the writer as they come; what the writer has committed meanwhile
// goes out in one message, with as many new tasks.
class WorkStream final : public WorkReactor {
 public:
  WorkStream(Writer* writer, Fiction* fiction) : writer_(*writer), fiction_(*fiction) {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok) {
      half_closed_ = true;
      return Flush();
    }
    if (request_.has_open()) AddTasks(request_.open().max_tasks());
    draining_ = draining_ || request_.drain();
    if (request_.transitions_size() > 0) Submit();
    StartRead(&request_);
    Flush();
  }

  void Submit() {
    Job job;
    auto committed = std::make_shared<v1::WorkResponse>();
    for (const auto& transition : request_.transitions()) {
      job.item_bytes.push_back(transition.node_params().size());
      fiction_.Fill(transition, committed->add_results()->mutable_accepted());
    }
    ++in_commit_;
    job.reply = [this, committed] { Committed(committed.get()); };
    writer_.Submit(std::move(job));
  }

  void Committed(v1::WorkResponse* committed) {
    const std::lock_guard lock(mutex_);
    --in_commit_;
    in_hand_ -= committed->results_size();
    const int freed = committed->results_size();
    for (auto& result : *committed->mutable_results()) pending_.add_results()->Swap(&result);
    AddTasks(freed);
    Flush();
  }

  void AddTasks(int count) {
    if (draining_ || half_closed_) return;
    in_hand_ += count;
    for (int i = 0; i < count; ++i) fiction_.Fill(pending_.add_tasks());
  }

  void Flush() {
    if (writing_ || finished_) return;
    if (!half_closed_ && pending_.tasks_size() + pending_.results_size() > 0) {
      writing_ = true;
      response_.Clear();
      response_.Swap(&pending_);
      return StartWrite(&response_);
    }
    if (in_commit_ > 0 || !(half_closed_ || (draining_ && in_hand_ == 0))) return;
    finished_ = true;
    Finish(grpc::Status::OK);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    half_closed_ = half_closed_ || !ok;
    Flush();
  }

  void OnDone() override {
    { const std::lock_guard wait_for_whoever_called_finish(mutex_); }
    delete this;
  }

  Writer& writer_;
  Fiction& fiction_;
  std::recursive_mutex mutex_;  // gRPC may call back from within StartRead
  v1::WorkRequest request_;
  v1::WorkResponse pending_;
  v1::WorkResponse response_;
  int in_hand_ = 0;
  int in_commit_ = 0;
  bool writing_ = false;
  bool draining_ = false;
  bool half_closed_ = false;
  bool finished_ = false;
};

class FloorService final : public v1::RunnerService::CallbackService {
 public:
  explicit FloorService(const Options& options) : fiction_(options), writer_(options.data) {}

  const Meter& meter() const { return writer_.meter(); }

 private:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* Define(Context* context, const v1::DefineRequest*, v1::DefineResponse*) override {
    return Answered(context);
  }

  Reactor* Ready(Context* context, const v1::ReadyRequest* request,
                 v1::ReadyResponse* response) override {
    if (request->machine() != "bench") return new ParkedPoll;
    for (int i = 0; i < request->max_tasks(); ++i) fiction_.Fill(response->add_tasks());
    return Answered(context);
  }

  Reactor* Transition(Context* context, const v1::TransitionRequest* request,
                      v1::TransitionResponse* response) override {
    fiction_.Fill(*request, response);
    return Committed(context, {request->node_params().size()});
  }

  Reactor* Report(Context* context, const v1::ReportRequest* request,
                  v1::ReportResponse* response) override {
    std::vector<std::size_t> item_bytes;
    for (const auto& transition : request->transitions()) {
      fiction_.Fill(transition, response->add_results()->mutable_accepted());
      item_bytes.push_back(transition.node_params().size());
    }
    for (int i = 0; i < request->next().max_tasks(); ++i) fiction_.Fill(response->add_tasks());
    return Committed(context, std::move(item_bytes));
  }

  WorkReactor* Work(Context*) override { return new WorkStream(&writer_, &fiction_); }

  Reactor* Start(Context* context, const v1::StartRequest* request,
                 v1::StartResponse* response) override {
    Fiction::Fill(*request, response);
    return Committed(context, {request->params().size()});
  }

  Reactor* StartBatch(Context* context, const v1::StartBatchRequest* request,
                      v1::StartBatchResponse* response) override {
    std::vector<std::size_t> item_bytes;
    for (const auto& start : request->starts()) {
      Fiction::Fill(start, response->add_results()->mutable_started());
      item_bytes.push_back(start.params().size());
    }
    return Committed(context, std::move(item_bytes));
  }

  static Reactor* Answered(Context* context) {
    Reactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  Reactor* Committed(Context* context, std::vector<std::size_t> item_bytes) {
    if (item_bytes.empty()) return Answered(context);
    Reactor* reactor = context->DefaultReactor();
    writer_.Submit({std::move(item_bytes), [reactor] { reactor->Finish(grpc::Status::OK); }});
    return reactor;
  }

  Fiction fiction_;
  Writer writer_;
};

int Serve(const Options& options, const sigset_t& signals) {
  FloorService service(options);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return 1;
  for (int received = 0; sigwait(&signals, &received) == 0 && received == SIGUSR1;) {
    std::fprintf(stderr, "meter %s\n", service.meter().Text().c_str());
  }
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

}  // namespace
}  // namespace dfsmr::bench

int main(int argc, char** argv) {
  dfsmr::bench::Options options;
  CLI::App app("The least that a server of this contract can do: what bench compares dsrv with.");
  app.add_option("--addr", options.address, "HOST:PORT to listen on");
  app.add_option("--data", options.data, "directory of the database");
  app.add_option("--params-bytes", options.params_bytes, "size of a task's instance_params");
  app.add_option("--node-params-bytes", options.node_params_bytes, "size of a task's node_params");
  app.add_option("--stop-every", options.stop_every, "every n-th transition ends its instance");
  CLI11_PARSE(app, argc, argv);
  // Blocked before any thread is made, so that all of them leave the signals to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return dfsmr::bench::Serve(options, signals);
}
