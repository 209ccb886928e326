#include "dsrv/shared.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "dfsmr/v1/cluster.pb.h"
#include "dsrv/access/secret_file.h"
#include "dsrv/access/tls.h"
#include "dsrv/calls/cluster.h"
#include "dsrv/cluster/keeper.h"
#include "dsrv/cluster/reach.h"
#include "dsrv/cluster/sight.h"
#include "dsrv/cluster/spreader.h"
#include "dsrv/delivery.h"
#include "dsrv/inquiry.h"
#include "dsrv/listen.h"
#include "dsrv/loop/carrier.h"
#include "dsrv/partitions.h"
#include "dsrv/shared_counts.h"
#include "dsrv/supervisor.h"
#include "dsrv/web.h"
#include "storage/backup/manifest.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kStuck = seconds(10);        // a deciding thread for so long
constexpr size_t kPoolThreads = 16;         // more than there are connections for long reads
constexpr auto kForMessages = seconds(2);   // between partitions, of the grace period at most
constexpr auto kHandOver = milliseconds(500);  // for what is under way, before it is cut off
constexpr auto kSlowCommit = seconds(1);
constexpr auto kForOthers = seconds(3);   // to be there for what a server leaves behind
constexpr auto kLastCommit = seconds(5);  // for what is still being committed then
constexpr auto kLetIn = milliseconds(50);
constexpr auto kTold = milliseconds(100);  // until answers are on their way
constexpr auto kToEnd = seconds(2);        // of the grace period at most, for all but the calls
constexpr auto kRetry = seconds(1);        // of a start, while the database is away
// Says that the process has executed itself: how many of its commits were fenced, a space, and what
// it knew of the database. What would be refused at a first start is waited for then.
constexpr const char* kAnew = "DSRV_STARTS_ANEW";

// Of this machine, as others know it.
std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

// Where others reach a server that listens there.
std::string Advertised(const Flags& flags, int port) {
  const std::string host = flags.addr.substr(0, flags.addr.rfind(':'));
  if (!flags.store.advertise.empty()) return flags.store.advertise;
  return (NamesNoHost(flags.addr) ? HostName() : host) + ":" + std::to_string(port);
}

// A call of which no more is known.
class BearerOrigin final : public Origin {
 public:
  explicit BearerOrigin(const std::string& bearer) : bearer_(bearer) {}
  std::string Peer() const override { return {}; }
  std::string_view Bearer() const override { return bearer_; }
  std::string Certificate() const override { return {}; }

 private:
  const std::string& bearer_;
};

[[noreturn]] void StartAnew(char** arguments, uint64_t fenced, const std::string& known) {
  setenv(kAnew, (std::to_string(fenced) + " " + known).c_str(), 1);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  execv("/proc/self/exe", arguments);
  spdlog::critical("the server cannot start itself anew: {}", std::strerror(errno));
  std::_Exit(1);
}

class SharedServer {
 public:
  SharedServer(const Flags& flags, SharedStore store, char** arguments, uint64_t fenced)
      : flags_(flags),
        store_(std::move(store)),
        arguments_(arguments),
        fenced_before_(fenced) {}

  Result<Ok> Open();
  // False: gRPC does not start.
  bool Run(const sigset_t& signals, const ReadFlags& read);

 private:
  Result<Ok> Join(int port);
  void Keep();
  Keeper::Outside ForKeeper();
  Result<std::unique_ptr<Served>> OpenPartition(const PartRow& mine);
  void Serve(const Partitions::Part& part);
  bool MaySeeCluster(const std::string& bearer);
  void FailStore(const Error& error);
  [[noreturn]] void Lose(const std::string& why, seconds pause = seconds(0));
  [[noreturn]] void End(const std::string& why);
  uint64_t fenced() const { return fenced_before_ + store_.use().fenced; }
  void Give(const Keeper::Gift& gift);
  void Stop(const std::vector<Partitions::Part>& parts,
            std::chrono::steady_clock::time_point until, bool moves);
  void AwaitMessages(const std::vector<Partitions::Part>& parts);
  std::vector<PartitionId> GiveAll(std::chrono::steady_clock::time_point until);
  void AwaitSuccessors(const std::vector<PartitionId>& given,
                       std::chrono::steady_clock::time_point until);
  void EndCalls(bool given, std::chrono::steady_clock::time_point until);
  void CutOffAt(std::chrono::steady_clock::time_point until, Duration to_end);
  void Leave(int signal);
  void Probe(std::function<void()> well);
  void WatchDecider();

