#include "tests/chaos/crew.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace dfsmr::chaos {

// Claims that a crash left behind time out after a second, and so do suspensions.
const char kDefinitions[] = R"(
id: route
nodes:
  a: {start: true, timeout_strategy: fixed, timeout: 0.5, transitions: {ok: b, again: a}}
  b: {timeout: 0.0, transitions: {ok: c, back: a}}
  c: {timeout_strategy: fixed, timeout: 1.0, transitions: {ok: done, back: a, error: failed}}
  done: {final: true}
  failed: {final: true, result: error}
---
action: plain
retry: {limit: 20, delay: 10ms}
timeout_strategy: fixed
timeout: 1.0
---
action: both
phases: [run, finalize]
timeout_strategy: fixed
timeout: 1.0
---
action: ask
timeout_strategy: fixed
timeout: 1.0
---
action: kids
timeout_strategy: fixed
timeout: 1.0
---
action: mail
timeout_strategy: fixed
timeout: 1.0
---
action: shaky
retry: {limit: 2, delay: 10ms}
rescue: skip
timeout_strategy: fixed
timeout: 1.0
---
action: picky
rescue: pause
timeout_strategy: fixed
timeout: 1.0
---
action: send
timeout_strategy: fixed
timeout: 0.0
---
plan: leaf
flow: [{step: l, action: plain, input: {n: "${params.n}"}}]
---
plan: letter
flow: [{step: send, action: send}]
---
plan: main
hooks:
  - {on: [stopped], action: mail, input: {of: "${instance.id}"}}
flow:
  sequence:
    - {step: first, action: plain}
    - concurrence:
        - {step: ask, action: ask}
        - {step: kids, action: kids}
        - {step: shaky, action: shaky}
        - {step: picky, action: picky}
        - {step: spawned, spawn: {plan: leaf, for_each: "${params.l}", as: e,
                                  input: {n: "${e}"}, concurrency: 2}}
        - sequence:
            - {step: s1, action: both}
            - {step: s2, action: both, input: {by: "${s1.output.by}"}}
    - {step: last, action: plain,
       input: {spawned: "${spawned.output}", by: "${ask.output.by}"}}
)";

namespace {

constexpr int64_t kLiveMost = 400;  // instances that the starters keep going
const char* const kEdges[][3] = {{"ok", "again", "ok"}, {"ok", "back", "ok"},
                                 {"ok", "back", "error"}};

bool AtMostOnce(const v1::Task& task) {
  return (task.machine() == "route" && task.node() == "b") || task.action() == "send";
}

int64_t NumberIn(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  const bool numbered = value.is_object() && value.contains("n") && value["n"].is_number();
  return numbered ? value["n"].get<int64_t>() : -1;
}

}  // namespace

