#include "storage/postgres/arranged.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "storage/postgres/scan.h"

namespace dfsmr {
namespace {

using Range = std::pair<std::string_view, std::string_view>;

std::optional<Range> Cut(const Batch::Operation& operation, PartitionId partition) {
  Check(!operation.value.empty(), "a range to delete has an end");
  if (operation.key >= operation.value) return std::nullopt;
  const std::string prefix{static_cast<char>(partition >> 8), static_cast<char>(partition & 0xff)};
  Range range{"", kAfterAll};
  const std::string_view begin = operation.key;
  const std::string_view end = operation.value;
  if (begin > prefix) {
    if (!begin.starts_with(prefix)) return std::nullopt;
    range.first = begin.substr(2);
  }
  if (end <= prefix) return std::nullopt;
  if (end.starts_with(prefix)) range.second = end.substr(2);
  return range.first < range.second ? std::optional(range) : std::nullopt;
}

}  // namespace

Arranged Arrange(const Batch& batch, PartitionId partition) {
  using Kind = Batch::Operation::Kind;
  Arranged arranged;
  std::unordered_set<std::string_view> seen;
  seen.reserve(batch.operations().size());
  const auto& all = batch.operations();
  // From the last one: what comes later wins.
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (one->kind == Kind::kDeleteRange) {
      if (const auto range = Cut(*one, partition)) arranged.ranges.push_back(*range);
      continue;
    }
    const auto key = SplitKey(one->key);
    Check(key && key->partition == partition && !key->rest.starts_with(kAfterAll),
          "an owner writes rows of its partition");
    const auto covers = [&key](const Range& range) {
      return key->rest >= range.first && key->rest < range.second;
    };
    if (!seen.insert(key->rest).second) continue;
    if (std::ranges::any_of(arranged.ranges, covers)) continue;
    if (one->kind == Kind::kDelete) {
      arranged.deleted.push_back(key->rest);
    } else {
      arranged.keys.push_back(key->rest);
      arranged.values.push_back(one->value);
    }
  }
  return arranged;
}

}  // namespace dfsmr
