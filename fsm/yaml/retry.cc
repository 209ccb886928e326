#include "fsm/yaml/retry.h"

#include <array>
#include <string>

#include "fsm/base/duration.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 6> kRetryKeys = {"limit", "delay",  "factor",
                                                   "max",   "jitter", "on"};
constexpr std::string_view kRetryExample = "{limit: 3, delay: 1s, factor: 2, max: 1m}";
constexpr std::string_view kOnExample = "[transient, \"lock timeout\"]";
constexpr int64_t kTries = 1'000'000;
constexpr size_t kEntries = 64;  // of `on`
constexpr size_t kEntryBytes = 1'024;

bool ReadLimit(const Field& field, uint32_t* out) {
  int64_t value = 0;
  if (!ReadInteger(field, 1, kTries, &value)) return false;
  *out = static_cast<uint32_t>(value);
  return true;
}

bool ReadEntry(const Field& field, std::string* out) {
  if (!field.value.IsScalar() || field.value.text.empty()) {
    field.Fail(
        "expected a kind of errors, or a part of their text, such as transient or \"lock "
        "timeout\"; not " +
        Describe(field.value));
    return false;
  }
  if (field.value.text.size() > kEntryBytes) {
    field.Fail("a text of 'on' has at most " + std::to_string(kEntryBytes) + " bytes");
    return false;
  }
  *out = field.value.text;
  return true;
}

bool ReadRetryOn(const Field& field, std::vector<std::string>* out) {
  const bool list = field.value.IsList();
  const size_t count = list ? field.value.items.size() : 1;
  if (count == 0 || field.value.IsNull()) {
    field.Fail("'on' is empty, so that no error would be tried again; write which are, " +
               std::string(kOnExample) + ", or leave it out for all of them");
    return false;
  }
  if (count > kEntries) {
    field.Fail("'on' has " + std::to_string(count) + " entries; at most " +
               std::to_string(kEntries) + " are allowed");
    return false;
  }
  std::vector<std::string> entries(count);
  bool sound = list || ReadEntry(field, &entries[0]);
  for (size_t i = 0; list && i < count; ++i) {
    if (!ReadEntry(field.Item(i), &entries[i])) sound = false;
  }
  if (sound) *out = std::move(entries);
  return sound;
}

void ReadDelay(const Keys& keys, DelayPolicy* delay) {
  if (auto key = keys.Take("delay")) ReadDurationAboveZero(*key, &delay->initial);
  if (auto key = keys.Take("factor")) ReadFactor(*key, &delay->factor);
  if (auto key = keys.Take("jitter")) ReadJitter(*key, &delay->jitter);
  auto max = keys.Take("max");
  if (!max || !ReadDurationAboveZero(*max, &delay->max) || delay->max >= delay->initial) return;
  max->Fail("max " + FormatDuration(delay->max) + " is less than delay " +
            FormatDuration(delay->initial));
}

}  // namespace

bool ReadRetry(const Field& field, RetryPolicy* out) {
  RetryPolicy retry;
  const size_t errors = field.reporter->errors();
  if (field.value.IsScalar() && field.value.text.find_first_of("0123456789") == 0) {
    if (!ReadLimit(field, &retry.limit)) return false;
    *out = retry;
    return true;
  }
  if (!field.value.IsMap()) {
    field.Fail("expected how many tries there are in all, or " + std::string(kRetryExample) +
               ", not " + Describe(field.value));
    return false;
  }
  Keys keys(field, kRetryKeys, "a retry has limit, delay, factor, max, jitter and on");
  if (auto key = keys.Take("limit")) {
    ReadLimit(*key, &retry.limit);
  } else {
    field.Fail("the retry has no 'limit'; add how many tries there are in all: 'limit: 3'");
  }
  ReadDelay(keys, &retry.delay);
  if (auto key = keys.Take("on")) ReadRetryOn(*key, &retry.on);
  *out = std::move(retry);
  return field.reporter->errors() == errors;
}

bool ReadJitter(const Field& field, double* out) {
  double jitter = 0;
  if (!ReadNumber(field, "a share from 0 to 1", &jitter)) return false;
  if (jitter < 0 || jitter > 1) {
    field.Fail("jitter " + Quoted(field.value.text) + " is not a share from 0 to 1");
    return false;
  }
  *out = jitter;
  return true;
}

bool ReadAbandonAfter(const Field& field, uint32_t* out) {
  int64_t value = 0;
  if (!ReadInteger(field, 0, kTries, &value)) return false;
  *out = static_cast<uint32_t>(value);
  return true;
}

}  // namespace dfsmr
