#include "dsrv/access/access.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <fstream>
#include <sstream>

#include "dsrv/access/secret_file.h"
#include "fsm/base/fit.h"
#include "fsm/base/names.h"
#include "storage/rows/credential.h"

namespace dfsmr {
namespace {

constexpr auto kTick = std::chrono::seconds(1);
constexpr size_t kShortestSecret = 32;
constexpr size_t kLongestSecret = 4'096;

std::string_view OrDefault(std::string_view ns) { return ns.empty() ? "default" : ns; }

std::string Joined(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + Quoted(name);
  return joined;
}

// "machine 'a' and queue 'b'".
std::string LimitsOf(const rows::CredentialRow& row) {
  std::string text;
  if (!row.machines.empty()) text = "machine " + Joined(row.machines);
  if (!row.queues.empty()) text += (text.empty() ? "queue " : " and queue ") + Joined(row.queues);
  return text;
}

Error NotAllowed(std::string message) {
  return {Code::kPermissionDenied, Reason::kNotAllowed, std::move(message)};
}

}  // namespace

Error BadCredential() {
  return {Code::kUnauthenticated, Reason::kBadToken,
          "the server asks for a token, and this call has none that is valid: send the metadata "
          "'authorization: Bearer TOKEN'"};
}

// Caller -----------------------------------------------------------------------------------------

Error Caller::Denied(const Deed& deed, std::string_view ns, std::string_view why) const {
  Error error = NotAllowed(std::string(why));
  if (info_->audit) {
    AuditEntry entry = Entry();
    entry.refused = true;
    entry.method = deed.Name();
    entry.ns = ns;
    entry.result = Name(error.reason);
    info_->audit->Note(entry);
  }
  return error;
}

std::string Caller::WrongRole(const Deed& deed, std::optional<std::string_view> ns,
                              const Principal& who) {
  return deed.Name() + " takes the role " + NamesOf(deed.roles()) +
         (ns ? " in namespace " + Quoted(*ns) : "") + "; this token has the role " +
         std::string(NameOf(who.role())) + " in namespace " + Quoted(who.row.ns);
}

bool Caller::Sees(std::string_view ns) const {
  const Principal* who = principal();
  return !who || who->In(OrDefault(ns));
}

Result<Ok> Caller::MayEnter(std::string_view ns) const {
  if (Sees(ns)) return Ok{};
  return Denied(info_->deed, ns, WrongRole(info_->deed, OrDefault(ns), *principal()));
}

Result<Ok> Caller::Narrow(Filter* filter) const {
  const Principal* who = principal();
  if (!who || !who->Limited()) return Ok{};
  auto narrow = [](const std::vector<std::string>& names, std::string* wanted) {
    if (names.size() == 1 && wanted->empty()) *wanted = names.front();
    return names.empty() || std::ranges::find(names, *wanted) != names.end();
  };
  const bool machine = narrow(who->row.machines, &filter->machine);
  const auto allowed = [&](const std::string& name) {
    return std::ranges::find(who->row.queues, name) != who->row.queues.end();
  };
  const bool listed = filter->queue.empty() && !filter->queues.empty() && !who->row.queues.empty();
  const bool queue = listed ? std::ranges::all_of(filter->queues, allowed)
                            : narrow(who->row.queues, &filter->queue);
  if (machine && queue) return Ok{};
  return Denied(info_->deed, filter->ns,
                "this token is limited to " + LimitsOf(who->row) + ": ask for one of " +
                    (machine ? "these queues" : "these machines") + " by name");
}

Result<Ok> Caller::MayStart(const std::string& machine, bool flow) const {
  const Principal* who = principal();
  if (!who || who->row.machines.empty()) return Ok{};
  const auto& machines = who->row.machines;
  if (!flow && std::ranges::find(machines, machine) != machines.end()) return Ok{};
  return Denied(info_->deed, info_->ns,
                "this token is limited to " + LimitsOf(who->row) + ": it may start these, and no "
                "flow of its own");
}

Result<Ok> Caller::MayForce() const {
  const Principal* who = principal();
  if (!who || Among(who->role(), kChangers)) return Ok{};
  return Denied(info_->deed, info_->ns,
                "'force' begins past all limits, and takes the role " + NamesOf(kChangers) +
                    "; this token has the role " + std::string(NameOf(who->role())));
}

Result<Ok> Caller::MayInAll(std::string_view what) const {
  const Principal* who = principal();
  if (!who || (who->InAll() && Among(who->role(), kAdmins))) return Ok{};
  return Denied(info_->deed, info_->ns,
                std::string(what) + " takes the role " + NamesOf(kAdmins) +
                    " in all namespaces, \"*\"; this token has the role " +
                    std::string(NameOf(who->role())) + " in namespace " + Quoted(who->row.ns));
}

Result<Ok> Caller::MayReport(Engine& engine, const std::string& ns, const std::string& instance,
                             const ClaimRef& claim) const {
  if (!info_) return Ok{};
  const Principal* who = principal();
  if (!claim.given()) {
    if (who && !Among(who->role(), kOutsiders)) {
      return Denied({info_->deed.method, /*outside=*/true}, ns,
                    "without a claim this comes from outside, and takes the role " +
                        NamesOf(kOutsiders) + " in namespace " + Quoted(ns) +
                        "; this token has the role " + std::string(NameOf(who->role())));
    }
    return MayNoteOutside();
  }
  if (!who || !who->Limited()) return Ok{};
  if (engine.Concerns(ns, instance, claim, who->row.machines, who->row.queues)) return Ok{};
  return Denied(info_->deed, ns,
                "this token is limited to the tasks of " + LimitsOf(who->row));
}

Result<Ok> Caller::MaySee(Engine& engine, const std::string& ns,
                          const std::string& instance) const {
  const Principal* who = principal();
  if (!who || !who->Limited()) return Ok{};
  if (engine.Concerns(ns, instance, ClaimRef(), who->row.machines, who->row.queues)) return Ok{};
  return Denied(info_->deed, ns,
                "this token is limited to the tasks of " + LimitsOf(who->row));
}

Result<Ok> Caller::MayResolve(const std::vector<std::string>& secrets) const {
  const Principal* who = principal();
  if (!who) return NotAllowed("only a token that was made with --secret may read a secret");
  for (const std::string& name : secrets) {
    if (Allowed(who->row.secrets, name)) continue;
    return NotAllowed("this token was not made for the secret " + Quoted(name) +
                      (who->row.secrets.empty() ? ", nor for another: "
                                                : ", but for " + Joined(who->row.secrets) + ": ") +
                      "dcli token create --role worker --secret " + name + " makes one that is");
  }
  return Ok{};
}

void Caller::NoteOn(std::string_view ids, std::string_view detail) const {
  info_->on = ids;
  info_->detail = detail;
}

AuditEntry Caller::Entry() const {
  AuditEntry entry;
  entry.method = info_->deed.Name();
  entry.ns = info_->ns;
  if (info_->who) {
    entry.credential = info_->who->row.id;
    entry.name = info_->who->row.name;
    entry.role = NameOf(info_->who->role());
    entry.parent = info_->who->row.parent;
  }
  entry.peer = info_->peer;
  entry.certificate = info_->certificate;
  entry.door = info_->door;
  entry.request_id = info_->request_id;
  return entry;
}

void Caller::NoteOutside(std::string_view on, std::string_view detail, const Error* error) const {
  AuditEntry entry = Entry();
  entry.read = info_->deed.method->told && !info_->deed.changes();
  entry.on = on;
  entry.detail = detail;
  entry.result = error ? ReasonOrCode(*error) : "OK";
  info_->audit->Note(entry);
}

// Access -----------------------------------------------------------------------------------------

Access::Access(Options options, Audit* audit) : options_(std::move(options)), audit_(audit) {}

Result<std::unique_ptr<Access>> Access::Open(Options options, const Store& store,
                                             PartitionId partition, Audit* audit) {
  std::unique_ptr<Access> access(new Access(std::move(options), audit));
  auto rows = rows::ScanCredentials({store, partition});
  if (!rows) return rows.error();
  const Timestamp now = access->options_.clock();
  bool admin = false;
  std::vector<rows::CredentialRow> sessions;  // their parents have to be there before them
  for (rows::CredentialRow& row : *rows) {
    if (!row.parent.empty()) {
      sessions.push_back(std::move(row));
      continue;
    }
    auto principal = std::make_shared<Principal>(std::move(row));
    admin = admin || (principal->Valid(now) && principal->InAll() &&
                      principal->role() == v1::AccessToken::ADMIN);
    access->book_.Add(std::move(principal));
  }
  if (!access->options_.admin_token_file.empty()) {
    auto read = access->ReadAdminFile();
    if (!read) return read.error();
  } else if (access->options_.asks && !admin) {
    return Error{
        Code::kInvalidArgument, Reason::kNone,
        "--auth tokens, but the store has no admin's token, so nobody can make tokens. "
        "Make the first:\n  (umask 077; openssl rand -hex 32 > admin.token)\n  dsrv --auth "
        "tokens --admin-token-file admin.token ...\n  dcli token create --role admin "
        "--namespace '*' --token-file admin.token"};
  }
  for (rows::CredentialRow& row : sessions) access->AddSession(std::move(row));
  if (!access->options_.asks && !rows->empty()) {
    spdlog::warn("the store holds {} tokens, but no call needs one: see --auth", rows->size());
  }
  if (access->options_.asks || access->admin_ || !rows->empty()) {
    access->tender_ = std::thread([&self = *access] { self.Tend(); });
  }
  return access;
}

Access::~Access() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  if (tender_.joinable()) tender_.join();
}

