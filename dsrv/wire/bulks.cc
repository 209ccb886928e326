#include "dsrv/wire/bulks.h"

#include <algorithm>

#include "dsrv/engine/bulks.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/foresight.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/search.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kPortion = 250;  // instances that are found at once
constexpr Duration kPortionPatience = std::chrono::milliseconds(200);
constexpr Duration kForesight = std::chrono::seconds(2);
constexpr size_t kSample = 20;

static_assert(static_cast<int>(rows::BulkAction::kTransition) == v1::StartBulkRequest::TRANSITION);
static_assert(static_cast<int>(rows::BulkState::kLimited) == v1::Bulk::LIMITED);

// A node, or "node.*"; empty: any.
Result<Ok> CheckNodes(const std::string& node) {
  return CheckNode("node", node.ends_with(".*") ? node.substr(0, node.size() - 2) : node);
}

Result<Ok> CheckAction(const v1::StartBulkRequest& request) {
  using Request = v1::StartBulkRequest;
  if (!Request::Action_IsValid(request.action()) ||
      request.action() == Request::ACTION_UNSPECIFIED) {
    return Bad("action: choose PAUSE, RESUME, SKIP, CANCEL or TRANSITION");
  }
  if (!v1::CancelRequest::Mode_IsValid(request.mode())) {
    return Bad("mode " + std::to_string(request.mode()) + " is not a mode of cancelling");
  }
  const bool moves = request.action() == Request::TRANSITION;
  if (moves && request.transition().empty()) {
    return Bad("transition is empty: name the transition, or the event, that is to happen");
  }
  const auto only = [&](bool given, bool allowed, const char* field, const char* of) {
    return given && !allowed ? Result<Ok>(Bad(std::string(field) + " is only for " + of)) : Ok{};
  };
  return All(
      [&] { return only(!request.transition().empty(), moves, "transition", "TRANSITION"); },
      [&] { return only(!request.node_params().empty(), moves, "node_params", "TRANSITION"); },
      [&] {
        return only(request.mode() != 0, request.action() == Request::CANCEL, "mode", "CANCEL");
      },
      [&] { return only(request.force(), request.action() == Request::RESUME, "force", "RESUME"); },
      [&] {
        const bool takes =
            moves || request.action() == Request::RESUME || request.action() == Request::SKIP;
        return only(!request.node().empty(), takes, "node", "RESUME, SKIP and TRANSITION");
      },
      [&] { return moves ? CheckNode("node", request.node()) : CheckNodes(request.node()); },
      [&] {
        return request.transition().empty() ? Result<Ok>(Ok{})
                                            : CheckName("transition", request.transition());
      },
      [&] { return CheckJson("node_params", request.node_params()); },
      [&] { return CheckText("reason", request.reason(), limits::kChangeReason); });
}

}  // namespace

Result<BulkCommand> ToBulk(const v1::StartBulkRequest& request, Timestamp now) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = CheckAction(request);
  if (checked && !request.id().empty()) checked = CheckInstanceId(request.id());
  if (!checked) return checked.error();
  if (request.filter().empty() == request.instances().empty()) {
    return Bad("give either a filter or instances: what is to be changed must be said");
  }
  if (static_cast<size_t>(request.instances_size()) > limits::kBatchItems) {
    return TooLarge("instances", static_cast<size_t>(request.instances_size()),
                    limits::kBatchItems);
  }
  auto filter = InstanceFilter::Parse(request.filter(), now);
  if (!filter) return filter.error();
  if (filter->empty() && request.instances().empty()) {
    return Bad("the filter has no terms; machine:* stands for all instances");
  }
  BulkCommand command{*std::move(ns), request.id(), {}};
  rows::BulkRow& row = command.row;
  row.filter = request.filter();
  row.instances.assign(request.instances().begin(), request.instances().end());
  for (const std::string& id : row.instances) {
    if (auto sound = CheckInstanceId(id); !sound) return sound.error();
  }
  std::ranges::sort(row.instances);
  row.instances.erase(std::unique(row.instances.begin(), row.instances.end()), row.instances.end());
  row.action = static_cast<rows::BulkAction>(request.action());
  row.node = request.node();
  row.mode = static_cast<CancelMode>(request.mode());
  row.force = request.force();
  row.transition = request.transition();
  row.node_params = request.node_params();
  row.at_most = request.at_most();
  row.reason = request.reason();
  return command;
}

