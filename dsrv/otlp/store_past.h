// What the store knows of instances, for the tracker.
#pragma once

#include "dsrv/engine/reader.h"
#include "dsrv/otlp/tracker.h"

namespace dfsmr::otlp {

// One thread.
class StorePast final : public Past {
 public:
  explicit StorePast(const Reader& reader) : reader_(reader) {}
  std::optional<Origin> OriginOf(const Event& event) override;
  std::vector<Event> Before(const Event& event) override;
  std::string QueueOf(const Event& event, const std::string& node) override;

 private:
  const Reader reader_;
};

}  // namespace dfsmr::otlp
