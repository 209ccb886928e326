// What a backup says of itself: manifest.json, beside the files of the store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

inline constexpr std::string_view kBackupManifest = "manifest.json";
// The level of the rows that this program writes, and the highest that it reads.
inline constexpr uint32_t kBackupLevel = 1;

struct BackupFile {
  std::string name;  // below the backup's folder: "000012.sst", "logs/CURRENT"
  uint64_t bytes = 0;
  std::string sha256;  // 64 hex digits
  friend bool operator==(const BackupFile&, const BackupFile&) = default;
};

struct BackupManifest {
  Timestamp time;           // what was acknowledged by then is in the backup
  std::string cursor;       // of the last record of the feed that it holds
  std::string incarnation;  // of the store that it is of, as in cursors
  std::string version;      // of the dsrv that took it
  uint32_t level = kBackupLevel;
  std::vector<BackupFile> files;
};

std::string ToJson(const BackupManifest& manifest);
// kDataLoss: it is damaged. kFailedPrecondition: a newer dsrv took it.
Result<BackupManifest> ParseBackupManifest(std::string_view text);

// Whether a backup may have a file of this name: plain names, at most one folder deep.
bool IsBackupFileName(std::string_view name);

// "2026-01-31T08:00:00.000000Z" and "20260131T080000Z".
std::string BackupTimeText(Timestamp time);
std::string NameOfTime(Timestamp time);
Result<Timestamp> ParseBackupTime(std::string_view text);

}  // namespace dfsmr
