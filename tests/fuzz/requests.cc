// Requests as they come from the network, made into commands and decided one after the other by an
// engine over a store in memory, with time that passes and crashes between them. Half of them make
// sense: they name machines, instances, nodes and claims that are there. The others are bytes.
// Afterwards the feed must be without a gap, and a restart must find what there was.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "dsrv/wire/lists.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/plan_view.h"
#include "dsrv/wire/replies.h"
#include "tests/dsrv/engine/world.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/quiet.h"
#include "tests/sim/plan_audit.h"

namespace dfsmr {
namespace {

constexpr std::string_view kMachines = R"(
id: crawler
nodes:
  crawl: {start: true, max_visits: 3, transitions: {ok: done, error: wait, dfsmr.exhausted: bad}}
  wait: {delay: {initial: 1s, factor: 2, max: 1m}, transitions: {ok: crawl}}
  done: {final: true}
  bad: {final: true, result: error}
---
id: mail
nodes:
  send: {start: true, timeout: 0.0, transitions: {ok: ask, error: send}}
  ask: {manual: true, transitions: {ok: done, again: send}}
  done: {final: true}
---
action: write
retry: {limit: 2, delay: 1s}
phases: [run, finalize]
---
action: design
plan: worker
---
action: look
poll: {intervals: [1s]}
---
plan: site
singleton: "site-${params.title}"
flow:
  - {step: text, action: write, input: {title: "${params.title}"}}
  - {step: look, action: look, after: [text]}
  - for_each: "${params.list}"
    as: one
    do: {step: each, action: write, input: {one: "${one}"}}
  - {step: publish, action: publish, input: {text: "${text.output.file}", each: "${each.output}"}}
---
plan: tree
flow:
  - {step: sub, plan: site, input: {title: a, list: []}}
  - step: kids
    spawn: {machine: crawler, for_each: "${params.list}", as: one, input: {url: "${one}"}}
)";

const std::vector<Machine>& Machines() {
  static const std::vector<Machine> machines = ParseMachines(kMachines);
  return machines;
}

class Caller {
 public:
  explicit Caller(Bytes bytes) : bytes_(bytes), world_({.stats_every = 1s, .cached_instances = 4}) {
    Check(world_.Do([](Engine& e) { return TryDefine(e, Machines()); }).has_value(),
          "the machines of this test are sound");
  }

  void CallAll() {
    for (int calls = 0; calls < 100 && !bytes_.empty(); ++calls) {
      Call();
      if (bytes_.Chance(128)) world_.Commit();
    }
  }

  void Verify() {
    world_.Commit();
    Check(world_.failed().empty(), "the engine has not lost its way");
    world_.Restart();
    PlanAudit audit(world_);
    audit.All();
    if (audit.problem().empty()) return;
    std::fprintf(stderr, "audit: %s\n", audit.problem().c_str());
    std::abort();
  }

