// The files of an import, as they come: which may come, in which order, and what they say. All is
// checked here, off the deciding thread, before anything of it is decided.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/archive_intake.h"
#include "dsrv/calls/signatures.h"
#include "dsrv/engine/carried.h"
#include "dsrv/engine/imports.h"
#include "dsrv/wire/space_file.h"
#include "fsm/package/export_path.h"
#include "fsm/yaml/definitions.h"
#include "storage/place.h"

namespace dfsmr {

class ImportFiles {
 public:
  // `quotas`: the caller may set those of the namespace. `partitions`: of the store.
  ImportFiles(std::string ns, FindZone zones, Timestamp now, bool quotas, uint16_t partitions)
      : ns_(std::move(ns)),
        zones_(std::move(zones)),
        now_(now),
        quotas_(quotas),
        partitions_(partitions) {}
  ImportFiles(const ImportFiles&) = delete;
  ImportFiles& operator=(const ImportFiles&) = delete;

  // A file begins; the one before it has ended. BAD_ARCHIVE, TOO_LARGE.
  Result<Ok> Begin(const std::string& path);
  Result<Ok> Take(std::string_view data);
  // The file has ended. Of an archive: then `package` is sound, and its row complete but for its
  // upload.
  Result<Ok> End();
  bool in_archive() const { return path_ && path_->kind == ExportPath::Kind::kArchive; }
  // The archive that has just ended, until the next begins.
  Import::Package& package() { return packages_.back().package; }
  const std::vector<std::pair<std::string, std::string>>& texts() const {
    return packages_.back().texts;
  }
  // The rows of instances, and of groups elsewhere than at home, that were found sound since it was
  // asked last, as text: each where it is to live.
  using RowsByPartition = std::map<PartitionId, std::string>;
  RowsByPartition TakeRows() { return std::exchange(rows_, {}); }

  // All has come.
  Result<Ok> Finish();
  // Makes of it what the engine takes: sources under what is defined there. Again when that has
  // changed. BAD_MACHINE.
  Result<Ok> Compile(const std::shared_ptr<const DefinitionSet>& under, Import* import,
                     Compiled* compiled) const;
  const GraphNames& graph_names() const { return graph_names_; }
  const std::vector<std::string>& secrets() const { return space_.secrets; }
  uint64_t instances() const { return instances_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Text {
    std::string path;
    std::string text;
    ExportPath of;
    Parsed parsed;
  };
  struct Package {
    Import::Package package;
    PackageVersionPtr version;
    std::string top;  // NAME-VERSION
    ArchiveHashes hashes;
    std::vector<std::pair<std::string, std::string>> texts;  // its files with documents
  };

  Result<Ok> EndArchive();
  Result<Ok> EndSignature();
  Result<Ok> TakeRow(rows::CarriedRow row);
  Result<Ok> TakeVersion(const rows::CarriedRow& row);
  Result<Ok> EndInstance();
  Result<Ok> ReadDefinitions();
  Result<Ok> ReadKeys();
  Result<Ok> CheckActive();
  const Package* Find(const std::string& package, const std::string& version) const;
  Result<Ok> AddForces(Import* import, std::vector<std::string>* places, bool candidates) const;
  const Machine* Resolve(std::string_view id, uint32_t version) const;

  const std::string ns_;
  const FindZone zones_;
  const Timestamp now_;
  const bool quotas_;
  const uint16_t partitions_;

  std::string name_;                // of the file
  std::optional<ExportPath> path_;  // likewise; nullopt: none is open
  std::set<std::string> names_;     // of all that have come
  std::string last_;                // the file before, for the order
  std::optional<ExportPath> last_path_;
  uint64_t bytes_ = 0;  // of all that is kept in memory

  std::string text_;  // of a small file
  SpaceFile space_;
  SpaceChange settings_;
  std::vector<rows::TrustedKeyRow> keys_;
  ActiveFile active_;
  std::vector<std::unique_ptr<Text>> definitions_;
  std::vector<Package> packages_;
  std::unique_ptr<ArchiveIntake> archive_;

  std::unique_ptr<rows::CarriedReader> reader_;
  std::vector<Import::Version> versions_;
  std::map<std::string, rows::GroupRow> groups_;
  std::map<std::string, rows::LimitOverride> limits_;  // by key
  std::vector<rows::CarriedRow> graphs_;
  GraphNames graph_names_;
  CarriedSurroundings around_;
  CarriedInstance instance_;  // the one whose rows are coming
  std::string last_instance_;
  RowsByPartition rows_;
  uint64_t instances_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace dfsmr
