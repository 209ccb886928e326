#include "dsrv/web.h"

#include <spdlog/spdlog.h>

#include "dfsmr/v1/admin.pb.h"
#include "dsrv/access/secret_file.h"
#include "dsrv/calls/call.h"
#include "dsrv/cluster/run_after.h"
#include "dsrv/http/mapping.h"
#include "dsrv/metrics/joined.h"

namespace dfsmr {
namespace {

constexpr auto kLoopStuck = std::chrono::seconds(10);
// Prometheus gives a scrape 10 s, if nothing else is asked of it.
constexpr auto kScrapePatience = std::chrono::seconds(3);

// Who asks the door itself for something.
class AskerOrigin final : public Origin {
 public:
  explicit AskerOrigin(const http::Asker& asker) : asker_(asker) {}
  std::string Peer() const override { return asker_.peer; }
  std::string_view Bearer() const override {
    constexpr size_t kBearer = std::string_view("Bearer ").size();
    const std::string_view text = asker_.authorization;
    return text.size() > kBearer && http::Lower(text.substr(0, kBearer)) == "bearer "
               ? text.substr(kBearer)
               : std::string_view();
  }
  std::string Certificate() const override { return asker_.certificate; }
  std::string_view Door() const override { return "http"; }
  std::string RequestId() const override { return asker_.request_id; }

 private:
  const http::Asker& asker_;
};

TlsFiles TlsOf(const Flags& flags) {
  TlsFiles files = flags.tls;
  files.client_ca = flags.http.client_ca;
  return files;
}

bool MayScrape(const v1::AccessToken& caller) {
  return Among(caller.role(), kReaders);
}

int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

Web::~Web() = default;

Result<std::unique_ptr<Web>> Web::Listen(const Flags& flags) {
  std::unique_ptr<Web> web(new Web(flags));
  if (flags.http.addr.empty()) return web;
  auto door = http::Door::Listen(flags.http.addr, TlsOf(flags), flags.http.connections);
  if (door) {
    web->door_ = *std::move(door);
  } else if (flags.http.given) {
    return door.error();
  } else {
    spdlog::warn("{}; HTTP is off: --http HOST:PORT gives it another address",
                 door.error().message);
  }
  return web;
}

std::string Web::address() const {
  if (!door_) return "off";
  const std::string& given = flags_.http.addr;
  return given.substr(0, given.rfind(':') + 1) + std::to_string(door_->port());
}

http::GuardOptions Web::ToGuard() const {
  http::GuardOptions guard{.loopback = IsLoopback(flags_.http.addr),
                           .secure = !flags_.tls.empty(),
                           .hosts = flags_.http.hosts,
                           .origins = flags_.http.origins};
  for (const std::string& proxy : flags_.http.proxies) {
    guard.proxies.push_back(*http::ToAddressRange(proxy));  // the flags were checked
  }
  return guard;
}

void Web::Bind(Behind behind) {
  const Backend& backend = behind.backend;
  auto bound = std::make_shared<Bound>(Bound{.behind = std::move(behind), .collector = {}});
  if (door_) {
    bound->collector = std::make_unique<metrics::Collector>(
        metrics::Sources{backend, bound->behind.store, bound->behind.audit,
                         [this] {
                           return metrics::DoorCounts{door_->open(), door_->closed()};
                         },
                         bound->behind.room, bound->behind.exporter, counts_});
  }
  BoundPtr last;
  const Lock lock(mutex_);
  last = std::exchange(bound_[backend.reader.partition], std::move(bound));
}

void Web::Unbind(PartitionId partition) {
  BoundPtr last;  // what is behind it ends, if nobody uses it, when the lock is free again
  const Lock lock(mutex_);
  const auto found = bound_.find(partition);
  if (found == bound_.end()) return;
  last = std::move(found->second);
  bound_.erase(found);
}

std::vector<Web::BoundPtr> Web::AllBound() const {
  const Lock lock(mutex_);
  std::vector<BoundPtr> all;
  for (const auto& [partition, bound] : bound_) all.push_back(bound);
  return all;
}

void Web::Serve(grpc::Server& server, std::function<bool()> serving) {
  if (!door_) return;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  inside_ = std::make_unique<http::Inside>(server.InProcessChannel(arguments));
  pages_ = std::make_unique<http::Pages>(flags_.http.console, flags_.http.console_dir,
                                         flags_.http.base, flags_.auth, flags_.trace.url);
  http::Router::Options options;
  options.base = flags_.http.base;
  options.guard = ToGuard();
  options.compat = flags_.compat;
  options.asks = flags_.auth;
  options.metrics = [this](const http::Exchange& exchange, auto done) {
    TakeScrape(exchange, std::move(done));
  };
  options.health = [this, serving = std::move(serving)] {
    const BoundPtr bound = this->bound();
    const Room room = bound ? bound->behind.room() : Room::kAmple;
    return http::Router::Health{Turning(), !draining_.load() && serving(),
                                std::string(NameOf(room))};
  };
  options.refused = [this](const http::Failure& failure, const http::Visitor& visitor) {
    const BoundPtr bound = this->bound();
    if (!bound) return;
    bound->behind.backend.refusals.Note(
        {static_cast<Code>(failure.code), ReasonNamed(failure.reason), failure.message},
        visitor.client.peer, visitor.request_id);
  };
  router_ = std::make_unique<http::Router>(std::move(options), *inside_, *pages_);
  door_->Serve(*router_);
}

void Web::TakeScrape(const http::Exchange& exchange, std::function<void(http::Response)> done) {
  std::vector<BoundPtr> all = AllBound();
  all.empty() ? ScrapeAlone(exchange, std::move(done))
              : Scrape(std::move(all), exchange, std::move(done));
}

// The texts of all partitions that this server serves, as they come.
struct Web::Scraped {
  std::vector<BoundPtr> of;
  metrics::Form form;
  std::function<void(http::Response)> done;
  Mutex mutex;
  std::vector<std::string> texts GUARDED(mutex);
  std::optional<Error> failed GUARDED(mutex);
  size_t left GUARDED(mutex) = 0;
  bool answered GUARDED(mutex) = false;

