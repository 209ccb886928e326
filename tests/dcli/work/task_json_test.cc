#include "dcli/work/task_json.h"

#include <doctest/doctest.h>
#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

namespace dfsmr::cli {
namespace {

using google::protobuf::FieldDescriptor;

// Something in each field, also in those that are added to the message one day.
void Fill(google::protobuf::Message* message) {
  const auto& reflection = *message->GetReflection();
  const auto& descriptor = *message->GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    const std::string text = "a \"b\" <c> \\ \n\x7f \xc3\xa9 " + field->name();
    if (field->is_repeated()) {
      reflection.AddString(message, field, text);
      reflection.AddString(message, field, "two");
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(message, field, text);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.SetUInt32(message, field, 4'000'000'000);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.SetUInt64(message, field, 18'000'000'000'000'000'000u);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(message, field, 1'795'000'000);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(message, field, 120'000'000);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.SetBool(message, field, true);
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Fill(reflection.MutableMessage(message, field));
        break;
      default:
        FAIL("a kind of field that no task has had yet: " << field->name());
    }
  }
}

nlohmann::json Generic(v1::Task task) {
  task.clear_instance_params();
  task.clear_node_params();
  task.clear_event_data();
  task.clear_checkpoint();
  std::string json;
  REQUIRE(google::protobuf::util::MessageToJsonString(task, &json).ok());
  return nlohmann::json::parse(json);
}

}  // namespace

TEST_CASE("the task has its params as objects, always there and as they were given") {
  v1::Task task;
  task.set_instance("c-1");
  task.set_visit(3);
  task.set_instance_params("{\"n\":\n 12345678901234567890}");
  CHECK(TaskJson(task) ==
        "{\"instance\":\"c-1\",\"visit\":\"3\","
        "\"instanceParams\":{\"n\":  12345678901234567890},\"nodeParams\":{},"
        "\"eventData\":{}}\n");
}

TEST_CASE("the task of a plan's step has its phase, event and middleware") {
  v1::Task task;
  task.set_action("vm.create");
  task.set_event("approved");
  task.set_event_data(R"({"by":"ann"})");
  task.set_phase("run");
  task.add_middleware("audit");
  CHECK(TaskJson(task) ==
        "{\"action\":\"vm.create\",\"event\":\"approved\",\"phase\":\"run\","
        "\"middleware\":[\"audit\"],\"instanceParams\":{},\"nodeParams\":{},"
        "\"eventData\":{\"by\":\"ann\"}}\n");
}

TEST_CASE("the task has its checkpoint as an object, and always says how often it was tried") {
  v1::Task task;
  task.set_checkpoint(R"({"n":1})");
  task.set_tries_limit(3);
  const std::string line = AgentTaskJson(task);
  CHECK(line.find(R"("checkpoint":{"n":1})") != std::string::npos);
  CHECK(line.find(R"("tries":0)") != std::string::npos);
  CHECK(line.find(R"("triesLimit":3)") != std::string::npos);
  CHECK(line.find(R"("dryRun":false)") != std::string::npos);
  CHECK(line.find('\n') == line.size() - 1);
}

TEST_CASE("the task has all that its message has, as proto3 JSON has it") {
  v1::Task task;
  Fill(&task);
  const std::string object = R"({"n":1})";
  task.set_instance_params(object);
  task.set_node_params(object);
  task.set_event_data(object);
  task.set_checkpoint(object);
  const std::string line = TaskJson(task);
  CHECK(line.find('\n') == line.size() - 1);
  CHECK(line == AgentTaskJson(task));
  auto json = nlohmann::json::parse(line);
  for (const char* key : {"instanceParams", "nodeParams", "eventData", "checkpoint"}) {
    CHECK(json[key] == nlohmann::json::parse(object));
    json.erase(key);
  }
  CHECK(json == Generic(task));
  CHECK(nlohmann::json::parse(TaskJson({})).size() == 3);
}

TEST_CASE("times beyond all calendars are as good as none") {
  v1::Task task;
  task.set_node("n");
  task.mutable_deadline()->set_seconds(1'000'000'000'000);
  task.mutable_begin_by()->set_nanos(-1);
  task.mutable_run_timeout()->set_seconds(1);
  task.mutable_run_timeout()->set_nanos(-1);
  CHECK(TaskJson(task) ==
        "{\"node\":\"n\",\"instanceParams\":{},\"nodeParams\":{},\"eventData\":{}}\n");
  task.mutable_run_timeout()->set_nanos(500'000'000);
  CHECK(TaskJson(task).find("\"runTimeout\":\"1.500s\"") != std::string::npos);
}

}  // namespace dfsmr::cli
