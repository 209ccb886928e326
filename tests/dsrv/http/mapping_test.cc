// Messages as JSON and back; protobuf's own mapping is the judge of what both know.
#include "dsrv/http/mapping.h"

#include <doctest/doctest.h>
#include <google/protobuf/util/json_util.h>

#include "dfsmr/v1/package.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/http/interface.h"

namespace dfsmr::http {
namespace {

v1::StartRequest Start(const std::string& json) {
  v1::StartRequest request;
  auto read = FromJson(json, {TakesJson, false}, &request);
  CAPTURE(json);
  CHECK_MESSAGE(read, (read ? "" : read.error().message));
  return request;
}

std::string Wrong(const std::string& json, google::protobuf::Message* message) {
  auto read = FromJson(json, {TakesJson, false}, message);
  CAPTURE(json);
  REQUIRE(!read);
  CHECK(read.error().reason == Reason::kBadRequest);
  return read.error().message;
}
std::string Wrong(const std::string& json) {
  v1::StartRequest request;
  return Wrong(json, &request);
}
bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a message comes back from its JSON as it was, and protobuf reads and writes the same") {
  const v1::StartRequest request = Start(R"({
    "namespace": "shop", "machine": "crawler", "version": "7", "id": "a\u00e9\ud83d\ude00\n\"",
    "priority": -3, "labels": {"a": "b", "c": ""}, "startAt": "2026-01-31T08:00:00.250Z",
    "start_before": "2026-01-31T09:00:00+01:00", "hold": true, "force": null,
    "after": [{"instance": "x", "anyResult": true}, {}], "waitAfterFail": "1.5s"})");
  CHECK(request.version() == 7);
  CHECK(request.id() == "a\u00e9\U0001F600\n\"");
  CHECK(request.start_before().seconds() == 1'769'846'400);
  CHECK(request.wait_after_fail().nanos() == 500'000'000);
  CHECK(request.after_size() == 2);
  const std::string json = ToJson(request);
  CHECK(Start(json).SerializeAsString().size() == request.SerializeAsString().size());
  v1::StartRequest again;
  REQUIRE(google::protobuf::util::JsonStringToMessage(json, &again).ok());
  CHECK(ToJson(again).size() == json.size());
  std::string theirs;
  REQUIRE(google::protobuf::util::MessageToJsonString(again, &theirs).ok());
  CHECK(theirs.size() == json.size());
  CHECK(ToJson(Start(theirs)).size() == json.size());
}

TEST_CASE("defaults are left out, whole numbers of 64 bits are strings, enums are names") {
  v1::Change change;
  change.set_seq(18'446'744'073'709'551'615u);
  change.set_kind(v1::Change::FINISHED);
  CHECK(ToJson(change) == R"({"seq":"18446744073709551615","kind":"FINISHED"})");
  CHECK(ToJson(v1::Change()) == "{}");
  change.set_kind(static_cast<v1::Change::Kind>(4'711));
  CHECK(Has(ToJson(change), "\"kind\":4711"));
  v1::Change read;
  REQUIRE(FromJson(R"({"seq": 5e2, "kind": 9})", {}, &read));
  CHECK(read.seq() == 500);
  CHECK(read.kind() == 9);
}

TEST_CASE("a mask of fields is a string of their names in either spelling, or an object") {
  for (const std::string fields : {R"("quotas.liveInstances,description")",
                                   R"("quotas.live_instances,description")",
                                   R"({"paths": ["quotas.live_instances", "description"]})"}) {
    v1::UpdateNamespaceRequest request;
    CAPTURE(fields);
    REQUIRE(FromJson(R"({"name": "y", "fields": )" + fields + "}", {TakesJson, false}, &request));
    REQUIRE(request.fields().paths_size() == 2);
    CHECK(request.fields().paths(0) == "quotas.live_instances");
    CHECK(ToJson(request) == R"({"name":"y","fields":"quotas.liveInstances,description"})");
    v1::UpdateNamespaceRequest again;
    CHECK(google::protobuf::util::JsonStringToMessage(ToJson(request), &again).ok());
    CHECK(again.fields().paths(0) == "quotas.live_instances");
  }
  v1::UpdateNamespaceRequest none;
  REQUIRE(FromJson(R"({"fields": ""})", {TakesJson, false}, &none));
  CHECK(none.fields().paths().empty());
}

TEST_CASE("JSON itself may stand where a field is documented as a JSON object, byte for byte") {
  CHECK(Start(R"({"params": { "b":1.0, "a" : [1e400, "\u00e9"] } })").params() ==
        R"({ "b":1.0, "a" : [1e400, "\u00e9"] })");
  CHECK(Start(R"({"params": "{\"a\":1}"})").params() == R"({"a":1})");
  CHECK(Start(R"({"flow": [{"step": "a"}]})").flow() == R"([{"step": "a"}])");
  CHECK(Start(R"({"dryAnswers": {"a": {"transition": "ok"}, "b": "ok"}})").dry_answers().at("a") ==
        R"({"transition": "ok"})");
  CHECK(Has(Wrong(R"({"machine": {"a": 1}})"), "machine: a string is expected"));
}

TEST_CASE("an unknown field is named with its path and the nearest known one") {
  v1::StartBatchRequest batch;
  const std::string told = Wrong(R"({"starts": [{}, {"prams": "{}"}]})", &batch);
  CHECK(Has(told, "starts[1].prams"));
  CHECK(Has(told, "did you mean 'params'?"));
  v1::StartRequest request;
  REQUIRE(FromJson(R"({"prams": {"a": [1]}, "machine": "m"})", {TakesJson, true}, &request));
  CHECK(request.machine() == "m");
}

TEST_CASE("what is of another type is refused where it stands") {
  CHECK(Has(Wrong(R"({"version": -1})"), "version: '-1'"));
  CHECK(Has(Wrong(R"({"version": 1.5})"), "version"));
  CHECK(Has(Wrong(R"({"version": 4294967296})"), "version"));
  CHECK(Has(Wrong(R"({"hold": "true"})"), "hold: true or false"));
  CHECK(Has(Wrong(R"({"startAt": "soon"})"), "startAt: a time"));
  CHECK(Has(Wrong(R"({"waitAfterFail": 5})"), "waitAfterFail: seconds"));
  CHECK(Has(Wrong(R"({"after": {}})"), "after: a list"));
  CHECK(Has(Wrong(R"({"after": [null]})"), "after[0]"));
  CHECK(Has(Wrong(R"({"labels": {"a": 1}})"), R"(labels["a"]: a string)"));
  v1::ListInstancesRequest list;
  CHECK(Has(Wrong(R"({"state": "RUNING"})", &list), "did you mean 'RUNNING'?"));
}

TEST_CASE("what is no JSON is refused") {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[]",
                           "1",
                           "null",
                           "{}x",
                           "{\"id\":}",
                           "{\"id\" \"a\"}",
                           "{\"id\":\"a\",}",
                           "{id:\"a\"}",
                           "{'id':'a'}",
                           "{\"id\":\"\x01\"}",
                           "{\"id\":\"\\x\"}",
                           "{\"id\":\"\\ud800\"}",
                           "{\"version\":01}",
                           "{\"version\":1.}",
                           "{\"version\":nan}",
                           "{\"hold\":tru}",
                           "{\"id\":\"\xff\"}",
                           "{\"params\":{\"a\":}}",
                           "{\"params\":[1 2]}"}) {
    Wrong(text);
  }
  Wrong("{\"params\":" + std::string(1000, '[') + std::string(1000, ']') + "}");
}

}  // namespace dfsmr::http
