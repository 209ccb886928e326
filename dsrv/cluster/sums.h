// How the replies of all partitions to a call become one: Add for each but the first, then Finish.
// In any order, but that what is not a number is the first one's. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dfsmr.pb.h"
#include "dfsmr/v1/agent.pb.h"
#include "dfsmr/v1/cluster.pb.h"
#include "dfsmr/v1/package.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dfsmr/v1/schedule.pb.h"
#include "dfsmr/v1/view.pb.h"

namespace dfsmr {

// Counts are added up. Of breakers the worst counts; home has learnt from all partitions.
void Add(const v1::Machine& part, v1::Machine* sum);
// What it uses.
void Add(const v1::Namespace& part, v1::Namespace* sum);
// What it has in hand, and has done.
void Add(const v1::Agent& part, v1::Agent* sum);
void Finish(v1::Agent* sum);
void Add(const v1::EvictAgentResponse& part, v1::EvictAgentResponse* sum);
void Add(const v1::QueueRow& part, v1::QueueRow* sum);
void Add(const v1::WorkerRow& part, v1::WorkerRow* sum);
// Of a built-in key.
v1::Limit JoinParts(const v1::GetLimitRequest& request, std::vector<v1::Limit> parts);
void Add(const v1::Overview& part, v1::Overview* sum);
void Finish(v1::Overview* sum);
void Add(const v1::Cluster& part, v1::Cluster* sum);
void Add(const ::InstancesReply& part, ::InstancesReply* sum);
void Finish(::InstancesReply* sum);

// Of two breakers' states.
std::string WorseBreaker(const std::string& a, const std::string& b);

// Other replies are whole as they are.
template <typename Reply>
void Finish(Reply*) {}
// `parts`: what partitions reply to `request`.
template <typename Request, typename Reply>
Reply JoinParts(const Request&, std::vector<Reply> parts) {
  Reply sum = std::move(parts.front());
  for (size_t i = 1; i < parts.size(); ++i) Add(parts[i], &sum);
  Finish(&sum);
  return sum;
}

// These servers have not answered. Of most replies nobody can tell.
template <typename Message>
void NoteMissing(const std::vector<std::string>&, Message*) {}
void NoteMissing(const std::vector<std::string>& servers, v1::Machine* sum);
void NoteMissing(const std::vector<std::string>& servers, v1::ListMachinesResponse* sum);
void NoteMissing(const std::vector<std::string>& servers, v1::Overview* sum);

}  // namespace dfsmr
