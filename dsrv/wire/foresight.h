// What would become of an instance if a bulk got to it now. The rules decide when it does; this
// says what they would say of the instance as it is shown.
#pragma once

#include "dsrv/engine/types.h"
#include "dsrv/wire/moment.h"
#include "storage/rows/bulk.h"

namespace dfsmr {

struct Foresight {
  enum class Outcome : uint8_t { kChanged, kUnchanged, kRefused };
  Outcome outcome = Outcome::kChanged;
  Reason reason = Reason::kNone;  // kRefused
};

Foresight Foresee(const Moment& moment, const InstanceView& view, const rows::BulkRow& row);

}  // namespace dfsmr
