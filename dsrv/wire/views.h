// What people look at, as messages.
#pragma once

#include <string>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/pulse.h"
#include "fsm/base/time.h"

namespace dfsmr {

void ToProto(const Tally& tally, v1::Tally* out);
void ToProto(const MachineTally& machine, v1::MachineRow* out);
void ToProto(const QueueView& queue, v1::QueueRow* out);
void ToProto(const WorkerView& worker, v1::WorkerRow* out);
void ToProto(Timestamp begin, const MinuteCounts& counts, v1::Minute* out);
void ToProto(const SlowNodeView& node, v1::SlowNode* out);
void ToProto(const TroubleView& trouble, v1::Trouble* out);
void ToProto(const Histogram& histogram, v1::GetDurationsResponse* out);

// The filters that a page token is valid for.
std::string FiltersOf(const v1::CountInstancesRequest& request);
std::string FiltersOf(const v1::ListQueuesRequest& request);
std::string FiltersOf(const v1::ListWorkersRequest& request);
// Where a row stands in its list.
std::string PlaceOf(const v1::QueueRow& row);

// How full a limit is, from 0 to 1; more when somebody waits.
double FillOf(const v1::Limit& limit);
inline constexpr int kSlowShown = 10;
// Puts what an overview shows into its order, and leaves out what is more than it may show.
void Arrange(v1::Overview* overview);

}  // namespace dfsmr
