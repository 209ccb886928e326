// Turns values into the messages of dfsmr.v1, and errors into gRPC's status.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/engine/engine.h"
#include "fsm/base/diagnostic.h"

namespace dfsmr {

grpc::Status ToStatus(const Error& error);
void ToProto(Timestamp t, google::protobuf::Timestamp* out);
void ToProto(Duration d, google::protobuf::Duration* out);
void ToProto(const Error& error, v1::Error* out);
void ToProto(const Diagnostic& diagnostic, v1::Diagnostic* out);
void ToProto(const Defined& defined, v1::Defined* out);
void ToProto(const PackageVersion& package, v1::PackageRef* out);
void ToProto(const MachineView& view, v1::Machine* out);
void ToProto(const Node& node, const Machine& machine, v1::Node* out);
void ToProto(const WaitView& wait, v1::Wait* out);
void ToProto(const InstanceView& view, v1::Instance* out);
// Without params, outputs and labels, and with few of its tokens.
void ToProtoBrief(const InstanceView& view, v1::Instance* out);
void ToProto(const Task& task, v1::Task* out);
void ToProto(const std::string& instance, const Answer& answer, v1::TransitionResponse* out);
void ToProto(const std::string& instance, const Result<Answer>& answer, v1::TransitionResult* out);
void ToProto(const Extended& extended, v1::ExtendResponse::Item* out);
void ToProto(const Event& event, PartitionId partition, v1::Change* out);

}  // namespace dfsmr
