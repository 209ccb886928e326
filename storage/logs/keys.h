// The keys of the store of logs. Texts in keys end with a zero byte, numbers are big endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/logs/log.h"

namespace dfsmr::log_keys {

// kind | owner | …. An owner is its namespace, its instance, and the number that it was born with.
std::string Instance(const LogOwner& owner);                              // 'i': LogInstance
std::string InstancesOf(std::string_view ns, std::string_view instance);  // the begin of those
std::string Visit(const LogOwner& owner, uint64_t visit);                 // 'm': LogVisit
std::string Visits(const LogOwner& owner);                                // the begin of those
std::string Chunk(const LogOwner& owner, uint64_t first);  // 'c': LogChunk, by order of arrival
std::string Chunks(const LogOwner& owner);
std::string Place(const LogOwner& owner, uint64_t visit, uint64_t first);  // 'x': LogPlace
std::string Places(const LogOwner& owner, uint64_t visit);
std::string PlacesOf(const LogOwner& owner);  // of all its visits
// 't': the list of those that go first. Its rows have no values.
std::string Turn(int64_t order, int64_t created, const LogOwner& owner);
inline constexpr std::string_view kTurns = "t";
inline constexpr std::string_view kInstances = "i";
inline constexpr std::string_view kTotal = "g";  // bytes of all chunks

// The number at the end of a key.
uint64_t Last(std::string_view key);
// The owner in a key of Instance or Turn; nullopt: it is damaged.
std::optional<LogOwner> OwnerOfInstance(std::string_view key);
std::optional<LogOwner> OwnerOfTurn(std::string_view key);
int64_t OrderOfTurn(std::string_view key);

}  // namespace dfsmr::log_keys
