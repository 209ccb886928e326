#include "dsrv/partitions.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "dsrv/listen.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

std::unique_ptr<grpc::Server> ServeInside(const Served& served) {
  grpc::ServerBuilder builder;
  // Of reflection home tells; it takes threads.
  SetReflection(builder, served.reflection() && served.engine().reader().partition == kHome);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMessage));
  for (const auto& service : served.services()) builder.RegisterService(service.get());
  return builder.BuildAndStart();
}

std::shared_ptr<grpc::GenericStub> StubOf(grpc::Server& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kLargestTrailers);
  return std::make_shared<grpc::GenericStub>(server.InProcessChannel(arguments));
}

}  // namespace

void Partitions::Take(const PartRow& mine) {
  {
    const Lock lock(mutex_);
    opening_.insert(mine.id);
  }
  openers_.Post([this, mine] {
    Open(mine);
    const Lock lock(mutex_);
    opening_.erase(opening_.find(mine.id));
    opened_.NotifyAll();
  });
}

void Partitions::AwaitOpening(PartitionId id, std::chrono::steady_clock::time_point until) {
  Lock lock(mutex_);
  opened_.WaitUntil(lock, until,
                           [this, id]() REQUIRES(mutex_) { return !opening_.contains(id); });
}

void Partitions::Open(const PartRow& mine) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t adoptions = 0;
  {
    const Lock lock(mutex_);
    if (closed_) return;
    adoptions = adoptions_;
  }
  auto opened = outside_.open(mine);
  {
    const Lock lock(mutex_);
    if (closed_) return;
  }
  if (!opened) return outside_.fail(opened.error());
  Part part{.id = mine.id, .served = *std::move(opened), .inside = {}};
  auto server = ServeInside(*part.served);
  part.inside = StubOf(*server);
  {
    const Lock lock(mutex_);
    if (closed_) return;
    part.served->Start();
    entries_[mine.id] = {part, std::move(server)};
    adoptions = adoptions_ - adoptions;
  }
  adoptions > 0 && mine.id != kHome ? AdoptFirst(part) : outside_.serves(part);
  spdlog::info("this server serves partition {} after {:.1f} s, from change {}", mine.id,
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
               part.served->engine().last_seq());
}

// It may have read what was before.
void Partitions::AdoptFirst(const Part& part) {
  part.served->adopter().Adopt("", [this, part](bool done) {
    if (done) return outside_.serves(part);
    openers_.Post([this, part] {
      if (Find(part.id) == part.served) AdoptFirst(part);
    });
  });
}

void Partitions::Adopt(const std::string& ns, std::function<void(bool)> done) {
  std::vector<Part> parts;
  {
    const Lock lock(mutex_);
    ++adoptions_;
    for (const auto& [id, entry] : entries_) {
      if (id != kHome) parts.push_back(entry.part);
    }
  }
  if (parts.empty()) return done(true);
  struct All {
    std::atomic<size_t> left;
    std::atomic<bool> done = true;
  };
  auto all = std::make_shared<All>(parts.size());
  for (const Part& part : parts) {
    part.served->adopter().Adopt(ns, [all, done](bool one) {
      if (!one) all->done = false;
      if (--all->left == 0) done(all->done);
    });
  }
}

void Partitions::Close() {
  const Lock lock(mutex_);
  closed_ = true;
}

std::shared_ptr<Served> Partitions::Find(PartitionId id) const {
  const Lock lock(mutex_);
  const auto entry = entries_.find(id);
  return entry == entries_.end() ? nullptr : entry->second.part.served;
}

std::vector<Partitions::Part> Partitions::All() const {
  const Lock lock(mutex_);
  std::vector<Part> all;
  for (const auto& [id, entry] : entries_) all.push_back(entry.part);
  return all;
}

void Partitions::Drop(PartitionId id) {
  Entry entry;
  {
    const Lock lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    entry = std::move(found->second);
    entries_.erase(found);
  }
  // The services must outlive their server, which waits for calls that are being cut off.
  std::thread([entry = std::move(entry)]() mutable {
    entry.server->Shutdown(std::chrono::system_clock::now());
    entry.server.reset();
  }).detach();
}

}  // namespace dfsmr
