// The table of methods. Calls by every role are made in tests/e2e/test_security.py.
#include "dsrv/calls/methods.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dfsmr/v1/admin.pb.h"
#include "dsrv/access/access.h"
#include "storage/memory_store.h"
#include "storage/rows/credential.h"

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
  std::set<std::string> methods;
  for (const auto* file :
       {v1::StartRequest::descriptor()->file(), v1::AccessToken::descriptor()->file(),
        v1::GetClockRequest::descriptor()->file(), v1::ReadLogsRequest::descriptor()->file(),
        v1::Namespace::descriptor()->file(), v1::Bulk::descriptor()->file(),
        v1::Cluster::descriptor()->file(),
        ::TaskMessage::descriptor()->file()}) {
    methods.merge(MethodsOf(file));
  }
  REQUIRE(methods.size() > 90);
  std::set<std::string> listed;
  ForEachMethod([&](const auto& row) {
    const Method& method = row.method;
    CAPTURE(method.name);
    const std::string name(method.name);
    CHECK(methods.contains(name));
    CHECK(listed.insert(name).second);
    // Values of secrets are for the holders of claims alone.
    const bool for_workers = name == "dfsmr.v1.SecretService/ResolveSecrets";
    CHECK(Among(v1::AccessToken::ADMIN, method.roles) == !for_workers);
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
  // What a report starts is in the report's namespace, unless it names another.
  report.mutable_transitions(1)->add_starts();
  report.mutable_transitions(1)->add_starts()->set_namespace_("c");
  report.add_starts()->set_namespace_("d");
  CHECK(entered(runner::kReport, report) == Names{"a", "next", "d", "a", "b", "c"});
  CHECK(entered(runner::kTransition, report.transitions(1)) == Names{"b", "c"});
  v1::ReportRequest starts;
  starts.add_starts();
  CHECK(entered(runner::kReport, starts) == Names{""});
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
  v1::UpdateNamespaceRequest update;
  update.set_name("acme");
  CHECK(entered(namespaces::kUpdateNamespace, update) == Names{"acme"});
  CHECK(entered(namespaces::kDeleteNamespace, v1::DeleteNamespaceRequest()) == Names{"*"});
}

namespace {

// A call that is part of one that enters `besides`, too.
class PartOrigin final : public Origin {
 public:
  PartOrigin(std::string bearer, std::string besides)
      : bearer_(std::move(bearer)), besides_(std::move(besides)) {}
  std::string Peer() const override { return "ipv4:1"; }
  std::string_view Bearer() const override { return bearer_; }
  std::string Certificate() const override { return {}; }
  std::string_view Besides() const override { return besides_; }

 private:
  const std::string bearer_;
  const std::string besides_;
};

}  // namespace

TEST_CASE("a part of a batch enters the namespaces of the whole") {
  MemoryStore store;
  Batch batch;
  const auto add = [&](const std::string& secret, const std::string& ns, uint32_t role) {
    rows::PutCredential({batch, 0},
                        {.id = secret, .hash = HashOf(secret), .ns = ns, .role = role});
  };
  add("admin", "*", v1::AccessToken::ADMIN);
  add("worker", "a", v1::AccessToken::WORKER);
  const auto epoch = store.Acquire(0);
  REQUIRE(epoch);
  REQUIRE(store.Write(0, *epoch, batch));
  auto access = Access::Open({.asks = true, .clock = [] { return FromMicros(1); }}, store, 0,
                             nullptr);
  REQUIRE(access);
  v1::StartBatchRequest starts;
  starts.add_starts()->set_namespace_("a");
  const auto admitted = [&](const auto& row, const auto& request, const std::string& bearer,
                            const std::string& besides) {
    return static_cast<bool>(Admit(row, **access, PartOrigin(bearer, besides), request));
  };
  const std::string both("a\0b", 3);
  CHECK(admitted(runner::kStartBatch, starts, "worker", ""));
  CHECK(admitted(runner::kStartBatch, starts, "worker", "a"));
  CHECK_FALSE(admitted(runner::kStartBatch, starts, "worker", both));
  CHECK_FALSE(admitted(runner::kStartBatch, starts, "worker", "b"));
  CHECK(admitted(runner::kStartBatch, starts, "admin", both));
  v1::ReportRequest report;
  report.add_transitions()->set_namespace_("a");
  CHECK(admitted(runner::kReport, report, "worker", "a"));
  CHECK_FALSE(admitted(runner::kReport, report, "worker", both));
  // Only batches have parts that enter more than they say.
  v1::StartRequest start;
  start.set_namespace_("a");
  CHECK(admitted(runner::kStart, start, "worker", both));
}

TEST_CASE("a message starts at most a thousand instances with all its reports") {
  v1::ReportRequest message;
  for (int i = 0; i < 4; ++i) {
    auto* report = message.add_transitions();
    for (int n = 0; n < 250; ++n) report->add_starts();
  }
  CHECK(CheckStarts(message.transitions(), 0));
  const auto more = CheckStarts(message.transitions(), 1);
  REQUIRE(!more);
  CHECK(more.error().code == Code::kInvalidArgument);
  CHECK(more.error().reason == Reason::kTooLarge);
  CHECK(more.error().message.find("1001 starts") != std::string::npos);
  // One report that is too long is refused by itself.
  for (int n = 0; n < 1'001; ++n) message.add_transitions();
  auto* report = message.mutable_transitions(4);
  for (int n = 0; n < 1'001; ++n) report->add_starts()->set_machine("m");
  CHECK(CheckStarts(message.transitions(), 0));
  report->set_instance("i");
  report->set_transition("ok");
  report->set_claim("1-1-1-1");
  const auto refused = ToReport(*report);
  REQUIRE(refused);
  REQUIRE(refused->args.fault);
  CHECK(refused->args.fault->reason == Reason::kTooLarge);
  CHECK(refused->starts.empty());
}

TEST_CASE("a start of a report is in the report's namespace, and is named when it is malformed") {
  v1::TransitionRequest report;
  report.set_namespace_("a");
  report.set_instance("i");
  report.set_transition("ok");
  report.add_starts()->set_machine("m");
  auto* other = report.add_starts();
  other->set_machine("m");
  other->set_id("x");
  other->set_namespace_("b");
  const auto command = ToReport(report);
  REQUIRE(command);
  REQUIRE(command->starts.size() == 2);
  CHECK(command->starts[0].ns == "a");
  CHECK(command->starts[1].ns == "b");
  other->set_params("[1]");
  const auto refused = ToReport(report);
  REQUIRE(!refused);
  CHECK(refused.error().reason == Reason::kBadParams);
  CHECK(refused.error().message.find("starts[1] (instance 'x' of machine 'm')") !=
        std::string::npos);
}

}  // namespace dfsmr
