#include "dsrv/http/mapping.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/field_mask.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/field_mask_util.h>
#include <google/protobuf/util/time_util.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "dsrv/http/json_reader.h"
#include "dsrv/http/url.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::util::FieldMaskUtil;
using google::protobuf::util::TimeUtil;

constexpr int kDepth = 64;  // of messages within each other

// A whole number however it is written: "1e3" and 1.0 are some. nullopt: it is none, or does not
// fit.
template <typename Number>
std::optional<Number> ToWhole(std::string_view text) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem == std::errc() && end == text.data() + text.size()) return number;
  double real = 0;
  const auto [stop, wrong] = std::from_chars(text.data(), text.data() + text.size(), real);
  if (wrong != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  constexpr double kMost = 9007199254740992.0;  // beyond it a double skips whole numbers
  if (real != std::floor(real) || std::fabs(real) > kMost) return std::nullopt;
  if (real < static_cast<double>(std::numeric_limits<Number>::min()) ||
      real > static_cast<double>(std::numeric_limits<Number>::max())) {
    return std::nullopt;
  }
  return static_cast<Number>(real);
}

std::optional<double> ToReal(std::string_view text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  double real = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), real);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return real;
}

class Reading {
 public:
  Reading(std::string_view text, const MappingOptions& options) : json_(text), options_(options) {}

