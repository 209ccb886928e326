#include "dsrv/calls/overview.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "dsrv/backup/backups.h"
#include "dsrv/calls/changes_stream.h"
#include "dsrv/calls/method.h"
#include "dsrv/engine/agents.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/troubles.h"
#include "dsrv/engine/workers.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/limits.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/views.h"

namespace dfsmr {
namespace {

void AddMachines(const std::vector<MachineTally>& machines, v1::Overview* out) {
  Tally all;
  for (const MachineTally& machine : machines) all.Add(machine.now);
  ToProto(all, out->mutable_now());
  for (const MachineTally& machine : machines) ToProto(machine, out->add_machines());
}

void AddQueues(const std::vector<QueueView>& views, std::map<std::string, v1::QueueTally>* queues) {
  for (const QueueView& view : views) {
    v1::QueueTally& queue = (*queues)[view.queue];
    queue.set_queue(view.queue);
    queue.set_ready(queue.ready() + view.ready);
    if (!view.oldest_ready) continue;
    google::protobuf::Duration oldest;
    ToProto(*view.oldest_ready, &oldest);
    const auto age = [](const google::protobuf::Duration& one) {
      return std::pair(one.seconds(), one.nanos());
    };
    if (age(queue.oldest_ready()) < age(oldest)) *queue.mutable_oldest_ready() = oldest;
  }
}

void AddLimits(Limits& limits, const std::string& ns, v1::Overview* out) {
  for (LimitView& view : limits.Look().List({ns, "", false, "", 1'000})) {
    view.holders.clear();
    view.waiters.clear();
    v1::Limit limit;
    ToProto(view, &limit);
    if (FillOf(limit) >= 0.8) *out->add_limits() = std::move(limit);
  }
}

// The bytes of all files in a folder and below it.
uint64_t BytesIn(const std::filesystem::path& folder) {
  uint64_t bytes = 0;
  std::error_code failed;
  for (std::filesystem::recursive_directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    std::error_code gone;  // files come and go while they are counted
    const uint64_t size = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

struct OpenFiles {
  uint64_t all = 0;
  uint64_t sockets = 0;
};
OpenFiles CountOpenFiles() {
  OpenFiles files;
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc/self/fd", failed), end; !failed && at != end;
       at.increment(failed)) {
    ++files.all;
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(at->path(), gone).string();
    if (target.starts_with("socket:")) ++files.sockets;
  }
  return files;
}

class OverviewCall : public std::enable_shared_from_this<OverviewCall> {
 public:
  OverviewCall(Call& call, v1::GetOverviewRequest request, v1::Overview* reply)
      : call_(call), request_(std::move(request)), reply_(reply) {}

  void Begin() {
    PostFor(call_, request_.ByteSizeLong(), [self = shared_from_this()](Engine& engine) {
      const auto sees = [&](const std::string& ns) {
        return self->call_.caller().Sees(ns);
      };
      AddUp(engine, sees, self->request_, self->reply_);
      engine.AfterCommit([self] {
        self->call_.backend().pool.Post([self] {
          ShowServer(self->call_.backend(), self->reply_->mutable_server());
          self->call_.Succeed();
        });
      });
    });
  }

 private:
  Call& call_;
  const v1::GetOverviewRequest request_;
  v1::Overview* const reply_;
};

}  // namespace

void AddUp(Engine& engine, const std::function<bool(const std::string& ns)>& sees,
           const v1::GetOverviewRequest& request, v1::Overview* out) {
  const Survey& survey = engine.survey();
  const std::string ns = request.namespace_().empty() ? "default" : request.namespace_();
  const auto wants = [&](const std::string& one) { return ns == "*" ? sees(one) : one == ns; };
  AddMachines(survey.Machines(wants, request.machine()), out);
  std::map<std::string, v1::QueueTally> queues;
  std::vector<TroubleView> troubles;
  for (const std::string& one : survey.Namespaces()) {
    if (!wants(one)) continue;
    const std::vector<QueueView> views = survey.Queues({one, request.machine(), {}});
    AddQueues(views, &queues);
    std::ranges::move(survey.Troubles(one, request.machine(), views), std::back_inserter(troubles));
    for (const AgentState state :
         {AgentState::kActive, AgentState::kDraining, AgentState::kDrained}) {
      const auto agents = engine.agents().List({one, state, {}, {}, "", limits::kAgents});
      out->set_agents(out->agents() + agents.size());
    }
    out->set_workers(out->workers() + survey.workers().CountIn(one));
    if (request.machine().empty()) AddLimits(engine.limits(), one, out);
  }
  for (auto& [name, queue] : queues) *out->add_queues() = std::move(queue);
  for (const TroubleView& trouble : troubles) ToProto(trouble, out->add_troubles());
  for (const auto& [begin, counts] : survey.LastHour(wants, request.machine())) {
    ToProto(begin, counts, out->add_minutes());
  }
  for (const SlowNodeView& node : survey.SlowNodes(wants, request.machine(), kSlowShown)) {
    ToProto(node, out->add_slow());
  }
  Arrange(out);
  ToProto(survey.now(), out->mutable_time());
  v1::ServerStatus* server = out->mutable_server();
  server->set_room(std::string(NameOf(survey.room())));
  server->set_first_seq(survey.feed_start());
  server->set_last_seq(survey.last_seq());
}

void ShowServer(const Backend& backend, v1::ServerStatus* out) {
  out->set_state(backend.gate.closed() ? "draining" : "serving");
  const auto p95 = Duration(static_cast<int64_t>(backend.loop.meter().CommitP95Us()));
  ToProto(p95, out->mutable_commit_p95());
  out->set_watchers(backend.watchers.size());
  if (const BackupStatus backup = backend.backups.status(); backup.asked) {
    v1::BackupState* to = out->mutable_backup();
    if (backup.last_time != Timestamp()) ToProto(backup.last_time, to->mutable_last_time());
    to->set_last_bytes(backup.last_bytes);
    to->set_error(backup.error);
  }
  if (!backend.server) return;
  const ServerFacts& server = *backend.server;
  out->set_version(server.version);
  out->set_address(server.address);
  ToProto(server.start_time, out->mutable_start_time());
  const Timestamp expiry = server.tls_expiry;
  if (expiry != kNever) ToProto(expiry, out->mutable_tls_expire_time());
  out->set_store_bytes(BytesIn(server.data));
  std::error_code failed;
  const auto space = std::filesystem::space(server.data, failed);
  if (!failed) out->set_free_bytes(space.available);
  const OpenFiles files = CountOpenFiles();
  out->set_open_files(files.all);
  out->set_connections(files.sockets);
  rlimit most{};
  if (getrlimit(RLIMIT_NOFILE, &most) == 0) out->set_max_files(most.rlim_cur);
}

void ServeGetOverview(Call& call, const v1::GetOverviewRequest& request, v1::Overview* reply) {
  if (request.namespace_() != "*") {
    auto ns = ToNamespace(request.namespace_());
    if (!ns) return call.Refuse(ns.error());
  }
  auto checked = CheckFilter("machine", request.machine());
  if (!checked) return call.Refuse(checked.error());
  if (!call.Enter()) return;
  if (call.backend().pool.Behind(limits::kMailboxWait)) return call.Fail(Overloaded());
  std::make_shared<OverviewCall>(call, request, reply)->Begin();
}

}  // namespace dfsmr