  void Take(size_t part, Result<std::string> text) {
    Lock lock(mutex);
    text ? void(texts[part] = *std::move(text)) : void(failed = text.error());
    if (--left > 0) return;
    const bool late = std::exchange(answered, true);
    http::Response response;
    if (failed) {
      response = http::ToResponse(http::Failure::Of(*failed));
    } else {
      response = ToText(metrics::Joined(texts));
    }
    lock.Unlock();
    if (!late) done(std::move(response));
    for (const BoundPtr& bound : of) bound->behind.backend.gate.Leave();
  }

  // A partition waits for its store. Sums without it would be wrong, so what is told is what the
  // process knows by itself: its lease and its store are among that.
  void GiveUp(const std::function<std::string()>& process) {
    Lock lock(mutex);
    if (std::exchange(answered, true)) return;
    lock.Unlock();
    done(ToText(process()));
  }

  http::Response ToText(std::string text) const {
    http::Response response;
    response.Set("content-type", std::string(metrics::MediaType(form)));
    response.body = std::move(text);
    return response;
  }
};

void Web::Scrape(std::vector<BoundPtr> all, const http::Exchange& exchange,
                 std::function<void(http::Response)> done) {
  const BoundPtr first = all.front();
  const http::Asker asker = http::ToAsker(exchange.request, exchange.visitor);
  const auto caller = first->collector->Admit(AskerOrigin(asker));
  std::optional<Error> error;
  if (!caller) error = caller.error();
  // One that is on its way to another server is counted there.
  if (caller) std::erase_if(all, [](const auto& one) { return !one->behind.backend.gate.Admit(); });
  if (!error && all.empty()) error = Stopping();
  if (error) {
    first->behind.backend.refusals.Note(*error, asker.peer, asker.request_id);
    return done(http::ToResponse(http::Failure::Of(*error)));
  }
  auto scraped = std::make_shared<Scraped>();
  scraped->of = all;
  scraped->form = metrics::FormOf(exchange.request.Header("accept").value_or(""));
  scraped->done = std::move(done);
  {
    const Lock lock(scraped->mutex);
    scraped->texts.resize(all.size());
    scraped->left = all.size();
  }
  const auto sees = [who = *caller](const std::string& ns) { return who.Sees(ns); };
  RunAfter(kScrapePatience, [waits = std::weak_ptr(scraped),
                             process = ProcessText(sees, scraped->form)] {
    if (const auto late = waits.lock()) late->GiveUp(process);
  });
  for (size_t part = 0; part < all.size(); ++part) {
    all[part]->collector->Scrape(
        sees, scraped->form,
        [scraped, part](Result<std::string> text) { scraped->Take(part, std::move(text)); });
  }
}

std::function<std::string()> Web::ProcessText(metrics::Sees sees, metrics::Form form) const {
  return [start_time = start_time_, counts = counts_, sees = std::move(sees), form] {
    metrics::Snapshot snapshot;
    const TlsExpiry expiry = kNever;  // the owner tells it
    metrics::GatherProcess(
        {.version = kVersion, .start_time = start_time, .tls_expiry = expiry}, &snapshot);
    if (counts) snapshot.cluster = counts();
    return metrics::RenderProcess(snapshot, sees, form);
  };
}

// Of a server that serves nothing. Who may scrape it the owner knows.
void Web::ScrapeAlone(const http::Exchange& exchange, std::function<void(http::Response)> done) {
  if (!counts_) return done(http::ToResponse(http::Failure::Of(Stopping())));
  const metrics::Form form = metrics::FormOf(exchange.request.Header("accept").value_or(""));
  const auto answer = [this, form, done](bool whole) {
    http::Response response;
    response.Set("content-type", std::string(metrics::MediaType(form)));
    response.body = ProcessText([whole](const std::string&) { return whole; }, form)();
    done(std::move(response));
  };
  const http::Asker asker = http::ToAsker(exchange.request, exchange.visitor);
  if (!flags_.auth || IsSecretOf(flags_.admin_token_file, AskerOrigin(asker).Bearer())) {
    return answer(true);
  }
  constexpr std::chrono::seconds kPatience{3};
  inside_->Call("dfsmr.v1.TokenService/GetCaller", asker, "", kPatience,
                [answer, done](const http::Inside::Outcome& outcome) {
                  if (!outcome.status.ok()) {
                    return done(http::ToResponse(
                        http::Failure::Of(outcome.status, outcome.trailers)));
                  }
                  v1::AccessToken caller;
                  if (!caller.ParseFromString(outcome.reply) || !MayScrape(caller)) {
                    return done(http::ToResponse(http::Failure::Of(
                        Error{Code::kPermissionDenied, Reason::kNone,
                              "GET /metrics takes the role viewer, operator or admin"})));
                  }
                  answer(caller.namespace_() == "*");
                });
}

// Asks the deciding thread for a turn, and looks whether it has answered the last time.
bool Web::Turning() {
  const BoundPtr bound = this->bound();
  if (!bound) return true;
  int64_t asked = 0;
  if (!asked_->compare_exchange_strong(asked, Now())) {
    return std::chrono::steady_clock::duration(Now() - asked) < kLoopStuck;
  }
  Mailbox::Mail mail{.run = [flag = asked_](Engine&) { flag->store(0); },
                     .drop = [flag = asked_] { flag->store(0); },
                     .owed = true};
  if (!bound->behind.backend.loop.Post(std::move(mail))) asked_->store(0);
  return true;
}

void Web::Drain() {
  draining_.store(true);
  if (door_) door_->Drain();
}

void Web::AwaitAnswers(std::chrono::steady_clock::time_point until) {
  if (door_ && !door_->AwaitAnswers(until)) {
    spdlog::warn("some answers over HTTP were not taken within the grace period");
  }
}

}  // namespace dfsmr
