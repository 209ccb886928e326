#include "dcli/text/values.h"

#include <google/protobuf/util/time_util.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include "dcli/text/json.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {

Error BadUsage(std::string message) {
  return {Code::kInvalidArgument, Reason::kNone, std::move(message)};
}

Result<uint32_t> ParseCount(const std::string& flag, const std::string& text) {
  const bool digits = !text.empty() && text.size() <= 9 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (digits) return static_cast<uint32_t>(std::stoul(text));
  return BadUsage(flag + " takes a number, 0 or more, and not \"" + text + "\"");
}

namespace {

constexpr double kLongest = 3.2e15;  // a hundred years of microseconds

struct Unit {
  std::string_view name;
  int64_t micros;
};
constexpr Unit kUnits[] = {{"d", 86'400'000'000}, {"h", 3'600'000'000}, {"m", 60'000'000},
                           {"s", 1'000'000},      {"ms", 1'000},        {"us", 1}};

const Unit* FindUnit(std::string_view name) {
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

std::string Print(const char* format, auto... values) {
  char text[64];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  const Error bad =
      BadUsage("\"" + std::string(text) +
               "\" is not a duration: write a number and a unit, such as 250ms, 30s, 5m, "
               "2h or 7d");
  if (text == "0") return Duration::zero();
  double micros = 0;
  std::string_view rest = text;
  do {
    const size_t digits = std::min(rest.find_first_not_of("0123456789."), rest.size());
    double number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + digits, number);
    if (error != std::errc() || end != rest.data() + digits) return bad;
    rest.remove_prefix(digits);
    const size_t letters = std::min(rest.find_first_of("0123456789."), rest.size());
    const Unit* unit = FindUnit(rest.substr(0, letters));
    if (unit == nullptr) return bad;
    rest.remove_prefix(letters);
    micros += number * static_cast<double>(unit->micros);
  } while (!rest.empty());
  if (micros > kLongest)
    return BadUsage("\"" + std::string(text) + "\" is more than a hundred years");
  return Duration(std::llround(micros));
}

Result<Timestamp> ParseTime(std::string_view text, Timestamp now) {
  if (text.starts_with('+')) {
    const auto duration = ParseDuration(text.substr(1));
    if (!duration) return duration.error();
    return now + *duration;
  }
  google::protobuf::Timestamp time;
  // RFC 3339 allows small letters.
  if (google::protobuf::util::TimeUtil::FromString(Upper(text), &time)) {
    return FromProto(time);
  }
  return BadUsage("\"" + std::string(text) +
                  "\" is not a time: write it as in 2026-01-31T08:00:00Z, or +30m for half an hour "
                  "from now");
}

std::string DurationText(Duration duration) {
  const int64_t micros = duration.count();
  if (micros < 0) return "-" + DurationText(-duration);
  if (micros == 0) return "0s";
  if (micros < 1'000) return Print("%lldus", static_cast<long long>(micros));
  if (micros < 10'000) return Print("%.1fms", static_cast<double>(micros) / 1e3);
  if (micros < 999'500) return Print("%.0fms", static_cast<double>(micros) / 1e3);
  if (micros < 9'995'000) return Print("%.2fs", static_cast<double>(micros) / 1e6);
  if (micros < 59'950'000) return Print("%.1fs", static_cast<double>(micros) / 1e6);
  const long long seconds = (micros + 500'000) / 1'000'000;
  if (seconds < 3'600) return Print("%lldm%llds", seconds / 60, seconds % 60);
  if (seconds < 86'400) return Print("%lldh%lldm", seconds / 3'600, seconds / 60 % 60);
  return Print("%lldd%lldh", seconds / 86'400, seconds / 3'600 % 24);
}

std::string TimeText(Timestamp time) {
  const auto millis = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(millis);
  const std::time_t clock = seconds.count();
  std::tm utc{};
  gmtime_r(&clock, &utc);
  char text[40];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return std::string(text, length) + Print(".%03dZ", static_cast<int>((millis - seconds).count()));
}

google::protobuf::Duration ToProto(Duration duration) {
  return google::protobuf::util::TimeUtil::MicrosecondsToDuration(duration.count());
}

google::protobuf::Timestamp ToProto(Timestamp time) {
  return google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(Micros(time));
}

Duration FromProto(const google::protobuf::Duration& duration) {
  return std::chrono::seconds(duration.seconds()) + Duration(duration.nanos() / 1'000);
}

Timestamp FromProto(const google::protobuf::Timestamp& time) {
  return Timestamp(std::chrono::seconds(time.seconds()) + Duration(time.nanos() / 1'000));
}

Result<std::string> ParseObject(std::string_view text, std::string_view what) {
  if (text.empty() || IsJsonObject(text)) return std::string(text);
  return BadUsage(std::string(what) + " must be one JSON object, such as '{\"url\": \"x\"}', not " +
                  Shortened(Escaped(text), 60));
}

Result<std::string> ParseParams(std::string_view params, const std::vector<std::string>& pairs) {
  auto object = ParseObject(params, "--params");
  if (!object || pairs.empty()) return object;
  std::vector<Member> members;
  if (!object->empty()) members = Members(*object);
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    const bool json = equals != std::string::npos && equals > 0 && pair[equals - 1] == ':';
    const size_t end = json ? equals - 1 : equals;
    if (equals == std::string::npos || end == 0) {
      return BadUsage("\"" + Escaped(pair) + "\" is neither KEY=VALUE nor KEY:=JSON");
    }
    const std::string value = pair.substr(equals + 1);
    if (json && !IsJson(value)) {
      return BadUsage("the value of " + Escaped(pair.substr(0, end)) +
                      " is not JSON: " + Shortened(Escaped(value), 60));
    }
    Set(&members, {pair.substr(0, end), json ? value : JsonString(value)});
  }
  return ObjectOf(members);
}

Result<Ok> ParseLabels(const std::vector<std::string>& pairs,
                       google::protobuf::Map<std::string, std::string>* labels) {
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return BadUsage("--label \"" + Escaped(pair) + "\" is not KEY=VALUE");
    }
    (*labels)[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return Ok{};
}

Result<int> ParseEnum(const google::protobuf::EnumDescriptor* type, std::string_view text,
                      std::string_view what) {
  std::vector<std::string> known;
  for (int i = 1; i < type->value_count(); ++i) {
    if (EqualsIgnoringCase(type->value(i)->name(), text)) return type->value(i)->number();
    known.push_back(Lower(type->value(i)->name()));
  }
  return BadUsage("there is no " + std::string(what) + " \"" + Escaped(text) + "\"" +
                  DidYouMean(text, known) + " (known: " + Join(known, ", ") + ")");
}

Result<MachineRef> ParseMachineRef(std::string_view text) {
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos) return MachineRef{std::string(text), 0};
  const std::string_view digits = text.substr(at + 1);
  uint32_t version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (error != std::errc() || end != digits.data() + digits.size() || version == 0 || at == 0) {
    return BadUsage("\"" + Escaped(text) + "\" is not MACHINE or MACHINE@VERSION");
  }
  return MachineRef{std::string(text.substr(0, at)), version};
}

Result<MachineRef> ParseStartRef(std::string_view text) {
  const size_t at = text.find('@');
  const bool of_package = at != std::string_view::npos &&
                          text.substr(0, at).find('.') != std::string_view::npos &&
                          text.find('.', at) != std::string_view::npos;
  return of_package ? MachineRef{std::string(text), 0} : ParseMachineRef(text);
}

}  // namespace dfsmr::cli
