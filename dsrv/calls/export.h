// What an export of a namespace consists of: its files in order, in pieces, from one moment of the
// store. The loop says what only it knows; the rest is read where that holds up nobody.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/engine/engine.h"
#include "dsrv/engine/package_views.h"
#include "dsrv/wire/moment.h"
#include "dsrv/wire/space_file.h"
#include "storage/place.h"
#include "storage/rows/carried.h"
#include "storage/rows/package.h"

namespace dfsmr {

struct ExportArgs {
  std::string ns;
  bool instances = false;
  bool all_versions = false;
  uint16_t partitions = 1;  // of the store
};

// What the loop knows of a namespace that is to be exported.
struct ExportStanding {
  SpaceFile space;  // without the names of secrets
  std::vector<std::pair<std::string, std::string>>
      versions;  // packages, and versions that go along
  VersionsInUse used;  // with instances
};
// In the loop. NO_SUCH_NAMESPACE, NAMESPACE_DELETING, NOT_FROZEN. What is only in memory is durable
// with the turn.
Result<ExportStanding> StandingForExport(Engine& engine, const ExportArgs& args);

class Export {
 public:
  Export(const Reader& reader, ExportArgs args, ExportStanding standing)
      : moment_(reader), args_(std::move(args)), standing_(std::move(standing)) {}

  // Finds out what it consists of. NOT_FROZEN.
  Result<Ok> Begin();
  // The next piece; when there is none any more, the item that says so, and then nothing.
  Result<v1::ExportItem> Next();

 private:
  // The next piece of a file; nullopt: there is none.
  using Pieces = std::function<Result<std::optional<std::string>>()>;

  Result<Ok> AddSpace();
  Result<Ok> AddDefinitions();
  Result<Ok> AddPackages();
  Result<Ok> AddPackage(const rows::PackageVersionRow& row);
  // What the rows of instances need besides.
  Result<Ok> LookAtInstances();
  Result<Ok> LookAtInstances(PartitionId partition);
  Result<Ok> AddGraph(PartitionId partition, const std::string& graph);
  Result<Ok> CheckClaims(const rows::Reader& rows, const Instance& instance);
  void AddText(std::string path, std::string text);
  Result<Ok> FillRows();
  Result<Ok> FillCommonRows();
  rows::Reader RowsOf(PartitionId partition) const {
    return args_.partitions == 1 ? moment_.rows : rows::Reader{*moment_.view, partition};
  }
  // The instances of one partition, some of them read ahead.
  struct Source {
    PartitionId partition = kHome;
    std::deque<Instance> ahead;
    std::string last = {};  // that was read
    bool over = false;
  };
  Result<Ok> ReadAhead(Source& source);
  // The one whose next instance comes first by its id; null: there is none any more.
  Result<Source*> NextSource();
  Result<std::optional<rows::CarriedRow>> VersionToCarry(const rows::CarriedRow& row) const;

  const Moment moment_;
  const ExportArgs args_;
  ExportStanding standing_;
  std::deque<std::pair<std::string, Pieces>> files_;
  bool first_ = true;  // of the file: no piece of it was given

  // Instances.
  std::map<std::string, uint32_t> lowest_;  // versions, by machine, that some run on
  std::map<std::string, PartitionId> graphs_;  // where it has its row
  std::set<std::string> groups_;
  std::string rows_;    // of the file of rows under way
  size_t rows_at_ = 0;  // up to here they were given
  uint64_t rows_files_ = 0;
  bool any_ = false;  // there are instances
  bool instances_over_ = false;
  std::vector<Source> sources_;
};

}  // namespace dfsmr
