// Which partitions of a store a call reaches: by its method, and by what its request names. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/place.h"

namespace dfsmr {

enum class Reach : uint8_t {
  kAtHome,
  kForAll,      // at home, and all partitions adopt what it changes there
  kInstance,  // where the instance lives that the request names
  kItems,     // each of its items where its instance lives
  kAll,       // all partitions, unless it names an instance
  kOwn,       // as that method is: streams, and what hands out tasks
};

struct MethodReach {
  Reach reach = Reach::kAtHome;
  uint32_t ns = 0;  // the numbers of the fields that name the instance; 0: there is none
  uint32_t id = 0;

  bool AtHome() const { return reach == Reach::kAtHome || reach == Reach::kForAll; }
};

// By the path of a call, "/PACKAGE.SERVICE/METHOD". nullopt: no row says how far it reaches.
std::optional<MethodReach> NamedReachOf(const std::string& path);
// The same. What nobody knows is for home to refuse.
inline MethodReach ReachOf(const std::string& path) {
  return NamedReachOf(path).value_or(MethodReach());
}

// The text of the field with this number in a message as it is on the wire: the last one; empty
// when there is none. nullopt: it is no message.
std::optional<std::string_view> TextOfField(std::string_view message, uint32_t number);

// Where a call goes.
struct Destination {
  enum class Kind : uint8_t {
    kOne,     // to `partition`
    kAnyOne,  // to one of them, whichever
    kSeveral,  // to several, as its method says
  };
  Kind kind = Kind::kOne;
  PartitionId partition = kHome;
  friend bool operator==(const Destination&, const Destination&) = default;
};

// `request`: its first message. Of one partition all goes there, whatever it is.
Destination DestinationOf(const MethodReach& method, std::string_view request,
                          uint16_t partitions);

}  // namespace dfsmr
