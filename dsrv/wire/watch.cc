#include "dsrv/wire/watch.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "dsrv/wire/checks.h"

namespace dfsmr {
namespace {

constexpr int kTopics = 8;
constexpr size_t kKey = 64;  // characters
constexpr Duration kLeast = std::chrono::milliseconds(500);
constexpr Duration kMost = std::chrono::seconds(60);

}  // namespace

Result<std::chrono::milliseconds> CheckWatch(const v1::WatchRequest& request) {
  if (request.topics().empty()) return Bad("topics: name at least one");
  if (request.topics_size() > kTopics) {
    return TooLarge("topics", static_cast<size_t>(request.topics_size()), kTopics);
  }
  for (const auto& topic : request.topics()) {
    if (topic.what_case() == v1::WatchRequest::Topic::WHAT_NOT_SET) {
      return Bad("topics: one of them says nothing of what is to be watched");
    }
    auto checked = CheckText("key", topic.key(), kKey);
    if (!checked) return checked.error();
  }
  Duration every = std::chrono::seconds(1);
  if (request.has_every()) {
    auto given = ToDuration("every", request.every(), kMost);
    if (!given) return given.error();
    every = std::max(*given, kLeast);
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(every);
}

std::string BytesOf(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&out);
  }
  return bytes;
}

std::string ComparableBytes(const v1::WatchResponse& message) {
  if (!message.has_overview()) return BytesOf(message);
  v1::WatchResponse copy = message;
  copy.mutable_overview()->clear_time();
  v1::ServerStatus* server = copy.mutable_overview()->mutable_server();
  server->clear_commit_p95();
  server->clear_free_bytes();
  server->clear_open_files();
  return BytesOf(copy);
}

}  // namespace dfsmr
