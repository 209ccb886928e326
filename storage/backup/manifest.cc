#include "storage/backup/manifest.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::duration_cast;

Error Damaged(const std::string& why) {
  return {Code::kDataLoss, Reason::kNone, std::string(kBackupManifest) + " is damaged: " + why};
}

struct Civil {
  int year;
  unsigned month, day, hour, minute, second, micros;
};

Civil CivilOf(Timestamp time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto of_day = static_cast<uint64_t>((time - day).count());
  const auto seconds = static_cast<unsigned>(of_day / 1'000'000);
  return {static_cast<int>(date.year()),
          static_cast<unsigned>(date.month()),
          static_cast<unsigned>(date.day()),
          seconds / 3600,
          seconds / 60 % 60,
          seconds % 60,
          static_cast<unsigned>(of_day % 1'000'000)};
}

bool IsDigest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Result<BackupFile> FileOf(const Json& entry) {
  BackupFile file{entry.at("name").get<std::string>(), entry.at("bytes").get<uint64_t>(),
                  entry.at("sha256").get<std::string>()};
  if (!IsBackupFileName(file.name)) return Damaged("it names a file that no backup has");
  if (!IsDigest(file.sha256)) return Damaged("the digest of " + file.name + " is none");
  return file;
}

Result<BackupManifest> Read(const Json& json) {
  BackupManifest manifest;
  manifest.version = json.at("version").get<std::string>();
  manifest.level = json.at("level").get<uint32_t>();
  if (manifest.level > kBackupLevel) {
    return Error{Code::kFailedPrecondition, Reason::kNone,
                 "the backup was taken by a newer dsrv, version " + manifest.version +
                     ": its rows have level " + std::to_string(manifest.level) +
                     ", and this one knows up to " + std::to_string(kBackupLevel) +
                     "; use that version"};
  }
  auto time = ParseBackupTime(json.at("time").get<std::string>());
  if (!time) return Damaged(time.error().message);
  manifest.time = *time;
  manifest.cursor = json.at("cursor").get<std::string>();
  manifest.incarnation = json.at("incarnation").get<std::string>();
  for (const Json& entry : json.at("files")) {
    auto file = FileOf(entry);
    if (!file) return file.error();
    manifest.files.push_back(*std::move(file));
  }
  return manifest;
}

}  // namespace

std::string ToJson(const BackupManifest& manifest) {
  Json json = {{"time", BackupTimeText(manifest.time)},
               {"cursor", manifest.cursor},
               {"incarnation", manifest.incarnation},
               {"version", manifest.version},
               {"level", manifest.level},
               {"files", Json::array()}};
  for (const BackupFile& file : manifest.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  return json.dump(1) + "\n";
}

Result<BackupManifest> ParseBackupManifest(std::string_view text) {
  try {
    return Read(Json::parse(text));
  } catch (const Json::exception& error) {
    return Damaged(error.what());
  }
}

bool IsBackupFileName(std::string_view name) {
  const auto plain = [](std::string_view part) {
    constexpr std::string_view kKnown =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return !part.empty() && part.front() != '.' && part.find_first_not_of(kKnown) == part.npos;
  };
  if (name.size() > 100) return false;
  const size_t slash = name.find('/');
  if (slash == name.npos) return plain(name);
  return plain(name.substr(0, slash)) && plain(name.substr(slash + 1));
}

std::string BackupTimeText(Timestamp time) {
  const Civil at = CivilOf(time);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02u:%02u:%02u.%06uZ", at.year, at.month, at.day,
                at.hour, at.minute, at.second, at.micros);
  return text;
}

std::string NameOfTime(Timestamp time) {
  const Civil at = CivilOf(time);
  char text[64];
  std::snprintf(text, sizeof text, "%04d%02u%02uT%02u%02u%02uZ", at.year, at.month, at.day, at.hour,
                at.minute, at.second);
  return text;
}

Result<Timestamp> ParseBackupTime(std::string_view text) {
  Civil at{};
  int read = 0;
  const std::string whole(text);
  const int fields =
      std::sscanf(whole.c_str(), "%4d-%2u-%2uT%2u:%2u:%2u.%6uZ%n", &at.year, &at.month, &at.day,
                  &at.hour, &at.minute, &at.second, &at.micros, &read);
  const std::chrono::year_month_day date{std::chrono::year(at.year), std::chrono::month(at.month),
                                         std::chrono::day(at.day)};
  const bool sound = fields == 7 && static_cast<size_t>(read) == whole.size() && date.ok();
  if (!sound || at.hour > 23 || at.minute > 59 || at.second > 59) {
    return Error{
        Code::kInvalidArgument, Reason::kNone,
        "\"" + std::string(Head(whole, 64)) +
            "\" is not a time such as 2026-01-31T08:00:00.000000Z"};
  }
  const int64_t seconds = (int64_t{at.hour} * 60 + at.minute) * 60 + at.second;
  return Timestamp(std::chrono::sys_days(date)) + Duration(seconds * 1'000'000 + at.micros);
}

}  // namespace dfsmr
