#include "dsrv/http/events.h"

#include <algorithm>
#include <map>

#include "dfsmr/v1/agent.pb.h"
#include "dfsmr/v1/runner.pb.h"
#include "dsrv/feed/cursor.h"
#include "dsrv/http/failure.h"
#include "dsrv/http/interface.h"
#include "dsrv/http/mapping.h"
#include "dsrv/http/service_stream.h"
#include "dsrv/http/unary.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr std::string_view kChanges = "dfsmr.v1.RunnerService/Changes";
constexpr std::string_view kWatch = "dfsmr.v1.ViewService/Watch";
constexpr std::string_view kLogs = "dfsmr.v1.AgentService/ReadLogs";

const FieldDescriptor* FieldOf(const Descriptor& type, const std::string& name) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->json_name() == name || field->name() == name) return field;
    if (field->is_repeated() && field->name() == name + "s") return field;
  }
  return nullptr;
}

// A parameter as the JSON of its field.
std::string ValueOf(const FieldDescriptor& field, const std::string& text) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      // JSON as it stands; that of a duration or a time is a string, whose quotes may be left out.
      using WellKnown = Descriptor::WellKnownType;
      const auto known = field.message_type()->well_known_type();
      const bool quoted = known == WellKnown::WELLKNOWNTYPE_DURATION ||
                          known == WellKnown::WELLKNOWNTYPE_TIMESTAMP;
      return quoted && !text.starts_with('"') ? json::Quote(text) : text;
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text == "true" || text == "false") return text;
      return text.empty() ? "true" : json::Quote(text);
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::string upper = text;
      for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      return json::Quote(upper);
    }
    default:
      return json::Quote(text);
  }
}

// Without both it is a comment, which shows that the server is there.
void AppendEvent(const std::string& id, const std::string& data, std::string* out) {
  if (id.empty() && data.empty()) *out += ":\n";
  if (!id.empty()) *out += "id: " + id + "\n";
  if (!data.empty()) *out += "data: " + data + "\n";
  *out += "\n";
}

std::string ChangesText(const std::string& bytes) {
  v1::ChangesResponse response;
  std::string text;
  if (!response.ParseFromString(bytes)) return text;
  auto cursor = ParseCursor(response.cursor());
  for (int i = 0; i < response.changes_size(); ++i) {
    const v1::Change& change = response.changes(i);
    std::string id = response.cursor();
    if (cursor && change.partition() < cursor->seqs.size() && i + 1 < response.changes_size()) {
      cursor->seqs[change.partition()] = change.seq();
      id = CursorText(*cursor);
    }
    AppendEvent(id, ToJson(change), &text);
  }
  if (response.changes_size() == 0) AppendEvent(response.cursor(), "", &text);
  return text;
}

std::string LogsText(const std::string& bytes) {
  v1::ReadLogsResponse response;
  std::string text;
  if (!response.ParseFromString(bytes)) return text;
  for (int i = 0; i < response.entries_size(); ++i) {
    const bool last = i + 1 == response.entries_size();
    AppendEvent(last ? response.cursor() : "", ToJson(response.entries(i)), &text);
  }
  if (response.entries_size() == 0) AppendEvent(response.cursor(), "", &text);
  return text;
}

// One client that follows.
class Follower : public std::enable_shared_from_this<Follower> {
 public:
  Follower(EventCache& cache, std::shared_ptr<Exchange> exchange, const MethodDescriptor& method)
      : cache_(cache), exchange_(std::move(exchange)), method_(method) {}

  void Begin(Inside& inside) {
    auto request = ReadRequest();
    if (!request) return exchange_->Answer(exchange_->Refused(Failure::Of(request.error())));
    const auto self = shared_from_this();
    service_ = ServiceStream::Begin(
        inside, NameOf(method_), ToAsker(exchange_->request, exchange_->visitor), std::nullopt,
        exchange_,
        {.message = [self](const std::string& bytes) { self->OnMessage(bytes); },
         .sent = [self] { self->service_->CloseSend(); },
         .end = [self](const grpc::Status& status,
                       const Headers& trailers) { self->OnEnd(status, trailers); }});
    exchange_->on_gone = [self] {
      if (!self->service_) return;
      self->service_->Cancel();
      self->OnWritten();
    };
    exchange_->on_written = [self] { self->OnWritten(); };
    service_->Send(*request);
  }

 private:
  Result<std::string> ReadRequest() const {
    const Descriptor& type = *method_.input_type();
    auto parameters = ReadQuery(exchange_->request.query);
    if (!parameters) return Bad("a percent sign is followed by two hexadecimal digits");
    const auto given = [&](const std::string& name) {
      return std::ranges::any_of(*parameters, [&](const auto& one) { return one.first == name; });
    };
    if (type.FindFieldByName("follow") && !given("follow")) {
      parameters->emplace_back("follow", "true");
    }
    const auto last = exchange_->request.Header("last-event-id");
    if (last && !last->empty() && type.FindFieldByName("after")) {
      std::erase_if(*parameters, [](const auto& one) { return one.first == "after"; });
      parameters->emplace_back("after", std::string(*last));
    }
    auto json = ToRequestJson(type, *parameters);
    if (!json) return json.error();
    return EncodeRequest(type, Codec::kJson, *json, false);
  }

