#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "dcli/commands/clock.h"
#include "dcli/commands/commands.h"
#include "dcli/commands/dry_run.h"
#include "dcli/commands/sources.h"
#include "dcli/commands/wait.h"
#include "dcli/system/signals.h"
#include "dcli/text/json.h"
#include "dcli/text/values.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

constexpr int kBatchItems = 1'000;
constexpr size_t kBatchBytes = 3 << 20;  // a message may have 4 MiB

Result<Ok> SetTimes(Context& context, const StartOptions& options, v1::StartRequest* request) {
  if (!options.at.empty()) {
    const auto time = ParseServerTime(context, options.at);
    if (!time) return time.error();
    *request->mutable_start_at() = ToProto(*time);
  }
  if (!options.before.empty()) {
    const auto time = ParseServerTime(context, options.before);
    if (!time) return time.error();
    *request->mutable_start_before() = ToProto(*time);
  }
  return Ok{};
}

// The machine and the params. With --flow the machine may be missing; then the first word may be a
// parameter.
Result<Ok> SetSubject(const StartOptions& options, v1::StartRequest* request) {
  std::string machine = options.machine;
  std::vector<std::string> pairs = options.pairs;
  if (!options.flow.empty() && machine.find('=') != std::string::npos) {
    pairs.insert(pairs.begin(), std::exchange(machine, ""));
  }
  const auto params = ParseParams(options.params, pairs);
  if (!params) return params.error();
  request->set_params(*params);
  if (machine.empty() && options.flow.empty())
    return BadUsage("say which MACHINE, or give a --flow");
  if (!machine.empty()) {
    const auto ref = ParseStartRef(machine);
    if (!ref) return ref.error();
    request->set_machine(ref->id);
    request->set_version(ref->version);
  }
  if (options.flow.empty()) return Ok{};
  const auto sources = ReadSources({options.flow});
  if (!sources) return sources.error();
  if (sources->size() != 1)
    return BadUsage("--flow takes one file, and " + options.flow + " is many");
  if (sources->front().text.empty()) return BadUsage(options.flow + " is empty: it holds no flow");
  if (const auto wrong = Unsendable(sources->front()); !wrong.empty()) {
    return BadUsage(Format(wrong.front()));
  }
  request->set_flow(sources->front().text);
  return Ok{};
}

void AddAfter(const std::vector<std::string>& instances, bool any_result,
              v1::StartRequest* request) {
  for (const std::string& instance : instances) {
    v1::After* after = request->add_after();
    after->set_instance(instance);
    after->set_any_result(any_result);
  }
}

Result<Ok> SetDryRun(const StartOptions& options, v1::StartRequest* request) {
  request->set_dry_run(options.dry_run);
  if (!options.answers.empty() && !options.dry_run) {
    return BadUsage("--answer goes with --dry-run");
  }
  if (options.dry_run && options.count > 1) {
    return BadUsage("--dry-run starts one instance: it cannot go with --count");
  }
  for (const std::string& answer : options.answers) {
    const size_t equals = answer.find('=');
    if (equals == 0 || equals >= answer.size() - 1 || equals == std::string::npos) {
      return BadUsage("--answer " + answer +
                      ": expected NODE=TRANSITION, or NODE=JSON such as "
                      "check={\"transition\":\"bad\",\"times\":1}");
    }
    const std::string value = answer.substr(equals + 1);
    if (value.starts_with('{') && !IsJsonObject(value)) {
      return BadUsage("--answer " + answer + ": what is behind the '=' is not JSON");
    }
    (*request->mutable_dry_answers())[answer.substr(0, equals)] = value;
  }
  return Ok{};
}

