// JSON text, read in place: it is not parsed into a tree, and numbers keep their text. Callers pass
// well-formed text; any other gives a harmless result.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dfsmr::json {

enum class Kind { kNull, kBoolean, kNumber, kString, kObject, kArray };
Kind KindOf(std::string_view value);

// After the closing quote of the string that opens at `open`; the text's end when it is not closed.
size_t StringEnd(std::string_view text, size_t open);

// Without the space around it.
std::string_view Trim(std::string_view value);

// The value of a member, as text; the last one of that name. nullopt when the member is missing or
// `object` is not an object.
std::optional<std::string_view> Member(std::string_view object, std::string_view name);
std::optional<std::string_view> Item(std::string_view array, size_t index);

// In the order of the text, until `visit` returns false. Names are unescaped.
void ForEachMember(std::string_view object,
                   const std::function<bool(std::string_view name, std::string_view value)>& visit);
void ForEachItem(std::string_view array, const std::function<bool(std::string_view item)>& visit);

// Where the next item of `array` is, from `*at` on (0 at first, then where the last call left it),
// so that a long list can be walked in bounded steps. nullopt after the last one.
std::optional<std::string_view> NextItem(std::string_view array, size_t* at);

// "\"a\\n\"" → a line feed after an a, and back.
std::string Unquote(std::string_view string);
std::string Quote(std::string_view text);

// Whether two values say the same: members in any order, of several with one name the last; numbers
// to their last digit, however they are written. An empty text is {}.
bool Same(std::string_view a, std::string_view b);
// Below, at or above zero as number a is less than, equal to or greater than b, to the last digit.
int CompareNumbers(std::string_view a, std::string_view b);

// The text with the largest double in place of each number that is beyond it, for parsers that
// refuse such numbers. Text that is not JSON stays so.
std::string Bounded(std::string_view text);

// `object` with the members of `changes` in place of its own of the same names; the others keep
// their text and order, new ones come last.
std::string Merge(std::string_view object, std::string_view changes);

}  // namespace dfsmr::json