  const Flags& flags_;
  SharedStore store_;
  char** const arguments_;
  const uint64_t fenced_before_;  // commits of this process, before it executed itself
  std::shared_ptr<ServerClock> clock_ = std::make_shared<ServerClock>();
  TlsExpiry tls_expiry_ = kNever;
  Trails trails_;
  SecretKeysPtr keys_;
  ServerRow self_;
  LeaseTime joined_{};
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<Web> web_;
  std::unique_ptr<Front> front_;
  std::unique_ptr<Keeper> keeper_;
  std::unique_ptr<Spreader> spreader_;
  std::unique_ptr<Delivery> delivery_;
  std::unique_ptr<Inquiry> inquiry_;
  std::unique_ptr<Carrier> carrier_;  // null: there is one partition
  std::optional<Others> others_;      // none likewise
  std::optional<Pool> pool_;          // of all partitions; none likewise
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> giving_ = false;   // a partition: one at a time
  std::atomic<bool> serving_ = false;  // as health says
  std::atomic<bool> leaving_ = false;  // a signal ends it

  Mutex mutex_;
  bool over_ GUARDED(mutex_) = false;  // somebody ends the process, or starts it anew
  Partitions partitions_{{.open = [this](const PartRow& mine) { return OpenPartition(mine); },
                          .serves = [this](const Partitions::Part& part) { Serve(part); },
                          .fail = [this](const Error& error) { FailStore(error); }}};
};

Result<Ok> SharedServer::Open() {
  const auto now = (*clock_)();
  auto tls = flags_.tls.empty() ? Result<Timestamp>(kNever) : CheckTls(flags_.tls, now);
  if (!tls) return tls.error();
  tls_expiry_ = *tls;
  auto keys = ReadSecretKeys(flags_);
  if (!keys) return keys.error();
  keys_ = *std::move(keys);
  auto trails = Trails::Open(flags_, [clock = clock_] { return (*clock)(); });
  if (!trails) return trails.error();
  trails_ = *std::move(trails);
  auto cluster = store_.roster->Open(flags_.store.partitions);
  if (!cluster) return cluster.error();
  auto acceptor = Acceptor::Listen(flags_.addr);
  if (!acceptor) return acceptor.error();
  acceptor_ = *std::move(acceptor);
  auto web = Web::Listen(flags_);
  if (!web) return web.error();
  web_ = *std::move(web);
  if (auto joined = Join(acceptor_->port()); !joined) return joined.error();
  Front::Outside outside{.self = self_.id,
                         .secret = cluster->secret,
                         .partitions = cluster->partitions,
                         .may_answer = [this] { return keeper_->MayAnswer(); },
                         .commits = [this] { return store_.waits() < kSlowCommit; },
                         .pinged = [this](bool look) { keeper_->Pinged(look); },
                         .cluster = [this](const std::string& bearer)
                             -> std::optional<grpc::ByteBuffer> {
                           if (!MaySeeCluster(bearer)) return std::nullopt;
                           v1::Cluster reply;
                           Show(*keeper_, self_, store_.roster->Facts(), &reply);
                           const grpc::Slice slice(reply.SerializeAsString());
                           return grpc::ByteBuffer(&slice, 1);
                         },
                         .adopt =
                             [this](const std::string& ns, std::function<void(bool)> done) {
                               partitions_.Adopt(ns, std::move(done));
                             },
                         .spread =
                             [this](const std::string& ns, std::function<void()> done) {
                               spreader_->Begin(ns, std::move(done));
                             },
                         .deliver =
                             [this](const std::string& portion, auto done) {
                               delivery_->Take(portion, std::move(done));
                             },
                         .answer =
                             [this](const std::string& question, auto done) {
                               inquiry_->Answer(question, std::move(done));
                             }};
  front_ = std::make_unique<Front>(std::move(outside));
  delivery_ = std::make_unique<Delivery>(*front_, partitions_);
  inquiry_ = std::make_unique<Inquiry>(*front_, partitions_);
  if (cluster->partitions > 1) {
    pool_.emplace(kPoolThreads);
    carrier_ = std::make_unique<Carrier>([this](Carrier::Portion portion, Carrier::Told told) {
      delivery_->Deliver(std::move(portion), std::move(told));
    });
    others_ = Others{.partitions = cluster->partitions,
                     .ask =
                         [this](peer::Question question, milliseconds patience,
                                Others::Done done) {
                           inquiry_->Ask(std::move(question), patience, std::move(done));
                         },
                     .spread =
                         [this](const std::string& ns, std::function<void()> done) {
                           spreader_->Begin(ns, std::move(done));
                         }};
  }
  keeper_ = std::make_unique<Keeper>(*store_.roster, self_, joined_, *front_, ForKeeper());
  spreader_ = std::make_unique<Spreader>(*keeper_, *front_, front_->outside().adopt);
  web_->Share([this] {
    StoreUse use = store_.use();
    use.fenced = fenced();
    return CountCluster(*front_, *keeper_, self_, use, carrier_ ? carrier_->waiting() : 0);
  });
  return Ok{};
}

