// `doctor`: looks, with the calls that there are, for what is usually wrong.
#include <algorithm>
#include <chrono>

#include "dcli/call/pages.h"
#include "dcli/call/views.h"
#include "dcli/commands/views.h"
#include "dcli/text/json.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace doctor_command {

using std::chrono::days;

constexpr Duration kApart = std::chrono::seconds(5);  // more than calls and NTP explain
constexpr Duration kCertificate = days(30);
constexpr Duration kBackup = days(1) + std::chrono::hours(1);  // one a day, and time to take it
constexpr uint64_t kFewFiles = 4096;
constexpr size_t kNamed = 20;  // of a kind
// As many as an overview shows, at most: then there may be more.
constexpr int kMachinesShown = 200;
constexpr int kTroublesShown = 50;

struct Finding {
  std::string name;  // of the kind: "clock"
  std::string what;
  std::string mend;
};

class Doctor {
 public:
  explicit Doctor(Context& context) : context_(context) {}

  // An error: nothing could be looked at, since the server was not reached.
  Result<Ok> Look() {
    request_.set_namespace_(context_.name_space.empty() ? "*" : context_.name_space);
    auto overview = Ask();
    if (!overview && overview.error().reason == Reason::kNotAllowed &&
        context_.name_space.empty()) {  // of one namespace only: its own is meant
      request_.set_namespace_("");
      overview = Ask();
    }
    if (!overview) return LookAtToken(overview.error());
    if (context_.name_space.empty()) LookAtDefault();
    const v1::ServerStatus& server = overview->server();
    now_ = FromProto(overview->time());
    LookAtClock();
    LookAtCertificate(server);
    LookAtFiles(server);
    LookAtRoom(server);
    LookAtBackup(server);
    LookAtCluster();
    const auto spaces = Spaces();
    if (!spaces) return spaces.error();
    if (const auto looked = LookAtMachines(*overview, *spaces); !looked) return looked.error();
    return LookAtSchedules(*spaces);
  }

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  void Found(std::string name, std::string what, std::string mend) {
    const auto same = std::ranges::count(findings_, name, &Finding::name);
    if (static_cast<size_t>(same) >= kNamed) return;
    findings_.push_back({std::move(name), std::move(what), std::move(mend)});
  }

  Result<v1::Overview> Ask() {
    asked_ = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
    auto overview = context_.client->views().GetOverview(request_);
    answered_ = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
    return overview;
  }

  Result<Ok> LookAtToken(const Error& error) {
    if (error.reason == Reason::kBadToken) {
      Found("token", "the server does not take your token: " + error.message,
            "an admin makes one: dcli token create; --token-file FILE, DFSMR_TOKEN_FILE or "
            "DFSMR_TOKEN give it");
      return Ok{};
    }
    if (error.reason != Reason::kNotAllowed) return error;
    const std::string ns = context_.name_space.empty() ? "default" : context_.name_space;
    const auto caller = context_.client->GetCaller();
    const std::string own = caller ? caller->namespace_() : "";
    Found("token",
          "your token is valid, but is not even a viewer's in namespace " + JsonString(ns) +
              (own.empty() ? "" : ": it is of namespace " + JsonString(own)),
          own.empty() || own == ns
              ? "an admin makes one that is: dcli token create --role viewer"
              : "work there with --namespace " + own +
                    ", or have an admin make one for this: dcli token create --namespace " + ns);
    return Ok{};
  }

  // All namespaces that a token sees may be one, and not the one where its holder works.
  void LookAtDefault() {
    v1::ListInstancesRequest request;
    request.set_page_size(1);
    const auto page = context_.client->ListInstances(request);
    if (!page && page.error().reason == Reason::kNotAllowed) (void)LookAtToken(page.error());
  }

  // Whoever may see an overview may perhaps not see the servers.
  void LookAtCluster() {
    v1::GetClusterRequest request;
    request.set_with_counts(true);
    const auto cluster = context_.client->views().GetCluster(request);
    if (!cluster) return;
    for (const std::string& problem : ProblemsOf(*cluster)) {
      Found("cluster", problem,
            "dcli cluster --partitions shows all servers, and who serves what; the servers' logs "
            "say why");
    }
  }

