// The services by their descriptors: which methods there are, and what the protos' comments say of
// them. Nothing is written per method.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr::http {

using google::protobuf::MethodDescriptor;

// "dfsmr.v1.RunnerService/Start". Null: there is none.
const MethodDescriptor* FindMethod(std::string_view name);
std::string NameOf(const MethodDescriptor& method);
bool OnlyReads(const MethodDescriptor& method);
inline bool Streams(const MethodDescriptor& method) {
  return method.client_streaming() || method.server_streaming();
}

// Of a class that the compiler of protobuf has made.
std::unique_ptr<google::protobuf::Message> NewMessage(const google::protobuf::Descriptor& type);

// The descriptors with the protos' comments, read when they are first needed. Its types are those
// of the protos by name, but not those of FindMethod.
const google::protobuf::DescriptorPool& Documented();
std::vector<const google::protobuf::ServiceDescriptor*> DocumentedServices();
// What stands above it and behind it.
template <typename Descriptor>
std::string CommentOf(const Descriptor& descriptor) {
  google::protobuf::SourceLocation where;
  if (!descriptor.GetSourceLocation(&where)) return {};
  return where.leading_comments + where.trailing_comments;
}

// Whether JSON itself may stand for the field's text: it is documented "JSON object", or is `flow`.
bool TakesJson(const google::protobuf::FieldDescriptor& field);

}  // namespace dfsmr::http
