#include "dsrv/cluster/merge.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>

namespace dfsmr {
namespace {

// Behind it something may be missing; null: nowhere.
const std::string* BoundOf(std::span<const ListPart> parts) {
  const std::string* bound = nullptr;
  for (const ListPart& part : parts) {
    if (!part.last.empty() && (!bound || part.last < *bound)) bound = &part.last;
  }
  return bound;
}

}  // namespace

MergedPage Merge(std::span<const ListPart> parts, size_t limit, size_t bytes) {
  using Next = std::tuple<std::string_view, size_t, size_t>;  // place, part, item
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto push = [&](size_t part, size_t item) {
    if (item < parts[part].items.size()) next.emplace(parts[part].items[item].place, part, item);
  };
  for (size_t part = 0; part < parts.size(); ++part) push(part, 0);
  const std::string* const bound = BoundOf(parts);
  MergedPage page;
  size_t taken = 0;
  while (!next.empty()) {
    const auto [place, part, item] = next.top();
    if (/*mutant front-beyond-bound*/ bound && place > *bound /*end*/) break;
    taken += parts[part].items[item].bytes;
    const bool full = page.items.size() == limit || (taken > bytes && !page.items.empty());
    if (full) {
      const MergedPage::Item& end = page.items.back();
      page.last = parts[end.part].items[end.item].place;
      return page;
    }
    page.items.push_back({part, item});
    next.pop();
    push(part, item + 1);
  }
  if (!bound) return page;
  page.last = *bound;
  if (page.items.size() == limit) return page;
  for (size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].last == *bound) page.lacks.push_back(part);
  }
  return page;
}

}  // namespace dfsmr
