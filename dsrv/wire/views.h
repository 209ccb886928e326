// What people look at, as messages.
#pragma once

#include "dfsmr/v1/view.pb.h"
#include "dsrv/engine/histogram.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/troubles.h"

namespace dfsmr {

void ToProto(const Tally& tally, v1::Tally* out);
void ToProto(const MachineTally& machine, v1::MachineRow* out);
void ToProto(const QueueView& queue, v1::QueueRow* out);
void ToProto(const WorkerView& worker, v1::WorkerRow* out);
void ToProto(Timestamp begin, const MinuteCounts& counts, v1::Minute* out);
void ToProto(const SlowNodeView& node, v1::SlowNode* out);
void ToProto(const TroubleView& trouble, v1::Trouble* out);
void ToProto(const Histogram& histogram, v1::GetDurationsResponse* out);

}  // namespace dfsmr
