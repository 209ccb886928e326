// Two stores that nobody serves, of which one is to become a copy of the other: their marks and
// epochs, and who is told how far it has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dsrv/migrate/migrate.h"

namespace dfsmr {

// Of some of the rows.
struct Tally {
  uint64_t rows = 0;
  uint64_t live = 0;
  uint64_t stopped = 0;
  uint64_t bytes = 0;

  void Add(std::string_view key, std::string_view value);
  friend bool operator==(const Tally&, const Tally&) = default;
};

// Keys begin with their partition.
PartitionId PartitionIn(std::string_view key);
std::string Count(uint64_t count, const std::string& what);
Error Refused(const std::string& why);
// FNV-1a over texts, with the length behind each, so that no two lists of them look the same.
class Digest {
 public:
  void Mix(std::string_view text);
  uint64_t number() const { return number_; }
  friend bool operator==(const Digest&, const Digest&) = default;

 private:
  uint64_t number_ = 14'695'981'039'346'656'037U;
};

class Pair {
 public:
  Pair(const Migration& migration, UnservedStore& from, UnservedStore& to)
      : migration_(migration), from_(from), to_(to) {}

  // Refuses, or makes sure that nobody serves the source from now on, nor the target before it is
  // whole.
  Result<Ok> Begin();
  // Nobody has served the source meanwhile. The target may be served.
  Result<Ok> End();

  // The source is read through this one from now on, which outlives the pair.
  void ReadAs(const View& view) { source_ = &view; }
  const View& source() const { return source_ ? *source_ : from_.store(); }
  Store& target() { return to_.store(); }
  // To the target.
  Result<Ok> Write(PartitionId partition, const Batch& batch);
  // The last key that the target has; empty: it has none.
  Result<std::string> LastKey();
  using Visit = std::function<void(std::string_view key, std::string_view value)>;
  // All rows of one of the two; tells how far it is, and ends when it is interrupted.
  Result<Ok> ReadAll(const View& store, const char* doing, const Visit& visit);
  // About once a second.
  void Tell(const char* doing, const Tally& tally, std::chrono::steady_clock::time_point begin);
  Error Differs(const Tally& source, const Tally& target) const;
  bool Interrupted() const { return migration_.interrupted && *migration_.interrupted; }
  static Error Interruption();
  const Migration& migration() const { return migration_; }

 private:
  Result<Ok> Acquire();

  const Migration& migration_;
  UnservedStore& from_;
  UnservedStore& to_;
  const View* source_ = nullptr;
  std::vector<Epoch> source_epochs_;  // by partition
  std::vector<Epoch> epochs_;         // of the target
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace dfsmr
