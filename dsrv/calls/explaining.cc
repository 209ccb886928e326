#include "dsrv/calls/explaining.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/backend.h"
#include "dsrv/calls/others.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

// Of those of which home knows the numbers: calls `visit` with the instance, and the visit of its
// token, too (0: the instance as a whole).
template <typename Visit>
void ForEachElsewhere(const std::vector<WaitsRef>& all, Visit visit) {
  for (const WaitsRef& one : all) {
    const auto each = [&](std::vector<WaitView>& waits, uint64_t at) {
      for (WaitView& wait : waits) {
        if (wait.elsewhere) visit(one.instance, at, wait);
      }
    };
    each(one.waits->instance, 0);
    for (auto& [at, waits] : one.waits->tokens) each(waits, at);
  }
}

WaitView ReadWait(const v1::Wait& told) {
  WaitView wait;
  wait.kind = static_cast<WaitView::Kind>(told.kind());
  wait.key = told.key();
  wait.max = told.max();
  wait.held = told.held();
  wait.ahead = told.ahead();
  wait.holders = {told.holders().begin(), told.holders().end()};
  if (told.has_until()) {
    if (const auto until = ToTimestamp("until", told.until())) wait.until = *until;
  }
  return wait;
}

void Hear(const std::vector<WaitsRef>& all, const peer::Explained& explained) {
  int next = 0;
  ForEachElsewhere(all, [&](const std::string&, uint64_t, WaitView& wait) {
    if (next >= explained.waits_size()) return;
    const peer::Explained::Wait& told = explained.waits(next++);
    wait = told.has_room() ? WaitView() : ReadWait(told.wait());
  });
  for (const WaitsRef& one : all) {
    const auto nothing = [](const WaitView& wait) { return wait.kind == WaitView::Kind::kNone; };
    std::erase_if(one.waits->instance, nothing);
    for (auto& [at, waits] : one.waits->tokens) std::erase_if(waits, nothing);
  }
}

}  // namespace

void ExplainWaits(const Backend& backend, const std::string& ns, const std::vector<WaitsRef>& all,
                  std::function<void()> done) {
  if (!backend.others || backend.reader.partition == kHome) return done();
  peer::Question question;
  question.set_partition(kHome);
  peer::Explain& explain = *question.mutable_explain();
  explain.set_namespace_(ns);
  ForEachElsewhere(all, [&](const std::string& instance, uint64_t visit, const WaitView& wait) {
    auto* const to = explain.add_waits();
    to->set_instance(instance);
    to->set_visit(visit);
    to->set_key(wait.key);
    to->set_priority(wait.priority);
    to->set_order(wait.order);
  });
  if (explain.waits_size() == 0) return done();
  backend.others->ask(std::move(question), kShownSoon,
                      [all, done = std::move(done)](const Result<peer::Answer>& answer) {
                        if (answer) Hear(all, answer->explained());
                        done();
                      });
}

void ExplainWaits(const Backend& backend, const std::string& ns, const std::string& instance,
                  SharedWaits& waits, std::function<void()> done) {
  if (!backend.others || !waits) return done();
  const auto own = std::make_shared<InstanceWaits>(*waits);
  ExplainWaits(backend, ns, {{instance, own.get()}}, [own, &waits, done = std::move(done)] {
    waits = own;
    done();
  });
}

}  // namespace dfsmr
