// A version of a schedule, trigger or limit, and who hears of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dsrv/engine/registry.h"
#include "fsm/base/time.h"
#include "fsm/when/document.h"

namespace dfsmr {

struct DocumentVersion {
  std::string ns;
  uint32_t version = 0;
  Timestamp define_time;
  Timestamp first_time;  // when the first version was defined, since the last deletion
  std::shared_ptr<const Document> document;
  PackageVersionPtr package = nullptr;  // that this version was defined by; null: by hand
};

// A part that carries out documents of one kind.
class DocumentKeeper {
 public:
  virtual ~DocumentKeeper() = default;
  // A version was added. `first`: none stood before it.
  virtual void Defined(const DocumentVersion& version, bool first) = 0;
  virtual void Deleted(const std::string& ns, const std::string& name) = 0;
};

}  // namespace dfsmr
