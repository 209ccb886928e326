#include "tests/chaos/load.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

namespace dfsmr::chaos {

double Percentile(std::vector<float> latency_ms, double share) {
  if (latency_ms.empty()) return 0;
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(latency_ms.size() - 1));
  const auto at = latency_ms.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(latency_ms.begin(), at, latency_ms.end());
  return static_cast<double>(*at);
}

struct StartLoad::Call {
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer response;
  grpc::Status status;
  Clock::time_point since;
};

StartLoad::StartLoad(const Dsrv& server, Plan plan) : plan_(std::move(plan)) {
  constexpr int kConnections = 8;
  for (int i = 0; i < kConnections; ++i) {
    channels_.push_back(server.Connect());
    stubs_.push_back(std::make_unique<grpc::GenericStub>(channels_.back()));
  }
  drain_ = std::thread([this] { Drain(); });
  if (plan_.batches_per_s > 0) {
    offer_ = std::thread([this] { Offer(); });
  } else {
    for (int i = 0; i < plan_.clients; ++i) Issue();
  }
}

StartLoad::~StartLoad() {
  if (drain_.joinable()) (void)Stop();
}

Outcomes StartLoad::Stop() {
  stopping_ = true;
  if (offer_.joinable()) offer_.join();
  while (under_way_ > 0) std::this_thread::sleep_for(milliseconds(1));
  queue_.Shutdown();
  drain_.join();
  outcomes_.offered = offered_;
  outcomes_.unsent = unsent_;
  return std::move(outcomes_);
}

// On time: what is due is offered, however long the offers before it took.
void StartLoad::Offer() {
  const auto since = Clock::now();
  uint64_t offered = 0;
  while (!stopping_) {
    const auto due = static_cast<uint64_t>(SecondsSince(since) * plan_.batches_per_s);
    for (; offered < due && !stopping_; ++offered) {
      if (under_way_ >= plan_.under_way_most) {
        ++unsent_;
      } else {
        Issue();
      }
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

grpc::ByteBuffer StartLoad::Batch() {
  v1::StartBatchRequest request;
  for (int i = 0; i < plan_.batch; ++i) {
    v1::StartRequest* start = request.add_starts();
    start->set_machine("load");
    start->set_id(plan_.prefix + std::to_string(++serial_));
    start->set_params(R"({"url": "https://example.org/some/page/of/a/site.html"})");
  }
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

void StartLoad::Issue() {
  auto* call = new Call;
  call->context.set_deadline(std::chrono::system_clock::now() +
                             milliseconds(static_cast<int>(plan_.deadline_seconds * 1e3)));
  ++under_way_;
  const uint64_t number = ++offered_;
  call->since = Clock::now();
  call->reader = stubs_[number % stubs_.size()]->PrepareUnaryCall(
      &call->context, "/dfsmr.v1.RunnerService/StartBatch", Batch(), &queue_);
  call->reader->StartCall();
  call->reader->Finish(&call->response, &call->status, call);
}

void StartLoad::Drain() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    std::unique_ptr<Call> call(static_cast<Call*>(tag));
    Finish(call.get());
    if (plan_.batches_per_s == 0 && !stopping_) Issue();
    --under_way_;
  }
}

void StartLoad::Finish(Call* call) {
  const float ms = static_cast<float>(SecondsSince(call->since) * 1e3);
  std::lock_guard lock(mutex_);
  if (call->status.ok()) {
    ++outcomes_.accepted;
    outcomes_.items += static_cast<uint64_t>(plan_.batch);
    outcomes_.latency_ms.push_back(ms);
  } else if (call->status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
             ReasonOf(call->context) == "OVERLOADED") {
    ++outcomes_.overloaded;
    outcomes_.refusal = call->status.error_message();
  } else if (call->status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    ++outcomes_.late;
  } else if (outcomes_.other++ == 0) {
    outcomes_.first_other = std::to_string(call->status.error_code()) + " " +
                            ReasonOf(call->context) + " " + call->status.error_message();
  }
}

Vitals VitalsOf(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  Vitals vitals;
  vitals.rss_mib = bench::UsageOf(pid).rss_bytes / (1 << 20);
  std::error_code gone;
  for (const auto& file : std::filesystem::directory_iterator(folder + "/fd", gone)) {
    ++vitals.files;
    const auto target = std::filesystem::read_symlink(file, gone);
    if (!gone && target.native().starts_with("socket:")) ++vitals.sockets;
  }
  for (const auto& thread : std::filesystem::directory_iterator(folder + "/task", gone)) {
    (void)thread;
    ++vitals.threads;
  }
  return vitals;
}

double DiskMib(const std::string& path) {
  double bytes = 0;
  std::error_code gone;
  for (const auto& file : std::filesystem::recursive_directory_iterator(path, gone)) {
    const auto size = std::filesystem::file_size(file, gone);
    if (!gone) bytes += static_cast<double>(size);
  }
  return bytes / (1 << 20);
}

PeakMemory::PeakMemory(pid_t pid) {
  thread_ = std::thread([this, pid] {
    try {
      for (; !stopping_; std::this_thread::sleep_for(milliseconds(50))) {
        peak_ = std::max<double>(peak_, VitalsOf(pid).rss_mib);
      }
    } catch (const std::exception&) {
      // The server is gone: whoever uses it says so.
    }
  });
}

PeakMemory::~PeakMemory() {
  stopping_ = true;
  thread_.join();
}

}  // namespace dfsmr::chaos
