// Text as people see it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr::cli {

// One line that a terminal can show as it is: control characters, line and direction marks and
// bytes that are not UTF-8 appear as \n, \t, \x1b, \u202e. Other text is not touched.
std::string Escaped(std::string_view text);

// How many columns a terminal needs for UTF-8 text, with one column for each character.
size_t Columns(std::string_view text);

// `text` cut to at most `columns`, with "…" at the end if something was cut.
std::string Shortened(std::string_view text, size_t columns);

bool EqualsIgnoringCase(std::string_view a, std::string_view b);
std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
std::vector<std::string> Split(std::string_view text, char separator);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// The known word that `word` was probably meant to be, if any is near enough.
std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& known);

// ": did you mean "start"?", or "" when nothing is near.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace dfsmr::cli
