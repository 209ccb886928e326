#include "storage/zones/zones.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/when/words.h"
#include "storage/zones/tzif.h"

namespace dfsmr {
namespace {

// Area/Place: each part begins with a capital letter, which keeps out "..", what begins with "/",
// and what is no zone of its own: posix/…, right/… (with leap seconds), localtime, posixrules.
bool ValidZoneName(std::string_view name) {
  if (name.size() > limits::kName) return false;
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part[0] < 'A' || part[0] > 'Z') return false;
    const auto fits = [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '+';
    };
    if (!std::ranges::all_of(part, fits)) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

std::optional<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file) return std::nullopt;
  return std::move(bytes).str();
}

}  // namespace

Result<ZonePtr> Zones::Find(std::string_view name) {
  {
    const Lock lock(mutex_);
    const auto known = zones_.find(name);
    if (known != zones_.end()) return known->second;
  }
  auto loaded = Load(name);
  if (!loaded) return loaded;
  const Lock lock(mutex_);
  return zones_.emplace(name, *std::move(loaded)).first->second;
}

Result<ZonePtr> Zones::Load(std::string_view name) const {
  if (name == "UTC") return Zone::Utc();
  if (!ValidZoneName(name)) return Unknown(name);
  const auto bytes = ReadFile(folder_ + "/" + std::string(name));
  if (!bytes) return Unknown(name);
  return ReadTzif(name, *bytes);
}

std::vector<std::string> Zones::Names() const {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder_, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().string().substr(folder_.size() + 1);
    if (!ValidZoneName(name)) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(error)) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

Error Zones::Unknown(std::string_view name) const {
  const std::vector<std::string> names = Names();
  if (names.empty()) {
    return {Code::kUnavailable, Reason::kNone,
            "time zone " + Quoted(name) + " cannot be looked up: this machine has no tzdata in " +
                folder_ + "; install it (Debian: apt install tzdata), or use UTC"};
  }
  // Letters of another case, a place without its area (Berlin), a slip of the hand.
  const std::string lower = LowerCase(name);
  std::string hint;
  for (const std::string& known : names) {
    const std::string other = LowerCase(known);
    if (other == lower || (hint.empty() && other.ends_with("/" + lower))) {
      hint = " (did you mean " + Quoted(known) + "?)";
    }
    if (other == lower) break;
  }
  if (hint.empty()) {
    std::vector<std::string> lowered;
    for (const std::string& known : names) lowered.push_back(LowerCase(known));
    Nearest nearest(lower);
    for (const std::string& known : lowered) nearest.Try(known);
    const auto best = std::ranges::find(lowered, nearest.Best());
    if (best != lowered.end()) {
      hint = " (did you mean " + Quoted(names[static_cast<size_t>(best - lowered.begin())]) + "?)";
    }
  }
  return {Code::kInvalidArgument, Reason::kNone,
          Quoted(name) + " is no time zone" + hint +
              "; a name such as Europe/Berlin or America/New_York is expected"};
}

}  // namespace dfsmr
