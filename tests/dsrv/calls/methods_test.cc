// The table of methods. Calls by every role are made in tests/e2e/test_security.py.
#include "dsrv/calls/methods.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace dfsmr {
namespace {

std::set<std::string> MethodsOf(const google::protobuf::FileDescriptor* file) {
  std::set<std::string> names;
  for (int i = 0; i < file->service_count(); ++i) {
    const auto* service = file->service(i);
    for (int j = 0; j < service->method_count(); ++j) {
      names.insert(service->full_name() + "/" + service->method(j)->name());
    }
  }
  return names;
}

}  // namespace

TEST_CASE("every method of every service is in the table, once, and nothing else is") {
  std::set<std::string> methods = MethodsOf(v1::StartRequest::descriptor()->file());
  methods.merge(MethodsOf(v1::AccessToken::descriptor()->file()));
  methods.merge(MethodsOf(::TaskMessage::descriptor()->file()));
  REQUIRE(methods.size() > 25);
  // Those of ScheduleService join one by one, as they are built.
  const auto schedules = MethodsOf(v1::GetClockRequest::descriptor()->file());
  std::set<std::string> listed;
  ForEachMethod([&](const auto& row) {
    const Method& method = row.method;
    CAPTURE(method.name);
    const std::string name(method.name);
    CHECK((methods.contains(name) || schedules.contains(name)));
    CHECK(listed.insert(name).second);
    CHECK(Among(v1::AccessToken::ADMIN, method.roles));
    CHECK(!Among(v1::AccessToken::ROLE_UNSPECIFIED, method.roles));
  });
  for (const std::string& name : methods) {
    CAPTURE(name);
    CHECK(listed.contains(name));
  }
}

TEST_CASE("what could name a claim and does not comes from outside") {
  v1::TransitionRequest transition;
  const Deed event = DeedOf(runner::kTransition.method, transition);
  CHECK(event.outside);
  CHECK(event.changes());
  CHECK(event.roles() == kOutsiders);
  CHECK(event.Name() == "dfsmr.v1.RunnerService/Transition without a claim");
  transition.set_claim("1-1-1-1");
  const Deed report = DeedOf(runner::kTransition.method, transition);
  CHECK(!report.outside);
  CHECK(!report.changes());
  CHECK(report.roles() == kWorkers);
  CHECK(report.Name() == "dfsmr.v1.RunnerService/Transition");
  // Of others the items say it, each for itself.
  CHECK(!DeedOf(runner::kReport.method, v1::ReportRequest()).outside);
  CHECK(!DeedOf(runner::kCancel.method, v1::CancelRequest()).outside);
}

TEST_CASE("a request enters its own namespace first, and then those of its items") {
  using Names = std::vector<std::string>;
  auto entered = [](const auto& row, const auto& request) {
    Names names;
    row.namespaces(request, [&](std::string_view ns) { names.emplace_back(ns); });
    return names;
  };
  v1::ReportRequest report;
  CHECK(entered(runner::kReport, report) == Names{""});
  report.mutable_next()->set_namespace_("next");
  CHECK(entered(runner::kReport, report) == Names{"next"});
  report.add_transitions()->set_namespace_("a");
  report.add_transitions()->set_namespace_("b");
  CHECK(entered(runner::kReport, report) == Names{"a", "next", "a", "b"});
  v1::StartBatchRequest batch;
  CHECK(entered(runner::kStartBatch, batch) == Names{""});
  batch.add_starts()->set_namespace_("a");
  batch.add_starts();
  CHECK(entered(runner::kStartBatch, batch) == Names{"a", ""});
  CHECK(entered(runner::kWork, v1::WorkRequest()).empty());
  CHECK(entered(access_tokens::kListTokens, v1::ListTokensRequest()).empty());
  CHECK(entered(original::kStart, ::TaskMessage()) == Names{"default"});
  CHECK(entered(schedules::kGetClock, v1::GetClockRequest()).empty());
  CHECK(entered(schedules::kAdvanceClock, v1::AdvanceClockRequest()) == Names{"*"});
}

}  // namespace dfsmr