Result<v1::StartRequest> RequestOf(Context& context, const StartOptions& options) {
  v1::StartRequest request;
  const auto subject = SetSubject(options, &request);
  if (!subject) return subject.error();
  const auto labels = ParseLabels(options.labels, request.mutable_labels());
  if (!labels) return labels.error();
  const auto times = SetTimes(context, options, &request);
  if (!times) return times.error();
  if (!options.wait_after_fail.empty()) {
    const auto wait = ParseDuration(options.wait_after_fail);
    if (!wait) return wait.error();
    *request.mutable_wait_after_fail() = ToProto(*wait);
  }
  if (options.count < 1) return BadUsage("--count must be at least 1");
  if (options.count > 1 && !options.id.empty()) {
    return BadUsage("--id names one instance: it cannot go with --count");
  }
  request.set_namespace_(context.name_space);
  request.set_id(options.id);
  request.set_priority(options.priority);
  request.set_hold(options.hold);
  request.set_group(options.group);
  request.set_force(options.force);
  request.set_on_conflict(options.on_conflict);
  if (const char* parent = std::getenv("TRACEPARENT")) request.set_traceparent(parent);
  const auto dry = SetDryRun(options, &request);
  if (!dry) return dry.error();
  AddAfter(options.after, false, &request);
  AddAfter(options.after_any, true, &request);
  return request;
}

void PrintStarted(Context& context, const v1::StartResponse& started, bool alone) {
  if (alone ? context.Print(started) : context.PrintOne(started)) return;
  if (context.names()) {
    context.out << started.instance().id() << '\n';
  } else {
    PrintInstance(context.out, started.instance(), context.look,
                  started.created() ? "" : "it was there already");
  }
}

// Starts in batches until `count` are started or one is refused, and prints each of them as it
// goes, unless they are printed later.
class Starter {
 public:
  Starter(Context& context, bool quiet) : context_(context), quiet_(quiet) {}

  int Run(const v1::StartRequest& request, int count) {
    return count == 1 ? StartOne(request) : StartMany(request, count);
  }
  const std::vector<v1::StartResponse>& started() const { return started_; }

 private:
  int StartOne(const v1::StartRequest& request) {
    auto started = context_.client->Start(request);
    if (!started) return context_.Fail(started.error());
    if (!quiet_) PrintStarted(context_, *started, true);
    started_.push_back(*std::move(started));
    return kSucceeded;
  }

  int StartMany(const v1::StartRequest& request, int count) {
    const size_t fitting = kBatchBytes / (request.ByteSizeLong() + 8);
    const int size = std::clamp(static_cast<int>(std::min<size_t>(fitting, kBatchItems)), 1, count);
    for (int left = count; left > 0; left -= size) {
      v1::StartBatchRequest batch;
      for (int i = 0; i < std::min(size, left); ++i) *batch.add_starts() = request;
      const auto results = context_.client->StartBatch(batch);
      if (!results) return Stopped(results.error(), count);
      std::optional<Error> refused;
      for (const v1::StartResult& result : results->results()) {
        if (result.has_error()) {
          if (!refused) refused = FromProto(result.error());
          continue;
        }
        if (!quiet_) PrintStarted(context_, result.started(), false);
        started_.push_back(result.started());
      }
      if (refused) return Stopped(*refused, count);
    }
    return kSucceeded;
  }

  int Stopped(const Error& error, int count) {
    const int status = context_.Fail(error);
    if (!started_.empty()) {
      context_.Note("started " + std::to_string(started_.size()) + " of " + std::to_string(count));
    }
    return status;
  }

  Context& context_;
  const bool quiet_;
  std::vector<v1::StartResponse> started_;
};

int PrintEnded(Context& context, std::vector<v1::StartResponse> started,
               const std::vector<v1::Instance>& ended) {
  bool all_well = true;
  for (size_t i = 0; i < ended.size(); ++i) {
    *started[i].mutable_instance() = ended[i];
    all_well = all_well && ended[i].result() == v1::Instance::SUCCESS;
    if (started.size() == 1 ? context.Print(started[i]) : context.PrintOne(started[i])) continue;
    if (!context.names()) PrintInstance(context.out, ended[i], context.look);
  }
  return all_well ? kSucceeded : kRefused;
}

