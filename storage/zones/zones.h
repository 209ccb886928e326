// The time zones of this machine, from its tzdata.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "fsm/when/zone.h"

namespace dfsmr {

// Reads each zone once and keeps it, some 4 to 14 KB. Any thread.
class Zones {
 public:
  static constexpr std::string_view kFolder = "/usr/share/zoneinfo";

  explicit Zones(std::string folder = std::string(kFolder)) : folder_(std::move(folder)) {}

  // kInvalidArgument: there is no such zone; the message names the nearest. kUnavailable: the
  // machine has no tzdata (UTC is known all the same). kDataLoss: its file is damaged.
  Result<ZonePtr> Find(std::string_view name);

  // The names of all that there are, in order.
  std::vector<std::string> Names() const;

 private:
  Result<ZonePtr> Load(std::string_view name) const;
  Error Unknown(std::string_view name) const;

  const std::string folder_;
  Mutex mutex_;
  std::map<std::string, ZonePtr, std::less<>> zones_ GUARDED(mutex_);
};

}  // namespace dfsmr
