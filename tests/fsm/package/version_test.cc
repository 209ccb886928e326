#include "fsm/package/version.h"

#include <doctest/doctest.h>

#include <iterator>

#include "fsm/package/exclude.h"

namespace dfsmr {

TEST_CASE("versions are those of SemVer 2.0") {
  for (const char* good :
       {"0.0.0", "1.4.0", "1.0.0-rc.1", "1.0.0-0.3.7", "1.0.0-x-y-z.--", "1.0.0+001",
        "1.0.0-beta+exp.sha.5114f85", "10.20.30-dev.h0123456789ab"}) {
    CAPTURE(good);
    CHECK_FALSE(VersionProblem(good).has_value());
  }
  for (const char* bad : {"", "1", "1.0", "1.0.0.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0-01",
                          "1.0.0-a..b", "1.0.0+", "1.0.0+a_b", "1.0.0-a b", "1.-1.0", "1.0.0-ä"}) {
    CAPTURE(bad);
    CHECK(VersionProblem(bad).has_value());
  }
  CHECK_FALSE(VersionProblem("1.0.0-" + std::string(58, 'a')).has_value());
  CHECK(VersionProblem("1.0.0-" + std::string(59, 'a')).has_value());
}

TEST_CASE("precedence is that of SemVer") {
  const char* kOrder[] = {"0.9.9",         "1.0.0-alpha",
                          "1.0.0-alpha.1", "1.0.0-alpha.beta",
                          "1.0.0-beta",    "1.0.0-beta.2",
                          "1.0.0-beta.11", "1.0.0-rc.1",
                          "1.0.0",         "1.0.1",
                          "1.2.0",         "1.10.0",
                          "2.0.0-1",       "2.0.0-99999999999999999999999",
                          "2.0.0-a",       "2.0.0"};
  for (size_t i = 0; i < std::size(kOrder); ++i) {
    for (size_t j = 0; j < std::size(kOrder); ++j) {
      CAPTURE(kOrder[i]);
      CAPTURE(kOrder[j]);
      CHECK((CompareVersions(kOrder[i], kOrder[j]) < 0) == (i < j));
      CHECK((CompareVersions(kOrder[i], kOrder[j]) == 0) == (i == j));
    }
  }
  CHECK(CompareVersions("1.0.0+a", "1.0.0+b") == 0);
}

TEST_CASE("a dev version is the version with 12 digits of the content") {
  const std::string hex(64, 'a');
  CHECK(DevVersion("1.4.0", hex) == "1.4.0-dev.haaaaaaaaaaaa");
  CHECK(DevVersion("1.4.0-rc.1", hex) == "1.4.0-rc.1.dev.haaaaaaaaaaaa");
  CHECK(DevVersion("1.4.0+build", hex) == "1.4.0-dev.haaaaaaaaaaaa");
  CHECK(IsDevVersion("1.4.0-rc.1.dev.haaaaaaaaaaaa"));
  CHECK(IsDevVersion("1.4.0-dev.h0123456789ab"));
  CHECK_FALSE(IsDevVersion("1.4.0-dev.h0123456789aX"));
  CHECK_FALSE(IsDevVersion("1.4.0"));
}

TEST_CASE("a version is written into its line alone") {
  const auto with = [](std::string_view text) {
    const auto changed = WithVersion(text, "2.0.0");
    return changed ? *changed : "! " + changed.error().message;
  };
  CHECK(with("package: a\nversion: 1.0.0   # 1.0.0\nlabels: {v: 1.0.0}\n") ==
        "package: a\nversion: 2.0.0   # 1.0.0\nlabels: {v: 1.0.0}\n");
  CHECK(with("package: a\nversion: \"1.0.0\"") == "package: a\nversion: \"2.0.0\"");
  CHECK(with("{package: 1.0.0, version: '1.0.0'}") == "{package: 1.0.0, version: '2.0.0'}");
  CHECK(with("description: ä\r\nversion: 1.0.0\r\n") == "description: ä\r\nversion: 2.0.0\r\n");
  CHECK(with("{description: ä 1.0.0, version: 1.0.0}") == "{description: ä 1.0.0, version: 2.0.0}");
  CHECK(with("description: &v 1.0.0\nversion: *v\n").starts_with("! "));
  CHECK(with("package: a\n").starts_with("! "));
  CHECK_FALSE(WithVersion("version: 1.0.0", "two").has_value());
}

TEST_CASE("exclude: * within a name, ** across, NAME/ a folder") {
  const Exclusions some(
      {"*.log", "tests/", "docs/*.md", "data/**/*.csv", "/top", "a**z", "deep/dir"});
  for (const char* out : {"x.log",     "a/b/x.log",  "tests/x",        "a/tests/b/c",
                          "docs/x.md", "data/x.csv", "data/a/b/x.csv", "top",
                          "abcz",      "deep/dir/x", ".git/config",    "a/__pycache__/x.pyc",
                          "x~",        "a/.x.swp",   "a/.DS_Store",    "old-1.0.0.dfsmr",
                          "x.sig",     ".hg/x",      ".svn/y",         "top/x"}) {
    CAPTURE(out);
    CHECK(some.LeavesOut(out));
  }
  for (const char* in : {"package.yaml", "x.log.txt", "tests", "docs/a/x.md", "x.md", "a/top",
                         "data/x.csv.gz", "gitx/config", ".gitignore", "a/deep/dir/x"}) {
    CAPTURE(in);
    CHECK_FALSE(some.LeavesOut(in));
  }
  CHECK_FALSE(Exclusions({"*"}).LeavesOut("package.yaml"));
  CHECK(Exclusions({"*"}).LeavesOut("x"));
  CHECK(Exclusions({"**"}).LeavesOutFolder("a/b"));
  CHECK(PatternProblem("").has_value());
  CHECK(PatternProblem("../x").has_value());
  CHECK_FALSE(PatternProblem("a/**/b").has_value());
  const std::string stars(120, '*');
  CHECK(Exclusions({stars + "x" + stars}).LeavesOut("aaaxaaa"));
}

}  // namespace dfsmr