  Result<Ok> Read(Message* message) {
    ReadMessage(message, 0);
    json_.End();
    if (problem_.empty() && json_.ok()) return Ok{};
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 problem_.empty() ? "the request is no JSON: " + json_.problem() : problem_};
  }

 private:
  void Bad(const std::string& what) {
    if (problem_.empty() && json_.ok()) problem_ = (path_.empty() ? "" : path_ + ": ") + what;
    json_.Fail("");
  }
  bool ok() const { return json_.ok(); }

  bool TakeNull() {
    if (json_.Peek() != 'n') return false;
    json_.Literal();
    return ok();
  }

  const FieldDescriptor* FieldOf(const Descriptor& type, const std::string& name) const {
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor* field = type.field(i);
      if (field->json_name() == name || field->name() == name) return field;
    }
    return nullptr;
  }

  void NoField(const Descriptor& type, const std::string& name) {
    Nearest nearest(name);
    for (int i = 0; i < type.field_count(); ++i) nearest.Try(type.field(i)->json_name());
    for (int i = 0; i < type.field_count(); ++i) nearest.Try(type.field(i)->name());
    Bad("there is no such field in " + type.full_name() + nearest.Hint());
  }

  void ReadMessage(Message* message, int depth) {
    const Descriptor& type = *message->GetDescriptor();
    if (depth > kDepth) return Bad("the messages are nested too deep");
    if (type.full_name() == "google.protobuf.Timestamp") return ReadTime(message);
    if (type.full_name() == "google.protobuf.Duration") return ReadDuration(message);
    // As a string of names, and as an object as it was read before.
    if (type.full_name() == "google.protobuf.FieldMask" && json_.Peek() == '"') {
      return ReadMask(message);
    }
    if (json_.Peek() != '{') return Bad("a JSON object is expected here: " + type.full_name());
    json_.Take('{');
    if (json_.Take('}')) return;
    const size_t above = path_.size();
    do {
      const std::string name = json_.String();
      json_.Expect(':');
      if (!ok()) return;
      path_ += (path_.empty() ? "" : ".") + OneLine(Head(name, 128));
      const FieldDescriptor* field = FieldOf(type, name);
      if (field) {
        ReadField(message, *field, depth);
      } else if (options_.ignore_unknown) {
        json_.Value();
      } else {
        NoField(type, name);
      }
      if (!ok()) return;
      path_.resize(above);
    } while (json_.Take(','));
    json_.Expect('}');
  }

  // Names of fields in either spelling, parted by commas.
  void ReadMask(Message* message) {
    google::protobuf::FieldMask mask;
    const std::string names = json_.String();
    for (char c : names) {
      if (c == ',' || mask.paths().empty()) mask.add_paths();
      if (c == ',') continue;
      std::string* const path = mask.mutable_paths(mask.paths_size() - 1);
      if (std::isupper(static_cast<unsigned char>(c))) *path += '_';
      *path += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    message->CopyFrom(mask);
  }

  void ReadField(Message* message, const FieldDescriptor& field, int depth) {
    if (TakeNull() || !ok()) return;
    const Reflection& reflection = *message->GetReflection();
    if (field.is_map()) return ReadMap(message, field, depth);
    if (!field.is_repeated()) {
      if (const auto* choice = field.real_containing_oneof();
          choice && reflection.HasOneof(*message, choice)) {
        return Bad("only one field of '" + choice->name() + "' may be set");
      }
      return ReadValue(message, field, depth);
    }
    if (!json_.Take('[')) return Bad("a list is expected here");
    if (json_.Take(']')) return;
    const size_t above = path_.size();
    size_t index = 0;
    do {
      path_ += "[" + std::to_string(index++) + "]";
      if (TakeNull()) return Bad("null is no value of a list");
      ReadValue(message, field, depth);
      if (!ok()) return;
      path_.resize(above);
    } while (json_.Take(','));
    json_.Expect(']');
  }

  void ReadMap(Message* message, const FieldDescriptor& field, int depth) {
    if (!json_.Take('{')) return Bad("a JSON object is expected here");
    if (json_.Take('}')) return;
    const size_t above = path_.size();
    do {
      const std::string key = json_.String();
      json_.Expect(':');
      if (!ok()) return;
      path_ += "[" + json::Quote(Head(key, 128)) + "]";
      Message* entry = message->GetReflection()->AddMessage(message, &field);
      const FieldDescriptor& key_field = *field.message_type()->map_key();
      key_field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? SetString(entry, key_field, key)
                                                              : SetText(entry, key_field, key);
      takes_json_ = options_.takes_json && options_.takes_json(field);
      ReadValue(entry, *field.message_type()->map_value(), depth);
      takes_json_ = false;
      if (!ok()) return;
      path_.resize(above);
    } while (json_.Take(','));
    json_.Expect('}');
  }

  void ReadValue(Message* message, const FieldDescriptor& field, int depth) {
    const Reflection& reflection = *message->GetReflection();
    const char next = json_.Peek();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return ReadMessage(field.is_repeated() ? reflection.AddMessage(message, &field)
                                               : reflection.MutableMessage(message, &field),
                           depth + 1);
      case FieldDescriptor::CPPTYPE_STRING:
        return ReadString(message, field);
      case FieldDescriptor::CPPTYPE_BOOL: {
        const auto value = next == 't' || next == 'f' ? json_.Literal() : std::nullopt;
        if (!value) return Bad("true or false is expected here");
        field.is_repeated() ? reflection.AddBool(message, &field, *value)
                            : reflection.SetBool(message, &field, *value);
        return;
      }
      default:
        if (next == '"') return SetText(message, field, json_.String());
        if (next == '0') return SetText(message, field, std::string(json_.Number()));
        return Bad(field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM
                       ? "a name of " + field.enum_type()->full_name() + " is expected here"
                       : "a number is expected here");
    }
  }

  void ReadString(Message* message, const FieldDescriptor& field) {
    if (json_.Peek() != '"') {
      const bool takes = takes_json_ || (options_.takes_json && options_.takes_json(field));
      if (!takes) return Bad("a string is expected here");
      const std::string text(json_.Value());
      return SetString(message, field, text);
    }
    std::string text = json_.String();
    if (!ok()) return;
    if (field.type() == FieldDescriptor::TYPE_BYTES) {
      auto bytes = FromBase64(text);
      if (!bytes) return Bad("base64 is expected here");
      text = *std::move(bytes);
    }
    SetString(message, field, text);
  }

  void SetString(Message* message, const FieldDescriptor& field, const std::string& text) {
    if (!ok()) return;
    if (field.type() == FieldDescriptor::TYPE_STRING && InvalidUtf8(text)) {
      return Bad("the text is not UTF-8");
    }
    const Reflection& reflection = *message->GetReflection();
    field.is_repeated() ? reflection.AddString(message, &field, text)
                        : reflection.SetString(message, &field, text);
  }

  // A number, a name of an enum, or, as a map's key, a boolean.
  void SetText(Message* message, const FieldDescriptor& field, const std::string& text) {
    if (!ok()) return;
    const Reflection& reflection = *message->GetReflection();
    const auto set = [&](const auto& value, auto add, auto put, const char* what) {
      if (!value) return Bad(Quoted(text) + " is not " + what);
      field.is_repeated() ? (reflection.*add)(message, &field, *value)
                          : (reflection.*put)(message, &field, *value);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return set(ToWhole<int32_t>(text), &Reflection::AddInt32, &Reflection::SetInt32,
                   "a whole number of 32 bits");
      case FieldDescriptor::CPPTYPE_UINT32:
        return set(ToWhole<uint32_t>(text), &Reflection::AddUInt32, &Reflection::SetUInt32,
                   "a whole number of 32 bits from 0");
      case FieldDescriptor::CPPTYPE_INT64:
        return set(ToWhole<int64_t>(text), &Reflection::AddInt64, &Reflection::SetInt64,
                   "a whole number of 64 bits");
      case FieldDescriptor::CPPTYPE_UINT64:
        return set(ToWhole<uint64_t>(text), &Reflection::AddUInt64, &Reflection::SetUInt64,
                   "a whole number of 64 bits from 0");
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return set(ToReal(text), &Reflection::AddDouble, &Reflection::SetDouble, "a number");
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const auto real = ToReal(text);
        return set(real ? std::optional(static_cast<float>(*real)) : std::nullopt,
                   &Reflection::AddFloat, &Reflection::SetFloat, "a number");
      }
      case FieldDescriptor::CPPTYPE_BOOL: {
        const bool known = text == "true" || text == "false";
        return set(known ? std::optional(text == "true") : std::nullopt, &Reflection::AddBool,
                   &Reflection::SetBool, "true or false");
      }
      default:
        return SetEnum(message, field, text);
    }
  }

  void SetEnum(Message* message, const FieldDescriptor& field, const std::string& text) {
    const auto& type = *field.enum_type();
    int number = 0;
    if (const auto* value = type.FindValueByName(text)) {
      number = value->number();
    } else if (const auto given = ToWhole<int32_t>(text)) {
      number = *given;
    } else {
      Nearest nearest(text);
      for (int i = 0; i < type.value_count(); ++i) nearest.Try(type.value(i)->name());
      return Bad(Quoted(text) + " is not a name of " + type.full_name() + nearest.Hint());
    }
    const Reflection& reflection = *message->GetReflection();
    field.is_repeated() ? reflection.AddEnumValue(message, &field, number)
                        : reflection.SetEnumValue(message, &field, number);
  }

  void ReadTime(Message* message) {
    const std::string text = json_.Peek() == '"' ? json_.String() : "";
    google::protobuf::Timestamp time;
    if (text.empty() || !TimeUtil::FromString(text, &time)) {
      return Bad("a time is expected here, such as \"2026-01-31T08:00:00Z\"");
    }
    message->CopyFrom(time);
  }

  void ReadDuration(Message* message) {
    const std::string text = json_.Peek() == '"' ? json_.String() : "";
    google::protobuf::Duration duration;
    if (text.empty() || !TimeUtil::FromString(text, &duration)) {
      return Bad("seconds are expected here, such as \"1.5s\"");
    }
    message->CopyFrom(duration);
  }

  JsonReader json_;
  const MappingOptions& options_;
  std::string path_;
  std::string problem_;
  bool takes_json_ = false;  // the values of the map that is read
};

