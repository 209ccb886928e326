// One list of those of several partitions.
#include "dsrv/cluster/merge.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace dfsmr {
namespace {

constexpr size_t kAnyBytes = 1'000'000;  // bytes

ListPart Known(const std::vector<std::string>& places, const std::string& last = "") {
  ListPart part{.last = last};
  for (const std::string& place : places) part.items.push_back({place, 1});
  return part;
}

std::string PageText(const std::vector<ListPart>& parts, const MergedPage& page) {
  std::string text;
  for (const auto& one : page.items) text += parts[one.part].items[one.item].place;
  return text + "|" + page.last;
}

TEST_CASE("lists that are known whole are one list, page by page") {
  const std::vector<ListPart> parts{Known({"a", "d", "e"}), Known({}), Known({"b", "c", "f"})};
  CHECK(PageText(parts, Merge(parts, 10, kAnyBytes)) == "abcdef|");
  CHECK(Merge(parts, 10, kAnyBytes).lacks.empty());
  CHECK(PageText(parts, Merge(parts, 4, kAnyBytes)) == "abcd|d");
  CHECK(PageText(parts, Merge(parts, 6, kAnyBytes)) == "abcdef|");
  CHECK(PageText({}, Merge({}, 4, kAnyBytes)) == "|");
}

TEST_CASE("nothing is shown beyond the place up to which all is known") {
  const std::vector<ListPart> parts{Known({"a", "d", "e"}), Known({"b"}, "c"),
                                    Known({"c1", "f"}, "g")};
  const MergedPage page = Merge(parts, 10, kAnyBytes);
  CHECK(PageText(parts, page) == "ab|c");
  CHECK(page.lacks == std::vector<size_t>{1});
  CHECK(PageText(parts, Merge(parts, 2, kAnyBytes)) == "ab|c");
  CHECK(Merge(parts, 2, kAnyBytes).lacks.empty());
  CHECK(PageText(parts, Merge(parts, 1, kAnyBytes)) == "a|a");
}

TEST_CASE("a page that one partition has nothing for may be empty, and goes on behind that") {
  const std::vector<ListPart> parts{Known({"x"}), Known({}, "k"), Known({}, "k")};
  const MergedPage page = Merge(parts, 10, kAnyBytes);
  CHECK(PageText(parts, page) == "|k");
  CHECK(page.lacks == std::vector<size_t>{1, 2});
}

TEST_CASE("a page holds no more bytes than it may, and at least one item") {
  std::vector<ListPart> parts{Known({"a", "c"}), Known({"b"})};
  for (ListPart& part : parts) {
    for (ListPart::Item& item : part.items) item.bytes = 10;
  }
  CHECK(PageText(parts, Merge(parts, 10, 25)) == "ab|b");
  CHECK(PageText(parts, Merge(parts, 10, 5)) == "a|a");
  CHECK(PageText(parts, Merge(parts, 10, 30)) == "abc|");
}

// Lists of partitions that end their pages where they like.
struct Lists {
  explicit Lists(uint64_t seed) : random(seed), parts(1 + Below(8)) {
    const size_t count = Below(200);
    for (size_t i = 0; i < count; ++i) {
      std::string place(1 + Below(3), 'a');
      for (char& c : place) c = static_cast<char>('a' + Below(26));
      if (std::ranges::find(all, place) != all.end()) continue;
      all.push_back(place);
      parts[Below(parts.size())].push_back(place);
    }
    std::ranges::sort(all);
    for (auto& part : parts) std::ranges::sort(part);
  }
  size_t Below(size_t most) { return random() % most; }

  // More of a partition's list. It may end its page before all is found, and without any item.
  void Extend(size_t part, const std::string& after, ListPart* known) {
    const auto& places = parts[part];
    auto at = std::ranges::upper_bound(places, after);
    size_t most = Below(6);
    for (; at != places.end() && most > 0; ++at, --most) known->items.push_back({*at, 1});
    if (at == places.end() && Below(2) == 0) {
      known->last.clear();
    } else if (at == places.begin() || *(at - 1) <= after) {
      known->last = after + "0";  // it has looked on, and found nothing
    } else {
      known->last = *(at - 1);
    }
  }

  std::mt19937_64 random;
  std::vector<std::vector<std::string>> parts;
  std::vector<std::string> all;
};

TEST_CASE("whoever walks through the pages sees everything once, and in order") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Lists lists(seed);
    std::vector<std::string> seen;
    std::string after;
    for (int pages = 0; pages < 5'000; ++pages) {
      const size_t limit = 1 + lists.Below(20);
      std::vector<ListPart> known(lists.parts.size());
      for (size_t part = 0; part < known.size(); ++part) lists.Extend(part, after, &known[part]);
      MergedPage page = Merge(known, limit, kAnyBytes);
      // Sometimes it is content with a page that is not full.
      for (int tries = 0; !page.lacks.empty() && tries < 50 && lists.Below(10) != 0; ++tries) {
        for (const size_t part : page.lacks) {
          lists.Extend(part, known[part].last, &known[part]);
        }
        page = Merge(known, limit, kAnyBytes);
      }
      CHECK(page.items.size() <= limit);
      for (const auto& one : page.items) seen.push_back(known[one.part].items[one.item].place);
      after = page.last;
      if (after.empty()) break;
    }
    CHECK(seen == lists.all);
  }
}

}  // namespace
}  // namespace dfsmr
