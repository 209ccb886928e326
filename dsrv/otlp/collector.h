// A collector of OTLP over HTTP, without TLS: one on this machine or in front of the network. No
// state; any thread.
#pragma once

#include <chrono>
#include <string>

#include "fsm/base/result.h"

namespace dfsmr::otlp {

struct Collector {
  std::string host;
  std::string port;
  std::string path;
};

// Of "http://HOST:4318"; the port may be left out, and a path other than /v1/traces may follow.
Result<Collector> ParseCollector(const std::string& url);

enum class Delivery {
  kTaken,
  kLater,  // it is away, or has too much to do: the same may be sent again
  kNever,  // it does not take this
};
struct Delivered {
  Delivery delivery = Delivery::kLater;
  std::string why;  // unless it was taken
};

// Sends `json`, and waits for the answer, for `most` in all.
Delivered Post(const Collector& collector, const std::string& json, std::chrono::milliseconds most);

}  // namespace dfsmr::otlp