// True when the instance will have steps. An unknown machine counts as one without: the start will
// be refused.
bool StartsPlan(Context& context, const v1::StartRequest& start) {
  if (!start.flow().empty()) return true;
  v1::GetMachineRequest request;
  request.set_namespace_(start.namespace_());
  request.set_id(start.machine());
  request.set_version(start.version());
  const auto machine = context.client->GetMachine(request);
  return machine && IsPlan(*machine);
}

int StartAndWait(Context& context, const v1::StartRequest& request, int count) {
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  EndOfInstances end(context);
  const auto begun = end.Begin(request.machine());
  if (!begun && Unreached(begun.error())) return context.Fail(begun.error());
  if (count == 1 && StartsPlan(context, request)) end.ShowProgress();
  Starter starter(context, !context.names());
  const int status = starter.Run(request, count);
  context.out.flush();
  if (status != kSucceeded) return status;

  const auto ended = end.Await(starter.started(), &canceller);
  if (ended) return PrintEnded(context, starter.started(), *ended);
  if (ended.error().code != Code::kCancelled) return context.Fail(ended.error());
  context.Note("what was started goes on: dcli show " + starter.started().front().instance().id());
  return kInterrupted;
}

// The nodes where it stands, for people.
std::string PlacesOf(const v1::Instance& instance) {
  std::string places;
  for (int i = 0; i < std::min(instance.tokens_size(), 10); ++i) {
    places += (i > 0 ? ", " : "") + instance.tokens(i).node();
  }
  return places;
}

// For whom it waits, and what helps.
std::string Standstill(const v1::Instance& instance) {
  const std::string places = PlacesOf(instance);
  const std::string at = places.empty() ? "" : " at " + places;
  for (const v1::Token& token : instance.tokens()) {
    if (!token.why().empty()) return "waits for a worker" + at + ": " + token.why();
  }
  if (instance.state() == v1::Instance::SCHEDULED) {
    return "has not begun: it was started with --hold; dcli resume " + instance.id() +
           " lets it begin";
  }
  const bool for_children = std::ranges::any_of(instance.tokens(), [](const v1::Token& token) {
    return token.state() == v1::Token::WAITING && !token.node().ends_with("/suspended");
  });
  if (for_children) {
    return "waits" + at + " for what it has started, which waits for somebody: dcli instances " +
           "--parent " + instance.id() + " --dry-run";
  }
  return "waits for somebody" + at + "; give an --answer there";
}

int StartDryRun(Context& context, const v1::StartRequest& request) {
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  EndOfDryRun end(context);
  const auto begun = end.Begin();
  if (!begun && Unreached(begun.error())) return context.Fail(begun.error());
  Starter starter(context, !context.names());
  const int status = starter.Run(request, 1);
  context.out.flush();
  if (status != kSucceeded) return status;
  v1::StartResponse started = starter.started().front();
  const std::string id = started.instance().id();
  const auto ended = end.Await(id, &canceller);
  if (!ended && ended.error().code != Code::kCancelled) return context.Fail(ended.error());
  if (!ended) {
    context.Note("the dry run goes on: dcli show " + id);
    return kInterrupted;
  }
  *started.mutable_instance() = *ended;
  if (!context.Print(started) && !context.names()) {
    PrintInstance(context.out, *ended, context.look);
  }
  if (ended->state() != v1::Instance::STOPPED) {
    context.Note("the dry run " + Standstill(*ended));
    return kRefused;
  }
  const bool well =
      ended->result() == v1::Instance::SUCCESS || ended->result() == v1::Instance::WARNING;
  return well ? kSucceeded : kRefused;
}

}  // namespace

int Start(Context& context, const StartOptions& options) {
  const auto request = RequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  if (options.dry_run) return StartDryRun(context, *request);
  if (options.wait) return StartAndWait(context, *request, options.count);
  return Starter(context, false).Run(*request, options.count);
}

}  // namespace dfsmr::cli
