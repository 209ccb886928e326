#include <doctest/doctest.h>

#include <algorithm>

#include "dcli/call/client.h"
#include "tests/dcli/dcli.h"
#include "tests/dcli/fake_server.h"
#include "tests/dcli/temporary_file.h"

namespace dfsmr::cli {
namespace {

v1::ChangesResponse Message(const std::string& cursor,
                            v1::Change::Kind kind = v1::Change::KIND_UNSPECIFIED) {
  v1::ChangesResponse message;
  message.set_cursor(cursor);
  if (kind == v1::Change::KIND_UNSPECIFIED) return message;
  auto* change = message.add_changes();
  change->set_kind(kind);
  change->set_machine("crawler");
  change->set_instance("c-1");
  return message;
}

size_t Lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("changes are taken up again where the connection was lost") {
  FakeServer server;
  server.streams.push_back({.messages = {Message("1"), Message("2", v1::Change::STARTED)},
                            .end = {grpc::StatusCode::UNAVAILABLE, "stopping"}});
  server.streams.push_back({.messages = {Message("3", v1::Change::FINISHED)},
                            .end = {grpc::StatusCode::OUT_OF_RANGE, "too old"},
                            .reason = "CURSOR_EXPIRED"});
  const Outcome ended = Dcli({"changes", "--server", server.address, "-o", "json"});
  CHECK(ended.status == 1);
  CHECK(ended.out ==
        "{\"kind\":\"STARTED\",\"machine\":\"crawler\",\"instance\":\"c-1\"}\n"
        "{\"kind\":\"FINISHED\",\"machine\":\"crawler\",\"instance\":\"c-1\"}\n");
  CHECK(ended.err.find("the connection was lost: stopping") != std::string::npos);
  CHECK(ended.err.find("too old (CURSOR_EXPIRED)\nhint: --after 0") != std::string::npos);
  REQUIRE(server.watched.size() == 2);
  CHECK(server.watched[0].after() == "");
  CHECK(server.watched[0].follow());
  CHECK(server.watched[1].after() == "2");
}

TEST_CASE("a transition is sent with its reason") {
  FakeServer server;
  const Outcome moved = Dcli(
      {"transition", "c-1", "ok", "--reason", "by hand", "--server", server.address, "-o", "name"});
  CHECK(moved.status == 0);
  REQUIRE(server.reports.size() == 1);
  CHECK(server.reports[0].reason() == "by hand");
}

TEST_CASE("arguments in brackets are what they are") {
  FakeServer server;
  CHECK(Dcli({"start", "crawler", "[a=b,c=d]", "x:=[1,2]", "--server", server.address}).status == 0);
  REQUIRE(server.started.size() == 1);
  CHECK(server.started[0].params() == R"({"[a":"b,c=d]","x":[1,2]})");
  const Outcome bad = Dcli({"start", "crawler", "[]", "--server", server.address});
  CHECK(bad.status == 2);
  CHECK(bad.err.starts_with("dcli: \"[]\" is neither KEY=VALUE nor KEY:=JSON\n"));
  CHECK(Dcli({"show", "i", "[j]"}).err.starts_with("dcli: show does not take \"[j]\"\n"));
  CHECK(server.started.size() == 1);
}

TEST_CASE("names of changes are what they are about") {
  FakeServer server;
  v1::ChangesResponse limit;
  limit.set_cursor("9");
  limit.add_changes()->set_cause("limit:queue");
  server.streams.push_back({.messages = {limit}});
  const Outcome ended =
      Dcli({"changes", "--no-follow", "--after", "4", "--server", server.address, "-o", "name"});
  CHECK(ended.out == "limit:queue\n");
}

TEST_CASE("a time that JSON cannot say is an error and not the end") {
  FakeServer server;
  server.instance.set_id("c-1");
  server.instance.add_tokens()->mutable_available_at()->set_seconds(1'001'795'835'319);
  for (const char* format : {"json", "yaml"}) {
    const Outcome shown = Dcli({"show", "c-1", "--server", server.address, "-o", format});
    CHECK(shown.status == 1);
    CHECK(shown.out == "");
    CHECK(shown.err.starts_with("dcli: the reply has no JSON form: "));
  }
  CHECK(Dcli({"show", "c-1", "--server", server.address}).status == 0);
}

TEST_CASE("an instance and a file are drawn, told or named, as -o says") {
  FakeServer server;
  server.instance.set_id("c-1");
  server.instance.set_machine("crawler");
  CHECK(Dcli({"graph", "c-1", "--server", server.address, "-o", "name"}).out == "c-1\n");
  const TemporaryFile file(
      "id: a\nnodes: {s: {start: true, transitions: {ok: e}}, e: {final: true}}\n");
  CHECK(Dcli({"graph", file.path, "-o", "name"}).out == "a\n");
  CHECK(Dcli({"graph", file.path, "-o", "json"}).out.starts_with("{\"id\":\"a\""));
  CHECK(Dcli({"check", file.path, "-o", "json"}).out.find("\"kind\":\"machine\"") !=
        std::string::npos);
}

TEST_CASE("changes up to now end with the cursor to go on from") {
  FakeServer server;
  server.streams.push_back({.messages = {Message("5", v1::Change::CLAIMED)}});
  const Outcome ended = Dcli({"changes", "--no-follow", "--after", "4", "--kind", "claimed,Started",
                              "--server", server.address, "-o", "name"});
  CHECK(ended.status == 0);
  CHECK(ended.out == "c-1\n");
  CHECK(ended.err == "dcli: to go on from here: --after 5\n");
  CHECK(server.watched[0].kinds_size() == 2);
  CHECK_FALSE(server.watched[0].follow());
}

TEST_CASE("start --wait ends with the instance, as its result says") {
  FakeServer server;
  server.instance.set_id("c-1");
  server.instance.set_state(v1::Instance::STOPPED);
  server.instance.set_result(v1::Instance::SUCCESS);
  int expected = 0;
  SUBCASE("success") {}
  SUBCASE("anything else") {
    server.instance.set_result(v1::Instance::WARNING);
    expected = 1;
  }
  server.streams.push_back({.messages = {Message("7")}});
  server.streams.push_back(
      {.messages = {Message("8", v1::Change::STARTED), Message("9", v1::Change::FINISHED)}});
  const Outcome ended =
      Dcli({"start", "crawler@3", "url=x", "--wait", "--server", server.address, "-o", "json"});
  CHECK(ended.status == expected);
  CHECK(Lines(ended.out) == 1);
  CHECK(ended.out.find("\"state\":\"STOPPED\"") != std::string::npos);
  CHECK(Lines(ended.err) == 2);  // what happened, as it went on
  REQUIRE(server.watched.size() == 2);
  CHECK(server.watched[1].after() == "7");  // a cursor from before the start: nothing is missed
  CHECK(server.watched[1].instance() == "c-1");
  CHECK(server.started.at(0).version() == 3);
  CHECK(server.started.at(0).params() == "{\"url\":\"x\"}");
}

TEST_CASE("start --wait does without a feed") {
  FakeServer server;
  server.instance.set_id("c-1");
  server.instance.set_state(v1::Instance::STOPPED);
  server.instance.set_result(v1::Instance::SUCCESS);
  server.streams.push_back({.end = {grpc::StatusCode::UNIMPLEMENTED, "no feed"}});
  CHECK(Dcli({"start", "crawler", "--wait", "--server", server.address}).status == 0);
}

TEST_CASE("many are started in batches, one line each") {
  FakeServer server;
  const Outcome many =
      Dcli({"start", "crawler", "--count", "2500", "--server", server.address, "-o", "name"});
  CHECK(many.status == 0);
  CHECK(Lines(many.out) == 2500);
  CHECK(server.started.size() == 2500);
}

TEST_CASE("lists are read in pages up to the limit, and say when there is more") {
  FakeServer server;
  const auto list = [&](const char* limit) {
    return Dcli({"instances", "--limit", limit, "--server", server.address, "-o", "name"});
  };
  CHECK(Lines(list("1500").out) == 1500);
  CHECK(list("1500").err.find("there are more") != std::string::npos);
  CHECK(Lines(list("0").out) == 2000);
  CHECK(list("0").err == "");
  CHECK(Lines(list("2000").out) == 2000);
}

TEST_CASE("no work is silence, and an empty object for programs") {
  FakeServer server;
  const Outcome none = Dcli({"ready", "--server", server.address});
  CHECK(none.status == 0);
  CHECK(none.out == "");
  CHECK(none.err == "");
  CHECK(Dcli({"ready", "--server", server.address, "-o", "json"}).out == "{}\n");
}

TEST_CASE("a transition prints the node entered") {
  FakeServer server;
  const Outcome named = Dcli({"transition", "c-1", "ok", "n:=1", "--params", "{\"m\": 2}",
                              "--server", server.address, "-o", "name"});
  CHECK(named.out == "success\n");
  CHECK(server.reports.at(0).node_params() == "{\"m\":2,\"n\":1}");
  CHECK(Dcli({"transition", "c-1", "ok", "--server", server.address})
            .out.starts_with("c-1  crawl -> success"));
  const Outcome refused = Dcli({"transition", "c-1", "up", "--server", server.address});
  CHECK(refused.status == 1);
  CHECK(refused.err ==
        "dcli: no way (ILLEGAL_TRANSITION)\n"
        "hint: dcli show INSTANCE says where it stands and what leads on\n");
}

TEST_CASE("what cannot be a machine's name is looked up as an instance") {
  FakeServer server;
  server.instance.set_id("plan/step/1");
  server.instance.add_tokens()->set_node("crawl");
  const Outcome drawn = Dcli({"graph", "plan/step/1", "--server", server.address});
  CHECK(drawn.status == 0);
  CHECK(drawn.out.find("crawl[\"crawl") != std::string::npos);
  server.machine.set_id("crawler");
  CHECK(Dcli({"graph", "crawler", "--server", server.address}).out ==
        "flowchart TD\n  %% crawler\n");
}

TEST_CASE("a call of which nothing was done is repeated, whatever it changes") {
  FakeServer server;
  Client client(server.address, std::chrono::seconds(5));
  server.start_refusals = {"NO_OWNER", "PEER_UNREACHABLE", "STORE_UNREACHABLE"};
  v1::StartRequest without_id;
  without_id.set_machine("crawler");
  CHECK(client.Start(without_id));
  CHECK(server.started.size() == 4);
}

TEST_CASE("a call that may be done is repeated only if that does no harm") {
  FakeServer server;
  Client client(server.address, std::chrono::seconds(5));
  v1::StartRequest start;
  start.set_machine("crawler");
  server.start_refusals = {"OUTCOME_UNKNOWN"};
  CHECK(!client.Start(start));
  CHECK(server.started.size() == 1);
  start.set_id("c-1");
  server.start_refusals = {"OUTCOME_UNKNOWN"};
  CHECK(client.Start(start));
  CHECK(server.started.size() == 3);
}

}  // namespace dfsmr::cli
