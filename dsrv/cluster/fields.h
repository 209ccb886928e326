// How fields of the same message are joined that come from several partitions. Fields are given by
// name; each is a number, a time or a duration.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <initializer_list>

namespace dfsmr {

using FieldNames = std::initializer_list<const char*>;

// Numbers only.
void AddNumbers(const google::protobuf::Message& part, FieldNames names,
           google::protobuf::Message* sum);
void AddDurations(const google::protobuf::Message& part, FieldNames names,
                  google::protobuf::Message* sum);
// What is absent is not greater than anything, and not less.
void TakeGreater(const google::protobuf::Message& part, FieldNames names,
                 google::protobuf::Message* sum);
void TakeLess(const google::protobuf::Message& part, FieldNames names,
              google::protobuf::Message* sum);

}  // namespace dfsmr
