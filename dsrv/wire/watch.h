// What Watch is asked, and when what is watched has changed.
#pragma once

#include <chrono>
#include <string>

#include "dfsmr/v1/view.pb.h"
#include "fsm/base/result.h"

namespace dfsmr {

// How often it is looked. BAD_REQUEST, TOO_LARGE.
Result<std::chrono::milliseconds> CheckWatch(const v1::WatchRequest& request);

// The same message has the same bytes.
std::string BytesOf(const google::protobuf::Message& message);
// Without what changes all the time by itself.
std::string ComparableBytes(const v1::WatchResponse& message);

}  // namespace dfsmr
