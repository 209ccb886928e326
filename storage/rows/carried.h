// What an export carries of instances that have not stopped: rows as the store has them, without
// partition and namespace, one behind the other in files. And reading such files, which may come
// from anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/rows/group.h"
#include "storage/rows/limit.h"
#include "storage/rows/machine.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct CarriedRow {
  // The kinds of the store (keys.h). A version of a machine, a graph that instances share, a group,
  // the numbers that an operator has set for a limit, and the rows of an instance, its own first.
  enum class Of : uint8_t { kVersion, kGraph, kGroup, kLimit, kInstance, kPartOfInstance };
  Of of() const;

  uint8_t kind = 0;
  std::string key;  // behind the namespace
  std::string value;

  // The first text of the key: of a machine, graph, group, limit or instance.
  std::string_view Name() const { return std::string_view(key).substr(0, key.find('\0')); }
};

// Of a file of rows: what it begins with, and what one more row adds to it.
std::string_view CarriedHead();
std::string CarriedText(const CarriedRow& row);

// Takes a file in pieces. BAD_ARCHIVE, with what is wrong and without the file's name: another
// format, or bytes that are no rows.
class CarriedReader {
 public:
  using Visit = std::function<Result<Ok>(CarriedRow)>;
  explicit CarriedReader(Visit visit) : visit_(std::move(visit)) {}

  Result<Ok> Feed(std::string_view bytes);
  // The file is complete.
  Result<Ok> Finish() const;

 private:
  static std::string OneLineHead();

  Visit visit_;
  std::string rest_;
  bool begun_ = false;  // its head was read
};

// Of a namespace: all versions of a machine from one on; a graph; a group; the rows of an instance.
using VisitCarried = std::function<void(CarriedRow)>;
Result<Ok> CarryVersions(const Reader& reader, std::string_view ns, std::string_view machine,
                         uint32_t from, const VisitCarried& visit);
Result<Ok> CarryGraph(const Reader& reader, std::string_view ns, std::string_view name,
                      const VisitCarried& visit);
Result<Ok> CarryGroup(const Reader& reader, std::string_view ns, std::string_view name,
                      const VisitCarried& visit);
// All limits that have such numbers.
Result<Ok> CarryLimits(const Reader& reader, std::string_view ns, const VisitCarried& visit);
// `bare`: there is nothing of it but its own row and its spec.
Result<Ok> CarryInstance(const Reader& reader, InstanceName name, bool bare,
                         const VisitCarried& visit);

// The row of a graph that instances share.
CarriedRow GraphCarried(const std::string& name, const std::string& value);

// The other way. Puts a row where it belongs in a namespace, and takes it away again.
void PutCarried(const Writer& writer, std::string_view ns, const CarriedRow& row);
void DropCarried(const Writer& writer, std::string_view ns, const CarriedRow& row);
// The version of a machine that a row is. BAD_ARCHIVE.
Result<MachineRow> VersionIn(std::string_view ns, const CarriedRow& row);
// The row of a version of a machine as one of another version of its package. BAD_ARCHIVE.
Result<CarriedRow> OfPackageVersion(CarriedRow row, const std::string& package_version);
// The group that a row is. BAD_ARCHIVE.
Result<GroupRow> GroupIn(const CarriedRow& row);
// The numbers that a row sets. BAD_ARCHIVE.
Result<LimitOverride> LimitIn(const CarriedRow& row);
// As which an instance was started, from its rows, its own first. BAD_ARCHIVE.
struct CarriedStart {
  std::string machine;
  std::string params;
};
Result<CarriedStart> StartIn(const std::vector<CarriedRow>& rows);
// The value of a graph that instances share; nullopt: there is none of this name.
Result<std::optional<std::string>> GetSharedGraph(const Reader& reader, std::string_view ns,
                                                  std::string_view name);

}  // namespace dfsmr::rows
