// What instances of other partitions than home wait for under limits: home decides for all, and so
// knows who holds the keys, and whose turn comes first. It is asked when somebody looks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/engine/types.h"

namespace dfsmr {

struct Backend;

// What one waits for; it lives until all is done.
struct WaitsRef {
  std::string instance;
  InstanceWaits* waits;
};
// Any thread. Calls `done` once, from any thread, when home's answers are filled in. Without an
// answer within half a second they are as they were: keys without numbers.
void ExplainWaits(const Backend& backend, const std::string& ns, const std::vector<WaitsRef>& all,
                  std::function<void()> done);
// The same of one; null: it waits for nothing.
using SharedWaits = std::shared_ptr<const InstanceWaits>;
void ExplainWaits(const Backend& backend, const std::string& ns, const std::string& instance,
                  SharedWaits& waits, std::function<void()> done);

}  // namespace dfsmr
