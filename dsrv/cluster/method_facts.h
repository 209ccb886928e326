// What the front has to know of a method to pass its calls on.
#pragma once

#include <string>

namespace dfsmr {

struct MethodFacts {
  std::string name = "_other";  // for people: "Start"
  bool many_requests = true;
  bool many_replies = true;
  bool reads_only = false;
  bool waits = false;  // for something to happen, as long as the caller likes
};
// By the path of a call, "/PACKAGE.SERVICE/METHOD". Of one that this build does not know: streams
// both ways that may change something.
MethodFacts FactsOf(const std::string& path);

}  // namespace dfsmr