Result<Ok> SharedServer::Join(int port) {
  self_ = {.id = RandomHex(8),
           .address = Advertised(flags_, port),
           .version = kVersion,
           .level = kBackupLevel};
  const auto seen = store_.roster->Renew(self_.id, false, false);
  if (!seen) return seen.error();
  for (const ServerRow& other : seen->servers) {
    // One that was killed has a row until somebody buries it.
    if (other.dead || other.seen < seen->now - kLease) continue;
    if (IsLoopback(other.address) == IsLoopback(self_.address)) continue;
    return Error{Code::kFailedPrecondition, Reason::kNone,
                 "server " + other.id + " of this store advertises " + other.address +
                     ", and this one " + self_.address +
                     ": either all of them are on one machine, or none may advertise loopback"};
  }
  joined_ = LeaseTimeNow();
  return store_.roster->Join(self_, Roster::LivingAt(*seen, self_.address));
}

Keeper::Outside SharedServer::ForKeeper() {
  return {.dial = [this](const std::string& address) { return DialPeer(flags_, address); },
          .took = [this](const PartRow& mine) { partitions_.Take(mine); },
          .lost = [this](const std::string& why) { Lose(why); },
          .give =
              [this](const Keeper::Gift& gift) {
                if (giving_.exchange(true)) return;  // it takes longer than from look to look
                std::thread([this, gift] {
                  Give(gift);
                  giving_ = false;
                }).detach();
              },
          .end = [this](const std::string& why) { End(why); },
          .time = [this](Timestamp time) { clock_->Follow(time); },
          .alive =
              [this](bool alive) {
                if (serving_.exchange(alive) != alive && server_) SetServing(*server_, alive);
              }};
}

Result<std::unique_ptr<Served>> SharedServer::OpenPartition(const PartRow& mine) {
  auto opened = store_.open(mine);
  if (!opened) return opened.error();
  return Served::Open({.flags = flags_,
                       .clock = [clock = clock_] { return (*clock)(); },
                       .tls_expiry = tls_expiry_,
                       .trails = trails_,
                       .keys = keys_,
                       .fail = [this](const Error& error) { FailStore(error); },
                       .cluster =
                           [this](v1::Cluster* cluster) {
                             Show(*keeper_, self_, store_.roster->Facts(), cluster);
                           },
                       .carrier = carrier_.get(),
                       .others = others_ ? &*others_ : nullptr,
                       .pool = pool_ ? &*pool_ : nullptr},
                      *std::move(opened));
}

void SharedServer::Serve(const Partitions::Part& part) {
  // As long as somebody asks, it is there.
  std::shared_ptr<DirectServices> direct(part.served, &part.served->direct());
  const auto serve = [this, part, direct] { keeper_->Serves(part.id, part.inside, direct); };
  web_->Bind(part.served->behind(part.served));
  if (part.id != kHome) return serve();
  // The last owner may have changed something, and died before all had adopted it.
  front_->outside().partitions > 1 ? spreader_->Begin("", serve) : serve();
}

