// Records to bytes and back, for code that changes some of their fields.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <string>
#include <string_view>

#include "storage/rows/keys.h"

namespace dfsmr::rows {

// kDataLoss: it is damaged; `what` names it.
template <typename Record>
Result<Record> ParseRow(std::string_view key, std::string_view value, std::string_view what) {
  Record record;
  if (!record.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Corrupt(what, key);
  }
  return record;
}

// The same bytes each time, maps included: a copy is compared with what its source becomes when it
// is read once more.
inline std::string Serialized(const google::protobuf::MessageLite& record) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    record.SerializeToCodedStream(&out);
  }
  return bytes;
}

}  // namespace dfsmr::rows