  void LookAtClock() {
    v1::Clock clock;
    if (auto told = context_.client->schedules().GetClock({})) clock = *std::move(told);
    if (clock.is_virtual()) {
      return Found("clock",
                   "the server's clock is a virtual one, and stands at " + TimeText(clock.time()),
                   "--virtual-clock is for tests: without it the clock is the machine's, for which "
                   "the server takes a data directory of its own");
    }
    const bool behind = now_ + kApart < asked_;
    if (!behind && now_ <= answered_ + kApart) return;
    const Duration apart = behind ? asked_ - now_ : now_ - answered_;
    Found("clock",
          "the server's clock is " + DurationText(apart) + (behind ? " behind" : " ahead of") +
              " the one here",
          "let both follow one source of time: timedatectl set-ntp true");
  }

  void LookAtCertificate(const v1::ServerStatus& server) {
    if (!server.has_tls_expire_time()) return;
    const Duration left = FromProto(server.tls_expire_time()) - answered_;
    if (left >= kCertificate) return;
    Found("certificate",
          "the server's certificate ends " +
              (left > Duration() ? "in " + DurationText(left) : DurationText(-left) + " ago") +
              ", on " + TimeText(server.tls_expire_time()),
          "put a new one in place of the files of --tls-cert and --tls-key: they are read again "
          "by themselves");
  }

  void LookAtFiles(const v1::ServerStatus& server) {
    const uint64_t most = server.max_files();
    const bool full = server.open_files() * 5 > most * 4;
    if (most == 0 || (most >= kFewFiles && !full)) return;
    Found("files",
          "the server may have " + std::to_string(most) + " files and connections open, and has " +
              std::to_string(server.open_files()),
          "start it with a limit of 65536: ulimit -Hn 65536, or LimitNOFILE=65536 in its unit");
  }

  void LookAtRoom(const v1::ServerStatus& server) {
    if (server.room() == "ample" || server.room().empty()) return;
    Found("room",
          "the disk of the store has too little room (" + server.room() + "): " +
              std::string(server.room() == "none" ? "no work is handed out"
                                                  : "nothing new is accepted"),
          "make room on the disk of --data, or lower --min-free-mb; it goes on by itself then");
  }

  void LookAtBackup(const v1::ServerStatus& server) {
    if (!server.has_backup()) return;
    const v1::BackupState& backup = server.backup();
    const std::string mend =
        "see that --backup-to is there, can be written and has room, and that --backup-every is "
        "short enough";
    if (!backup.error().empty()) {
      return Found("backup", "the last backup failed: " + backup.error(), mend);
    }
    const Timestamp since =
        backup.has_last_time() ? FromProto(backup.last_time()) : FromProto(server.start_time());
    if (answered_ - since < kBackup) return;
    Found("backup",
          (backup.has_last_time() ? "the last backup is " : "there is no backup after ") +
              DurationText(answered_ - since) + (backup.has_last_time() ? " old" : ""),
          mend);
  }

  // The namespaces that are looked at.
  Result<std::vector<std::string>> Spaces() {
    if (request_.namespace_() != "*") return std::vector<std::string>{request_.namespace_()};
    const auto all = AllPages(v1::ListNamespacesRequest(), [this](const auto& page) {
      return context_.client->namespaces().ListNamespaces(page);
    });
    if (!all) return all.error();
    std::vector<std::string> names;
    for (const v1::Namespace& one : all->namespaces()) names.push_back(one.name());
    return names;
  }

  // Where there is more than an overview shows, each machine is asked for: what is left out may be
  // just what is looked for here.
  Result<Ok> LookAtMachines(const v1::Overview& overview, const std::vector<std::string>& spaces) {
    if (overview.machines_size() < kMachinesShown && overview.troubles_size() < kTroublesShown) {
      LookAtBreakers(overview);
      LookAtTroubles(overview);
      return Ok{};
    }
    for (const std::string& space : spaces) {
      v1::ListMachinesRequest request;
      request.set_namespace_(space);
      const auto all = AllPages(
          request, [this](const auto& page) { return context_.client->ListMachines(page); });
      if (!all) return all.error();
      for (const v1::Machine& machine : all->machines()) {
        request_.set_namespace_(space);
        request_.set_machine(machine.id());
        const auto own = Ask();
        if (!own) return own.error();
        LookAtBreakers(*own);
        LookAtTroubles(*own);
      }
    }
    return Ok{};
  }

