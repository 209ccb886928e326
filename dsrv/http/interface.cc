#include "dsrv/http/interface.h"

#include <google/protobuf/descriptor.pb.h>

#include <set>

#include "dsrv/http/embedded.h"
#include "fsm/base/result.h"

namespace dfsmr::http {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

struct Documents {
  Documents() {
    Check(files.ParseFromArray(embedded::Protos().data(),
                               static_cast<int>(embedded::Protos().size())),
          "the descriptors of the build can be read");
    for (const auto& file : files.file()) pool.BuildFile(file);
    for (const auto& file : files.file()) {
      const auto* found = pool.FindFileByName(file.name());
      for (int i = 0; found && i < found->message_type_count(); ++i) Note(*found->message_type(i));
    }
  }

  void Note(const Descriptor& type) {
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const bool flow = field.name() == "flow" && field.type() == FieldDescriptor::TYPE_STRING;
      if (flow || CommentOf(field).find("JSON object") != std::string::npos) {
        json.insert(field.full_name());
      }
    }
    for (int i = 0; i < type.nested_type_count(); ++i) Note(*type.nested_type(i));
  }

  google::protobuf::FileDescriptorSet files;
  DescriptorPool pool;
  std::set<std::string, std::less<>> json;  // full names of fields
};

const Documents& TheDocuments() {
  static const Documents documents;
  return documents;
}

}  // namespace

const MethodDescriptor* FindMethod(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return nullptr;
  const auto* service =
      DescriptorPool::generated_pool()->FindServiceByName(std::string(name.substr(0, slash)));
  const bool of_door = service && service->file()->package() == "dfsmr.door";
  if (!service || of_door) return nullptr;
  return service->FindMethodByName(std::string(name.substr(slash + 1)));
}

std::string NameOf(const MethodDescriptor& method) {
  return method.service()->full_name() + "/" + method.name();
}

bool OnlyReads(const MethodDescriptor& method) {
  return method.options().idempotency_level() == google::protobuf::MethodOptions::NO_SIDE_EFFECTS;
}

std::unique_ptr<google::protobuf::Message> NewMessage(const Descriptor& type) {
  const auto* prototype =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
  Check(prototype != nullptr, "each message of a service has a class");
  return std::unique_ptr<google::protobuf::Message>(prototype->New());
}

const DescriptorPool& Documented() { return TheDocuments().pool; }

std::vector<const google::protobuf::ServiceDescriptor*> DocumentedServices() {
  std::vector<const google::protobuf::ServiceDescriptor*> services;
  for (const auto& file : TheDocuments().files.file()) {
    const auto* found = Documented().FindFileByName(file.name());
    for (int i = 0; found && i < found->service_count(); ++i) {
      services.push_back(found->service(i));
    }
  }
  return services;
}

bool TakesJson(const FieldDescriptor& field) {
  return TheDocuments().json.contains(field.full_name());
}

}  // namespace dfsmr::http
