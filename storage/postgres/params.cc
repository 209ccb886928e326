#include "storage/postgres/params.h"

#include <bit>
#include <utility>

namespace dfsmr {
namespace {

constexpr uint32_t kByteaOid = 17;

template <typename Number>
void Append(std::string* out, Number value) {
  for (int shift = static_cast<int>(sizeof value) * 8 - 8; shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(value >> shift & 0xff));
  }
}

}  // namespace

PgParams& PgParams::Own(std::string bytes) {
  return View(*owned_.emplace_back(std::make_shared<const std::string>(std::move(bytes))));
}

PgParams& PgParams::View(std::string_view value) {
  values_.push_back(value.data() ? value.data() : "");  // a null pointer would be NULL
  sizes_.push_back(static_cast<int>(value.size()));
  return *this;
}

PgParams& PgParams::Int(int32_t value) {
  std::string bytes;
  Append(&bytes, static_cast<uint32_t>(value));
  return Own(std::move(bytes));
}

PgParams& PgParams::Long(int64_t value) {
  std::string bytes;
  Append(&bytes, static_cast<uint64_t>(value));
  return Own(std::move(bytes));
}

PgParams& PgParams::Bool(bool value) { return Own(std::string(1, value ? '\1' : '\0')); }

PgParams& PgParams::Text(std::string_view value) { return Own(std::string(value)); }

PgParams& PgParams::Arrays(const std::vector<std::string_view>& values) {
  size_t size = 20;
  for (const std::string_view value : values) size += 4 + value.size();
  std::string bytes;
  bytes.reserve(size);
  Append(&bytes, uint32_t{values.empty() ? 0u : 1u});  // dimensions
  Append(&bytes, uint32_t{0});                         // none of them is NULL
  Append(&bytes, kByteaOid);
  if (!values.empty()) {
    Append(&bytes, static_cast<uint32_t>(values.size()));
    Append(&bytes, uint32_t{1});  // where its indexes begin
  }
  for (const std::string_view value : values) {
    Append(&bytes, static_cast<uint32_t>(value.size()));
    bytes.append(value);
  }
  return Own(std::move(bytes));
}

}  // namespace dfsmr