// ToJson -----------------------------------------------------------------------------------------

std::string RealText(double real) {
  if (std::isnan(real)) return "\"NaN\"";
  if (std::isinf(real)) return real > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, real).ptr;
  return {text, end};
}

std::string RealText(float real) {
  if (!std::isfinite(real)) return RealText(static_cast<double>(real));
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, real).ptr;
  return {text, end};
}

std::string Quotes(const std::string& text) { return '"' + text + '"'; }

void WriteMessage(const Message& message, std::string* out);

// `index` -1: the field is not repeated.
void WriteValue(const Message& message, const FieldDescriptor& field, int index, std::string* out) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto one, auto item) {
    return index < 0 ? (reflection.*one)(message, &field)
                     : (reflection.*item)(message, &field, index);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      *out += std::to_string(get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      *out += std::to_string(get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      *out += Quotes(std::to_string(get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64)));
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      *out += Quotes(std::to_string(get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64)));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      *out += RealText(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
      return;
    case FieldDescriptor::CPPTYPE_FLOAT:
      *out += RealText(get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      *out += get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false";
      return;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue);
      const auto* value = field.enum_type()->FindValueByNumber(number);
      *out += value ? Quotes(value->name()) : std::to_string(number);
      return;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = get(&Reflection::GetString, &Reflection::GetRepeatedString);
      *out += field.type() == FieldDescriptor::TYPE_BYTES ? Quotes(ToBase64(text, true))
                                                          : json::Quote(text);
      return;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return WriteMessage(index < 0 ? reflection.GetMessage(message, &field)
                                    : reflection.GetRepeatedMessage(message, &field, index),
                          out);
  }
}

