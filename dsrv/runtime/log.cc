#include "dsrv/runtime/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr int kLinesPerSecond = 10;

}  // namespace

Result<Ok> StartLog(const std::string& level, bool json) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off") {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "log level '" + level + "' is not one of trace, debug, info, warn, error, off"};
  }
  auto logger =
      std::make_shared<spdlog::logger>("dsrv", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::trace);
  logger->set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":"%v"})"
                           : "%Y-%m-%dT%H:%M:%S.%eZ %^%-5l%$ %v",
                      spdlog::pattern_time_type::utc);
  spdlog::set_default_logger(std::move(logger));
  return Ok{};
}

void Refusals::Note(const Error& error, std::string_view peer, std::string_view request_id) {
  const std::string reason = ReasonOrCode(error);
  uint64_t held_back = 0;
  {
    const Lock lock(mutex_);
    ++counts_[reason];
    const auto now = std::chrono::steady_clock::now();
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      lines_ = 0;
      held_back = std::exchange(held_back_, 0);
    }
    if (++lines_ > kLinesPerSecond) {
      ++held_back_;
      return;
    }
  }
  if (held_back > 0) spdlog::info("refused {} more calls in the last second", held_back);
  std::string message = OneLine(error.message);
  for (size_t at = 0; (at = message.find('"', at)) != std::string::npos; ++at) message[at] = '\'';
  const std::string id = request_id.empty() ? "" : "request_id=" + OneLine(request_id) + " ";
  spdlog::info("refused reason={} peer={} {}{}", reason, peer, id, message);
}

std::map<std::string, uint64_t> Refusals::Counts() const {
  const Lock lock(mutex_);
  return counts_;
}

}  // namespace dfsmr