// Where nobody can be asked. Of the tokens in the store it goes by what was read of them.
bool SharedServer::MaySeeCluster(const std::string& bearer) {
  if (!flags_.auth || IsSecretOf(flags_.admin_token_file, bearer)) return true;
  const auto parts = partitions_.All();
  return !parts.empty() && parts.front().served->backend().access.AdmitAnywhere(
                               BearerOrigin(bearer), {.method = &kGetClusterMethod});
}

// Another one has the partition, or nobody knows what was written: then only its next owner will.
void SharedServer::FailStore(const Error& error) {
  if (error.code == Code::kAborted) Lose(error.message);
  // Whatever it is, it may be there at the next try, too.
  if (error.code == Code::kUnavailable) Lose(error.message, kRetry);
  End("the store failed: " + error.message);
}

void SharedServer::Lose(const std::string& why, seconds pause) {
  {
    Lock lock(mutex_);
    if (std::exchange(over_, true)) {
      lock.Unlock();
      while (true) std::this_thread::sleep_for(seconds(1));
    }
  }
  spdlog::warn("{}: what is under way is answered OUTCOME_UNKNOWN, and the server {}", why,
               leaving_ ? "ends" : "starts anew");
  front_->ClearRoutes();
  front_->LoseInside();
  std::this_thread::sleep_for(kTold);
  if (leaving_) std::_Exit(0);
  std::this_thread::sleep_for(pause);
  StartAnew(arguments_, fenced(), store_.known());
}

void SharedServer::End(const std::string& why) {
  spdlog::critical("{}; the server ends", why);
  front_->ClearRoutes();
  front_->LoseInside();
  std::this_thread::sleep_for(kTold);
  std::_Exit(1);
}

// What is under way for the partition is answered, what comes waits for its next owner, and what was
// answered is durable before that one takes over.
void SharedServer::Give(const Keeper::Gift& gift) {
  const auto& [partition, to] = gift;
  const Partitions::Part part{.id = partition, .served = partitions_.Find(partition), .inside = {}};
  if (part.served) {
    front_->SetRoute(partition, {});
    // So that calls are decided that have been let in: those that are let in later are refused.
    const auto now = std::chrono::steady_clock::now();
    front_->AwaitInside(now + kLetIn, {.of = partition});
    Stop({part}, now + kHandOver, /*moves=*/true);
  } else if (!leaving_) {
    return;  // it is still being opened
  } else {
    partitions_.AwaitOpening(partition, std::chrono::steady_clock::now() + kLastCommit);
  }
  if (!keeper_->Give(gift)) {
    Lose("nobody knows whether partition " + std::to_string(partition) + " was given to server " +
         to);
  }
  partitions_.Drop(partition);
}

void SharedServer::Stop(const std::vector<Partitions::Part>& parts,
                        std::chrono::steady_clock::time_point until, bool moves) {
  for (const auto& part : parts) part.served->Drain(moves);
  const auto last = std::max(until, std::chrono::steady_clock::now() + kLastCommit);
  for (const auto& part : parts) {
    // Streams of workers go on with another server. What was asked once is to be answered.
    const bool all = front_->AwaitInside(until, {.of = part.id}) ||
                     front_->AwaitInside(last, {.of = part.id, .single = true});
    if (!all) spdlog::warn("some calls did not end in time; they are cut off");
  }
  if (!moves) AwaitMessages(parts);
  for (const auto& part : parts) {
    front_->SetRoute(part.id, {});
    front_->LoseInside(part.id);
    web_->Unbind(part.id);
    part.served->backend().gate.WaitEmpty(std::chrono::steady_clock::now() + kHandOver);
    part.served->Stop();
  }
}