void Ledger::Append(Ledger&& other) {
  const auto move = [](auto& from, auto& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move(other.started, started);
  move(other.accepted, accepted);
  move(other.cancelled, cancelled);
  move(other.handed, handed);
  move(other.given_back, given_back);
  for (const auto& [key, times] : other.events_sent) events_sent[key] += times;
  calls += other.calls;
  unknown += other.unknown;
}

uint64_t HashOf(const v1::Change& change) {
  return std::hash<std::string>{}(change.SerializeAsString());
}

// One thread's connection, and what it was told.
class Crew::Client {
 public:
  Client(Crew* crew, const std::string& role, int number)
      : crew_(*crew),
        name_(role + "-" + std::to_string(number)),
        channel_(crew->server_.Connect()),
        stub_(channel_),
        random_(crew->seed_ * 1'000 + std::hash<std::string>{}(name_) % 1'000) {}

  void StartRoutes();
  void StartPlans();
  void WorkUnary();
  void WorkBatched();
  void WorkStreaming();
  void SendEvents();
  void Cancel();
  void Operate();
  Ledger& ledger() { return ledger_; }

 private:
  // What a worker says about a task.
  struct Verdict {
    v1::TransitionRequest request;
    Ledger::Accepted told;
  };

  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  bool Chance(int percent) { return Below(100) < percent; }
  void Pause(int ms) const { std::this_thread::sleep_for(milliseconds(ms)); }

  // Makes the call until it is answered. The reason of a refusal, "" when it was accepted, nullopt
  // when the crew ended first.
  template <typename Call>
  std::optional<std::string> Persist(const char* what, Call call);
  void Surprise(const char* what, const grpc::Status& status, const std::string& reason) {
    crew_.findings_.Add(name_ + ": " + what + ": " + std::to_string(status.error_code()) + " " +
                        reason + " " + status.error_message());
  }

  void Note(const v1::Task& task) {
    if (AtMostOnce(task)) ledger_.handed.emplace_back(task.instance(), task.visit());
  }
  void Ended(const std::string& instance) {
    if (instance.starts_with("routes-")) --crew_.live_;
  }
  std::optional<Verdict> Judge(const v1::Task& task);
  void JudgeStep(const v1::Task& task, Verdict* verdict);
  void Keep(Verdict verdict, const v1::TransitionResponse& answer);
  void Report(Verdict verdict);
  void Extend(const v1::Task& task);
  void Relinquish(const v1::Task& task);
  bool SendEvent(const std::string& id, int number);
  void Stream();
  void CancelOne(const std::string& id, v1::CancelRequest::Mode mode);
  std::vector<v1::Instance> List(v1::ListInstancesRequest request);
  void Unstick(const v1::Instance& instance);
  void Resume(const std::string& id, bool force, uint64_t visit = 0);

  Crew& crew_;
  const std::string name_;
  const std::shared_ptr<grpc::Channel> channel_;
  Stub stub_;
  std::mt19937_64 random_;
  Ledger ledger_;
  int serial_ = 0;
};

template <typename Call>
std::optional<std::string> Crew::Client::Persist(const char* what, Call call) {
  while (true) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Status status = call(&context);
    ++ledger_.calls;
    if (status.ok()) return "";
    const std::string reason = ReasonOf(context);
    if (!OutcomeUnknown(status)) {
      if (reason.empty() || reason == "OVERLOADED" || reason.starts_with("BAD")) {
        Surprise(what, status, reason);
      }
      return reason.empty() ? "?" : reason;
    }
    ++ledger_.unknown;
    if (crew_.stopping_ && !crew_.findings_.any()) {
      Surprise(what, status, "while the server was up");
    }
    if (crew_.stopping_) return std::nullopt;
    channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }
}

