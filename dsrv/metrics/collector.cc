#include "dsrv/metrics/collector.h"

#include <utility>

#include "dsrv/calls/call.h"
#include "dsrv/calls/methods.h"

namespace dfsmr::metrics {
namespace {

constexpr auto kFresh = std::chrono::seconds(1);

}  // namespace

Result<Caller> Collector::Admit(const Origin& origin) const {
  return sources_.backend.access.AdmitAnywhere(origin, {&kMetrics.method, false});
}

void Collector::Scrape(Sees sees, Form form, Done done) {
  Waiting one{std::move(sees), form, std::move(done)};
  SnapshotPtr fresh;
  {
    const Lock lock(mutex_);
    if (last_ && Clock::now() - last_time_ < kFresh) {
      fresh = last_;
    } else {
      waiting_.push_back(std::move(one));
      if (std::exchange(asked_, true)) return;
    }
  }
  fresh ? Show(std::move(one), std::move(fresh)) : Ask();
}

// Also where the mailbox is full: then it matters most what the numbers are.
void Collector::Ask() {
  const auto run = [this](Engine& engine) {
    auto snapshot = std::make_shared<Snapshot>();
    const auto asked = Clock::now();
    GatherEngine(engine, snapshot.get());
    engine.AfterCommit([this, snapshot, asked] {
      sources_.backend.pool.Post([this, snapshot, asked] {
        GatherServer(sources_, snapshot.get());
        {
          const Lock lock(mutex_);
          last_ = snapshot;
          last_time_ = asked;
          asked_ = false;
        }
        Answer(snapshot);
      });
    });
  };
  if (!sources_.backend.loop.Post({.run = run, .drop = [this] { GiveUp(); }, .owed = true})) {
    GiveUp();
  }
}

std::vector<Collector::Waiting> Collector::TakeWaiting() {
  const Lock lock(mutex_);
  return std::exchange(waiting_, {});
}

void Collector::Answer(const SnapshotPtr& snapshot) {
  for (Waiting& one : TakeWaiting()) {
    one.done(Render(*snapshot, one.sees, one.form));
  }
}

void Collector::GiveUp() {
  {
    const Lock lock(mutex_);
    asked_ = false;
  }
  for (Waiting& one : TakeWaiting()) one.done(Stopping());
}

void Collector::Show(Waiting one, SnapshotPtr snapshot) {
  sources_.backend.pool.Post([one = std::move(one), snapshot = std::move(snapshot)] {
    one.done(Render(*snapshot, one.sees, one.form));
  });
}

}  // namespace dfsmr::metrics
