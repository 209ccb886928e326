#include "storage/rows/keys.h"

namespace dfsmr::rows {

Result<Ok> ScanAll(const Reader& reader, std::string_view begin, std::string_view end,
                   const std::function<Result<bool>(std::string_view, std::string_view)>& visit) {
  Result<Ok> outcome = Ok{};
  auto scanned = reader.view.Scan(begin, end, [&](std::string_view key, std::string_view value) {
    auto more = visit(key, value);
    if (more) return *more;
    outcome = more.error();
    return false;
  });
  return scanned ? outcome : scanned;
}

std::string NumberValue(uint64_t number) {
  std::string bytes(8, '\0');
  for (size_t i = 8; i-- > 0; number >>= 8) bytes[i] = static_cast<char>(number);
  return bytes;
}

void PutNumber(const Writer& writer, std::string key, uint64_t number) {
  writer.batch.Put(std::move(key), NumberValue(number));
}

Result<uint64_t> GetNumber(const Reader& reader, const std::string& key, uint64_t otherwise) {
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  return *value ? NumberIn(key, **value) : otherwise;
}

Result<uint64_t> NumberIn(std::string_view key, std::string_view value) {
  if (value.size() != 8) return Corrupt("number", key);
  uint64_t number = 0;
  for (char c : value) number = number << 8 | static_cast<uint8_t>(c);
  return number;
}

void AppendVarint(uint64_t number, std::string* to) {
  for (; number >= 128; number >>= 7) *to += static_cast<char>(number | 128);
  *to += static_cast<char>(number);
}

std::optional<uint64_t> TakeVarint(std::string_view* bytes, int bits) {
  uint64_t value = 0;
  for (int shift = 0; shift < bits && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

}  // namespace dfsmr::rows
