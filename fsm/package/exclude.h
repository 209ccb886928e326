// What stays out of an archive.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

// Patterns of `exclude`: * stands for anything within a name, ** for anything across names, NAME/
// for a folder with all that is in it. A pattern without a / (other than at its end) holds at any
// depth, one with a / from the top. Some names are always left out: those of version control,
// leavings of editors, archives and signatures.
class Exclusions {
 public:
  Exclusions() = default;
  explicit Exclusions(const std::vector<std::string>& patterns);

  // Whether the file of this path, or a folder that it is in, stays out. package.yaml at the top
  // never does.
  bool LeavesOut(std::string_view path) const;
  // The same of a folder itself: then nothing in it need be looked at.
  bool LeavesOutFolder(std::string_view path) const;

 private:
  struct Pattern {
    std::string text;     // without a / at either end
    bool folder = false;  // it had one at its end: it holds for folders only
    bool from_top = false;
  };
  bool Holds(std::string_view path, bool folder) const;

  std::vector<Pattern> patterns_ = AlwaysLeftOut();
  static Pattern Read(std::string_view text);
  static std::vector<Pattern> AlwaysLeftOut();
};

// What is wrong with a pattern; nullopt: nothing.
std::optional<std::string> PatternProblem(std::string_view pattern);

}  // namespace dfsmr
