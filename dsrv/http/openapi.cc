#include "dsrv/http/openapi.h"

#include <google/protobuf/descriptor.h>

#include <map>
#include <set>

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/http/events.h"
#include "dsrv/http/interface.h"
#include "fsm/base/json.h"

namespace dfsmr::http {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

using json::Quote;

// A comment as running text, without the line of dashes that heads a part of a file.
std::string TextOf(std::string comment) {
  std::string text;
  if (const size_t dashes = comment.find("-----"); dashes != comment.npos) {
    const size_t end = comment.find('\n', dashes);
    comment.erase(0, end == comment.npos ? comment.size() : end);
  }
  for (char c : comment) {
    const bool space = c == ' ' || c == '\n' || c == '\t';
    if (!space) {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

template <typename Described>
std::string Description(const Described& described) {
  const std::string text = TextOf(CommentOf(described));
  return text.empty() ? "" : ",\"description\":" + Quote(text);
}

std::string Ref(const std::string& name) {
  return "{\"$ref\":" + Quote("#/components/schemas/" + name) + "}";
}

std::string Content(const std::string& type, const std::string& schema) {
  return "{" + Quote(type) + ":{\"schema\":" + schema + "}}";
}

std::string Answer(const std::string& description, const std::string& content) {
  return "{\"description\":" + Quote(description) +
         (content.empty() ? "" : ",\"content\":" + content) + "}";
}

const char* const kError =
    "{\"type\":\"object\",\"required\":[\"code\"],\"properties\":{\"code\":{\"type\":\"string\"},"
    "\"message\":{\"type\":\"string\"},\"details\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"object\",\"properties\":{\"type\":{\"type\":\"string\"},\"value\":{\"type\":\"string\"},"
    "\"debug\":{\"type\":\"object\"}}}}}}";

// The schemas of messages, each once, with those that they are made of.
class Schemas {
 public:
  std::string Use(const Descriptor& type) {
    const std::string& name = type.full_name();
    if (name == "google.protobuf.Timestamp") return R"({"type":"string","format":"date-time"})";
    if (name == "google.protobuf.Duration") {
      return R"({"type":"string","pattern":"^-?[0-9]+(\\.[0-9]{1,9})?s$"})";
    }
    if (name == "google.protobuf.FieldMask") return R"({"type":"string"})";
    if (made_.emplace(name, "").second) made_[name] = Of(type);
    return Ref(name);
  }

  // Repeated where the field is.
  std::string Parameter(const FieldDescriptor& field) {
    const std::string value = Value(field, false);
    return field.is_repeated() ? "{\"type\":\"array\",\"items\":" + value + "}" : value;
  }

  std::string Text() const {
    std::string text = Quote("Error") + ":" + kError;
    for (const auto& [name, schema] : made_) text += "," + Quote(name) + ":" + schema;
    return "{" + text + "}";
  }

 private:
  std::string Of(const Descriptor& type) {
    std::string fields;
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      fields += (fields.empty() ? "" : ",") + Quote(field.json_name()) + ":" + Field(field);
    }
    return "{\"type\":\"object\",\"properties\":{" + fields + "}" + Description(type) + "}";
  }

  std::string Field(const FieldDescriptor& field) {
    std::string schema;
    if (field.is_map()) {
      schema = "{\"type\":\"object\",\"additionalProperties\":" +
               Value(*field.message_type()->map_value(), TakesJson(field)) + "}";
    } else if (field.is_repeated()) {
      schema = Parameter(field);
    } else {
      schema = Value(field, TakesJson(field));
    }
    schema.insert(schema.size() - 1, Description(field));
    return schema;
  }

  std::string Value(const FieldDescriptor& field, bool takes_json) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Use(*field.message_type());
      case FieldDescriptor::CPPTYPE_ENUM:
        return Enum(*field.enum_type());
      case FieldDescriptor::CPPTYPE_BOOL:
        return R"({"type":"boolean"})";
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        return R"({"type":"number"})";
      case FieldDescriptor::CPPTYPE_INT32:
        return R"({"type":"integer","format":"int32"})";
      case FieldDescriptor::CPPTYPE_UINT32:
        return R"({"type":"integer","format":"uint32","minimum":0})";
      case FieldDescriptor::CPPTYPE_INT64:
        return R"({"type":["string","integer"],"format":"int64"})";
      case FieldDescriptor::CPPTYPE_UINT64:
        return R"({"type":["string","integer"],"format":"uint64"})";
      case FieldDescriptor::CPPTYPE_STRING:
        break;
    }
    if (field.type() == FieldDescriptor::TYPE_BYTES) {
      return R"({"type":"string","contentEncoding":"base64"})";
    }
    return takes_json ? R"({"type":["string","object","array"]})" : R"({"type":"string"})";
  }

  static std::string Enum(const google::protobuf::EnumDescriptor& type) {
    std::string names;
    for (int i = 0; i < type.value_count(); ++i) {
      names += (i > 0 ? "," : "") + Quote(type.value(i)->name());
    }
    return "{\"type\":\"string\",\"enum\":[" + names + "]}";
  }

  std::map<std::string, std::string> made_;
};

std::string Responses(const std::string& answer, const std::string& status = "200") {
  return "{" + Quote(status) + ":" + answer +
         ",\"default\":" + Answer("refused", Content("application/json", Ref("Error"))) + "}";
}

// What a method's path takes, by verb.
std::string PathOf(const MethodDescriptor& method, Schemas* schemas) {
  const std::string type = Streams(method) ? "application/connect+json" : "application/json";
  const std::string id = method.service()->name() + "_" + method.name();
  const std::string common = ",\"tags\":[" + Quote(method.service()->full_name()) + "]" +
                             Description(method) + ",\"responses\":" +
                             Responses(Answer(method.output_type()->full_name(),
                                              Content(type, schemas->Use(*method.output_type()))));
  const std::string input = Content(type, schemas->Use(*method.input_type()));
  std::string path = "{\"post\":{\"operationId\":" + Quote(id) + common +
                     ",\"requestBody\":{\"required\":true,\"content\":" + input + "}}";
  if (OnlyReads(method) && !Streams(method)) {
    path += ",\"get\":{\"operationId\":" + Quote(id + "_get") + common +
            ",\"parameters\":[{\"name\":\"encoding\",\"in\":\"query\",\"required\":true,\"schema\":"
            "{\"const\":\"json\"}},{\"name\":\"message\",\"in\":\"query\",\"content\":" +
            input + "}]}";
  }
  return path + "}";
}

// What an event carries: a reply, or one of those that a reply with a cursor has.
const Descriptor& EventOf(const MethodDescriptor& method) {
  const Descriptor& reply = *method.output_type();
  for (int i = 0; reply.FindFieldByName("cursor") && i < reply.field_count(); ++i) {
    const FieldDescriptor& field = *reply.field(i);
    if (field.is_repeated() && field.message_type()) return *field.message_type();
  }
  return reply;
}

std::string EventsPath(const std::string& id, const MethodDescriptor& method, Schemas* schemas) {
  std::string parameters;
  for (int i = 0; i < method.input_type()->field_count(); ++i) {
    const FieldDescriptor& field = *method.input_type()->field(i);
    parameters += (i > 0 ? "," : "") + std::string("{\"name\":") + Quote(ParameterOf(field)) +
                  ",\"in\":\"query\"" + Description(field) +
                  (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE
                       ? ",\"schema\":" + schemas->Parameter(field) + "}"
                       : ",\"content\":" + Content("application/json", "{}") + "}");
  }
  return "{\"get\":{\"operationId\":" + Quote(id) + ",\"tags\":[\"events\"]" + Description(method) +
         ",\"parameters\":[" + parameters + "],\"responses\":" +
         Responses(Answer("server-sent events",
                          Content("text/event-stream", schemas->Use(EventOf(method))))) +
         "}}";
}

const char* const kObject = R"({"type":"object"})";

// What the door itself serves. `body`: the schema of what it takes; empty: nothing.
std::string Plain(const std::string& verb, const std::string& id, const std::string& told,
                  const std::string& body = "", const std::string& status = "200",
                  const std::string& schema = kObject) {
  return Quote(verb) + ":{\"operationId\":" + Quote(id) + ",\"tags\":[\"door\"]" +
         (body.empty() ? "" : ",\"requestBody\":{\"content\":" + body + "}") +
         ",\"responses\":" +
         Responses(Answer(told, Content("application/json", schema)), status) + "}";
}

std::string DoorPaths(Schemas* schemas) {
  std::string paths;
  paths += ",\"/v1/session\":{" + Plain("get", "session", "who is signed in") + "," +
           Plain("post", "sign_in", "the session that was made",
                 Content("application/json",
                         R"({"type":"object","properties":{"token":)"
                         R"({"type":"string"},"role":{"type":"string"}}})")) +
           "," +
           Plain("delete", "sign_out", "signed out") + "}";
  paths += ",\"/healthz\":{" + Plain("get", "healthz", "the server decides") + "}";
  paths += ",\"/readyz\":{" + Plain("get", "readyz", "the server takes calls") + "}";
  paths += ",\"/openapi.json\":{" + Plain("get", "openapi", "this document") + "}";
  paths +=
      ",\"/hooks/{namespace}/{path}\":{\"parameters\":[{\"name\":\"namespace\",\"in\":\"path\","
      "\"required\":true,\"schema\":{\"type\":\"string\"}},{\"name\":\"path\",\"in\":\"path\","
      "\"required\":true,\"schema\":{\"type\":\"string\"}}]," +
      Plain("post", "hook", "the occurrence of a trigger", Content("*/*", "{}"), "202",
            schemas->Use(*v1::Occurrence::descriptor())) +
      "}";
  return paths;
}

}  // namespace

