// The rows of limits: the numbers that operators have set and askers have given, and what is kept
// of rates.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/machine/limit.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// What an operator has set for a key.
struct LimitOverride {
  std::optional<uint32_t> max;
  bool no_max = false;  // no limit, whatever documents and askers say
  std::optional<Rate> rate;
  bool no_rate = false;
  std::string note;
  std::string set_by;
  Timestamp set_time;

  bool empty() const { return !max && !no_max && !rate && !no_rate; }
  friend bool operator==(const LimitOverride&, const LimitOverride&) = default;
};

void PutLimitOverride(const Writer& writer, std::string_view ns, std::string_view key,
                      const LimitOverride& override);
// nullopt: it cannot be read.
std::optional<LimitOverride> DecodeLimitOverride(std::string_view value);
void DropLimitOverride(const Writer& writer, std::string_view ns, std::string_view key);
Result<Ok> ScanLimitOverrides(
    const Reader& reader,
    const std::function<void(std::string_view ns, std::string_view key, LimitOverride)>& visit);

// When the bucket of a key's rate is full again.
void PutLimitRate(const Writer& writer, std::string_view ns, std::string_view key,
                  Timestamp full_at);
void DropLimitRate(const Writer& writer, std::string_view ns, std::string_view key);
Result<Ok> ScanLimitRates(
    const Reader& reader,
    const std::function<void(std::string_view ns, std::string_view key, Timestamp)>& visit);

// The numbers of the last that asked for a key. Only where others have asked with other numbers:
// else those that hold the key or wait for it tell them.
void PutLimitAsker(const Writer& writer, std::string_view ns, std::string_view key,
                   const LimitNumbers& numbers);
void DropLimitAsker(const Writer& writer, std::string_view ns, std::string_view key);
Result<Ok> ScanLimitAskers(
    const Reader& reader,
    const std::function<void(std::string_view ns, std::string_view key, LimitNumbers)>& visit);

}  // namespace dfsmr::rows
