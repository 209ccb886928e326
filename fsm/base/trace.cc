#include "fsm/base/trace.h"

#include <algorithm>

#include "fsm/base/hex.h"

namespace dfsmr {
namespace {

constexpr size_t kIdBytes = 16;
constexpr size_t kSpanBytes = 8;
constexpr size_t kLength = 55;  // "00-", the id, "-", the span, "-01"
constexpr char kSampled = 1;

// -1: it is no digit. Upper case is none, either: the standard says so.
int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool IsHex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return HexDigit(c) >= 0; });
}

bool AllZero(std::string_view text, char zero) { return text.find_first_not_of(zero) == text.npos; }

}  // namespace

std::optional<TraceContext> ReadTraceparent(std::string_view text) {
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  const std::string_view version = text.substr(0, 2);
  const std::string_view id = text.substr(3, 2 * kIdBytes);
  const std::string_view span = text.substr(36, 2 * kSpanBytes);
  const std::string_view flags = text.substr(53, 2);
  if (!IsHex(version) || !IsHex(id) || !IsHex(span) || !IsHex(flags) || version == "ff") return {};
  // Later versions may add fields behind another dash.
  if (text.size() > kLength && (version == "00" || text[kLength] != '-')) return {};
  if (AllZero(id, '0') || AllZero(span, '0')) return {};
  return TraceContext{std::string(id), std::string(span), (HexDigit(flags[1]) & kSampled) != 0};
}

std::string Traceparent(const TraceContext& trace, std::string_view span) {
  return "00-" + trace.id + "-" + std::string(span) + (trace.sampled ? "-01" : "-00");
}

std::string PackTrace(const TraceContext& trace) {
  std::string bytes = FromHex(trace.id).value();
  bytes += trace.parent.empty() ? std::string(kSpanBytes, '\0') : FromHex(trace.parent).value();
  bytes += trace.sampled ? kSampled : '\0';
  return bytes;
}

std::optional<TraceContext> UnpackTrace(std::string_view bytes) {
  if (bytes.size() != kIdBytes + kSpanBytes + 1) return {};
  const std::string_view span = bytes.substr(kIdBytes, kSpanBytes);
  return TraceContext{ToHex(bytes.substr(0, kIdBytes)), AllZero(span, '\0') ? "" : ToHex(span),
                      (bytes.back() & kSampled) != 0};
}

}  // namespace dfsmr