// The file's content is the access token. When it changes, the old one is revoked.
Result<Ok> Access::ReadAdminFile() {
  const std::string& path = options_.admin_token_file;
  const auto file = ReadSecretFile(path);
  const std::string secret = file.value_or("");
  const bool printable = std::ranges::all_of(secret, [](char c) { return c > ' ' && c < 127; });
  if (!file || !printable || secret.size() < kShortestSecret || secret.size() > kLongestSecret) {
    if (admin_) book_.Remove(admin_);
    admin_ = nullptr;
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "the admin token file " + Quoted(path) + " " +
                     (file ? "must hold one word of " + std::to_string(kShortestSecret) +
                                 " printable characters or more, and nothing else: "
                                 "openssl rand -hex 32"
                           : "cannot be read")};
  }
  rows::CredentialRow row{.id = std::string(kAdminFile),
                          .hash = HashOf(secret),
                          .name = path,
                          .ns = "*",
                          .role = v1::AccessToken::ADMIN,
                          .create_time = options_.clock()};
  if (admin_ && admin_->row.hash == row.hash) return Ok{};
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && (there.st_mode & 07) != 0) {
    spdlog::warn("the admin token file {} can be read by everybody on this machine", path);
  }
  if (admin_) book_.Remove(admin_);
  admin_ = std::make_shared<Principal>(std::move(row));
  book_.Add(admin_);
  return Ok{};
}

