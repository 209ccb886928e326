// Where calls go in a store of several partitions.
#include "dsrv/cluster/reach.h"

#include <doctest/doctest.h>
#include <google/protobuf/descriptor.h>

#include <set>
#include <string>
#include <vector>

#include "dfsmr.pb.h"
#include "dfsmr/v1/admin.pb.h"
#include "dfsmr/v1/agent.pb.h"
#include "dfsmr/v1/cluster.pb.h"
#include "dfsmr/v1/package.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dfsmr/v1/schedule.pb.h"
#include "dfsmr/v1/view.pb.h"
#include "dsrv/cluster/parted.h"

namespace dfsmr {
namespace {

using Kind = Destination::Kind;

constexpr uint16_t kSixteen = 16;

template <typename Request>
Destination GoesTo(const std::string& method, const Request& request,
                   uint16_t partitions = kSixteen) {
  return DestinationOf(ReachOf("/dfsmr.v1." + method), request.SerializeAsString(), partitions);
}

// Of a file with services.
template <typename Message>
void AddMethods(std::vector<std::string>* paths) {
  const auto* const file = Message::descriptor()->file();
  for (int i = 0; i < file->service_count(); ++i) {
    const auto* const service = file->service(i);
    for (int j = 0; j < service->method_count(); ++j) {
      paths->push_back("/" + std::string(service->full_name()) + "/" +
                       std::string(service->method(j)->name()));
    }
  }
}

std::vector<std::string> AllMethods() {
  std::vector<std::string> paths;
  AddMethods<v1::StartRequest>(&paths);
  AddMethods<v1::CreateTokenRequest>(&paths);
  AddMethods<v1::GetScheduleRequest>(&paths);
  AddMethods<v1::ListAgentsRequest>(&paths);
  AddMethods<v1::GetPackageRequest>(&paths);
  AddMethods<v1::GetStepRequest>(&paths);
  AddMethods<v1::GetClusterRequest>(&paths);
  AddMethods<::TaskMessage>(&paths);
  return paths;
}

TEST_CASE("each method says how far it reaches, and of one instance by which fields") {
  const std::vector<std::string> paths = AllMethods();
  CHECK(paths.size() > 90);
  for (const std::string& path : paths) {
    CAPTURE(path);
    const auto named = NamedReachOf(path);
    REQUIRE(named);
    if (named->reach == Reach::kInstance) CHECK(named->id != 0);
    const bool original = path.starts_with("/DistributedFSMRunner/");
    if (named->id != 0) CHECK((named->ns != 0) == !original);
  }
  CHECK_FALSE(NamedReachOf("/dfsmr.v1.RunnerService/Fly"));
  CHECK(ReachOf("/dfsmr.v1.RunnerService/Fly").reach == Reach::kAtHome);
}

TEST_CASE("each method of several partitions says how their answers are joined") {
  int parted = 0;
  for (const std::string& path : AllMethods()) {
    CAPTURE(path);
    const Reach reach = ReachOf(path).reach;
    const bool feed = path == "/dfsmr.v1.RunnerService/Changes" ||  // see feeds.h
                      path == "/DistributedFSMRunner/Changes";
    const bool several = (reach == Reach::kAll || reach == Reach::kItems) && !feed;
    CHECK(IsParted(path) == several);
    parted += IsParted(path);
    // What none of its items is in goes to somebody all the same.
    if (IsParted(path)) CHECK(MakeParted(path, "", {kSixteen, 3}));
    if (!IsParted(path)) CHECK_FALSE(MakeParted(path, "", {kSixteen, 3}));
  }
  CHECK(parted == 24);
}

TEST_CASE("what is of one instance goes where that lives") {
  v1::StartRequest start;
  start.set_machine("m");
  start.set_id("order/4711");
  start.set_params(std::string(1'000, 'x'));
  CHECK(GoesTo("RunnerService/Start", start) == Destination{Kind::kOne, 11});
  start.set_namespace_("default");
  CHECK(GoesTo("RunnerService/Start", start) == Destination{Kind::kOne, 11});
  start.set_id("");
  CHECK(GoesTo("RunnerService/Start", start) == Destination{Kind::kAnyOne});
  v1::TransitionRequest report;
  report.set_namespace_("acme");
  report.set_instance("infra/fleet/12/node.0.vm/3");
  report.add_starts()->set_id("hello");
  CHECK(GoesTo("RunnerService/Transition", report) == Destination{Kind::kOne, 11});
  v1::GetStepRequest step;
  step.set_instance("hello");
  CHECK(GoesTo("ViewService/GetStep", step) == Destination{Kind::kOne, 9});
  ::TransitionRequest original;
  original.set_instance("hello");
  CHECK(DestinationOf(ReachOf("/DistributedFSMRunner/Transition"), original.SerializeAsString(),
                      kSixteen) == Destination{Kind::kOne, 9});
}

TEST_CASE("lists go to all partitions, unless one has all that they ask for") {
  v1::ListInstancesRequest list;
  CHECK(GoesTo("RunnerService/ListInstances", list) == Destination{Kind::kSeveral});
  list.set_parent("hello");
  CHECK(GoesTo("RunnerService/ListInstances", list) == Destination{Kind::kOne, 9});
  v1::ChangesRequest changes;
  CHECK(GoesTo("RunnerService/Changes", changes) == Destination{Kind::kSeveral});
  changes.set_instance("order/4711");
  CHECK(GoesTo("RunnerService/Changes", changes) == Destination{Kind::kOne, 11});
}

TEST_CASE("what belongs to all is at home, and of one partition everything") {
  v1::DefineRequest define;
  CHECK(GoesTo("RunnerService/Define", define) == Destination{});
  v1::StartRequest start;
  start.set_id("order/4711");
  CHECK(GoesTo("RunnerService/Start", start, 1) == Destination{});
  CHECK(GoesTo("RunnerService/Work", v1::WorkRequest(), 1) == Destination{});
  CHECK(GoesTo("RunnerService/Work", v1::WorkRequest()) == Destination{Kind::kSeveral});
}

TEST_CASE("a field's text is found among all kinds of others") {
  v1::StartRequest start;
  start.set_namespace_("ns");
  start.set_version(7);
  start.set_id("an-id");
  start.set_priority(-3);
  (*start.mutable_labels())["a"] = "b";
  start.mutable_start_at()->set_seconds(5);
  start.set_hold(true);
  start.set_traceparent("00-x");
  const std::string bytes = start.SerializeAsString();
  CHECK(TextOfField(bytes, 1) == "ns");
  CHECK(TextOfField(bytes, 4) == "an-id");
  CHECK(TextOfField(bytes, 50) == "00-x");
  CHECK(TextOfField(bytes, 2) == "");
  CHECK(TextOfField("", 1) == "");
  start.set_id("another");  // the last one counts, as it does when a message is parsed
  CHECK(TextOfField(bytes + start.SerializeAsString(), 4) == "another");
  v1::ExtendRequest::Item extend;
  extend.set_instance("i");
  extend.set_progress(0.5);
  CHECK(TextOfField(extend.SerializeAsString(), 1) == "i");
}

TEST_CASE("what is no message has no fields, and is left to the services to refuse") {
  v1::StartRequest start;
  start.set_id("order/4711");
  start.set_priority(300);
  const std::string bytes = start.SerializeAsString();
  for (size_t size = 1; size < bytes.size(); ++size) {
    const std::string_view head = std::string_view(bytes).substr(0, size);
    if (v1::StartRequest().ParseFromArray(head.data(), static_cast<int>(size))) continue;
    CHECK_FALSE(TextOfField(head, 4));
    CHECK(DestinationOf(ReachOf("/dfsmr.v1.RunnerService/Start"), head, kSixteen) ==
          Destination{});
  }
  CHECK_FALSE(TextOfField(std::string_view("\x00", 1), 4));
  CHECK_FALSE(TextOfField("\x23", 4));  // a group's begin
  CHECK_FALSE(TextOfField("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 4));
}

}  // namespace
}  // namespace dfsmr
