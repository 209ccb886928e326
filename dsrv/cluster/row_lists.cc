#include "dsrv/cluster/row_lists.h"

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <type_traits>

#include "dsrv/cluster/sums.h"
#include "dsrv/wire/agents.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/namespaces.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/views.h"

namespace dfsmr {
namespace {

// A list: its rows in a reply; a row's key, by which it is ordered; its place in a token.
struct MachineRows {
  static auto* In(v1::ListMachinesResponse* reply) { return reply->mutable_machines(); }
  static std::string Key(const v1::Machine& row) {
    char version[16];
    std::snprintf(version, sizeof version, "%010u", row.version());
    return row.id() + '\0' + version;
  }
  static std::string Place(const v1::Machine& row) { return PlaceOf(row); }
};
struct NamespaceRows {
  static auto* In(v1::ListNamespacesResponse* reply) { return reply->mutable_namespaces(); }
  static std::string Key(const v1::Namespace& row) { return row.name(); }
  static std::string Place(const v1::Namespace& row) { return row.name(); }
};
struct AgentRows {
  static auto* In(v1::ListAgentsResponse* reply) { return reply->mutable_agents(); }
  static std::string Key(const v1::Agent& row) { return row.name(); }
  static std::string Place(const v1::Agent& row) { return row.name(); }
};
struct QueueRows {
  static auto* In(v1::ListQueuesResponse* reply) { return reply->mutable_queues(); }
  static std::string Key(const v1::QueueRow& row) { return PlaceOf(row); }
  static std::string Place(const v1::QueueRow& row) { return PlaceOf(row); }
};
struct WorkerRows {
  static auto* In(v1::ListWorkersResponse* reply) { return reply->mutable_workers(); }
  static std::string Key(const v1::WorkerRow& row) { return row.worker(); }
  static std::string Place(const v1::WorkerRow& row) { return row.worker(); }
};

// The rows up to where all partitions that have more have told theirs; `more`: there are others.
template <typename List, typename Reply>
auto KnownRows(std::vector<Reply>* parts, bool* more) {
  using Known = typename std::remove_pointer_t<decltype(List::In(nullptr))>::value_type;
  std::map<std::string, Known> rows;
  std::optional<std::string> known;
  for (Reply& part : *parts) {
    auto* const list = List::In(&part);
    if (!part.next_page_token().empty() && !list->empty()) {
      std::string last = List::Key(*list->rbegin());
      if (!known || last < *known) known = std::move(last);
    }
    for (Known& row : *list) {
      const auto [at, added] = rows.try_emplace(List::Key(row));
      added ? at->second.Swap(&row) : Add(row, &at->second);
    }
  }
  *more = known.has_value();
  if (known) rows.erase(rows.upper_bound(*known), rows.end());
  return rows;
}

template <typename List, typename Reply>
Reply JoinRows(const std::string& filters, int32_t page_size, std::vector<Reply> parts) {
  bool more = false;
  auto rows = KnownRows<List>(&parts, &more);
  const auto limit = ToPageSize(page_size);  // none: its partitions have refused it
  Reply page;
  auto* const list = List::In(&page);
  size_t bytes = 0;
  for (auto& [key, row] : rows) {
    bytes += row.ByteSizeLong();
    const bool full = !limit || list->size() == static_cast<int>(*limit) || bytes > kReplyBytes;
    more = more || (full && !list->empty());
    if (full && !list->empty()) break;
    list->Add()->Swap(&row);
  }
  if (more && !list->empty()) {
    page.set_next_page_token(PageToken(filters, List::Place(*list->rbegin())));
  }
  return page;
}

}  // namespace

v1::ListMachinesResponse JoinParts(const v1::ListMachinesRequest& request,
                                   std::vector<v1::ListMachinesResponse> parts) {
  return JoinRows<MachineRows>(FiltersOf(request), request.page_size(), std::move(parts));
}

v1::ListNamespacesResponse JoinParts(const v1::ListNamespacesRequest& request,
                                     std::vector<v1::ListNamespacesResponse> parts) {
  return JoinRows<NamespaceRows>(kFiltersOfNamespaces, request.page_size(), std::move(parts));
}

v1::ListAgentsResponse JoinParts(const v1::ListAgentsRequest& request,
                                 std::vector<v1::ListAgentsResponse> parts) {
  return JoinRows<AgentRows>(FiltersOf(request), request.page_size(), std::move(parts));
}

v1::ListQueuesResponse JoinParts(const v1::ListQueuesRequest& request,
                                 std::vector<v1::ListQueuesResponse> parts) {
  return JoinRows<QueueRows>(FiltersOf(request), request.page_size(), std::move(parts));
}

v1::ListWorkersResponse JoinParts(const v1::ListWorkersRequest& request,
                                  std::vector<v1::ListWorkersResponse> parts) {
  return JoinRows<WorkerRows>(FiltersOf(request), request.page_size(), std::move(parts));
}

}  // namespace dfsmr
