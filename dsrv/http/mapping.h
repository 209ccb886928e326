// Messages as JSON, and back: the mapping of proto3 without default values, by descriptors. Where a
// field is documented "JSON object" (and in `flow`) JSON itself may stand instead of a string of
// it; its text is kept byte for byte.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr::http {

// Which fields take JSON itself. Any thread.
using JsonRule = bool (*)(const google::protobuf::FieldDescriptor&);

struct MappingOptions {
  JsonRule takes_json = nullptr;
  bool ignore_unknown = false;
};

// Fills in the message, which is empty. BAD_REQUEST with the path of what is wrong, such as
// "starts[3].prams", and the nearest field's name where there is no such field.
Result<Ok> FromJson(std::string_view text, const MappingOptions& options,
                    google::protobuf::Message* message);

std::string ToJson(const google::protobuf::Message& message);

}  // namespace dfsmr::http
