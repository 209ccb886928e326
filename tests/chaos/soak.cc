#include <algorithm>
#include <numeric>

#include "tests/chaos/chaos.h"
#include "tests/chaos/load.h"

namespace dfsmr::chaos {
namespace {

constexpr double kShare = 0.7;             // of the capacity
constexpr int kRetentionSeconds = 60;
constexpr double kWarmUpMinutes = 10;      // or a third of the run, if that is less
constexpr double kSlopeMostMib = 1;        // a minute, of the resident memory after the warm-up
constexpr double kGrowthMost = 1.10;       // from the first quarter after it to the last one
constexpr int kFilesMore = 30;             // tables of the store come and go

// Of five instances four are of a machine with three nodes, one is a plan of four steps.
const char kSoakDefinitions[] = R"(
id: chain
nodes:
  n0: {start: true, timeout_min: 60s, timeout_initial: 60s, transitions: {ok: n1}}
  n1: {timeout_min: 60s, timeout_initial: 60s, transitions: {ok: n2}}
  n2: {timeout_min: 60s, timeout_initial: 60s, transitions: {ok: end}}
  end: {final: true}
---
action: work
timeout_strategy: fixed
timeout: 600
---
plan: fan
flow:
  sequence:
    - {step: first, action: work}
    - concurrence: [{step: left, action: work}, {step: right, action: work}]
    - {step: last, action: work, input: {by: "${first.output.by}"}}
)";

// Starters at a rate, or as many as the workers manage; workers; a watcher of the feed.
class Mix {
 public:
  Mix(const Dsrv& server, const std::string& prefix, double rate)
      : server_(server), prefix_(prefix), rate_(rate) {
    threads_.emplace_back([this] { Start(); });
    for (int i = 0; i < kWorkers; ++i) threads_.emplace_back([this, i] { Work(i); });
    threads_.emplace_back([this] { Watch(); });
  }
  ~Mix() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  uint64_t finished() const { return finished_; }
  uint64_t live() const {
    const uint64_t finished = finished_;
    const uint64_t started = started_;  // may lag: counted when it is answered
    return started > finished ? started - finished : 0;
  }
  std::vector<float> TakeLatencies() {
    std::lock_guard lock(mutex_);
    return std::exchange(latency_ms_, {});
  }
  void Check() const { findings_.Throw(); }

 private:
  static constexpr int kWorkers = 24;  // with few, their waiting for commits is the capacity
  static constexpr uint64_t kLiveMost = 2'000;
  static constexpr int kBatch = 20;

  // Refusals would be a finding: this is less than it can carry.
  bool Good(const char* what, const grpc::Status& status, Clock::time_point since) {
    if (!status.ok()) {
      if (!stopping_) findings_.Add(std::string(what) + ": " + status.error_message());
      return false;
    }
    std::lock_guard lock(mutex_);
    latency_ms_.push_back(static_cast<float>(SecondsSince(since) * 1e3));
    return true;
  }