void ToProto(const BulkView& view, v1::Bulk* out) {
  const rows::BulkRow& row = view.row;
  v1::StartBulkRequest* request = out->mutable_request();
  request->set_namespace_(view.ns);
  request->set_id(view.id);
  request->set_filter(row.filter);
  for (const std::string& id : row.instances) request->add_instances(id);
  request->set_action(static_cast<v1::StartBulkRequest::Action>(row.action));
  request->set_node(row.node);
  request->set_mode(static_cast<v1::CancelRequest::Mode>(row.mode));
  request->set_force(row.force);
  request->set_transition(row.transition);
  request->set_node_params(row.node_params);
  request->set_at_most(row.at_most);
  request->set_reason(row.reason);
  out->set_state(static_cast<v1::Bulk::State>(row.state));
  out->set_looked_at(row.looked_at);
  out->set_matched(row.matched);
  out->set_changed(row.changed);
  out->set_unchanged(row.unchanged);
  out->set_refused(row.refused);
  out->mutable_reasons()->insert(row.reasons.begin(), row.reasons.end());
  for (const std::string& id : row.sample) out->add_sample(id);
  if (row.start_time != Timestamp()) ToProto(row.start_time, out->mutable_start_time());
  if (row.end_time != Timestamp()) ToProto(row.end_time, out->mutable_end_time());
  out->set_created_by(row.created_by);
}

namespace {

// The text was accepted when the bulk was started. Times that it counts from now count from there.
Result<InstanceQuery> QueryOf(const std::string& ns, const rows::BulkRow& row, Timestamp now) {
  const Timestamp from = row.start_time == Timestamp() ? now : row.start_time;
  auto filter = InstanceFilter::Parse(row.filter, from);
  if (!filter) return filter.error();
  InstanceQuery query;
  query.ns = ns;
  query.filter = *std::move(filter);
  query.after = row.place;
  query.now = now;
  query.patience = kPortionPatience;
  return query;
}

// Those that are listed, behind the place; what is not there is left out.
Result<SearchPage> Listed(const Moment& moment, const InstanceQuery& query,
                          const rows::BulkRow& row) {
  SearchPage page;
  for (auto id = std::ranges::upper_bound(row.instances, query.after); id != row.instances.end();
       ++id) {
    if (page.hits.size() == kPortion) {
      page.last = page.hits.back().place;
      break;
    }
    ++page.looked_at;
    auto instance = rows::GetInstance(moment.rows, {query.ns, *id}, moment.resolve);
    if (!instance && instance.error().code == Code::kNotFound) continue;
    if (!instance) return instance.error();
    auto view = ViewOf(moment, *std::move(instance));
    if (!view) return view.error();
    page.hits.push_back({*std::move(view), *id});
  }
  return page;
}

Result<SearchPage> Find(const Moment& moment, const InstanceQuery& query,
                        const rows::BulkRow& row) {
  return row.instances.empty() ? SearchById(moment, query, kPortion) : Listed(moment, query, row);
}

// Whether it was there before the bulk.
Result<bool> IsOlder(const Moment& moment, const InstanceView& view, uint64_t last_seq) {
  auto spec = rows::FindSpec(moment.rows, view.instance);
  if (!spec) return spec.error();
  return *spec && (last_seq == 0 || (*spec)->first_seq <= last_seq);
}

}  // namespace

Result<BulkPortion> FindForBulk(const Reader& reader, const std::string& ns,
                                const rows::BulkRow& row, Timestamp now) {
  auto query = QueryOf(ns, row, now);
  if (!query) return query.error();
  const Moment moment(reader);
  auto page = Find(moment, *query, row);
  if (!page) return page.error();
  BulkPortion portion;
  portion.last = std::move(page->last);
  portion.looked_at = page->looked_at;
  for (const SearchHit& hit : page->hits) {
    auto older = IsOlder(moment, hit.view, row.last_seq);
    if (!older) return older.error();
    if (!*older) continue;
    const Instance& instance = hit.view.instance;
    portion.hits.push_back({instance.id, instance.history.empty() ? 0 : instance.history.back()});
  }
  return portion;
}

Result<bool> Foresee(const Reader& reader, const std::string& ns, Timestamp now,
                     rows::BulkRow* row) {
  const Patience patience(kForesight);
  const Moment moment(reader);
  row->state = rows::BulkState::kPreview;
  do {
    auto query = QueryOf(ns, *row, now);
    if (!query) return query.error();
    auto page = Find(moment, *query, *row);
    if (!page) return page.error();
    row->looked_at += page->looked_at;
    for (const SearchHit& hit : page->hits) {
      ++row->matched;
      const Foresight foresight = Foresee(moment, hit.view, *row);
      if (foresight.outcome == Foresight::Outcome::kUnchanged) {
        ++row->unchanged;
      } else if (foresight.outcome == Foresight::Outcome::kRefused) {
        ++row->refused;
        ++row->reasons[std::string(Name(foresight.reason))];
      } else {
        ++row->changed;
        if (row->sample.size() < kSample) row->sample.push_back(hit.place);
        if (row->changed == row->at_most) return true;  // 0: of any number
      }
    }
    row->place = std::move(page->last);
    if (row->place.empty()) return true;
  } while (!patience.IsOver());
  return false;
}

}  // namespace dfsmr
