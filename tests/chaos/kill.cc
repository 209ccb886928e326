#include <cmath>
#include <random>

#include "tests/chaos/audit.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/crew.h"

namespace dfsmr::chaos {
namespace {

constexpr int kKillsOfALife = 25;  // then all is audited, and a new directory begins

// What has not stopped; throws when the server does not say.
uint64_t Unstopped(Stub* stub) {
  uint64_t count = 0;
  for (const auto state : {v1::Instance::RUNNING, v1::Instance::PLANNING, v1::Instance::PAUSED,
                           v1::Instance::SCHEDULED}) {
    grpc::ClientContext context;
    v1::ListInstancesRequest request;
    v1::ListInstancesResponse page;
    request.set_state(state);
    request.set_page_size(1'000);
    const grpc::Status status = stub->ListInstances(&context, request, &page);
    if (!status.ok()) throw Broken("ListInstances: " + status.error_message());
    count += static_cast<uint64_t>(page.instances_size());
  }
  return count;
}

void AwaitDrained(const Dsrv& server, const Findings& findings) {
  constexpr double kPatienceSeconds = 90;
  Stub stub(server.Connect());
  const auto since = Clock::now();
  uint64_t left = 1;
  while ((left = Unstopped(&stub)) > 0) {
    findings.Throw();
    if (SecondsSince(since) > kPatienceSeconds) {
      throw Broken(std::to_string(left) + " instances did not come to an end in " +
                   std::to_string(static_cast<int>(kPatienceSeconds)) + " s");
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

struct Totals {
  AuditFigures audited;
  uint64_t calls = 0;
  uint64_t unknown = 0;
  uint64_t acknowledged = 0;
  uint64_t resumed = 0;
  double slowest_start_seconds = 0;
};

void Live(const Options& options, int kills, std::mt19937_64* random, Totals* totals) {
  Dsrv server(options);
  server.Start();
  server.Define(kDefinitions);
  Findings findings;
  Crew crew(server, (*random)(), &findings);
  // Short lives and long ones alike: the logarithm of 20 to 2000 ms is uniform.
  std::uniform_real_distribution<double> exponent(std::log10(20), std::log10(2'000));
  for (int kill = 0; kill < kills && !findings.any(); ++kill) {
    std::this_thread::sleep_for(milliseconds(static_cast<int>(std::pow(10, exponent(*random)))));
    if (!server.Running()) throw Broken("dsrv ended by itself:\n" + server.log());
    server.Kill();
    const auto since = Clock::now();
    server.Start();
    totals->slowest_start_seconds = std::max(totals->slowest_start_seconds, SecondsSince(since));
  }
  crew.StopStarting();
  if (!findings.any()) AwaitDrained(server, findings);
  crew.Stop();
  findings.Throw();
  const AuditFigures first = Audit(server, crew.ledger(), crew.watched(), &findings);
  findings.Throw();
  server.Kill();
  server.Start();
  const AuditFigures second = Audit(server, crew.ledger(), crew.watched(), &findings);
  findings.Throw();
  if (second.records != first.records) {
    throw Broken("the feed had " + std::to_string(first.records) +
                 " records, and after a restart " + std::to_string(second.records));
  }
  totals->audited.records += first.records;
  totals->audited.instances += first.instances;
  totals->audited.transitions += first.transitions;
  totals->audited.plans += first.plans;
  totals->audited.compared += first.compared;
  totals->calls += crew.ledger().calls;
  totals->unknown += crew.ledger().unknown;
  totals->acknowledged += crew.ledger().accepted.size();
  for (const Watched& watched : crew.watched()) totals->resumed += watched.resumed;
}

}  // namespace

void Kill(const Options& options, int kills) {
  std::mt19937_64 random(options.seed);
  Totals totals;
  const auto since = Clock::now();
  for (int left = kills; left > 0; left -= kKillsOfALife) {
    Live(options, std::min(left, kKillsOfALife), &random, &totals);
    if (left > kKillsOfALife) {
      std::printf("%d kills to go, %.0f s so far\n", left - kKillsOfALife, SecondsSince(since));
      std::fflush(stdout);
    }
  }
  std::printf(
      "kill: %d kills in %.0f s under %llu calls (%llu left without an answer); %llu instances, "
      "%llu of them plans of 9 steps and 8 children; %llu acknowledged reports and %llu records of "
      "the feed audited, %llu instances compared with their record and history; watchers resumed "
      "%llu times; slowest restart %.2f s. Nothing acknowledged was lost, nothing happened twice\n",
      kills, SecondsSince(since), static_cast<unsigned long long>(totals.calls),
      static_cast<unsigned long long>(totals.unknown),
      static_cast<unsigned long long>(totals.audited.instances),
      static_cast<unsigned long long>(totals.audited.plans),
      static_cast<unsigned long long>(totals.acknowledged),
      static_cast<unsigned long long>(totals.audited.records),
      static_cast<unsigned long long>(totals.audited.compared),
      static_cast<unsigned long long>(totals.resumed), totals.slowest_start_seconds);
}

}  // namespace dfsmr::chaos
