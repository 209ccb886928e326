// Plans as a server would show them.
#pragma once

#include <string>
#include <vector>

#include "dcli/text/values.h"
#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {

inline v1::Step StepOf(const std::string& path, v1::Step::State state,
                       const std::string& action = "") {
  v1::Step step;
  step.set_path(path);
  step.set_state(state);
  step.set_action(action);
  return step;
}

// One step is done, one failed, one waits for children of which some failed, one for an event.
inline v1::Instance PausedPlan() {
  const Timestamp begun = FromMicros(1'767'225'600'000'000);
  v1::Instance instance;
  instance.set_id("infra-7");
  instance.set_machine("infra");
  instance.set_version(1);
  instance.set_state(v1::Instance::PAUSED);
  instance.set_result(v1::Instance::PENDING);
  instance.set_label("machine web");
  instance.set_error("web.vm: no disk");
  instance.set_progress(0.52);
  (*instance.mutable_outputs())["db"] = R"({"ip":"::1"})";

  v1::Step* db = instance.add_steps();
  *db = StepOf("db", v1::Step::DONE, "db.setup");
  *db->mutable_start_time() = ToProto(begun);
  *db->mutable_end_time() = ToProto(begun + std::chrono::seconds(90));
  v1::Step* vm = instance.add_steps();
  *vm = StepOf("web.vm", v1::Step::HELD, "vm.create");
  *vm->mutable_start_time() = ToProto(begun + std::chrono::seconds(10));
  vm->set_error("no disk");
  vm->set_progress(0.4);
  vm->add_after("db");
  v1::Step* hosts = instance.add_steps();
  *hosts = StepOf("web.hosts", v1::Step::PENDING, "hosts.add");
  hosts->add_after("web.vm");
  v1::Step* fleet = instance.add_steps();
  *fleet = StepOf("fleet", v1::Step::HELD);
  fleet->mutable_children()->set_total(100);
  fleet->mutable_children()->set_success(8);
  fleet->mutable_children()->set_running(3);
  fleet->mutable_children()->set_failed(2);
  *instance.add_steps() = StepOf("approval", v1::Step::SUSPENDED, "ask");

  v1::Token* held = instance.add_tokens();
  held->set_node("web.vm/error");
  held->set_state(v1::Token::HELD);
  held->set_error("no disk");
  v1::Token* waiting = instance.add_tokens();
  waiting->set_node("approval/suspended");
  waiting->set_state(v1::Token::WAITING);
  return instance;
}

// a and b lead through a gate to c and d; c has a finalize phase, d starts instances.
inline v1::Machine CompiledPlan() {
  v1::Machine machine;
  machine.set_id("infra");
  machine.set_version(3);
  machine.set_kind("plan");
  const auto add = [&](const std::string& id, const std::string& kind, const std::string& action,
                       const std::vector<std::pair<std::string, std::vector<std::string>>>& edges) {
    v1::Node* node = machine.add_nodes();
    node->set_id(id);
    node->set_kind(kind);
    node->set_action(action);
    for (const auto& [transition, targets] : edges) {
      v1::Edge* edge = node->add_transitions();
      edge->set_transition(transition);
      for (const std::string& target : targets) edge->add_targets(target);
    }
  };
  add("/start", "gate", "", {{"ok", {"web.a", "b"}}});
  for (const std::string id : {"web.a", "b"}) {
    add(id, "work", "do." + id,
        {{"ok", {"c/gate"}}, {"error", {id + "/error"}}, {"suspend", {id + "/suspended"}}});
    add(id + "/error", "held", "", {{"retry", {id}}, {"skip", {"c/gate"}}});
    add(id + "/suspended", "manual", "", {{"wake", {id}}});
  }
  add("c/gate", "gate", "", {{"ok", {"c", "d"}}});
  add("c", "work", "c", {{"ok", {"c/finalize"}}, {"error", {"c/error"}}});
  add("c/error", "held", "", {{"retry", {"c"}}, {"skip", {"c/finalize"}}});
  add("d", "manual", "", {{"ok", {"c/finalize"}}, {"error", {"d/error"}}});
  add("d/error", "held", "", {{"retry", {"d"}}, {"skip", {"c/finalize"}}});
  add("c/finalize", "work", "c", {{"ok", {"/end"}}, {"error", {"c/finalize/error"}}});
  add("c/finalize/error", "held", "", {{"retry", {"c/finalize"}}, {"skip", {"/end"}}});
  add("/end", "final", "", {});
  machine.mutable_nodes(0)->set_start(true);
  machine.mutable_nodes(machine.nodes_size() - 1)->set_final(true);
  add("dfsmr.timeout", "system", "", {});
  for (v1::Node& node : *machine.mutable_nodes()) {
    if (node.id() == "web.a") node.mutable_stats()->set_claimed(2);
    if (node.id() == "web.a/error") node.mutable_stats()->set_held(1);
    if (node.id() == "b/suspended") node.mutable_stats()->set_waiting(4);
  }
  return machine;
}

}  // namespace dfsmr::cli
