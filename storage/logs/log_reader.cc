#include "storage/logs/log_reader.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <queue>
#include <utility>

#include "record.pb.h"
#include "storage/logs/keys.h"

namespace dfsmr {
namespace {

// Whether the last bytes of a visit with so much text hold a line that begins at `offset`, or the
// first ones do.
bool Kept(uint64_t text, uint64_t offset, uint64_t size) {
  return offset + size <= kLogHead || text - std::min(text, offset) <= kLogTail;
}

}  // namespace

struct LogReader::Chunk {
  std::shared_ptr<LogClaim> claim = std::make_shared<LogClaim>();
  uint64_t first = 0;
  record::LogChunk row;

  static Result<Chunk> Parse(std::string_view key, std::string_view value) {
    Chunk chunk;
    if (!chunk.row.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      return Error{Code::kDataLoss, Reason::kNone, "cannot read logs: a chunk is damaged"};
    }
    chunk.first = log_keys::Last(key);
    *chunk.claim = {chunk.row.claim(),   chunk.row.node(),   chunk.row.visit(),
                    chunk.row.attempt(), chunk.row.worker(), chunk.row.dry_run()};
    return chunk;
  }

  // Calls `visit` with each line, the offset of its text, and its arrival, until it returns false.
  template <typename Visit>
  void ForEach(Visit visit) {
    uint64_t offset = row.offset();
    for (record::LogText& line : *row.mutable_lines()) {
      const uint64_t size = line.text().size();
      if (!visit(line, offset, first + line.arrival())) return;
      offset += size;
    }
  }
};

struct LogReader::Read {
  explicit Read(const LogStore& store) : view(store.Snapshot()) {}

  // Bytes of all text of a visit; 0, with which everything is kept, when nothing is known of it.
  uint64_t TextOf(const LogOwner& owner, uint64_t visit) {
    auto [at, fresh] = texts.try_emplace(visit, 0);
    if (!fresh) return at->second;
    record::LogVisit row;
    const auto value = view->Get(log_keys::Visit(owner, visit));
    if (value && *value && row.ParseFromString(**value)) at->second = row.text();
    return at->second;
  }

  struct Waiting {
    uint64_t arrival;
    uint64_t ordinal;
    LogEntry entry;
    bool operator>(const Waiting& other) const { return arrival > other.arrival; }
  };

