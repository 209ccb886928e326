#include "dsrv/otlp/store_past.h"

#include <algorithm>

#include "dsrv/engine/registry.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"

namespace dfsmr::otlp {
namespace {

constexpr size_t kMostRecords = 10'000;  // the newest: what is open began with one of them

}  // namespace

std::optional<Past::Origin> StorePast::OriginOf(const Event& event) {
  const auto spec = rows::FindSpec({reader_.store, reader_.partition}, {event.ns, event.instance});
  if (!spec || !*spec || !(*spec)->trace) return std::nullopt;
  return Origin{*(*spec)->trace, (*spec)->first_seq};
}

std::vector<Event> StorePast::Before(const Event& event) {
  const auto moment = reader_.store.Snapshot();
  const rows::Reader reader{*moment, reader_.partition};
  std::vector<Event> events;
  const auto instance =
      rows::GetInstance(reader, {event.ns, event.instance}, reader_.registry.resolve());
  if (!instance) return events;
  std::vector<uint64_t> seqs;
  (void)rows::HistoryBackwards(reader, *instance, [&](uint64_t seq) {
    if (seq < event.seq) seqs.push_back(seq);
    return seqs.size() < kMostRecords;
  });
  rows::FeedReader feed(reader);
  for (auto seq = seqs.rbegin(); seq != seqs.rend(); ++seq) {
    if (auto one = feed.Get(*seq)) events.push_back(*std::move(one));
  }
  return events;
}

std::string StorePast::QueueOf(const Event& event, const std::string& node) {
  const Machine* machine = reader_.registry.Resolve(event.ns, event.machine, event.version);
  const NodeIndex index = machine ? machine->Find(node) : kNoNode;
  return index == kNoNode ? "" : machine->nodes[index].settings->queue;
}

}  // namespace dfsmr::otlp
