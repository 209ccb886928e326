// The rows of occurrences, each under the schedule or trigger that it is of.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/when/occurrence.h"
#include "storage/rows/document.h"

namespace dfsmr::rows {

// What is known of all occurrences of one schedule or trigger.
struct OccurrenceHead {
  uint64_t count = 0;   // all so far: the number of the newest
  uint64_t failed = 0;  // dead letters that are listed
  uint64_t lost = 0;    // dead letters that had to go because there were too many occurrences
  uint64_t last = 0;    // the newest that is not MISSED; 0: none
  uint64_t listed = 0;  // that are there; 0 with a count: nobody has counted them
  uint64_t oldest = 0;  // no number below it is there but of dead letters
  friend bool operator==(const OccurrenceHead&, const OccurrenceHead&) = default;
};

void PutOccurrenceHead(const Writer& writer, DocumentName of, const OccurrenceHead& head);
Result<OccurrenceHead> GetOccurrenceHead(const Reader& reader, DocumentName of);

// Writes it with its index rows. `before`: what it was in the store; null: it is new.
void PutOccurrence(const Writer& writer, DocumentName of, const Occurrence& one,
                   const Occurrence* before);
void DropOccurrence(const Writer& writer, DocumentName of, const Occurrence& one);

Result<std::optional<Occurrence>> GetOccurrence(const Reader& reader, DocumentName of,
                                                uint64_t number);
// The number of the one with this id; 0: none has it.
Result<uint64_t> FindOccurrence(const Reader& reader, DocumentName of, std::string_view id);

// Whether one of a schedule's time, but by hand, has sent its transition.
Result<bool> WasSent(const Reader& reader, DocumentName of, Timestamp time);

// Newest first, those with lower numbers than `before`, until `visit` returns false.
Result<Ok> ScanOccurrences(const Reader& reader, DocumentName of, uint64_t before,
                           const std::function<bool(Occurrence)>& visit);
// The numbers of those that are FAILED, oldest first, at most `limit`.
Result<std::vector<uint64_t>> ScanFailed(const Reader& reader, DocumentName of, size_t limit);

// The first from `from` on that is no dead letter, and is not `but`; 0: there is none.
Result<uint64_t> OldestDelivered(const Reader& reader, DocumentName of, uint64_t from,
                                 uint64_t but);
Result<uint64_t> CountListed(const Reader& reader, DocumentName of);

// At most `limit` that were listed from `from` on and before `until`, the longest ago first.
struct ListedOccurrence {
  Timestamp at;
  std::string ns;
  DocumentKind kind;
  std::string name;
  uint64_t number = 0;
  DocumentName of() const { return {ns, kind, name}; }
};
Result<std::vector<ListedOccurrence>> ScanListed(const Reader& reader, Timestamp from,
                                                 Timestamp until, size_t limit);

}  // namespace dfsmr::rows
