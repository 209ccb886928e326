// A scan in two threads gives what it would give in one.
#include "storage/rocks/read_ahead.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace dfsmr {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

// Of all sizes from nothing to more than is read ahead at once.
Rows MakeRows() {
  Rows rows;
  for (size_t i = 0; i < 20'000; ++i) {
    rows.emplace_back("key" + std::to_string(i), std::string(i % 300, static_cast<char>(i)));
  }
  rows.emplace_back("", "");
  rows.emplace_back("large", std::string(5 << 20, 'x'));
  rows.emplace_back("last", "");
  return rows;
}

// Gives all of them, notes how far it came, and then ends so.
auto Giving(const Rows& rows, std::atomic<size_t>* given, Result<Ok> outcome = Ok{}) {
  return [&rows, given, outcome](const View::Visit& take) {
    for (const auto& [key, value] : rows) {
      ++*given;
      if (!take(key, value)) return Result<Ok>(Ok{});
    }
    return outcome;
  };
}

TEST_CASE("rows that are read ahead come whole and in order") {
  const Rows rows = MakeRows();
  std::atomic<size_t> given = 0;
  Rows visited;
  CHECK(ReadAhead(Giving(rows, &given), [&](std::string_view key, std::string_view value) {
    visited.emplace_back(key, value);
    return true;
  }));
  CHECK(visited == rows);
  CHECK(ReadAhead(Giving({}, &given), [](auto, auto) { return false; }));
}

TEST_CASE("who has seen enough is given no more, and no more is read than a little ahead") {
  const Rows rows(1'000'000, {"key", std::string(100, 'v')});
  std::atomic<size_t> given = 0;
  size_t visited = 0;
  CHECK(ReadAhead(Giving(rows, &given), [&](auto, auto) { return ++visited < 10; }));
  CHECK(visited == 10);
  CHECK(given < 100'000);
}

TEST_CASE("a failure to read is told after the rows before it") {
  const Rows rows = MakeRows();
  std::atomic<size_t> given = 0;
  size_t visited = 0;
  const auto outcome =
      ReadAhead(Giving(rows, &given, Error{Code::kDataLoss, Reason::kNone, "damaged"}),
                [&](auto, auto) { return ++visited > 0; });
  REQUIRE(!outcome);
  CHECK(outcome.error().message == "damaged");
  CHECK(visited == rows.size());
  visited = 0;
  CHECK(ReadAhead(
      Giving({{"key", "value"}}, &given, Error{Code::kDataLoss, Reason::kNone, "damaged"}),
      [&](auto, auto) { return ++visited > 1; }));
}

}  // namespace
}  // namespace dfsmr
