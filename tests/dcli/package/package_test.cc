#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/dcli/dcli.h"

namespace dfsmr::cli {
namespace {

// A folder to work in, gone when the test is over.
class Here {
 public:
  Here() : before_(std::filesystem::current_path()) {
    char name[] = "/tmp/dcli_package_XXXXXX";
    place_ = mkdtemp(name);
    std::filesystem::current_path(place_);
  }
  ~Here() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(place_);
  }
  Here(const Here&) = delete;
  Here& operator=(const Here&) = delete;

 private:
  std::filesystem::path before_;
  std::filesystem::path place_;
};

}  // namespace

TEST_CASE("a new package is sound, and builds the same bytes each time") {
  const Here here;
  for (const std::vector<std::string>& extra : {std::vector<std::string>(), {"--plan"}}) {
    const std::string name = extra.empty() ? "one" : "two";
    std::vector<std::string> words = {"package", "new", name};
    words.insert(words.end(), extra.begin(), extra.end());
    REQUIRE(Dcli(words).status == 0);
    const Outcome checked = Dcli({"package", "check", name});
    CHECK(checked.status == 0);
    CHECK(checked.err == "");
    CHECK(checked.out.starts_with("package " + name + "@0.1.0  ok  "));
    const Outcome built = Dcli({"package", "build", name});
    CHECK(built.status == 0);
    CHECK(built.out.find("digest  sha256:") != std::string::npos);
    CHECK(Dcli({"package", "build", name}).out == built.out);
    CHECK(Dcli({"package", "check", name + "-0.1.0.dfsmr"}).status == 0);
    CHECK(Dcli({"package", "diff", name, name + "-0.1.0.dfsmr"}).status == 0);
  }
  CHECK(Dcli({"package", "new", "one"}).status == 1);
  CHECK(Dcli({"package", "diff", "one", "two"}).status == 1);
}

TEST_CASE("each word of package says how it is used") {
  const Here here;
  const std::pair<std::vector<std::string>, const char*> kBad[] = {
      {{"package", "chekc", "x"}, "did you mean \"check\"?"},
      {{"package", "build"}, "usage: dcli package build FOLDER"},
      {{"package", "diff", "a"}, "usage: dcli package diff A B"},
      {{"package", "check", "x", "--plan"}, "--plan is not for package check"},
      {{"package", "check", "nowhere"}, "cannot read nowhere"},
      {{"package", "new", "a.b"}, "cannot name a package"},
      {{"package", "verify", "x"}, "cannot read x"},
  };
  for (const auto& row : kBad) {
    const Outcome outcome = Dcli(row.first);
    CAPTURE(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(row.second) != std::string::npos);
  }
}

}  // namespace dfsmr::cli
