#include "storage/logs/keys.h"

namespace dfsmr::log_keys {
namespace {

constexpr size_t kNumber = sizeof(uint64_t);

void Append(std::string* key, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) *key += static_cast<char>(number >> shift & 0xff);
}

std::string Of(char kind, std::string_view ns, std::string_view instance) {
  std::string key(1, kind);
  key.reserve(ns.size() + instance.size() + 32);
  key += ns;
  key += '\0';
  key += instance;
  key += '\0';
  return key;
}

std::string Of(char kind, const LogOwner& owner) {
  std::string key = Of(kind, owner.ns, owner.instance);
  Append(&key, owner.born);
  return key;
}

uint64_t NumberAt(std::string_view key, size_t at) {
  uint64_t number = 0;
  for (size_t i = at; i < at + kNumber; ++i) number = number << 8 | static_cast<uint8_t>(key[i]);
  return number;
}

std::optional<LogOwner> ReadOwner(std::string_view text) {
  const size_t ns_ends = text.find('\0');
  if (ns_ends == text.npos) return std::nullopt;
  const size_t id_ends = text.find('\0', ns_ends + 1);
  if (id_ends == text.npos || text.size() != id_ends + 1 + kNumber) return std::nullopt;
  return LogOwner{std::string(text.substr(0, ns_ends)),
                  std::string(text.substr(ns_ends + 1, id_ends - ns_ends - 1)),
                  NumberAt(text, id_ends + 1)};
}

}  // namespace

std::string Instance(const LogOwner& owner) { return Of('i', owner); }

std::string InstancesOf(std::string_view ns, std::string_view instance) {
  return Of('i', ns, instance);
}

std::string Visits(const LogOwner& owner) { return Of('m', owner); }

std::string Visit(const LogOwner& owner, uint64_t visit) {
  std::string key = Visits(owner);
  Append(&key, visit);
  return key;
}

std::string Chunks(const LogOwner& owner) { return Of('c', owner); }

std::string Chunk(const LogOwner& owner, uint64_t first) {
  std::string key = Chunks(owner);
  Append(&key, first);
  return key;
}

std::string PlacesOf(const LogOwner& owner) { return Of('x', owner); }

std::string Places(const LogOwner& owner, uint64_t visit) {
  std::string key = PlacesOf(owner);
  Append(&key, visit);
  return key;
}

std::string Place(const LogOwner& owner, uint64_t visit, uint64_t first) {
  std::string key = Places(owner, visit);
  Append(&key, first);
  return key;
}

std::string Turn(int64_t order, int64_t created, const LogOwner& owner) {
  std::string key(kTurns);
  Append(&key, static_cast<uint64_t>(order));
  Append(&key, static_cast<uint64_t>(created));
  return key += Of('o', owner);
}

uint64_t Last(std::string_view key) {
  return key.size() < kNumber ? 0 : NumberAt(key, key.size() - kNumber);
}

std::optional<LogOwner> OwnerOfInstance(std::string_view key) {
  return key.empty() ? std::nullopt : ReadOwner(key.substr(1));
}

std::optional<LogOwner> OwnerOfTurn(std::string_view key) {
  constexpr size_t kOwner = 1 + 2 * kNumber + 1;
  return key.size() <= kOwner ? std::nullopt : ReadOwner(key.substr(kOwner));
}

int64_t OrderOfTurn(std::string_view key) {
  return key.size() <= 1 + kNumber ? 0 : static_cast<int64_t>(NumberAt(key, 1));
}

}  // namespace dfsmr::log_keys