  void BeginAnswer() {
    if (std::exchange(begun_, true)) return;
    Response head;
    head.Set("content-type", "text/event-stream");
    head.Set("cache-control", "no-store");
    head.Set("x-accel-buffering", "no");
    exchange_->Begin(std::move(head));
    exchange_->Write("retry: 2000\n\n");
    if (exchange_->request.method == "HEAD") {  // nothing follows the head
      exchange_->End();
      if (service_) service_->Cancel();
    }
  }

  EventCache::Text TextOf(const std::string& bytes) {
    if (auto made = cache_.Find(bytes)) return made;
    const std::string name = NameOf(method_);
    std::string text;
    if (name == kChanges) {
      text = ChangesText(bytes);
    } else if (name == kLogs) {
      text = LogsText(bytes);
    } else if (auto json = EncodeReply(*method_.output_type(), Codec::kJson, bytes)) {
      AppendEvent("", *json, &text);
    }
    auto made = std::make_shared<const std::string>(std::move(text));
    cache_.Add(bytes, made);
    return made;
  }

  void OnMessage(const std::string& bytes) {
    if (exchange_->over()) return service_->Next();
    BeginAnswer();
    if (exchange_->request.method == "HEAD") return service_->Next();
    waits_ = true;
    exchange_->Write(*TextOf(bytes));
  }

  void OnWritten() {
    if (std::exchange(waits_, false) && service_) service_->Next();
  }

  void OnEnd(const grpc::Status& status, const Headers& trailers) {
    service_ = nullptr;
    const Failure failure = Failure::Of(status, trailers);
    // An EventSource stops trying when it is refused with a status, and not otherwise.
    if (!begun_ && !status.ok()) return exchange_->Answer(ToResponse(failure));
    BeginAnswer();
    exchange_->Write("event: end\ndata: " + (status.ok() ? "{}" : ErrorJson(failure)) + "\n\n");
    exchange_->End();
  }

  EventCache& cache_;
  const std::shared_ptr<Exchange> exchange_;
  const MethodDescriptor& method_;
  std::shared_ptr<ServiceStream> service_;
  bool begun_ = false;
  bool waits_ = false;  // for the client to take what was written
};

}  // namespace

EventCache::Text EventCache::Find(const std::string& message) {
  const Lock lock(mutex_);
  const auto found = texts_.find(message);
  return found == texts_.end() ? nullptr : found->second;
}

void EventCache::Add(const std::string& message, Text text) {
  if (message.size() > kLargest) return;
  const Lock lock(mutex_);
  if (!texts_.emplace(message, std::move(text)).second) return;
  order_.push_back(message);
  if (order_.size() <= kMost) return;
  texts_.erase(order_.front());
  order_.pop_front();
}

std::string ParameterOf(const FieldDescriptor& field) {
  std::string name = field.name();
  const bool plain = field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
  if (field.is_repeated() && plain && name.ends_with('s')) name.pop_back();
  return name;
}

Result<std::string> ToRequestJson(const Descriptor& type, const Parameters& parameters) {
  std::map<std::string, std::string> fields;
  for (const auto& [name, text] : parameters) {
    const FieldDescriptor* field = FieldOf(type, name);
    if (!field) {
      Nearest nearest(name);
      for (int i = 0; i < type.field_count(); ++i) nearest.Try(type.field(i)->name());
      return Bad("there is no parameter " + Quoted(name) + nearest.Hint());
    }
    const std::string value = ValueOf(*field, text);
    if (!field->is_repeated()) {
      if (fields.contains(field->name())) return Bad(Quoted(name) + " is given twice");
      fields[field->name()] = value;
    } else if (value.starts_with('[')) {
      if (fields.contains(field->name())) return Bad(Quoted(name) + " is given twice");
      fields[field->name()] = value;  // a list as JSON
    } else {
      std::string& list = fields[field->name()];
      if (!list.empty() && list.ends_with(']')) list.pop_back();
      list += (list.empty() ? "[" : ",") + value + "]";
    }
  }
  std::string json = "{";
  for (const auto& [name, value] : fields) {
    json += (json.size() > 1 ? "," : "") + json::Quote(name) + ":" + value;
  }
  return json + "}";
}

std::string_view EventsMethod(std::string_view path) {
  if (path == "/v1/changes") return kChanges;
  if (path == "/v1/watch") return kWatch;
  return path == "/v1/logs" ? kLogs : std::string_view();
}

void ServeEvents(Inside& inside, EventCache& cache, std::shared_ptr<Exchange> exchange,
                 std::string_view name) {
  const MethodDescriptor* method = FindMethod(name);
  if (!method) {
    return exchange->Answer(ToResponse(NoSuchMethod("this server has no " + std::string(name))));
  }
  std::make_shared<Follower>(cache, std::move(exchange), *method)->Begin(inside);
}

}  // namespace dfsmr::http