std::string OpenApi(const std::string& base, bool compat) {
  Schemas schemas;
  std::string paths;
  std::map<std::string, const MethodDescriptor*> methods;
  for (const auto* service : DocumentedServices()) {
    if (!compat && service->full_name() == "DistributedFSMRunner") continue;
    for (int i = 0; i < service->method_count(); ++i) {
      const MethodDescriptor& method = *service->method(i);
      methods[NameOf(method)] = &method;
      if (method.client_streaming() && method.server_streaming()) continue;
      paths +=
          (paths.empty() ? "" : ",") + Quote("/" + NameOf(method)) + ":" + PathOf(method, &schemas);
    }
  }
  for (const char* path : {"/v1/changes", "/v1/watch", "/v1/logs"}) {
    const auto found = methods.find(std::string(EventsMethod(path)));
    if (found == methods.end()) continue;
    paths +=
        "," + Quote(path) + ":" + EventsPath(std::string(path).substr(4), *found->second, &schemas);
  }
  paths += DoorPaths(&schemas);
  return "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"dfsmr\",\"version\":\"1.0.0\"},\"servers\":"
         "[{\"url\":" +
         Quote(base.empty() ? "/" : base) +
         "}],\"security\":[{},{\"bearer\":[]}],"
         "\"paths\":{" +
         paths +
         "},\"components\":{\"securitySchemes\":{\"bearer\":"
         "{\"type\":\"http\",\"scheme\":\"bearer\"}},\"schemas\":" +
         schemas.Text() + "}}";
}

}  // namespace dfsmr::http