  void Start() {
    Stub stub(server_.Connect());
    const auto since = Clock::now();
    while (!stopping_ && !findings_.any()) {
      const bool due = rate_ > 0 ? static_cast<double>(started_) < SecondsSince(since) * rate_
                                 : live() < kLiveMost;
      if (!due) {
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      v1::StartBatchRequest request;
      v1::StartBatchResponse response;
      grpc::ClientContext context;
      for (int i = 0; i < kBatch; ++i) {
        auto* start = request.add_starts();
        start->set_machine(i % 5 == 0 ? "fan" : "chain");
        start->set_id(prefix_ + std::to_string(started_ + static_cast<uint64_t>(i)));
        start->set_params(R"({"url": "https://example.org/some/page/of/a/site.html"})");
      }
      started_ += kBatch;
      const auto begun = Clock::now();
      if (!Good("StartBatch", stub.StartBatch(&context, request, &response), begun)) return;
    }
  }

  void Work(int number) {
    Stub stub(server_.Connect());
    v1::ReportRequest request;
    while (!stopping_ && !findings_.any()) {
      request.mutable_next()->set_worker("soak-" + std::to_string(number));
      request.mutable_next()->set_max_tasks(2 * kBatch);
      const bool waits = request.transitions().empty();  // else the wait would be in its latency
      if (waits) request.mutable_next()->mutable_wait()->set_nanos(200'000'000);
      v1::ReportResponse response;
      grpc::ClientContext context;
      const auto begun = Clock::now();
      const grpc::Status status = stub.Report(&context, request, &response);
      if (waits ? !status.ok() : !Good("Report", status, begun)) {
        findings_.Add("Report: " + status.error_message());
        return;
      }
      request.Clear();
      for (const auto& result : response.results()) {
        if (result.has_error()) findings_.Add("a report: " + result.error().message());
        if (result.accepted().state() == v1::Instance::STOPPED) ++finished_;
      }
      for (const v1::Task& task : response.tasks()) {
        auto* report = request.add_transitions();
        report->set_instance(task.instance());
        report->set_claim(task.claim());
        report->set_transition("ok");
        if (task.machine() == "fan") report->set_output(R"({"by": "soak"})");
      }
    }
  }

  void Watch() {
    Stub stub(server_.Connect());
    while (!stopping_) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
      v1::ChangesRequest request;
      request.set_after(cursor_);
      request.set_follow(true);
      auto stream = stub.Changes(&context, request);
      v1::ChangesResponse response;
      while (stream->Read(&response)) cursor_ = response.cursor();
      const grpc::Status status = stream->Finish();
      if (status.error_code() == grpc::StatusCode::OUT_OF_RANGE) {
        findings_.Add("the watcher was overtaken by the retention: " + status.error_message());
      }
    }
  }

  const Dsrv& server_;
  const std::string prefix_;
  const double rate_;
  std::string cursor_;
  Findings findings_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> started_ = 0;
  std::atomic<uint64_t> finished_ = 0;
  std::mutex mutex_;
  std::vector<float> latency_ms_;
  std::vector<std::thread> threads_;
};

struct Minute {
  double rss_mib = 0;  // the median
  int files = 0;       // the most
  int threads = 0;
  double disk_mib = 0;
};

// One minute of it, printed.
Minute Observe(const Dsrv& server, Mix* mix, int number, double seconds) {
  const auto since = Clock::now();
  const uint64_t finished = mix->finished();
  std::vector<double> rss_mib;
  Minute minute;
  while (SecondsSince(since) < seconds) {
    const Vitals vitals = VitalsOf(server.pid());
    rss_mib.push_back(vitals.rss_mib);
    minute.files = std::max(minute.files, vitals.files);
    minute.threads = std::max(minute.threads, vitals.threads);
    mix->Check();
    std::this_thread::sleep_for(milliseconds(500));
  }
  std::ranges::sort(rss_mib);
  minute.rss_mib = rss_mib[rss_mib.size() / 2];
  minute.disk_mib = DiskMib(server.data());
  const double rate = static_cast<double>(mix->finished() - finished) / SecondsSince(since);
  std::printf("%6d %10.0f %10.0f %8.1f %8d %8d %9.0f %8.0f\n", number, rate,
              static_cast<double>(mix->live()), minute.rss_mib, minute.files, minute.threads,
              minute.disk_mib, Percentile(mix->TakeLatencies(), 0.99));
  std::fflush(stdout);
  return minute;
}

double SlopeOf(const std::vector<double>& values) {
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double above = 0;
  double below = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - (count - 1) / 2;
    above += x * (values[i] - mean);
    below += x * x;
  }
  return below == 0 ? 0 : above / below;
}

void Judge(const std::vector<Minute>& minutes, double minute_seconds) {
  const auto warm = static_cast<std::size_t>(
      std::min(kWarmUpMinutes, static_cast<double>(minutes.size()) / 3));
  std::vector<double> rss;
  for (std::size_t i = warm; i < minutes.size(); ++i) rss.push_back(minutes[i].rss_mib);
  const std::size_t quarter = std::max<std::size_t>(1, rss.size() / 4);
  const auto mean = [&](auto begin) {
    return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(quarter), 0.0) /
           static_cast<double>(quarter);
  };
  const double growth = mean(rss.end() - static_cast<std::ptrdiff_t>(quarter)) / mean(rss.begin());
  const double slope = SlopeOf(rss) * 60 / minute_seconds;
  int files_early = 0;
  int files_late = 0;
  const std::size_t middle = warm + rss.size() / 2;
  for (std::size_t i = warm; i < minutes.size(); ++i) {
    int& most = i < middle ? files_early : files_late;
    most = std::max(most, minutes[i].files);
  }
  std::printf("soak: after %zu minutes of warm-up the memory grew %.2f MiB a minute, to %.0f%%; at "
              "most %d files open in the first half, %d in the second\n",
              warm, slope, 100 * growth, files_early, files_late);
  if (slope > kSlopeMostMib) throw Broken("the memory grows");
  if (growth > kGrowthMost) throw Broken("the memory has grown");
  if (files_late > files_early + kFilesMore) throw Broken("open files grow");
}

}  // namespace

void Soak(const Options& options, double minutes, double rate) {
  // Caches of a size that is soon full: what grows after that is something else.
  Dsrv server(options, {"--retention", std::to_string(kRetentionSeconds) + "s", "--cache-mb", "32",
                        "--memtable-mb", "8", "--cached-instances", "10000"});
  server.Start();
  server.Define(kSoakDefinitions);
  double capacity = 0;
  if (rate == 0) {
    Mix mix(server, "capacity-", 0);
    // Once the retention has its share of the work; a short run cannot wait for that.
    std::this_thread::sleep_for(std::chrono::seconds(minutes < 6 ? 3 : kRetentionSeconds * 5 / 4));
    const auto since = Clock::now();
    const uint64_t finished = mix.finished();
    std::this_thread::sleep_for(std::chrono::seconds(10));
    mix.Check();
    capacity = static_cast<double>(mix.finished() - finished) / SecondsSince(since);
    rate = kShare * capacity;
  }
  std::printf("soak: %.0f instances/s for %.0f minutes%s\n", rate, minutes,
              capacity > 0 ? (", 70 % of " + std::to_string(static_cast<int>(capacity))).c_str()
                           : "");
  std::printf("%6s %10s %10s %8s %8s %8s %9s %8s\n", "minute", "finished/s", "live", "RSS MiB",
              "files", "threads", "disk MiB", "p99 ms");
  // Instances that the capacity run left behind are worked off with the others.
  Mix mix(server, "soak-", rate);
  std::vector<Minute> observed;
  const double minute_seconds = minutes < 6 ? minutes * 10 : 60;  // short runs: in six parts
  const int parts = static_cast<int>(minutes * 60 / minute_seconds + 0.5);
  for (int i = 1; i <= parts; ++i) observed.push_back(Observe(server, &mix, i, minute_seconds));
  Judge(observed, minute_seconds);
}

}  // namespace dfsmr::chaos