 private:
  void Call() {
    switch (bytes_.Below(16)) {
      case 0:
      case 1: return Start();
      case 2:
      case 3: return Ready();
      case 4:
      case 5:
      case 6: return Report();
      case 7: return Event();
      case 8: return Extend();
      case 9: return Relinquish();
      case 10: return Control();
      case 11: return world_.Elapse(std::chrono::milliseconds(bytes_.Number() % 200'000));
      case 12: return bytes_.Chance(64) ? Crash() : Define();
      case 13: return Work();
      default: return Read();
    }
  }

  void Crash() {
    world_.Crash();
    session_ = 0;
  }

  // What is there, or nearly, or what the bytes say.
  std::string Pick(const std::vector<std::string>& known) {
    if (bytes_.Chance(16)) return std::string(bytes_.Piece());
    return bytes_.Of(known);
  }
  std::string Instance() {
    std::vector<std::string> known = {"a", "b", "c", "d"};
    if (!tasks_.empty()) known.push_back(bytes_.Of(tasks_).instance);  // a child, it may be
    return Pick(known);
  }
  std::string Node() {
    return Pick({"", "crawl", "send", "ask", "text", "look", "publish", "each[0]", "text/error",
                 "text/finalize", "look/suspended", "sub.text", "kids", "/start"});
  }
  std::string Params() {
    return Pick({"", "{}", R"({"title":"t","list":[1,{"a":2}]})", R"({"title":"u","list":[]})",
                 R"({"url":"x"})", R"({"file":"f"})"});
  }
  std::string Transition() {
    return Pick({"ok", "error", "suspend", "again", "wake", "retry", "skip", "patch", "planned"});
  }

  // A message whose bytes are the input's.
  template <typename Message>
  bool Raw(Message* message) {
    if (!bytes_.Chance(64)) return false;
    const std::string_view piece = bytes_.Piece();
    (void)message->ParseFromArray(piece.data(), static_cast<int>(piece.size()));
    return true;
  }

  template <typename Command>
  void Decide(Command command) {
    world_.Decide([&command](Engine& engine) { command(engine); });
  }

  void MakeStart(v1::StartRequest* request) {
    if (Raw(request)) return;
    request->set_machine(Pick({"crawler", "mail", "site", "tree", "write", "look", ""}));
    request->set_id(Instance());
    request->set_params(Params());
    request->set_priority(static_cast<int8_t>(bytes_.Byte()));
    request->set_version(static_cast<uint32_t>(bytes_.Below(8) == 7));
    const size_t more = bytes_.Byte();
    if (more & 1) (*request->mutable_labels())[Pick({"k", "l"})] = Pick({"v", ""});
    if (more & 2) request->mutable_start_at()->set_seconds(1'700'000'000 + bytes_.Byte());
    if (more & 4) request->mutable_start_before()->set_seconds(1'700'000'000 + bytes_.Byte());
    if (more & 8) request->set_hold(true);
    if ((more & 48) == 48) {
      v1::After* after = request->add_after();
      after->set_instance(Instance());
      after->set_any_result(bytes_.Chance(128));
    }
    if ((more & 192) == 192) {
      request->set_flow(Pick({R"([{"step":"s","action":"write"}])",
                              R"({"sequence":[{"step":"s","action":"a"},{"step":"t","plan":"site"}]
                                })",
                              R"([{"step":"p","action":"design"}])"}));
    }
  }

  void Start() {
    v1::StartRequest request;
    MakeStart(&request);
    auto start = ToStart(request);
    if (!start) return;
    start->ns = "ns";
    Decide([&](Engine& e) {
      const auto started = e.Start(*std::move(start));
      v1::Instance shown;
      if (started) ToProto(started->view, &shown);
    });
  }

  void Ready() {
    v1::ReadyRequest request;
    if (!Raw(&request)) {
      request.set_machine(Pick({"", "crawler", "mail", "site"}));
      request.set_action(Pick({"", "", "write", "look", "publish"}));
      request.set_max_tasks(static_cast<int>(bytes_.Below(8)));
      request.mutable_wait()->set_seconds(bytes_.Chance(64) ? 10 : 0);
    }
    auto poll = ToPoll(request, "peer", world_.now());
    if (!poll) return;
    poll->filter.ns = "ns";
    Decide([&](Engine& e) {
      (void)e.Poll(*std::move(poll), [this](std::vector<Task> tasks) { Take(std::move(tasks)); });
    });
  }

  void Take(std::vector<Task> tasks) {
    for (Task& task : tasks) {
      v1::Task shown;
      ToProto(task, &shown);
      tasks_.push_back(std::move(task));
    }
  }

  // The claim of a task that was handed out, reported or not.
  template <typename Message>
  void SetClaim(Message* message) {
    if (tasks_.empty() || bytes_.Chance(16)) {
      message->set_instance(Instance());
      message->set_claim(std::string(bytes_.Piece()));
      return;
    }
    const Task& task = bytes_.Of(tasks_);
    message->set_instance(task.instance);
    message->set_claim(task.claim);
  }

  void Send(const v1::TransitionRequest& request) {
    auto report = ToReport(request);
    if (!report) return;
    Decide([&](Engine& e) {
      const auto answer =
          e.Report("ns", report->instance, std::move(report->args), report->children);
      v1::TransitionResult shown;
      ToProto(request.instance(), answer, &shown);
    });
  }

  void Report() {
    v1::TransitionRequest request;
    if (!Raw(&request)) {
      SetClaim(&request);
      request.set_transition(Transition());
      request.set_output(Params());
      if (request.transition() == "suspend") Suspend(&request);
      if (request.transition() == "error") request.set_error(std::string(bytes_.Piece()));
    }
    Send(request);
  }

  void Suspend(v1::TransitionRequest* request) {
    if (bytes_.Chance(128)) request->mutable_wake_after()->set_seconds(bytes_.Byte());
    for (size_t children = bytes_.Below(4); children > 0; --children) {
      MakeStart(request->add_children());
      if (bytes_.Chance(200)) request->mutable_children()->rbegin()->clear_id();
    }
    request->set_children_concurrency(static_cast<uint32_t>(bytes_.Below(3)));
  }

  void Event() {
    v1::TransitionRequest request;
    request.set_instance(Instance());
    request.set_transition(Transition());
    request.set_node(Node());
    request.set_node_params(Params());
    Send(request);
  }

  void Extend() {
    v1::ExtendRequest::Item item;
    if (!Raw(&item)) {
      SetClaim(&item);
      item.set_progress(bytes_.Byte() / 256.0);
      if (bytes_.Chance(128)) item.mutable_by()->set_seconds(bytes_.Byte());
    }
    auto extend = ToExtend("ns", item);
    if (!extend) return;
    Decide([&](Engine& e) {
      v1::ExtendResponse::Item shown;
      ToProto(e.Extend("ns", extend->instance, extend->claim, extend->by, extend->args), &shown);
    });
  }

  void Relinquish() {
    v1::RelinquishRequest request;
    SetClaim(&request);
    if (!CheckInstanceId(request.instance())) return;
    Decide([&](Engine& e) {
      (void)e.Relinquish("ns", request.instance(), request.claim(),
                         {.client = request.claim().empty() ? "w" : ""});
    });
  }

  void Control() {
    const std::string instance = Instance();
    if (!CheckInstanceId(instance)) return;
    Decide([&](Engine& e) {
      switch (bytes_.Below(4)) {
        case 0: (void)e.Pause("ns", instance); break;
        case 1: (void)e.Resume("ns", instance, Node(), bytes_.Chance(64)); break;
        case 2: (void)e.Skip("ns", instance, Node()); break;
        default: {
          const auto mode = ToCancelMode(static_cast<v1::CancelRequest::Mode>(bytes_.Below(5)));
          if (mode) (void)e.Cancel("ns", instance, *mode);
        }
      }
    });
  }

  // Another version of what there is: its machines change their names among each other.
  void Define() {
    const std::string text = Pick({
        "id: crawler\nupgrade_strategy: upgrade\nnodes:\n  crawl: {start: true, transitions: "
        "{ok: done}}\n  done: {final: true}\n",
        "id: mail\nupgrade_strategy: abort\nnodes:\n  send: {start: true, transitions: {ok: done}}"
        "\n  done: {final: true}\n",
        "plan: site\nupgrade_strategy: upgrade\nflow:\n  - {step: text, action: write}\n",
        "plan: site\nupgrade_strategy: continue\nflow:\n  - {step: other, action: look}\n",
        "action: write\nrescue: skip\n",
    });
    Parsed parsed = ParseDefinitions(text, "fuzz");
    std::vector<Machine> machines;
    for (Machine& one : parsed.definitions) machines.push_back(std::move(one));
    const bool validate_only = bytes_.Chance(32);
    Decide([&](Engine& e) {
      if (parsed.ok()) (void)TryDefine(e, std::move(machines), validate_only);
    });
  }

  void Work() {
    Decide([&](Engine& e) {
      if (session_ == 0) {
        const auto capacity = static_cast<int32_t>(1 + bytes_.Below(5));
        auto opened = e.OpenSession({.ns = "ns"}, "stream", capacity, [this](SessionUpdate update) {
          Take(std::move(update.tasks));
        });
        if (opened) session_ = *opened;
      } else if (bytes_.Chance(64)) {
        e.DrainSession(session_);
      } else {
        e.CloseSession(std::exchange(session_, 0));
      }
    });
  }

  void Read() {
    const std::string id = Instance();
    if (!CheckInstanceId(id)) return;
    const auto settled = world_.Do([&](Engine& e) { return e.Settle("ns", id); });
    const Moment moment(world_.engine().reader());
    const auto view = ReadInstance(moment, "ns", id);
    Check(settled.has_value() == view.has_value(), "what is there can be read");
    if (!view) return;
    v1::Instance shown;
    ToProto(*view, &shown);
    Check(ShowNodes(moment, view->instance, &shown).has_value(), "a graph can be shown");
    Check(ReadHistory(moment, {.ns = "ns", .id = id, .limit = 1 + bytes_.Below(5)}).has_value(),
          "a history can be read");
    v1::ListInstancesRequest request;
    (void)Raw(&request);
    auto query = ToQuery(request, FromMicros(1));
    if (!query) return;
    query->ns = "ns";
    Check(ReadInstances(moment, *query).has_value(), "instances can be listed");
  }

  Bytes bytes_;
  World world_;
  std::vector<Task> tasks_;
  SessionId session_ = 0;
};

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static doctest::Context context;  // for the assertions of World
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler([](const doctest::AssertData& data) {
    std::fprintf(stderr, "%s:%d: %s\n", data.m_file, data.m_line, data.m_expr);
    std::abort();
  });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dfsmr::Caller caller(dfsmr::Bytes(data, size));
  caller.CallAll();
  caller.Verify();
  return 0;
}