// One whose parent is gone, or is another by now, lets nobody in; the next that is made drops it.
void Access::AddSession(rows::CredentialRow row) {
  PrincipalPtr parent = book_.FindId(row.parent);
  const bool same = parent && parent->row.hash == row.parent_hash;
  auto session = std::make_shared<const Principal>(std::move(row), std::move(parent));
  if (!same) session->revoked.store(true);
  book_.Add(std::move(session));
}

PrincipalPtr Access::WhoIs(const Origin& origin, const Method& method) const {
  const std::string_view bearer = origin.Bearer();
  if (bearer.empty() || bearer.size() > kLongestSecret) return nullptr;
  PrincipalPtr who = book_.Find(bearer);
  if (!who || !who->Valid(options_.clock())) return nullptr;
  return who->row.code && !method.takes_codes ? nullptr : who;
}

Result<Caller> Access::Admit(const Origin& origin, const Deed& deed, std::string_view ns) const {
  return Enter(origin, deed, OrDefault(ns));
}

Result<Caller> Access::AdmitAnywhere(const Origin& origin, const Deed& deed) const {
  return Enter(origin, deed, std::nullopt);
}

Result<Caller> Access::Enter(const Origin& origin, const Deed& deed,
                             std::optional<std::string_view> ns) const {
  const bool ask = (options_.asks || deed.method->always_asks) && !deed.method->open;
  Caller caller;
  Audit* const audit = !audit_ && deed.method->told ? options_.told : audit_;
  if (!ask && !audit) return caller;
  caller.info_ = std::make_shared<Caller::Info>();
  Caller::Info& info = *caller.info_;
  info.deed = deed;
  info.audit = audit;
  info.ns = ns.value_or("");
  info.peer = origin.Peer();
  info.door = origin.Door();
  info.request_id = origin.RequestId();
  if (options_.mutual_tls) info.certificate = origin.Certificate();
  if (ask) {
    info.who = WhoIs(origin, *deed.method);
    if (!info.who) {
      const Error error = BadCredential();
      if (audit) {
        AuditEntry entry = caller.Entry();
        entry.refused = true;
        entry.result = Name(error.reason);
        audit->Note(entry);
      }
      return error;
    }
    if (!Among(info.who->role(), deed.roles()) || (ns && !info.who->In(*ns))) {
      return caller.Denied(deed, info.ns, Caller::WrongRole(deed, ns, *info.who));
    }
  }
  if (caller.Audited()) {
    auto ready = audit->Ready();
    if (!ready) return ready.error();
  }
  return caller;
}