void WriteMap(const Message& message, const FieldDescriptor& field, std::string* out) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& key = *field.message_type()->map_key();
  const FieldDescriptor& value = *field.message_type()->map_value();
  std::map<std::string, int> places;  // a protobuf map has no order, and readers want one
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    std::string name;
    WriteValue(reflection.GetRepeatedMessage(message, &field, i), key, -1, &name);
    places.emplace(name.starts_with('"') ? std::move(name) : Quotes(name), i);
  }
  *out += '{';
  bool first = true;
  for (const auto& [name, place] : places) {
    if (!std::exchange(first, false)) *out += ',';
    *out += name;
    *out += ':';
    WriteValue(reflection.GetRepeatedMessage(message, &field, place), value, -1, out);
  }
  *out += '}';
}

void WriteField(const Message& message, const FieldDescriptor& field, std::string* out) {
  if (field.is_map()) return WriteMap(message, field, out);
  if (!field.is_repeated()) return WriteValue(message, field, -1, out);
  *out += '[';
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    if (i > 0) *out += ',';
    WriteValue(message, field, i, out);
  }
  *out += ']';
}

void WriteMessage(const Message& message, std::string* out) {
  const std::string& type = message.GetDescriptor()->full_name();
  if (type == "google.protobuf.Timestamp") {
    google::protobuf::Timestamp time;
    time.CopyFrom(message);
    *out += Quotes(TimeUtil::ToString(time));
    return;
  }
  if (type == "google.protobuf.Duration") {
    google::protobuf::Duration duration;
    duration.CopyFrom(message);
    *out += Quotes(TimeUtil::ToString(duration));
    return;
  }
  if (type == "google.protobuf.FieldMask") {
    google::protobuf::FieldMask mask;
    mask.CopyFrom(message);
    std::string names;
    if (FieldMaskUtil::ToJsonString(mask, &names)) {
      *out += Quotes(names);
      return;
    }
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  *out += '{';
  bool first = true;
  for (const FieldDescriptor* field : fields) {
    if (!std::exchange(first, false)) *out += ',';
    *out += Quotes(field->json_name());
    *out += ':';
    WriteField(message, *field, out);
  }
  *out += '}';
}

}  // namespace

Result<Ok> FromJson(std::string_view text, const MappingOptions& options, Message* message) {
  return Reading(text, options).Read(message);
}

std::string ToJson(const Message& message) {
  std::string out;
  WriteMessage(message, &out);
  return out;
}

}  // namespace dfsmr::http
