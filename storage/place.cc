#include "storage/place.h"

#include <algorithm>

namespace dfsmr {
namespace {

constexpr size_t kMostDigits = 20;  // of a child's number

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsOfName(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
         c == '-';
}

// The parent's id, if this is a child's; else empty.
std::string_view ParentOf(std::string_view id) {
  const size_t number = id.rfind('/');
  if (number == id.npos || number == 0) return {};
  const std::string_view digits = id.substr(number + 1);
  const size_t step = id.rfind('/', number - 1);
  if (step == id.npos) return {};
  const std::string_view name = id.substr(step + 1, number - step - 1);
  const bool fits = !name.empty() && std::ranges::all_of(name, IsOfName) && !digits.empty() &&
                    digits.size() <= kMostDigits && std::ranges::all_of(digits, IsDigit);
  return fits ? id.substr(0, step) : std::string_view();
}

// FNV-1a.
class Fnv {
 public:
  void Add(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<uint8_t>(byte)) * 0x100000001b3ull;
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ull;
};

// The finaliser of MurmurHash3.
uint64_t Finish(uint64_t hash) {
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdull;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53ull;
  hash ^= hash >> 33;
  return hash;
}

}  // namespace

std::string_view Root(std::string_view id) {
  for (std::string_view up = ParentOf(id); !up.empty(); up = ParentOf(id)) id = up;
  return id;
}

uint64_t PlaceHash(std::string_view ns, std::string_view id) {
  Fnv fnv;
  fnv.Add(ns.empty() ? "default" : ns);
  fnv.Add(std::string_view("\0", 1));
  fnv.Add(Root(id));
  return Finish(fnv.hash());
}

}  // namespace dfsmr