  const std::unique_ptr<const View> view;
  std::map<uint64_t, uint64_t> texts;
  // Lines that were read and wait for earlier ones of chunks that come later.
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting;
  uint64_t left = 0;  // bytes that the portion still takes
};

bool LogReader::Wanted(const LogClaim& claim) const {
  if (query_.visit != 0 && query_.visit != claim.visit) return false;
  if (query_.attempt != 0 && query_.attempt != claim.attempt) return false;
  if (query_.node.empty() || query_.node == claim.node) return true;
  return claim.node.size() > query_.node.size() && claim.node.starts_with(query_.node) &&
         claim.node[query_.node.size()] == '/';
}

// Reading ----------------------------------------------------------------------------------------

Result<LogReader::Portion> LogReader::Next(uint64_t bytes) {
  Read read(store_);
  read.left = bytes;
  auto begun = Begin(read);
  if (!begun) return begun.error();
  Portion portion;
  const uint64_t from = position_ - std::min(position_, store_.span());
  Result<Ok> done = Ok{};
  const auto take = [&](std::string_view key, std::string_view value) {
    done = EmitUpTo(read, log_keys::Last(key), &portion);
    if (!done || portion.more) return false;
    auto chunk = Chunk::Parse(key, value);
    done = chunk ? Take(read, *chunk) : chunk.error();
    return done.has_value();
  };
  auto scanned = read.view->Scan(log_keys::Chunk(query_.owner, from),
                                 PrefixEnd(log_keys::Chunks(query_.owner)), take);
  if (!scanned) return scanned.error();
  if (done && !portion.more) done = EmitUpTo(read, UINT64_MAX, &portion);
  if (!done) return done.error();
  return portion;
}

Result<Ok> LogReader::Begin(Read& read) {
  if (std::exchange(begun_, true)) return Ok{};
  position_ = began_ = query_.after;
  return query_.tail == 0 ? Result<Ok>(Ok{}) : FindTail(read);
}

// Moves the position to just before the last `tail` lines that are wanted.
Result<Ok> LogReader::FindTail(Read& read) {
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> last;
  Result<Ok> done = Ok{};
  const auto take = [&](std::string_view key, std::string_view value) {
    const uint64_t reach = log_keys::Last(key) + store_.span();
    if (reach < query_.after || (last.size() == query_.tail && reach < last.top())) return false;
    auto chunk = Chunk::Parse(key, value);
    if (!chunk) done = chunk.error();
    if (!chunk) return false;
    if (!Wanted(*chunk->claim)) return true;
    const uint64_t text = read.TextOf(query_.owner, chunk->claim->visit);
    chunk->ForEach([&](const record::LogText& line, uint64_t offset, uint64_t arrival) {
      if (arrival <= query_.after || !Kept(text, offset, line.text().size())) return true;
      if (last.size() == query_.tail && arrival < last.top()) return true;
      last.push(arrival);
      if (last.size() > query_.tail) last.pop();
      return true;
    });
    return true;
  };
  const std::string prefix = log_keys::Chunks(query_.owner);
  auto scanned = read.view->Scan(prefix, PrefixEnd(prefix), take, /*reverse=*/true);
  if (!scanned) return scanned;
  if (!done) return done;
  if (last.size() == query_.tail && last.top() > 0) position_ = last.top() - 1;
  return Ok{};
}

// Puts the lines of a chunk that are kept in line. Those that were read before only say where their
// visit has come to.
Result<Ok> LogReader::Take(Read& read, Chunk& chunk) {
  const uint64_t text = read.TextOf(query_.owner, chunk.claim->visit);
  chunk.ForEach([&](record::LogText& line, uint64_t offset, uint64_t arrival) {
    if (!Kept(text, offset, line.text().size())) return true;
    if (arrival <= position_) {
      Seen& seen = seen_[chunk.claim->visit];
      seen.ordinal = std::max(seen.ordinal.value_or(0), line.ordinal());
      uint64_t& number = seen.numbers[chunk.claim->claim];
      number = std::max(number, line.number());
      return true;
    }
    LogLine out{line.number(), FromMicros(line.time()), line.stream(), {}};
    out.text = std::move(*line.mutable_text());
    read.waiting.push({arrival, line.ordinal(), {chunk.claim, std::move(out), 0}});
    return true;
  });
  return Ok{};
}

// Gives out the lines in line that came before `arrival`: no chunk that is still to be read has
// any.
Result<Ok> LogReader::EmitUpTo(Read& read, uint64_t arrival, Portion* portion) {
  while (!read.waiting.empty() && read.waiting.top().arrival < arrival) {
    if (read.left == 0) {
      portion->more = true;
      return Ok{};
    }
    // The queue is ordered by arrivals, which stay as they are.
    Read::Waiting next = std::move(const_cast<Read::Waiting&>(read.waiting.top()));
    read.waiting.pop();
    const LogClaim& claim = *next.entry.claim;
    const bool wanted = Wanted(claim);
    if (wanted) {
      auto left_out = LeftOut(read, claim, next.entry.line, next.ordinal, next.arrival);
      if (!left_out) return left_out.error();
      next.entry.left_out = *left_out;
    }
    Seen& seen = seen_[claim.visit];
    seen.ordinal = next.ordinal;
    seen.numbers[claim.claim] = next.entry.line.number;
    position_ = next.arrival;
    if (!wanted) continue;
    read.left -= std::min<uint64_t>(read.left, next.entry.line.text.size() + 64);
    portion->entries.push_back(std::move(next.entry));
  }
  return Ok{};
}

// How many lines in front of it are not kept, of those that the reader has not read before.
Result<uint64_t> LogReader::LeftOut(Read& read, const LogClaim& claim, const LogLine& line,
                                    uint64_t ordinal, uint64_t arrival) {
  Seen& seen = seen_[claim.visit];
  if (!seen.ordinal) {
    seen.ordinal = 0;
    if (position_ > 0) {
      auto kept = KeptBefore(read, claim.visit, arrival);
      if (!kept) return kept.error();
      seen.ordinal = *kept;
    }
  }
  uint64_t missing = ordinal - std::min(ordinal, *seen.ordinal + 1);
  // A visit's lines that are gone came after the cursor as far as there are arrivals for them.
  if (began_ > 0) missing = std::min(missing, arrival - std::min(arrival, began_ + 1));
  if (query_.attempt != 0) {  // not those of other attempts
    const uint64_t before = seen.numbers[claim.claim];
    missing = std::min(missing, line.number - std::min(line.number, before + 1));
  }
  return missing;
}

// The ordinal of the last line of a visit before `arrival` that is kept; 0: there is none.
Result<uint64_t> LogReader::KeptBefore(Read& read, uint64_t visit, uint64_t arrival) {
  const uint64_t text = read.TextOf(query_.owner, visit);
  uint64_t last = 0;
  Result<Ok> done = Ok{};
  const auto look = [&](std::string_view place, std::string_view) {
    const std::string key = log_keys::Chunk(query_.owner, log_keys::Last(place));
    const auto value = read.view->Get(key);
    if (!value) done = value.error();
    if (!value) return false;
    if (!*value) return true;
    auto chunk = Chunk::Parse(key, **value);
    if (!chunk) done = chunk.error();
    if (!chunk) return false;
    chunk->ForEach([&](const record::LogText& line, uint64_t offset, uint64_t at) {
      if (at >= arrival) return false;
      if (Kept(text, offset, line.text().size())) last = line.ordinal();
      return true;
    });
    return last == 0;
  };
  auto scanned = read.view->Scan(log_keys::Places(query_.owner, visit),
                                 log_keys::Place(query_.owner, visit, arrival) + '\0', look,
                                 /*reverse=*/true);
  if (!scanned) return scanned.error();
  if (!done) return done.error();
  return last;
}

Result<bool> LogReader::Ever() const {
  const auto row = store_.Snapshot()->Get(log_keys::Instance(query_.owner));
  if (!row) return row.error();
  return row->has_value();
}

Result<bool> LogReader::Has(const std::string& node) const {
  const std::string prefix = log_keys::Visits(query_.owner);
  bool has = false;
  auto scanned = store_.Snapshot()->Scan(
      prefix, PrefixEnd(prefix), [&](std::string_view, std::string_view value) {
        record::LogVisit row;
        if (!row.ParseFromArray(value.data(), static_cast<int>(value.size()))) return true;
        const std::string& name = row.node();
        has =
            name.starts_with(node) && (name.size() == node.size() || name[node.size()] == '/');
        return !has;
      });
  if (!scanned) return scanned.error();
  return has;
}

// Cursors ----------------------------------------------------------------------------------------

std::string LogCursorText(uint64_t position) { return std::to_string(position); }

std::optional<uint64_t> ParseLogCursor(std::string_view text) {
  if (text.empty()) return 0;
  uint64_t position = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), position);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return position;
}

}  // namespace dfsmr
