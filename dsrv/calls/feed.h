// Changes of dfsmr.v1: where in the feed a stream begins, and how its messages are made.
#pragma once

#include <deque>
#include <string>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/changes_stream.h"

namespace dfsmr {

// OUT_OF_RANGE for a cursor that is expired, or of another store.
Result<ChangesStream::Open> ToOpen(const Backend& backend, const v1::ChangesRequest& request);

// A ChangesResponse from changes that are serialised already. All whom it goes to share its bytes.
void EncodeResponse(const Changes::PortionPtr& portion, const std::string& cursor,
                    std::deque<grpc::ByteBuffer>* out);

// A change as a field of ChangesResponse would hold it.
std::string SerialiseChange(const Event& event, PartitionId partition);

}  // namespace dfsmr
