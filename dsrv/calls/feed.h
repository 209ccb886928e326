// Changes of dfsmr.v1: where a stream begins in the feed, and how its messages are made.
#pragma once

#include <deque>
#include <string>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/changes_stream.h"

namespace dfsmr {

// OUT_OF_RANGE when the cursor has expired, or belongs to another store.
Result<ChangesStream::Open> ToOpen(const Backend& backend, const v1::ChangesRequest& request);

// Makes a ChangesResponse of changes that are serialised already. All its receivers share its
// bytes.
void EncodeResponse(const Changes::PortionPtr& portion, const std::string& cursor,
                    std::deque<grpc::ByteBuffer>* out);

// A change, serialised as it is within a ChangesResponse.
std::string SerialiseChange(const Event& event, PartitionId partition);

}  // namespace dfsmr
