// Items as triggers see them, and what the references of a trigger stand for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dsrv/engine/names.h"
#include "fsm/base/template.h"
#include "fsm/when/trigger.h"
#include "storage/rows/trigger.h"

namespace dfsmr {

// A change as JSON, as clients see it, but with its instance as an object: as it is now. Params,
// then outputs, are left out of an item that would be larger than a JSON object may be.
// `resident` null: the change is about none, or it is gone.
std::string ChangeItem(const Event& change, PartitionId partition, Resident* resident,
                       Residents& residents, const rows::Reader& reader);

// What a trigger starts or sends something with: the items, and what it knows of them.
struct Given {
  std::vector<rows::GatheredItem> items;  // at least one, in the order in which they came
  bool gathered = false;                  // they are of a gathering
  std::string key;                        // the text that they share; empty: of no gathering
  Timestamp time;                         // when the first one came
  std::optional<TraceContext> trace = {};  // of the call that brings the last one; is not kept
  bool deduped = true;                     // `dedupe` has let it pass, as far as there is one

  const rows::GatheredItem& last() const { return items.back(); }
  uint32_t depth() const;
  // What is kept of an occurrence: the item, or the list of them; and the rest, for a retry.
  std::string Item() const;
  std::string Rest() const;
};
// And back. `item` and `rest` are what an occurrence kept, and `time` its time.
Given ReadGiven(const std::string& item, const std::string& rest, Timestamp time);

// What a reference of a trigger stands for. `number` 0: it is not known yet, and neither is the key.
Resolver ResolverOf(std::string_view name, const Given& given, uint64_t number);

}  // namespace dfsmr
