// Reads JSON text piece by piece, in place. Stricter than RFC 8259 in nothing but the depth.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dfsmr::http {

// Each function moves on behind what it reads. What is no JSON fails the reader: then all functions
// return at once, and `problem` says where it is and what would be right.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // What comes next: one of { [ " t f n 0 (a number), or a zero byte at the end.
  char Peek();
  // Takes this character if it comes next.
  bool Take(char c);
  void Expect(char c);
  std::string String();           // unescaped
  std::string_view Number();      // its text
  std::optional<bool> Literal();  // true, false, or nullopt for null
  std::string_view Value();       // any, as text
  void End();                     // nothing but space may follow

  bool ok() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }
  void Fail(std::string what);

 private:
  void SkipSpace();
  void SkipValue(size_t depth);
  void Escape(std::string* out);
  std::optional<uint32_t> Hex4();

  const std::string_view text_;
  size_t at_ = 0;
  std::string problem_;
};

// `c` as UTF-8.
void AppendUtf8(uint32_t c, std::string* out);

}  // namespace dfsmr::http
