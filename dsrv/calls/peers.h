// PeerService: what the fronts of servers that share a store ask of a partition, for a worker whose
// Ready is for all of them, or for a watcher of a partition that cannot be reached.
#pragma once

#include <string>
#include <vector>

#include "dfsmr/peer.pb.h"
#include "dsrv/calls/call.h"

namespace dfsmr {

void ToProto(const Agenda::Level& level, peer::PeekResponse::Level* out);
void ServePeek(Call& call, const v1::ReadyRequest& request, peer::PeekResponse* reply);
// Reads the feed of another partition from the store that all share.
void ServeReadFeed(Call& call, const peer::ReadFeedRequest& request, peer::ReadFeedResponse* reply);

// What names the claims.
std::vector<Task> ToTasks(const std::string& ns,
                          const google::protobuf::RepeatedPtrField<peer::Claim>& claims);

struct GiveBackCommand {
  std::vector<Task> tasks;
  bool perhaps = false;
};
Result<GiveBackCommand> ParseGiveBack(const peer::GiveBackRequest& request, const Call& call);
Result<Ok> RunGiveBack(Engine& engine, const Caller& caller, GiveBackCommand& command);
void ReplyGiveBack(const Ok& done, const GiveBackCommand& command, peer::GiveBackResponse* reply);

}  // namespace dfsmr