// What partitions have told each other is applied, also what they tell when they are drained: so a
// store that nobody serves any more has nothing under way, and may move into another number of
// partitions.
void SharedServer::AwaitMessages(const std::vector<Partitions::Part>& parts) {
  auto drained = std::make_shared<std::atomic<size_t>>(0);
  for (const auto& part : parts) part.served->Commit([drained] { ++*drained; });
  const auto moment =
      std::chrono::steady_clock::now() + std::min<Duration>(kForMessages, flags_.grace / 8);
  const auto left = [&] { return *drained < parts.size() || carrier_->waiting() > 0; };
  while (carrier_ && left() && std::chrono::steady_clock::now() < moment) {
    std::this_thread::sleep_for(milliseconds(5));
  }
}

// What others can have, one after another. Returns what they have got.
std::vector<PartitionId> SharedServer::GiveAll(std::chrono::steady_clock::time_point until) {
  std::vector<PartitionId> given;
  while (const auto gift = keeper_->Leave(until)) {
    while (giving_.exchange(true)) std::this_thread::sleep_for(milliseconds(5));
    Give(*gift);
    giving_ = false;
    given.push_back(gift->first);
  }
  return given;
}

// Until the others know of the next owners they ask here, and must not find the door shut.
void SharedServer::AwaitSuccessors(const std::vector<PartitionId>& given,
                                   std::chrono::steady_clock::time_point until) {
  const auto taken = [this](PartitionId one) {
    return front_->route(one)->kind == Route::Kind::kThere;
  };
  while (!std::ranges::all_of(given, taken) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  std::this_thread::sleep_for(kHandOver);
}

// What is with another owner is answered by that one, and goes back through here. Streams and polls
// have a moment: they go on through another server.
void SharedServer::EndCalls(bool given, std::chrono::steady_clock::time_point until) {
  front_->Close();
  const auto moment = std::chrono::steady_clock::now() + (given ? seconds(2) : kHandOver);
  front_->AwaitAll(std::min(until, moment));
  front_->AwaitAll(until, /*brief=*/true);
  front_->EndAll();
}

// A commit that the database does not answer, or anything else, holds up a stop until then, and no
// longer: who waits for the store is answered in half of the time that there is to end.
void SharedServer::CutOffAt(std::chrono::steady_clock::time_point until, Duration to_end) {
  std::thread([this, until, to_end] {
    std::this_thread::sleep_until(until - to_end / 2);
    store_.give_up();
    std::this_thread::sleep_until(until);
    spdlog::warn("dsrv did not come to an end within the grace period; it is cut off");
    std::_Exit(0);
  }).detach();
}

void SharedServer::Leave(int signal) {
  const auto to_end = std::min<Duration>(kToEnd, flags_.grace / 4);
  const auto end = std::chrono::steady_clock::now() + flags_.grace;
  const auto until = end - to_end;
  leaving_ = true;
  partitions_.Close();
  CutOffAt(end, to_end);
  spdlog::info("dsrv stops: {}; grace={}s", strsignal(signal), Seconds(flags_.grace));
  web_->Drain();
  SetServing(*server_, false);
  front_->Stop();
  const auto given = GiveAll(std::min(until, std::chrono::steady_clock::now() + kForOthers));
  Stop(partitions_.All(), until, /*moves=*/false);
  if (!given.empty()) {
    AwaitSuccessors(given, std::min(until, std::chrono::steady_clock::now() + seconds(3)));
  }
  EndCalls(!given.empty(), until);
  keeper_->Quit();
  web_->AwaitAnswers(std::min(until, std::chrono::steady_clock::now() + milliseconds(500)));
  spdlog::info("dsrv has stopped");
}

// Calls `well` when each deciding thread has turned. One that waits for the store, which does not
// answer the lease either, is not stuck.
void SharedServer::Probe(std::function<void()> well) {
  std::vector<std::shared_ptr<Served>> asked;
  for (const auto& part : partitions_.All()) {
    if (!part.served->backend().loop.Writing()) asked.push_back(part.served);
  }
  if (asked.empty() || giving_ || !keeper_->MayAnswer()) return well();
  auto left = std::make_shared<std::atomic<size_t>>(asked.size());
  for (const auto& served : asked) {
    served->Turn([left, well] {
      if (--*left == 0) well();
    });
  }
}

// What counts are looks, not time: while the process is stopped nobody looks, and when it goes on the
// deciding thread has as long as ever.
void SharedServer::WatchDecider() {
  auto turns = std::make_shared<std::atomic<uint64_t>>(0);
  uint64_t seen = 0;
  auto silent = seconds(0);
  while (true) {
    Probe([turns] { ++*turns; });
    std::this_thread::sleep_for(seconds(1));
    silent = *turns == seen ? silent + seconds(1) : seconds(0);
    seen = *turns;
    if (silent >= kStuck) End("a deciding thread has been stuck for 10 s");
  }
}

bool SharedServer::Run(const sigset_t& signals, const ReadFlags& read) {
  server_ = Listen(
      flags_,
      [this](grpc::ServerBuilder& builder) {
        SetReflection(builder, false);  // it is passed on, to the services inside
        builder.RegisterCallbackGenericService(front_.get());
      },
      acceptor_.get());
  if (!server_) return false;
  grpc::ChannelArguments unlimited;
  unlimited.SetMaxReceiveMessageSize(-1);
  unlimited.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kLargestTrailers);
  front_->SetOwn(std::make_shared<grpc::GenericStub>(server_->InProcessChannel(unlimited)));
  SetServing(*server_, false);
  spdlog::info("dsrv listens on {} port={} http={} store={} server={} advertise={}", flags_.addr,
               acceptor_->port(), web_->address(), store_.name, self_.id, self_.address);
  web_->Serve(*server_, [this] { return serving_.load(); });
  keeper_->Start();
  std::thread([this] { WatchDecider(); }).detach();
  const TlsWatch tls_watch(flags_.tls, [clock = clock_] { return (*clock)(); }, tls_expiry_);
  auto supervisor =
      std::make_unique<Supervisor>([this](std::function<void()> well) { Probe(std::move(well)); });
  const int signal = AwaitStop(
      [&signals] {
        int next = 0;
        sigwait(&signals, &next);
        return next;
      },
      [this] {
        for (const auto& part : partitions_.All()) {
          spdlog::info("meter {}{}",
                       part.id == kHome ? "" : "partition=" + std::to_string(part.id) + " ",
                       part.served->backend().loop.meter().Text());
        }
      },
      read);
  supervisor.reset();
  Leave(signal);
  return true;
}