void Access::Watch(const Caller& caller, std::weak_ptr<Revocable> call) {
  if (!caller.principal()) return;
  const Lock lock(mutex_);
  leases_.push_back({caller.info_->who, std::move(call)});
}

Result<Ok> Access::Reload(const Store& store, PartitionId partition) {
  auto rows = rows::ScanCredentials({store, partition});
  if (!rows) return rows.error();
  // Sessions come after what they are of.
  std::ranges::stable_partition(*rows, [](const auto& row) { return row.parent.empty(); });
  std::set<std::string> there;
  for (const rows::CredentialRow& row : *rows) there.insert(row.id);
  std::set<std::string> known;
  for (const PrincipalPtr& one : book_.All()) {
    const bool stays = there.contains(one->row.id) || one->row.id == kAdminFile;
    stays ? (void)known.insert(one->row.id) : book_.Remove(one);
  }
  for (rows::CredentialRow& row : *rows) {
    if (known.contains(row.id)) continue;
    if (row.parent.empty()) {
      book_.Add(std::make_shared<const Principal>(std::move(row)));
    } else {
      AddSession(std::move(row));
    }
  }
  Sweep();
  return Ok{};
}

void Access::RevokeAll(const std::string& ns) {
  for (const PrincipalPtr& one : book_.All()) {
    if (one->row.ns == ns) book_.Remove(one);
  }
  Sweep();
}

void Access::Sweep() {
  {
    const Lock lock(mutex_);
    sweep_ = true;
  }
  changed_.NotifyAll();
}

void Access::Tend() {
  Lock lock(mutex_);
  while (!ended_) {
    changed_.WaitFor(lock, kTick, [this]() REQUIRES(mutex_) { return sweep_ || ended_; });
    sweep_ = false;
    lock.Unlock();
    if (!options_.admin_token_file.empty()) {
      auto read = ReadAdminFile();
      const std::string problem = read ? "" : read.error().message;
      if (problem != std::exchange(admin_problem_, problem) && !problem.empty()) {
        spdlog::warn("{}; until then it lets nobody in", problem);
      }
    }
    EndInvalid();
    lock.Relock();
  }
}

void Access::EndInvalid() {
  const Timestamp now = options_.clock();
  std::vector<std::shared_ptr<Revocable>> over;
  {
    const Lock lock(mutex_);
    std::erase_if(leases_, [&](const Lease& lease) {
      auto call = lease.call.lock();
      if (call && lease.who->Valid(now)) return false;
      if (call) over.push_back(std::move(call));
      return true;
    });
  }
  for (const auto& call : over) call->Revoke(BadCredential());
}

}  // namespace dfsmr