void Crew::Client::StartRoutes() {
  while (crew_.starting_) {
    if (crew_.live_ > kLiveMost) {
      Pause(2);
      continue;
    }
    v1::StartBatchRequest request;
    v1::StartBatchResponse response;
    for (int i = Below(20); i >= 0; --i) {
      auto* start = request.add_starts();
      start->set_machine("route");
      start->set_id(name_ + "." + std::to_string(++serial_));
    }
    const auto refusal = Persist("StartBatch", [&](grpc::ClientContext* context) {
      return stub_.StartBatch(context, request, &response);
    });
    if (!refusal) return;
    for (int i = 0; i < response.results_size(); ++i) {
      if (response.results(i).has_error()) {
        crew_.findings_.Add("start of " + request.starts(i).id() + ": " +
                            response.results(i).error().message());
        continue;
      }
      ledger_.started.push_back(request.starts(i).id());
      ++crew_.live_;
      std::lock_guard lock(crew_.mutex_);
      if (crew_.recent_.size() < 1'000) crew_.recent_.push_back(request.starts(i).id());
    }
  }
}

void Crew::Client::StartPlans() {
  while (crew_.starting_) {
    Pause(10 + Below(50));
    v1::StartRequest request;
    v1::StartResponse response;
    const bool letter = Chance(50);
    request.set_machine(letter ? "letter" : "main");
    request.set_id(name_ + "." + request.machine() + "." + std::to_string(++serial_));
    if (!letter) request.set_params(R"({"l": [0, 1, 2, 3, 4]})");
    const auto refusal = Persist("Start", [&](grpc::ClientContext* context) {
      return stub_.Start(context, request, &response);
    });
    if (!refusal) return;
    if (!refusal->empty()) {
      crew_.findings_.Add("start of " + request.id() + ": " + *refusal);
      continue;
    }
    ledger_.started.push_back(request.id());
    std::lock_guard lock(crew_.mutex_);
    if (letter) continue;
    if (Chance(15)) {
      crew_.recent_.push_front(request.id());
    } else {
      crew_.to_send_events_.push_back(request.id());
    }
  }
}

// Nullopt: this worker dies with the task in hand, or has given it back.
std::optional<Crew::Client::Verdict> Crew::Client::Judge(const v1::Task& task) {
  if (Chance(5)) Extend(task);
  if (Chance(3)) return Relinquish(task), std::nullopt;
  // What runs at most once would stay claimed for ever.
  if (!AtMostOnce(task) && Chance(1)) return std::nullopt;
  Verdict verdict;
  verdict.request.set_namespace_(task.namespace_());
  verdict.request.set_instance(task.instance());
  verdict.request.set_claim(task.claim());
  verdict.told = {.instance = task.instance(), .left = task.visit(), .visit = 0,
                  .prev_node = task.node(), .transition = {}, .node = {}, .event = task.event(),
                  .number = NumberIn(task.event_data()), .by = 0, .input = task.node_params()};
  if (task.machine() == "route") {
    verdict.request.set_transition(kEdges[task.node()[0] - 'a'][Below(3)]);
  } else {
    JudgeStep(task, &verdict);
  }
  verdict.told.transition = verdict.request.transition();
  return verdict;
}

void Crew::Client::JudgeStep(const v1::Task& task, Verdict* verdict) {
  v1::TransitionRequest& request = verdict->request;
  verdict->told.by = ++crew_.serial_;
  request.set_output("{\"by\": " + std::to_string(verdict->told.by) + "}");
  request.set_transition("ok");
  if ((task.action() == "plain" && Chance(10)) || (task.action() == "shaky" && Chance(40)) ||
      (task.action() == "picky" && Chance(20))) {
    request.set_transition("error");
    request.set_error("as bad luck would have it");
  } else if (task.action() == "ask" &&
             (task.event() != "tell" || NumberIn(task.event_data()) != kEvents)) {
    if (task.event() != "cancel") request.set_transition("suspend");
  } else if (task.action() == "kids" && task.event() != "children" && task.event() != "cancel") {
    request.set_transition("suspend");
    for (int n = 0; task.event().empty() && n < kKids; ++n) {
      auto* child = request.add_children();
      child->set_machine("leaf");
      child->set_params("{\"n\": " + std::to_string(n) + "}");
    }
    if (task.event().empty()) request.set_children_concurrency(2);
  }
}

void Crew::Client::Keep(Verdict verdict, const v1::TransitionResponse& answer) {
  if (answer.prev_node() != verdict.told.prev_node) {
    crew_.findings_.Add("a report of " + verdict.told.prev_node + " of " + verdict.told.instance +
                        " was taken for one of " + answer.prev_node());
  }
  verdict.told.node = answer.node();
  verdict.told.visit = answer.visit();
  ledger_.accepted.push_back(std::move(verdict.told));
  ++crew_.accepted_;
  if (answer.state() == v1::Instance::STOPPED && !answer.repeated_report()) {
    Ended(answer.instance());
  }
}

void Crew::Client::Report(Verdict verdict) {
  v1::TransitionResponse answer;
  const auto refusal = Persist("Transition", [&](grpc::ClientContext* context) {
    return stub_.Transition(context, verdict.request, &answer);
  });
  if (!refusal) return;
  if (refusal->empty()) {
    Keep(std::move(verdict), answer);
  } else if (*refusal != "STALE_CLAIM") {
    crew_.findings_.Add("the report of " + verdict.told.instance + " at " +
                        verdict.told.prev_node + ": " + *refusal);
  }
}

void Crew::Client::Extend(const v1::Task& task) {
  v1::ExtendRequest request;
  v1::ExtendResponse response;
  auto* item = request.add_items();
  item->set_instance(task.instance());
  item->set_claim(task.claim());
  item->mutable_by()->set_seconds(1);
  item->set_progress(0.5);
  const auto refusal = Persist("Extend", [&](grpc::ClientContext* context) {
    return stub_.Extend(context, request, &response);
  });
  if (refusal && refusal->empty() && response.items(0).has_error() &&
      response.items(0).error().reason() != "STALE_CLAIM") {
    crew_.findings_.Add("Extend: " + response.items(0).error().message());
  }
}

void Crew::Client::Relinquish(const v1::Task& task) {
  v1::RelinquishRequest request;
  v1::RelinquishResponse response;
  request.set_instance(task.instance());
  request.set_claim(task.claim());
  if (AtMostOnce(task)) ledger_.given_back.emplace_back(task.instance(), task.visit());
  const auto refusal = Persist("Relinquish", [&](grpc::ClientContext* context) {
    return stub_.Relinquish(context, request, &response);
  });
  if (refusal && !refusal->empty() && *refusal != "STALE_CLAIM") {
    crew_.findings_.Add("Relinquish: " + *refusal);
  }
}

void Crew::Client::WorkUnary() {
  while (!crew_.stopping_) {
    v1::ReadyRequest request;
    v1::ReadyResponse response;
    request.set_worker(name_);
    request.set_max_tasks(1 + Below(5));
    request.mutable_wait()->set_nanos(100'000'000);
    if (!Persist("Ready", [&](grpc::ClientContext* context) {
          return stub_.Ready(context, request, &response);
        })) {
      return;
    }
    for (const v1::Task& task : response.tasks()) Note(task);
    for (const v1::Task& task : response.tasks()) {
      if (auto verdict = Judge(task)) Report(std::move(*verdict));
    }
  }
}

void Crew::Client::WorkBatched() {
  std::vector<Verdict> told;
  while (!crew_.stopping_ || !told.empty()) {
    v1::ReportRequest request;
    v1::ReportResponse response;
    for (const Verdict& verdict : told) *request.add_transitions() = verdict.request;
    if (!crew_.stopping_) {
      request.mutable_next()->set_worker(name_);
      request.mutable_next()->set_max_tasks(16);
      request.mutable_next()->mutable_wait()->set_nanos(100'000'000);
    }
    if (!Persist("Report", [&](grpc::ClientContext* context) {
          return stub_.Report(context, request, &response);
        })) {
      return;
    }
    for (const v1::Task& task : response.tasks()) Note(task);
    for (std::size_t i = 0; i < told.size(); ++i) {
      const auto& result = response.results(static_cast<int>(i));
      if (result.has_accepted()) {
        Keep(std::move(told[i]), result.accepted());
      } else if (result.error().reason() != "STALE_CLAIM") {
        crew_.findings_.Add("Report: " + result.error().message());
      }
    }
    told.clear();
    for (const v1::Task& task : response.tasks()) {
      if (auto verdict = Judge(task)) told.push_back(std::move(*verdict));
    }
  }
}

void Crew::Client::WorkStreaming() {
  while (!crew_.stopping_) {
    Stream();
    channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }
}

// Until it breaks, or the crew stops; what was not answered is reported again by itself.
void Crew::Client::Stream() {
  grpc::ClientContext context;
  // Some streams end by their deadline instead of a crash: their claims go back, but for those of
  // what runs at most once.
  context.set_deadline(std::chrono::system_clock::now() + milliseconds(300 + Below(2'000)));
  auto stream = stub_.Work(&context);
  v1::WorkRequest request;
  request.mutable_open()->set_worker(name_);
  request.mutable_open()->set_max_tasks(20);
  bool good = stream->Write(request);
  std::deque<Verdict> told;
  v1::WorkResponse response;
  while (good && stream->Read(&response)) {
    for (const v1::Task& task : response.tasks()) Note(task);
    for (const auto& result : response.results()) {
      if (told.empty()) return crew_.findings_.Add("Work: more results than reports");
      if (result.has_accepted()) {
        Keep(std::move(told.front()), result.accepted());
      } else if (result.error().reason() != "STALE_CLAIM") {
        crew_.findings_.Add("Work: " + result.error().message());
      }
      told.pop_front();
    }
    request.Clear();
    for (const v1::Task& task : response.tasks()) {
      auto verdict = Judge(task);
      if (!verdict) continue;
      *request.add_transitions() = verdict->request;
      told.push_back(std::move(*verdict));
    }
    if (crew_.stopping_) request.set_drain(true);
    if (request.ByteSizeLong() > 0) good = stream->Write(request);
  }
  context.TryCancel();
  (void)stream->Finish();
  for (Verdict& verdict : told) Report(std::move(verdict));
}

void Crew::Client::SendEvents() {
  while (!crew_.stopping_) {
    std::string id;
    {
      std::lock_guard lock(crew_.mutex_);
      if (!crew_.to_send_events_.empty()) {
        id = crew_.to_send_events_.front();
        crew_.to_send_events_.pop_front();
      }
    }
    for (int number = 1; !id.empty() && number <= kEvents; ++number) {
      while (!crew_.stopping_ && !SendEvent(id, number)) Pause(2 + Below(20));
    }
    if (id.empty()) Pause(5);
  }
}

// Whether it was acknowledged, or comes too late because an earlier try of it has come.
bool Crew::Client::SendEvent(const std::string& id, int number) {
  v1::TransitionRequest request;
  v1::TransitionResponse response;
  request.set_instance(id);
  request.set_node("ask");
  request.set_transition("tell");
  request.set_node_params("{\"n\": " + std::to_string(number) + "}");
  int& sent = ledger_.events_sent[{id, number}];
  const auto refusal = Persist("event", [&](grpc::ClientContext* context) {
    ++sent;
    return stub_.Transition(context, request, &response);
  });
  if (!refusal || refusal->empty()) return true;
  --sent;
  if (*refusal == "NO_SUCH_NODE") return false;  // not planned yet
  if (*refusal != "ILLEGAL_TRANSITION" && *refusal != "INSTANCE_STOPPED") {
    crew_.findings_.Add("an event for " + id + ": " + *refusal);
    return true;
  }
  v1::GetInstanceRequest ask;
  v1::Instance instance;
  ask.set_id(id);
  ask.set_with_nodes(true);
  if (Persist("GetInstance", [&](grpc::ClientContext* context) {
        return stub_.GetInstance(context, ask, &instance);
      }) != "") {
    return true;
  }
  const auto step = std::ranges::find(instance.steps(), "ask", &v1::Step::path);
  return step != instance.steps().end() && step->state() == v1::Step::DONE;
}

void Crew::Client::Cancel() {
  while (!crew_.stopping_) {
    Pause(2 + Below(10));
    std::string id;
    {
      std::lock_guard lock(crew_.mutex_);
      if (crew_.recent_.empty()) continue;
      id = crew_.recent_.front();
      crew_.recent_.pop_front();
    }
    if (id.find(".main.") == std::string::npos && Chance(70)) continue;
    CancelOne(id, Chance(30) ? v1::CancelRequest::FORCE : v1::CancelRequest::CANCEL);
  }
}

void Crew::Client::CancelOne(const std::string& id, v1::CancelRequest::Mode mode) {
  v1::CancelRequest request;
  v1::Instance instance;
  request.set_instance(id);
  request.set_mode(mode);
  const auto refusal = Persist("Cancel", [&](grpc::ClientContext* context) {
    return stub_.Cancel(context, request, &instance);
  });
  if (!refusal) return;
  if (refusal->empty()) {
    const bool forced = mode == v1::CancelRequest::FORCE;
    ledger_.cancelled.push_back({id, forced});
    const bool stopped = instance.state() == v1::Instance::STOPPED;
    if (forced && !stopped) crew_.findings_.Add(id + " goes on after cancel --force");
    if (stopped) Ended(id);
  } else if (*refusal != "INSTANCE_STOPPED") {
    crew_.findings_.Add("Cancel of " + id + ": " + *refusal);
  }
}

// The operator: retries what has failed, and decides about what ran at most once and may never be
// reported, because its hand-out was lost in a crash.
void Crew::Client::Operate() {
  for (int round = 0; !crew_.stopping_; ++round) {
    Pause(50);
    v1::ListInstancesRequest paused;
    paused.set_state(v1::Instance::PAUSED);
    for (const v1::Instance& instance : List(paused)) Resume(instance.id(), false);
    if (round % 10 != 0) continue;
    for (const auto& [machine, node] : {std::pair{"route", "b"}, std::pair{"letter", "send"}}) {
      v1::ListInstancesRequest claimed;
      claimed.set_machine(machine);
      claimed.set_node(node);
      claimed.set_state(v1::Instance::RUNNING);
      for (const v1::Instance& instance : List(claimed)) Unstick(instance);
    }
  }
}

std::vector<v1::Instance> Crew::Client::List(v1::ListInstancesRequest request) {
  v1::ListInstancesResponse page;
  request.set_page_size(1'000);
  const auto refusal = Persist("ListInstances", [&](grpc::ClientContext* context) {
    return stub_.ListInstances(context, request, &page);
  });
  if (!refusal || !refusal->empty()) return {};
  return {page.instances().begin(), page.instances().end()};
}

void Crew::Client::Unstick(const v1::Instance& instance) {
  constexpr int kPatienceSeconds = 2;
  if (instance.tokens().empty()) return;
  const v1::Token& token = instance.tokens(0);
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  if (token.claims().empty() || token.state() != v1::Token::CLAIMED ||
      token.claims(0).claim_time().seconds() > now.count() - kPatienceSeconds) {
    return;
  }
  if (Chance(50)) {
    Resume(instance.id(), true, token.visit());
  } else {
    CancelOne(instance.id(), v1::CancelRequest::FORCE);
  }
}

// Each try may run the visit again: a try whose answer was lost was made all the same.
void Crew::Client::Resume(const std::string& id, bool force, uint64_t visit) {
  v1::ResumeRequest request;
  v1::Instance instance;
  request.set_instance(id);
  request.set_force(force);
  const auto refusal = Persist("Resume", [&](grpc::ClientContext* context) {
    if (force) ledger_.given_back.emplace_back(id, visit);
    return stub_.Resume(context, request, &instance);
  });
  // Meanwhile it may have stopped, gone on, or be about to stop.
  const std::set<std::string> fair{"", "INSTANCE_STOPPED", "NOT_HELD", "CANCELLING"};
  if (refusal && !fair.contains(*refusal)) {
    crew_.findings_.Add("Resume of " + id + ": " + *refusal);
  }
}

Crew::Crew(const Dsrv& server, uint64_t seed, Findings* findings)
    : server_(server), seed_(seed), findings_(*findings) {
  watched_.resize(2);
  for (std::size_t i = 0; i < watched_.size(); ++i) threads_.emplace_back([this, i] { Watch(i); });
  for (const auto& [role, count] : {std::pair<const char*, int>{"routes", 2},
                                    {"plans", 1},
                                    {"unary", 4},
                                    {"batch", 3},
                                    {"stream", 3},
                                    {"events", 3},
                                    {"cancel", 1},
                                    {"operator", 1}}) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, role = std::string(role), i] { Run(role, i); });
    }
  }
}

Crew::~Crew() { Stop(); }

void Crew::Stop() {
  starting_ = false;
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Crew::Run(const std::string& role, int number) {
  static const std::map<std::string, void (Client::*)()> roles = {
      {"routes", &Client::StartRoutes},  {"plans", &Client::StartPlans},
      {"unary", &Client::WorkUnary},     {"batch", &Client::WorkBatched},
      {"stream", &Client::WorkStreaming}, {"events", &Client::SendEvents},
      {"cancel", &Client::Cancel},       {"operator", &Client::Operate}};
  Client client(this, role, number);
  (client.*roles.at(role))();
  std::lock_guard lock(mutex_);
  ledger_.Append(std::move(client.ledger()));
}

// Follows the feed from its first record on, and after each break from its last cursor.
void Crew::Watch(std::size_t number) {
  Watched& watched = watched_[number];
  Stub stub(server_.Connect());
  std::string cursor = "0";
  while (!stopping_) {
    grpc::ClientContext context;
    // Other ways to break off than a crash; the end of the crew must not wait for long.
    const milliseconds patience(number == 0 ? 700 : 1'500);
    context.set_deadline(std::chrono::system_clock::now() + patience);
    v1::ChangesRequest request;
    request.set_after(cursor);
    request.set_follow(true);
    auto stream = stub.Changes(&context, request);
    v1::ChangesResponse response;
    while (stream->Read(&response)) {
      for (const v1::Change& change : response.changes()) {
        if (change.seq() != watched.hashes.size() + 1) {
          findings_.Add("the feed went on with record " + std::to_string(change.seq()) +
                        " after record " + std::to_string(watched.hashes.size()) +
                        ", resumed at cursor " + cursor);
          return;
        }
        watched.hashes.push_back(HashOf(change));
      }
      cursor = response.cursor();
    }
    const grpc::Status status = stream->Finish();
    if (!status.ok() && !OutcomeUnknown(status)) {
      findings_.Add("Changes after " + cursor + ": " + status.error_message());
      return;
    }
    ++watched.resumed;
    std::this_thread::sleep_for(milliseconds(5));
  }
}

}  // namespace dfsmr::chaos
