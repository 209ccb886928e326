#include "dsrv/wire/lists.h"

#include <algorithm>
#include <map>
#include <optional>

#include "dsrv/wire/in_order.h"
#include "dsrv/wire/instance_views.h"
#include "dsrv/wire/search.h"
#include "fsm/base/limits.h"
#include "storage/rows/agent.h"
#include "storage/rows/feed.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

constexpr size_t kPageBytes = limits::kMessage * 3 / 4;  // so that a page fits a message

Result<Ok> CountLeftovers(const Moment& moment, const std::string& ns, InstancePage* page) {
  const auto stopped = [](const InstanceView& view) { return view.instance.Stopped(); };
  if (std::ranges::none_of(page->instances, stopped)) return Ok{};
  auto counts = rows::CountLeftovers(moment.rows, ns);
  if (!counts) return counts.error();
  if (counts->empty()) return Ok{};
  for (InstanceView& view : page->instances) {
    const auto count = counts->find(view.instance.id);
    if (stopped(view) && count != counts->end()) view.leftovers = count->second;
  }
  return Ok{};
}

// How much of a message it takes, about.
size_t BytesOf(const InstanceView& view, bool brief) {
  const size_t shown = brief ? limits::kTokensBrief : limits::kTokensShown;
  size_t bytes = (brief ? 0 : view.spec->params.size()) + view.instance.error.size() + 512;
  const Tokens& tokens = view.instance.tokens;
  for (size_t i = 0; i < std::min(tokens.size(), shown); ++i) {
    bytes += tokens[i].params.size() + view.nodes[i].size() + 64;
  }
  return bytes;
}

}  // namespace

Result<InstanceView> ReadInstance(const Moment& moment, const std::string& ns,
                                  const std::string& id) {
  auto instance = rows::GetInstance(moment.rows, {ns, id}, moment.resolve);
  if (!instance) return instance.error();
  auto spec = rows::GetSpec(moment.rows, {ns, id});
  if (!spec) return spec.error();
  auto outputs = rows::GetOutputs(moment.rows, {ns, id});
  if (!outputs) return outputs.error();
  // Outputs that do not fit into the message are left out, the last by name first.
  size_t bytes = spec->params.size();
  const size_t left_out = std::erase_if(*outputs, [&bytes](const auto& output) {
    return (bytes += output.first.size() + output.second.size()) > kPageBytes;
  });
  auto view = ViewOf(moment, *std::move(instance));
  if (!view) return view.error();
  view->spec = std::make_shared<const Spec>(*std::move(spec));
  view->outputs = *std::move(outputs);
  view->outputs_left_out = left_out;
  auto finished = Finish(moment, &*view);
  if (!finished) return finished.error();
  return view;
}

Result<InstancePage> ReadInstances(const Moment& moment, const InstanceQuery& query) {
  auto found = query.order == ListOrder::kId ? SearchById(moment, query, query.limit)
                                             : SearchInOrder(moment, query);
  if (!found) return found.error();
  InstancePage page;
  page.last = std::move(found->last);
  page.looked_at = found->looked_at;
  page.back_to = found->back_to;
  size_t bytes = 0;
  for (SearchHit& hit : found->hits) {
    if (bytes > kPageBytes) {
      page.last = found->hits[page.instances.size() - 1].place;
      break;
    }
    auto filled = query.brief ? Result<Ok>(Ok{}) : Fill(moment, &hit.view);
    if (filled) filled = Finish(moment, &hit.view);
    if (!filled) return filled.error();
    bytes += BytesOf(hit.view, query.brief);
    page.instances.push_back(std::move(hit.view));
    if (query.tells_places) page.places.push_back(hit.place);
  }
  auto counted = CountLeftovers(moment, query.ns, &page);
  if (!counted) return counted.error();
  return page;
}

namespace {

bool Wants(const HistoryQuery& query, const Event& event) {
  if (query.kinds != 0 && (query.kinds >> static_cast<unsigned>(event.kind) & 1) == 0) return false;
  return query.node.empty() || StandsAt({event.node, event.prev_node}, query.node);
}

}  // namespace

Result<HistoryPage> ReadHistory(const Moment& moment, const HistoryQuery& query) {
  auto instance = rows::GetInstance(moment.rows, {query.ns, query.id}, moment.resolve);
  if (!instance) return instance.error();
  HistoryPage page;
  size_t bytes = 0;
  size_t looked = 0;
  uint64_t last = 0;
  std::optional<Error> failed;
  rows::FeedReader feed(moment.rows);
  // False: the page is full, and begins anew after `last`.
  const auto add = [&](uint64_t seq) {
    if (page.events.size() == query.limit || bytes > kPageBytes || looked == kHistoryLook) {
      /*mutant history-page-skips-one*/ page.last = last; /*end*/
      return false;
    }
    auto event = feed.Get(seq);
    if (!event) failed = event.error();
    if (failed) return false;
    last = seq;
    ++looked;
    if (!Wants(query, *event)) return true;
    bytes += event->params.size() + event->note.size() + 256;
    page.events.push_back(*std::move(event));
    return true;
  };
  if (query.newest_first) {
    auto read = rows::HistoryBackwards(moment.rows, *instance, [&](uint64_t seq) {
      return (query.after != 0 && seq >= query.after) || add(seq);
    });
    if (!read) return read.error();
  } else {
    auto seqs = rows::History(moment.rows, *instance, query.after);
    if (!seqs) return seqs.error();
    for (uint64_t seq : *seqs) {
      if (!add(seq)) break;
    }
  }
  if (failed) return *failed;
  return page;
}

}  // namespace dfsmr
