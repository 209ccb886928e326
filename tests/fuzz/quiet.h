// For targets that let protobuf read what is damaged: it has a line to say about each bad byte.
#pragma once

#include <google/protobuf/stubs/logging.h>

namespace dfsmr {

inline const auto kLogHandlerBefore = google::protobuf::SetLogHandler(nullptr);

}  // namespace dfsmr