  void LookAtBreakers(const v1::Overview& overview) {
    for (const v1::MachineRow& machine : overview.machines()) {
      if (machine.breaker().empty() || machine.breaker() == "closed") continue;
      Found("breaker",
            "the breaker of machine " + JsonString(machine.id()) + " is " + machine.breaker() +
                ": most of what was handed out were retries, and hardly any succeeded",
            "see why its attempts time out: dcli history of an instance, dcli durations " +
                machine.id() + " NODE; retries go on when some succeed");
    }
  }

  void LookAtTroubles(const v1::Overview& overview) {
    for (const v1::Trouble& trouble : overview.troubles()) {
      const std::string place = "at " + trouble.machine() + "/" + trouble.node();
      const Duration since = now_ - FromProto(trouble.since());
      if (trouble.kind() == v1::Trouble::UNSERVED) {
        Found("worker",
              std::to_string(trouble.count()) + " ready " + place +
                  (trouble.queue().empty() ? "" : " in queue " + JsonString(trouble.queue())) +
                  ", the oldest for " + DurationText(std::max(Duration(), since)) +
                  ", and no worker asks for it",
              "start a worker that takes it: dcli work " + trouble.machine() + " " +
                  trouble.node() + " -- COMMAND; dcli queues shows who asks for what");
      } else if (trouble.kind() == v1::Trouble::AT_MAXIMUM) {
        Found("timeout", "the learned timeout " + place + " stands at the node's timeout_max",
              "dcli durations " + trouble.machine() + " " + trouble.node() +
                  " shows what attempts really take: raise timeout_max if they need it, or make "
                  "them faster");
      }
    }
  }

  Result<Ok> LookAtSchedules(const std::vector<std::string>& spaces) {
    for (const std::string& space : spaces) {
      v1::ListSchedulesRequest request;
      request.set_namespace_(space);
      const auto all = AllPages(request, [this](const auto& page) {
        return context_.client->schedules().ListSchedules(page);
      });
      if (!all) return all.error();
      for (const v1::Schedule& schedule : all->schedules()) LookAt(schedule);
    }
    return Ok{};
  }

  void LookAt(const v1::Schedule& schedule) {
    const bool stopped = schedule.paused_by() == "stop_on_fail";
    const bool failed = schedule.last().outcome() == v1::Occurrence::FAILED;
    if (!stopped && !failed && schedule.failures_in_a_row() == 0) return;
    const std::string name = schedule.name();
    std::string what = "schedule " + JsonString(name);
    if (!schedule.namespace_().empty() && context_.name_space.empty()) {
      what += " of namespace " + JsonString(schedule.namespace_());
    }
    if (failed) {
      what += " could not start what was due: " + schedule.last().error();
    } else {
      what += " has failed " + std::to_string(schedule.failures_in_a_row()) + " times in a row";
    }
    if (stopped) what += "; it is paused for that";
    Found("schedule", what,
          "dcli schedules history " + name + " shows what became of its times" +
              (stopped ? "; dcli schedules resume " + name + " lets it go on" : ""));
  }

  Context& context_;
  v1::GetOverviewRequest request_;
  Timestamp asked_;  // by our clock
  Timestamp answered_;
  Timestamp now_;  // by the server's
  std::vector<Finding> findings_;
};

// `looked`: at all there is.
void Print(Context& context, const std::vector<Finding>& findings, bool looked) {
  if (context.names()) {
    for (const Finding& finding : findings) context.out << finding.name << '\n';
    return;
  }
  const bool json = context.format == OutputFormat::kJson;
  if (json || context.format == OutputFormat::kYaml) {
    for (const Finding& finding : findings) {
      const std::string object = ObjectOf({{"finding", JsonString(finding.name)},
                                           {"what", JsonString(finding.what)},
                                           {"mend", JsonString(finding.mend)}});
      context.out << (json ? object + "\n" : "---\n" + YamlOf(object));
    }
    return;
  }
  for (const Finding& finding : findings) {
    context.out << Upper(finding.name.substr(0, 1)) << finding.name.substr(1) << ": "
                << Escaped(finding.what) << "\n  mend it: " << Escaped(finding.mend) << '\n';
  }
  if (findings.empty() && looked) context.out << "Nothing is wrong at " << context.client->server() << '\n';
}

}  // namespace doctor_command

int Doctor(Context& context, const DoctorOptions&) {
  doctor_command::Doctor doctor(context);
  const auto looked = doctor.Look();
  doctor_command::Print(context, doctor.findings(), looked.has_value());
  if (!looked) return context.Fail(looked.error());
  return doctor.findings().empty() ? kSucceeded : kRefused;
}

}  // namespace dfsmr::cli
