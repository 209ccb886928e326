// A time zone: how far its clocks are ahead of UTC, and when that changes. A value: whoever does
// I/O hands the changes in (storage/zones reads the system's tzdata).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fsm/when/civil.h"
#include "fsm/when/posix_zone.h"

namespace dfsmr {

class Zone;
using ZonePtr = std::shared_ptr<const Zone>;

class Zone {
 public:
  struct Change {
    Instant at;
    std::chrono::seconds offset;  // of the local clock from then on, ahead of UTC
    friend bool operator==(const Change&, const Change&) = default;
  };
  // From `begin` until just before `end` the offset is the same.
  struct Span {
    Instant begin;
    Instant end;
    std::chrono::seconds offset;
    LocalTime Local(Instant at) const { return LocalTime((at + offset).time_since_epoch()); }
    Instant At(LocalTime local) const { return Instant(local.time_since_epoch() - offset); }
  };
  // What becomes of a local time.
  struct Reading {
    Instant first;                  // it, or the first instant after the gap that it lies in
    bool exists = true;             // false: clocks skip it
    std::optional<Instant> second;  // it comes once more, because clocks were set back
  };

  // `first` holds before the first of `changes`, which are in order; `rule` after the last of them,
  // for good. Without a rule the last offset stays.
  Zone(std::string name, std::chrono::seconds first, std::vector<Change> changes,
       const std::optional<PosixZone>& rule);
  static ZonePtr Utc();

  const std::string& name() const { return name_; }

  Span SpanAt(Instant at) const;
  LocalTime Local(Instant at) const { return SpanAt(at).Local(at); }
  Reading Read(LocalTime local) const;

  // The earliest instant at which the local clock shows `local` or later: the first of two, and the
  // end of the gap where there is none. Grows with `local`.
  Instant First(LocalTime local) const;
  // The latest local time that clocks have shown up to and at `at`. First(l) <= at exactly when
  // l <= Latest(at): so a search over local times knows its bounds.
  LocalTime Latest(Instant at) const;

 private:
  void Extend(const PosixZone& rule);
  void DropRepeated();

  std::string name_;
  std::chrono::seconds first_;
  std::vector<Change> changes_;  // each with another offset than the one before it
  // The calendar repeats itself every 400 years, and so does a rule: `changes_` hold that much of
  // it, and what comes later is looked up in `period_`'s first 400 years.
  std::optional<Instant> period_;
};

}  // namespace dfsmr
