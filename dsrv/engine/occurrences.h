// What came due of schedules and triggers, and what became of it: 10,000 of each, as long as the
// server keeps what is over. When there are more, the oldest goes that is no dead letter: that one
// waits for an operator. Each that is added, and each new outcome, is in the feed. They
// rest in the store; nothing of them is in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/when/occurrence.h"
#include "storage/rows/occurrence.h"

namespace dfsmr {

// NO_SUCH_OCCURRENCE.
Error NoSuchOccurrence(const rows::DocumentName& of, std::string_view id);

class Occurrences {
 public:
  static constexpr uint64_t kKept = 10'000;  // of each schedule or trigger

  Occurrences(OpenTurn& turn, Measures& measures, const EngineOptions& options)
      : turn_(turn), measures_(measures), options_(options) {}
  Occurrences(const Occurrences&) = delete;
  Occurrences& operator=(const Occurrences&) = delete;

  // How many there were, how many are dead letters, and which was the last. Survives deletion.
  Result<rows::OccurrenceHead> HeadOf(const rows::DocumentName& of);
  // The number that the next one gets.
  Result<uint64_t> NextNumber(const rows::DocumentName& of);

  // Lists one that came due, with its outcome: gives it its number, its times, and an id if it has
  // none (its number; of a schedule's that of its time). Returns it so. `about_depth`: in a chain of
  // change triggers.
  Result<Occurrence> Add(const rows::DocumentName& of, Occurrence one, uint32_t about_depth = 0);
  // One that was listed has another outcome (of a retry: with one try more).
  Result<Ok> Change(const rows::DocumentName& of, Occurrence one, uint32_t about_depth = 0);

  // nullopt: it is not listed, or no more.
  Result<std::optional<Occurrence>> Find(const rows::DocumentName& of, std::string_view id);
  Result<std::optional<Occurrence>> Get(const rows::DocumentName& of, uint64_t number);
  // Dead letters: the ids of those that are FAILED, oldest first, at most `limit`. One that was
  // tried again and failed comes behind those that were not.
  Result<std::vector<std::string>> Failed(const rows::DocumentName& of, size_t limit);

  // Gives up dead letters (DROPPED). NO_SUCH_OCCURRENCE; NOT_HELD: it is not FAILED.
  Result<Occurrence> Drop(const rows::DocumentName& of, std::string_view id);
  // The one to try again. Errors as Drop.
  Result<Occurrence> ToRetry(const rows::DocumentName& of, std::string_view id);

  // Drops a bounded number of those whose time is up.
  void Work();
  Timestamp Due() const { return due_; }

 private:
  Result<std::string> FreeId(const rows::DocumentName& of, const Occurrence& one);
  // Drops what is too much, but not the newest.
  Result<Ok> DropSurplus(const rows::DocumentName& of, rows::OccurrenceHead* head);
  Result<Ok> Forget(const rows::DocumentName& of, uint64_t number, rows::OccurrenceHead* head);
  void Tell(const rows::DocumentName& of, const Occurrence& one, uint32_t depth);

  OpenTurn& turn_;
  Measures& measures_;
  const EngineOptions& options_;
  Timestamp due_;
  Timestamp dropped_up_to_{};
};

}  // namespace dfsmr
