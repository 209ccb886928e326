// Bulks: one thing done to all instances that a filter finds, or to those that are listed, in the
// background, in the order of their ids. Threads of the pool find the instances, some at a time,
// and the engine changes them. Each portion of changes and the place that was reached are one
// batch: so after a crash a bulk goes on where it was, and does nothing twice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "storage/rows/bulk.h"

namespace dfsmr {

// NO_SUCH_BULK.
Error NoSuchBulk(const std::string& ns, const std::string& id);

struct BulkView {
  std::string ns;
  std::string id;
  rows::BulkRow row;
};

class Bulks {
 public:
  static constexpr size_t kMostRunning = 16;  // of a namespace

  Bulks(OpenTurn& turn, const Catalog& catalog, Residents& residents, Control& control,
        Measures& measures, const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        residents_(residents),
        control_(control),
        measures_(measures),
        options_(options) {}
  Bulks(const Bulks&) = delete;
  Bulks& operator=(const Bulks&) = delete;

  // At start: those that run go on.
  Result<Ok> Recover();

  // `id` empty: one is made. The same id again: the bulk that exists, whatever is asked. TOO_MANY.
  Result<BulkView> Start(const std::string& ns, const std::string& id, rows::BulkRow asked);
  Result<BulkView> Get(const std::string& ns, const std::string& id) const;
  // Newest first.
  std::vector<BulkView> List(const std::string& ns) const;
  Result<BulkView> Stop(const std::string& ns, const std::string& id);
  // The namespace goes.
  void Forget(const std::string& ns);

  // Goes on with the bulks that run, in turn: some instances in each pass.
  void Work();
  // At the end of a turn: writes the rows of those that have changed.
  void Write();

 private:
  using Name = std::pair<std::string, std::string>;
  struct Bulk {
    rows::BulkRow row;
    enum class Stage : uint8_t {
      kSettling,   // what is in memory only is being written, so that the search sees it
      kSearching,  // in the pool
      kChanging,   // `found` is worked through
    };
    Stage stage = Stage::kSettling;
    uint64_t settled = 0;  // the turn in which all was settled; 0: none yet
    uint64_t search = 0;   // the number of the search under way: an older one's answer is dropped
    BulkPortion found;
    size_t next = 0;   // of found.hits
    size_t again = 0;  // how often the next one had changed since it was found
    bool dirty = false;
  };

  bool GoOn(const Name& name, Bulk& bulk);
  void Search(const Name& name, Bulk& bulk);
  void Found(const Name& name, uint64_t search, Result<BulkPortion> portion);
  bool ChangeSome(const Name& name, Bulk& bulk);
  // False: it has changed since it was found, and is to be looked at again.
  bool ChangeOne(const Name& name, Bulk& bulk, const BulkHit& hit);
  Result<Ok> Do(const Name& name, const rows::BulkRow& row, const std::string& id);
  Result<Ok> DoAtNodes(const Name& name, const rows::BulkRow& row, Resident& resident,
                       const ChangedBy& by);
  void End(const Name& name, Bulk& bulk, rows::BulkState state);
  void MarkDirty(const Name& name, Bulk& bulk);
  size_t RunningIn(const std::string& ns) const;

  void DropOld();

  OpenTurn& turn_;
  const Catalog& catalog_;
  Residents& residents_;
  Control& control_;
  Measures& measures_;
  const EngineOptions& options_;
  std::map<Name, Bulk> bulks_;
  std::vector<Name> running_;  // in turn
  std::vector<Name> dirty_;
  uint64_t searches_ = 0;
};

}  // namespace dfsmr
