// gzip, in one piece.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dfsmr::http {

std::string Packed(std::string_view bytes);
// nullopt: it is no gzip, or has more than `most` bytes, as `*too_large` says.
std::optional<std::string> Unpacked(std::string_view packed, size_t most, bool* too_large);

}  // namespace dfsmr::http
