#include "dsrv/wire/json_syntax.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>  // Debian has headers alone
#include <cstdint>

namespace dfsmr {
namespace {

namespace bj = boost::json;

// What the parser tells its values to. It takes all, of any size.
struct TakesAll {
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;

  using Code = bj::error_code;
  using Text = bj::string_view;
  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(size_t, Code&) { return true; }
  bool on_object_begin(Code&) { return true; }
  bool on_object_end(size_t, Code&) { return true; }
  bool on_key_part(Text, size_t, Code&) { return true; }
  bool on_key(Text, size_t, Code&) { return true; }
  bool on_string_part(Text, size_t, Code&) { return true; }
  bool on_string(Text, size_t, Code&) { return true; }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(int64_t, Text, Code&) { return true; }
  bool on_uint64(uint64_t, Text, Code&) { return true; }
  bool on_double(double, Text, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }
};

}  // namespace

bool IsJson(std::string_view text, size_t depth) {
  bj::parse_options options;
  options.max_depth = depth;
  bj::basic_parser<TakesAll> parser(options);
  bj::error_code failure;
  return parser.write_some(false, text.data(), text.size(), failure) == text.size() && !failure;
}

}  // namespace dfsmr
