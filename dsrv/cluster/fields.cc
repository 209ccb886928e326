#include "dsrv/cluster/fields.h"

#include <google/protobuf/descriptor.h>

#include <cmath>
#include <compare>

#include "fsm/base/result.h"

namespace dfsmr {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor& FieldOf(const Message& message, const char* name) {
  const auto* const field = message.GetDescriptor()->FindFieldByName(name);
  Check(field && !field->is_repeated(), name);
  return *field;
}

void AddField(const Message& part, const FieldDescriptor& field, Message* sum) {
  const auto& in = *part.GetReflection();
  const auto& out = *sum->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return out.SetUInt32(sum, &field, out.GetUInt32(*sum, &field) + in.GetUInt32(part, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return out.SetUInt64(sum, &field, out.GetUInt64(*sum, &field) + in.GetUInt64(part, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return out.SetDouble(sum, &field, out.GetDouble(*sum, &field) + in.GetDouble(part, &field));
    default:
      Check(false, "only numbers are added up");
  }
}

// Times and durations have the same two fields.
struct SecondsAndNanos {
  int64_t seconds = 0;
  int32_t nanos = 0;
  friend auto operator<=>(const SecondsAndNanos&, const SecondsAndNanos&) = default;
};

SecondsAndNanos InstantOf(const Message& message, const FieldDescriptor& field) {
  const Message& in = message.GetReflection()->GetMessage(message, &field);
  return {in.GetReflection()->GetInt64(in, &FieldOf(in, "seconds")),
          in.GetReflection()->GetInt32(in, &FieldOf(in, "nanos"))};
}

std::partial_ordering Compare(const Message& a, const Message& b, const FieldDescriptor& field) {
  const auto& in = *a.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return in.GetUInt32(a, &field) <=> in.GetUInt32(b, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return in.GetUInt64(a, &field) <=> in.GetUInt64(b, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return in.GetDouble(a, &field) <=> in.GetDouble(b, &field);
    default:
      return InstantOf(a, field) <=> InstantOf(b, field);
  }
}

void CopyField(const Message& part, const FieldDescriptor& field, Message* sum) {
  const auto& in = *part.GetReflection();
  const auto& out = *sum->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return out.SetUInt32(sum, &field, in.GetUInt32(part, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return out.SetUInt64(sum, &field, in.GetUInt64(part, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return out.SetDouble(sum, &field, in.GetDouble(part, &field));
    default:
      out.MutableMessage(sum, &field)->CopyFrom(in.GetMessage(part, &field));
  }
}

bool IsAbsent(const Message& message, const FieldDescriptor& field) {
  return field.has_presence() && !message.GetReflection()->HasField(message, &field);
}

template <typename Better>
void TakeBetter(const Message& part, FieldNames names, Message* sum, Better better) {
  for (const char* const name : names) {
    const FieldDescriptor& field = FieldOf(part, name);
    if (IsAbsent(part, field)) continue;
    if (IsAbsent(*sum, field) || better(Compare(part, *sum, field))) CopyField(part, field, sum);
  }
}

double SecondsOf(const Message& message, const FieldDescriptor& field) {
  const SecondsAndNanos instant = InstantOf(message, field);
  return static_cast<double>(instant.seconds) + instant.nanos / 1e9;
}

void SetSeconds(double seconds, const FieldDescriptor& field, Message* message) {
  Message* const out = message->GetReflection()->MutableMessage(message, &field);
  const int64_t micros = std::llround(seconds * 1e6);  // as exact as all durations
  out->GetReflection()->SetInt64(out, &FieldOf(*out, "seconds"), micros / 1'000'000);
  out->GetReflection()->SetInt32(out, &FieldOf(*out, "nanos"),
                                 static_cast<int32_t>(micros % 1'000'000) * 1'000);
}

}  // namespace

void AddNumbers(const Message& part, FieldNames names, Message* sum) {
  for (const char* const name : names) AddField(part, FieldOf(part, name), sum);
}

void AddDurations(const Message& part, FieldNames names, Message* sum) {
  for (const char* const name : names) {
    const FieldDescriptor& field = FieldOf(part, name);
    if (IsAbsent(part, field)) continue;
    SetSeconds(SecondsOf(part, field) + SecondsOf(*sum, field), field, sum);
  }
}

void TakeGreater(const Message& part, FieldNames names, Message* sum) {
  TakeBetter(part, names, sum, [](std::partial_ordering order) { return order > 0; });
}

void TakeLess(const Message& part, FieldNames names, Message* sum) {
  TakeBetter(part, names, sum, [](std::partial_ordering order) { return order < 0; });
}

}  // namespace dfsmr
