// Streams as server-sent events: changes, what people look at, logs.
#pragma once

#include <google/protobuf/descriptor.h>

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "dsrv/http/exchange.h"
#include "dsrv/http/inside.h"
#include "dsrv/http/url.h"
#include "fsm/base/mutex.h"
#include "fsm/base/result.h"

namespace dfsmr::http {

// What many follow alike is made once. Any thread.
class EventCache {
 public:
  using Text = std::shared_ptr<const std::string>;
  Text Find(const std::string& message);
  void Add(const std::string& message, Text text);

 private:
  static constexpr size_t kMost = 64;
  static constexpr size_t kLargest = 256 << 10;  // larger ones are not kept
  Mutex mutex_;
  std::list<std::string> order_ GUARDED(mutex_);  // the oldest first
  std::unordered_map<std::string, Text> texts_ GUARDED(mutex_);
};

// The JSON of a request whose fields are given as the parameters of a URL; `kind` may stand for a
// repeated field `kinds`. BAD_REQUEST with the nearest name where there is no such field.
Result<std::string> ToRequestJson(const google::protobuf::Descriptor& type,
                                  const Parameters& parameters);

// What a parameter is called: `kind` for the repeated field `kinds`, the field's name for others.
std::string ParameterOf(const google::protobuf::FieldDescriptor& field);

// The method of one of the paths, as "dfsmr.v1.RunnerService/Changes"; "": it is none of them.
std::string_view EventsMethod(std::string_view path);

// `name` is one of EventsMethod's, which this server may lack.
void ServeEvents(Inside& inside, EventCache& cache, std::shared_ptr<Exchange> exchange,
                 std::string_view name);

}  // namespace dfsmr::http
