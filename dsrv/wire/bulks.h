// Bulks as messages, and how their instances are found.
#pragma once

#include <string>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "dsrv/wire/moment.h"
#include "storage/rows/bulk.h"

namespace dfsmr {

struct BulkCommand {
  std::string ns;
  std::string id;
  rows::BulkRow row;
};
// BAD_FILTER, BAD_REQUEST, TOO_LARGE.
Result<BulkCommand> ToBulk(const v1::StartBulkRequest& request, Timestamp now);
void ToProto(const BulkView& view, v1::Bulk* out);

// The next instances that a bulk finds behind the place where it is. Reads the store: for the pool.
Result<BulkPortion> FindForBulk(const Reader& reader, const std::string& ns,
                                const rows::BulkRow& row, Timestamp now);

// Adds to `row` what would become of the instances, as far as two seconds go, and to `sample` the
// first that would be changed. True: it got to the end.
Result<bool> Foresee(const Reader& reader, const std::string& ns, Timestamp now,
                     rows::BulkRow* row);

}  // namespace dfsmr
