// All that decides and answers for one partition of a store: its engine and the loop that drives it,
// the feed, who may call, and the services. A server that is alone has one; where servers share the
// store, each has one for each partition that it owns.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "dsrv/access/access.h"
#include "dsrv/access/audit.h"
#include "dsrv/access/credentials.h"
#include "dsrv/access/secret_key_file.h"
#include "dsrv/adopter.h"
#include "dsrv/backup/backups.h"
#include "dsrv/calls/backend.h"
#include "dsrv/calls/feed.h"
#include "dsrv/calls/services.h"
#include "dsrv/flags.h"
#include "dsrv/loop/carrier.h"
#include "dsrv/loop/disk.h"
#include "dsrv/otlp/exporter.h"
#include "dsrv/web.h"
#include "fsm/base/mutex.h"
#include "fsm/machine/machine.h"
#include "storage/log_table.h"
#include "storage/place.h"
#include "storage/zones/zones.h"

namespace dfsmr {

using Services = std::vector<std::unique_ptr<grpc::Service>>;

// Definitions in the store were accepted once; they are compiled again when it is opened.
Result<Machine> CompileStored(std::string_view source);

// The audit trail, of which a process has one, whatever it serves.
struct Trails {
  std::unique_ptr<Audit> audit;  // null: there is none
  std::unique_ptr<Audit> told;   // of who reads secrets, where there is no other

  static Result<Trails> Open(const Flags& flags, const std::function<Timestamp()>& clock);
};

class Served {
 public:
  struct Opened {
    std::unique_ptr<Store> store;
    const RocksStore* embedded = nullptr;  // `store`, where it is in this process
    uint64_t life = 0;                     // another one after a restored backup
    std::string name;                      // for people
    PartitionId partition = kHome;         // that is served
    uint16_t partitions = 1;               // that the store has
    // Where logs of operations are kept, where it is not embedded. Null: they are not.
    std::unique_ptr<LogTable> logs = {};
    // How much room it has, where it is not embedded.
    std::function<Room()> room = {};
  };
  struct Options {
    const Flags& flags;
    std::function<Timestamp()> clock;  // real time
    const TlsExpiry& tls_expiry;       // outlives it
    const Trails& trails;              // the same
    SecretKeysPtr keys;
    // The store has failed: nothing may be answered any more.
    std::function<void(const Error&)> fail;
    // Says which servers share the store. Null: it is this one's alone.
    std::function<void(v1::Cluster*)> cluster = {};
    // Carries its messages to other partitions. Null: it is the only one.
    Carrier* carrier = nullptr;
    // How it asks these; null likewise.
    const Others* others = nullptr;
    // Whose threads its jobs run in. Null: it has threads of its own for them.
    Pool* pool = nullptr;
  };

  // Reads what is in the store. `flags` must outlive it.
  static Result<std::unique_ptr<Served>> Open(Options options, Opened opened);
  ~Served();

  const Backend& backend() const { return *backend_; }
  const Services& services() const { return services_; }
  // Whether the services tell of themselves.
  bool reflection() const { return flags_.reflection; }
  // Their unary methods, for callers within the process.
  DirectServices& direct() const { return *direct_; }
  const Engine& engine() const { return *engine_; }
  Room room() const { return room_; }
  // For the HTTP door. `owner`: this, or null where it outlives the door.
  Web::Behind behind(std::shared_ptr<const void> owner = {}) const {
    return {std::move(owner), *backend_, embedded_, options_.trails.audit.get(),
            [this] { return room(); }, exporter_.get()};
  }
  // Begins what happens without calls. Call it once.
  void Start();
  // Calls `turned` when the deciding thread has run a piece of mail.
  void Turn(std::function<void()> turned) {
    loop_->Post(
        {.run = [turned = std::move(turned)](Engine&) { turned(); }, .drop = [] {}, .owed = true});
  }

  // Calls `durable` when all that was decided before is.
  void Commit(std::function<void()> durable) {
    loop_->Post({.run = [durable = std::move(durable)](
                            Engine& engine) { engine.AfterCommit(durable); },
                 .drop = [] {},
                 .owed = true});
  }

  // Where this is not home.
  Adopter& adopter() { return *adopter_; }

  // Nothing new comes in, nothing more is handed out, and what waits is answered. `moves`: another
  // server goes on with it, and with what workers have in hand. Call it once.
  void Drain(bool moves = false);
  // What was answered is durable, what was noted is on disk, and the threads have ended. No call is
  // under way any more. Call it once.
  void Stop();

 private:
  Served(Options options, Opened opened);
  void ShowAlone(v1::Cluster* cluster) const;
  Result<Ok> OpenEngine();
  void MakeLoop();
  void MakeBackend();
  Room Look();

  const Options options_;
  const Flags& flags_;
  std::unique_ptr<Store> store_;
  const RocksStore* const embedded_;
  const std::string name_;
  const std::function<Room()> room_of_store_;
  const uint64_t life_;
  const PartitionId partition_;
  const uint16_t partitions_;
  SecretKeyring ring_;
  Pool pool_;
  Mailbox mailbox_;
  Zones zones_;
  const FindZone find_zone_;
  Logs logs_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<Changes> changes_;
  std::mt19937_64 entropy_{std::random_device{}()};
  Disk disk_;
  std::atomic<Room> room_ = Room::kAmple;  // as last looked at
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Adopter> adopter_;
  std::unique_ptr<Backups> backups_;
  Gate gate_;
  Watchers watchers_;
  Refusals refusals_;
  CallMeter calls_;
  const ServerFacts facts_;
  const std::string id_ = RandomHex(8);  // of the server, where it is alone
  std::optional<Backend> backend_;
  std::unique_ptr<DirectRows> direct_;
  Services services_;
  std::unique_ptr<SecretKeyWatch> key_watch_;
  std::unique_ptr<otlp::Exporter> exporter_;  // null without --otlp
};

}  // namespace dfsmr
