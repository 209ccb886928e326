// Where rows are read from and written to, and the name that finds an instance's rows. Functions on
// rows take these first: rows::GetSpec({view, partition}, {ns, id}).
#pragma once

#include <string_view>

#include "fsm/rules/instance.h"
#include "storage/store.h"

namespace dfsmr::rows {

// The rows of one partition in a view: of the store, of a snapshot, or of a workspace.
struct Reader {
  const View& view;
  PartitionId partition;
};

// The batch that rows of one partition are written into.
struct Writer {
  Batch& batch;
  PartitionId partition;
};

// Borrows its texts: valid as long as they are.
struct InstanceName {
  InstanceName(std::string_view given_ns, std::string_view given_id) : ns(given_ns), id(given_id) {}
  InstanceName(const Instance& instance) : ns(instance.ns), id(instance.id) {}  // NOLINT: its name

  std::string_view ns;
  std::string_view id;
};

}  // namespace dfsmr::rows
