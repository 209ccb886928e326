// A scan over the tables of partitions, as rounds of statements: where it is, and how much the next
// round asks for.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "storage/postgres/connection.h"
#include "storage/postgres/statements.h"
#include "storage/view.h"

namespace dfsmr {

// Behind all keys of a partition.
inline constexpr std::string_view kAfterAll = "\xff";

// Keys of our own begin with a partition; in the tables they do not.
struct PgKey {
  uint16_t partition = 0;
  std::string_view rest;
};
// nullopt: it is too short to be the key of a row.
std::optional<PgKey> SplitKey(std::string_view key);

class PgScan {
 public:
  // As View::Scan. `most`: rows a round.
  PgScan(const PgStatements& statements, std::string_view begin, std::string_view end, bool reverse,
         size_t most);

  bool done() const { return pieces_.empty(); }
  // Whether one partition has all of it.
  bool single() const { return pieces_.size() == 1; }
  uint16_t partition() const { return pieces_.front().partition; }

  // The first round, with the partition's epoch and seq in the columns 2 and 3.
  PgCall First(size_t limit) const;
  PgCall Next() const;
  // Takes the rows of a round of Next. False: `visit` wants no more.
  bool Take(const PgResult& rows, const View::Visit& visit);

 private:
  struct Piece {
    uint16_t partition;
    std::string begin;
    std::string end;
  };
  size_t limit() const;

  const PgStatements& statements_;
  const bool reverse_;
  const size_t most_;
  std::deque<Piece> pieces_;  // what is left
  size_t rows_ = 0;
  size_t bytes_ = 0;
};

// Passes rows on to `visit`, with the partition in front of their keys; those without a key are
// none. False: `visit` wants no more.
bool VisitRows(const PgResult& rows, uint16_t partition, const View::Visit& visit);

}  // namespace dfsmr
