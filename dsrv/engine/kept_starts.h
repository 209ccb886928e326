// Starts that a worker has asked for, as rows keep them, and as messages carry them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dsrv/engine/types.h"
#include "fsm/base/result.h"
#include "storage/rows/message.h"
#include "storage/rows/plan.h"

namespace dfsmr {

// Those of a report that waits for the resume of its instance: what its caller has chosen, as the
// rows keep it; empty: there are none.
std::string KeepStarts(const std::vector<StartArgs>& starts);
// REQUIRES: KeepStarts has made `text`.
Result<std::vector<StartArgs>> ReadStarts(std::string_view text, const EngineOptions& options);

// One that is to be started in another partition, and back.
rows::Message::Begin ToBegin(const StartArgs& args, rows::Message::Asker asker);
Result<StartArgs> ReadBegin(const rows::Message::Begin& begin, const EngineOptions& options);

// What a stored start says beside machine, version, id and priority. An error: its flow cannot be
// read.
Result<Ok> AsAsked(const rows::ChildStart& start, const EngineOptions& options, StartArgs* args);

}  // namespace dfsmr
