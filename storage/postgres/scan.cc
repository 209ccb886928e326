#include "storage/postgres/scan.h"

#include <algorithm>
#include <optional>

namespace dfsmr {
namespace {

constexpr size_t kRoundBytes = 4 << 20;
constexpr size_t kFirstRound = 100;
// After all keys of a partition: no kind of row has the number 255.

std::string Prefix(uint16_t partition) {
  return {static_cast<char>(partition >> 8), static_cast<char>(partition & 0xff)};
}

}  // namespace

std::optional<PgKey> SplitKey(std::string_view key) {
  if (key.size() < 2) return std::nullopt;
  const auto byte = [key](size_t i) { return static_cast<unsigned char>(key[i]); };
  return PgKey{static_cast<uint16_t>(byte(0) << 8 | byte(1)), key.substr(2)};
}

PgScan::PgScan(const PgStatements& statements, std::string_view begin, std::string_view end,
               bool reverse, size_t most)
    : statements_(statements), reverse_(reverse), most_(most) {
  for (uint16_t id = 0; id < statements.tables.size(); ++id) {
    const std::string prefix = Prefix(id);
    Piece piece{id, "", std::string(kAfterAll)};
    // "a" as a bound is before all of the partitions that begin with this byte.
    if (begin > prefix) {
      if (!begin.starts_with(prefix)) continue;
      piece.begin = begin.substr(2);
    }
    if (!end.empty()) {
      if (end <= prefix) continue;
      if (end.starts_with(prefix)) piece.end = end.substr(2);
    }
    if (piece.begin >= piece.end) continue;
    if (reverse) {
      pieces_.push_front(std::move(piece));
    } else {
      pieces_.push_back(std::move(piece));
    }
  }
}

// About as much as fits into a few MiB, by the rows so far.
size_t PgScan::limit() const {
  if (rows_ == 0) return std::min(kFirstRound, most_);
  return std::clamp<size_t>(kRoundBytes / (bytes_ / rows_ + 1), 1, most_);
}

PgCall PgScan::First(size_t limit) const {
  const Piece& piece = pieces_.front();
  const PgTable& table = statements_.tables[piece.partition];
  PgCall call{reverse_ ? table.scan_reverse : table.scan};
  call.params.Int(piece.partition)
      .View(piece.begin)
      .View(piece.end)
      .Int(static_cast<int32_t>(limit));
  return call;
}

PgCall PgScan::Next() const {
  const Piece& piece = pieces_.front();
  const PgTable& table = statements_.tables[piece.partition];
  PgCall call{reverse_ ? table.more_reverse : table.more};
  call.params.View(piece.begin).View(piece.end).Int(static_cast<int32_t>(limit()));
  return call;
}

bool PgScan::Take(const PgResult& rows, const View::Visit& visit) {
  Piece& piece = pieces_.front();
  const auto count = static_cast<size_t>(rows.rows());
  const uint16_t partition = piece.partition;
  const bool over = count < limit();
  if (over) {
    pieces_.pop_front();
  } else {
    const std::string last = rows.Text(rows.rows() - 1, 0);
    if (reverse_) {
      piece.end = last;
    } else {
      piece.begin = last + '\0';
    }
  }
  rows_ += count;
  for (int row = 0; row < rows.rows(); ++row) {
    bytes_ += rows.Bytes(row, 0).size() + rows.Bytes(row, 1).size();
  }
  return VisitRows(rows, partition, visit);
}

bool VisitRows(const PgResult& rows, uint16_t partition, const View::Visit& visit) {
  std::string key = Prefix(partition);
  for (int row = 0; row < rows.rows(); ++row) {
    if (rows.IsNull(row, 0)) continue;
    key.resize(2);
    key.append(rows.Bytes(row, 0));
    if (!visit(key, rows.Bytes(row, 1))) return false;
  }
  return true;
}

}  // namespace dfsmr
