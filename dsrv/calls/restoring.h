// The instances that an import has brought, on their way from the pieces that home keeps of them
// into the partition where they live: some in each turn.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dsrv/calls/backend.h"
#include "dsrv/engine/imports.h"
#include "storage/rows/carried.h"
#include "storage/rows/package.h"

namespace dfsmr {

struct RestoreOrder {
  std::string ns;
  std::string by;
  rows::UploadId upload;  // of home, with what lives here
  uint32_t pieces = 0;
  GraphNames graphs;
  // All are there, wherever they live: those that begin after others are told of these.
  bool follow = false;
};

class Restoring : public std::enable_shared_from_this<Restoring> {
 public:
  using Done = std::function<void(const Result<Imported>& done)>;
  // It owns itself until `done` is called, once. `ended`: nobody wants it any more. Any thread;
  // where the server stops nobody is told.
  static void Begin(const Backend& backend, RestoreOrder order, std::function<bool()> ended,
                    Done done);

 private:
  struct Private {};
  struct Portion {
    std::map<std::string, rows::GroupRow> groups;
    std::vector<CarriedInstance> instances;
  };

 public:
  Restoring(Private, const Backend& backend, RestoreOrder order, std::function<bool()> ended,
            Done done)
      : backend_(backend),
        order_(std::move(order)),
        ended_(std::move(ended)),
        done_(std::move(done)) {}

 private:
  // In the pool.
  void Next();
  Result<Ok> ReadMore();
  Result<Ok> TakeRow(rows::CarriedRow row);
  Portion TakePortion();
  // In the loop.
  Result<Imported> Bring(Engine& engine, const Portion& portion) const;
  void Took(const Result<Imported>& done);
  void End(const Result<Imported>& done);

  const Backend& backend_;
  const RestoreOrder order_;
  const std::function<bool()> ended_;
  Done done_;
  std::unique_ptr<rows::CarriedReader> reader_;
  std::map<std::string, rows::GroupRow> groups_;
  std::deque<CarriedInstance> ready_;
  uint32_t piece_ = 0;
  Imported sum_;
};

}  // namespace dfsmr
