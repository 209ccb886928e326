#include "dsrv/cluster/spreader.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "dsrv/cluster/peers.h"
#include "dsrv/cluster/run_after.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBetweenAsks{100};

// Null: it is not there.
std::shared_ptr<Peer> Find(const Keeper::Sight& sight, const std::string& server) {
  const auto peer =
      std::ranges::find(sight.peers, server, [](const auto& one) -> auto& { return one->id; });
  return peer == sight.peers.end() ? nullptr : *peer;
}

}  // namespace

// One change on its way to all.
struct Spreader::Round {
  std::string ns;
  std::function<void()> done;
  LeaseTime begun = LeaseTimeNow();
  Mutex mutex;
  std::set<std::string> left GUARDED(mutex);  // servers that have not adopted it; "": this one
};

void Spreader::Begin(const std::string& ns, std::function<void()> done) {
  auto round = std::make_shared<Round>();
  round->ns = ns;
  round->done = std::move(done);
  RunAfter(milliseconds(0), [this, round] { See(round); });
}

// Goes by who is there after the change: a server that came before may have read what was before,
// one that comes later reads what is now.
void Spreader::See(const RoundPtr& round) {
  keeper_.LookFor([this, round](const Keeper::SightPtr& sight) {
    if (!sight || sight->when < round->begun) {
      return RunAfter(kBetweenAsks, [this, round] { See(round); });
    }
    {
      const Lock lock(round->mutex);
      round->left.insert("");
      for (const auto& peer : sight->peers) round->left.insert(peer->id);
    }
    for (const auto& peer : sight->peers) AskPeer(round, peer);
    AskHere(round);
    if (!sight->peers.empty()) Watch(round);
  });
}

void Spreader::AskHere(const RoundPtr& round) {
  here_(round->ns, [this, round](bool done) {
    if (done) return Adopted(round, "");
    RunAfter(kBetweenAsks, [this, round] { AskHere(round); });
  });
}

void Spreader::AskPeer(const RoundPtr& round, const std::shared_ptr<Peer>& peer) {
  HaveAdopted(front_, peer, round->ns, [this, round, server = peer->id](bool done) {
    if (done) return Adopted(round, server);
    RunAfter(kBetweenAsks, [this, round, server] {
      // It may have been dialled anew.
      if (const auto again = Find(*keeper_.sight(), server)) AskPeer(round, again);
    });
  });
}

// A server that was buried decides nothing more. Its answer may be waited for longer than its lease
// lasts, so whether it is still there is looked at beside.
void Spreader::Watch(const RoundPtr& round) {
  RunAfter(kBetweenAsks, [this, round] {
    std::vector<std::string> gone;
    const auto sight = keeper_.sight();
    {
      const Lock lock(round->mutex);
      if (round->left.empty()) return;
      for (const std::string& server : round->left) {
        if (!server.empty() && !Find(*sight, server)) gone.push_back(server);
      }
    }
    for (const std::string& server : gone) Adopted(round, server);
    Watch(round);
  });
}

void Spreader::Adopted(const RoundPtr& round, const std::string& server) {
  {
    const Lock lock(round->mutex);
    if (round->left.erase(server) == 0 || !round->left.empty()) return;
  }
  round->done();
}

}  // namespace dfsmr
