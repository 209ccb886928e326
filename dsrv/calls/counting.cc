#include "dsrv/calls/counting.h"

#include <memory>
#include <optional>

#include "dsrv/calls/backend.h"
#include "dsrv/calls/method.h"
#include "dsrv/calls/others.h"
#include "dsrv/engine/elsewhere.h"
#include "fsm/base/mutex.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

LiveCount ReadCount(const peer::LiveCounts::Version& in) {
  LiveCount count{in.machine(), in.version(), in.live(), in.dry_runs(), {}};
  for (int i = 0; i < in.results_size() && i < static_cast<int>(count.results.size()); ++i) {
    count.results[static_cast<size_t>(i)] = in.results(i);
  }
  return count;
}

// The answers of all others, as they come.
struct Gathered {
  Mutex mutex;
  LiveCounts counts GUARDED(mutex);
  std::optional<Error> failed GUARDED(mutex);
  size_t left GUARDED(mutex) = 0;
};

}  // namespace

void GatherLive(const Backend& backend, const std::string& ns, Counting counting, bool settle,
                GatheredLive done) {
  const Others* const others = backend.others;
  if (!others || backend.reader.partition != kHome) return done(LiveCounts());
  auto gathered = std::make_shared<Gathered>();
  {
    const Lock lock(gathered->mutex);
    gathered->left = others->partitions - 1u;
  }
  const auto take = [gathered, counting, done](const Result<peer::Answer>& answer) {
    Lock lock(gathered->mutex);
    if (answer) {
      for (const auto& one : answer->live().versions()) {
        gathered->counts.versions.push_back(ReadCount(one));
      }
      for (const auto& one : answer->live().causes()) {
        gathered->counts.causes.push_back({one.cause(), one.running(), one.waiting()});
      }
      for (const auto& one : answer->live().places()) {
        gathered->counts.places.push_back({one.trigger(), static_cast<PartitionId>(one.partition()),
                                           one.position(), one.lag()});
      }
    } else if (counting == Counting::kDecides) {
      gathered->failed = answer.error();
    }
    if (--gathered->left > 0) return;
    Result<LiveCounts> counts = std::move(gathered->counts);
    if (gathered->failed) counts = *gathered->failed;
    lock.Unlock();
    done(std::move(counts));
  };
  peer::Question question;
  question.mutable_count_live()->set_namespace_(ns);
  question.mutable_count_live()->set_settle(settle);
  for (PartitionId partition = 1; partition < others->partitions; ++partition) {
    question.set_partition(partition);
    others->ask(question, counting == Counting::kShown ? kShownSoon : kForOwners, take);
  }
}

CountsElsewhere::CountsElsewhere(Engine& engine, std::string ns,
                                 const LiveCounts& counts)
    : engine_(engine), ns_(std::move(ns)), any_(!counts.Empty()) {
  if (any_) engine_.elsewhere().Add(ns_, counts);
}

CountsElsewhere::~CountsElsewhere() {
  if (any_) engine_.elsewhere().Forget(ns_);
}

void PostCounting(Call& call, const std::string& ns, Counting counting, size_t bytes,
                  std::function<void(Engine&)> run) {
  if (!call.backend().others) return PostFor(call, bytes, std::move(run));
  GatherLive(call.backend(), ns, counting, /*settle=*/false,
             [&call, ns, bytes, run](const Result<LiveCounts>& counts) {
               if (!counts) return call.Fail(counts.error());
               PostFor(call, bytes, [ns, run, counted = *counts](Engine& engine) {
                 const CountsElsewhere counts_now(engine, ns, counted);
                 run(engine);
               });
             });
}

}  // namespace dfsmr
