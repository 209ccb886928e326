// What is wrong with (or odd about) a text that people wrote, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

struct Position {
  uint32_t line = 1;    // from 1
  uint32_t column = 1;  // from 1, in characters
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct Diagnostic {
  bool error = true;  // false: a warning
  std::string source_name;
  uint32_t line = 1;
  uint32_t column = 1;
  std::string path;  // for example nodes.crawl.transitions.ok; empty: the document as a whole
  std::string message;
  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

// One line, `FILE:LINE:COL: PATH: MESSAGE`; the document as a whole is path ".", and the message of
// a warning starts with "warning: ".
std::string Format(const Diagnostic& diagnostic);

// `parent`.`key`; a key too long to be one is cut.
std::string PathTo(std::string_view parent, std::string_view key);

bool HasErrors(const std::vector<Diagnostic>& diagnostics);

// Where a text comes from. A stored one was accepted when it was given, so rules that came later
// do not hold for it: it must be accepted for ever.
enum class TextOrigin : uint8_t { kGiven, kStored };

// Collects what is found in one source. After kMax of them the rest is only counted.
class Reporter {
 public:
  static constexpr size_t kMax = 10'000;

  explicit Reporter(std::string_view source_name, TextOrigin origin = TextOrigin::kGiven)
      : source_name_(source_name), origin_(origin) {}

  void Error(Position at, std::string path, std::string message) {
    Add(true, at, std::move(path), std::move(message));
  }
  void Warning(Position at, std::string path, std::string message) {
    Add(false, at, std::move(path), std::move(message));
  }
  TextOrigin origin() const { return origin_; }
  size_t errors() const { return errors_; }
  bool Full() const { return diagnostics_.size() >= kMax; }

  // In the order of the text, each once.
  std::vector<Diagnostic> Take() &&;

 private:
  void Add(bool error, Position at, std::string path, std::string message);

  std::string source_name_;
  TextOrigin origin_;
  std::vector<Diagnostic> diagnostics_;
  size_t errors_ = 0;
  size_t dropped_ = 0;
};

}  // namespace dfsmr
