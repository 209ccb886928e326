#include "dsrv/otlp/span.h"

#include <nlohmann/json.hpp>

namespace dfsmr::otlp {
namespace {

using nlohmann::json;

json ToValue(const std::variant<std::string, uint64_t, bool>& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return {{"stringValue", *text}};
  if (const auto* number = std::get_if<uint64_t>(&value)) {
    return {{"intValue", std::to_string(*number)}};  // as proto3's JSON writes 64 bits
  }
  return {{"boolValue", std::get<bool>(value)}};
}

json Attribute(const std::string& key, const std::variant<std::string, uint64_t, bool>& value) {
  return {{"key", key}, {"value", ToValue(value)}};
}

std::string Nanos(Timestamp time) { return std::to_string(Micros(time)) + "000"; }

json ToValue(const Span& span) {
  constexpr int kInternal = 1;
  constexpr int kError = 2;
  json out = {{"traceId", span.trace},
              {"spanId", span.id},
              {"name", span.name},
              {"kind", kInternal},
              {"startTimeUnixNano", Nanos(span.begin)},
              {"endTimeUnixNano", Nanos(span.end)},
              {"attributes", json::array()}};
  if (!span.parent.empty()) out["parentSpanId"] = span.parent;
  for (const auto& [key, value] : span.attributes) {
    out["attributes"].push_back(Attribute(key, value));
  }
  if (span.failed) out["status"] = {{"code", kError}, {"message", span.error}};
  return out;
}

}  // namespace

std::string ToJson(const std::vector<Span>& spans, const std::string& version) {
  json list = json::array();
  for (const Span& span : spans) list.push_back(ToValue(span));
  const json resource = {{"attributes", json::array({Attribute("service.name", "dfsmr"),
                                                     Attribute("service.version", version)})}};
  const json scope = {{"scope", {{"name", "dfsmr"}, {"version", version}}}, {"spans", list}};
  const json all = {{"resourceSpans", json::array({{{"resource", resource},
                                                    {"scopeSpans", json::array({scope})}}})}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace dfsmr::otlp