using MadeServer = Result<std::unique_ptr<SharedServer>>;

MadeServer Make(const Flags& flags, const StoreOpener& open, char** arguments, uint64_t fenced,
                const std::string& known) {
  auto store = open(known);
  if (!store) return store.error();
  auto server = std::make_unique<SharedServer>(flags, *std::move(store), arguments, fenced);
  auto opened = server->Open();
  return opened ? MadeServer(std::move(server)) : opened.error();
}

// Whether a signal to end comes within that time.
bool AwaitEnd(const sigset_t& signals, seconds time) {
  const timespec wait{.tv_sec = time.count(), .tv_nsec = 0};
  const int signal = sigtimedwait(&signals, nullptr, &wait);
  return signal == SIGTERM || signal == SIGINT;
}

}  // namespace

int RunShared(const Flags& flags, const ReadFlags& read, const StoreOpener& open,
              char** arguments) {
  const sigset_t signals = BlockSignals();
  RaiseFileLimit();
  if (auto log = StartLogs(flags); !log) return Fail(log.error());
  // Who has served it already waits for the database as long as it takes.
  const char* const before = std::getenv(kAnew);
  const bool anew = before != nullptr;
  char* known_at = nullptr;
  const uint64_t fenced = anew ? std::strtoull(before, &known_at, 10) : 0;
  const std::string known = known_at && *known_at == ' ' ? known_at + 1 : "";
  unsetenv(kAnew);
  auto server = Make(flags, open, arguments, fenced, known);
  while (!server && anew && server.error().code == Code::kUnavailable) {
    spdlog::warn("the server does not start yet: {}", server.error().message);
    if (AwaitEnd(signals, kRetry)) return 0;
    server = Make(flags, open, arguments, fenced, known);
  }
  if (!server) return Fail(server.error());
  if (!(*server)->Run(signals, read)) {
    return Fail({Code::kUnavailable, Reason::kNone, "gRPC does not start"});
  }
  std::_Exit(0);
}

}  // namespace dfsmr
