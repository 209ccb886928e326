// The files of an export: which may be in it, in which order they are sent, and their tar.
#include "fsm/package/export_path.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "fsm/package/tar_reader.h"
#include "fsm/package/ustar.h"

namespace dfsmr {
namespace {

TEST_CASE("an export has these files and no others") {
  for (const char* path :
       {"namespace.yaml", "definitions/machine/a.b-c_d.yaml", "definitions/limit/env.yaml",
        "packages/etl-1.4.0.dfsmr", "packages/etl-1.4.0.dfsmr.sig", "packages/active.yaml",
        "instances/00000001.rows"}) {
    CAPTURE(path);
    CHECK(ParseExportPath(path).has_value());
  }
  for (const char* path :
       {"", "/namespace.yaml", "./namespace.yaml", "../namespace.yaml", "namespace.yml",
        "definitions/a.yaml", "definitions/machine/.yaml", "definitions/machine/a/b.yaml",
        "definitions/machine/a b.yaml", "definitions/robot/a.yaml", "definitions/machine/..yaml",
        "packages/.dfsmr", "packages/a/b.dfsmr", "instances/a.rows", "instances/.rows",
        "instances/1.rows/x", "definitions//machine/a.yaml", "definitions/machine/a\n.yaml"}) {
    CAPTURE(path);
    const auto parsed = ParseExportPath(path);
    REQUIRE(!parsed.has_value());
    CHECK(parsed.error().reason == Reason::kBadArchive);
  }
}

TEST_CASE("a path says what it is of") {
  const auto definition = ParseExportPath(DefinitionPath("plan", "nightly.v2"));
  REQUIRE(definition.has_value());
  CHECK(definition->kind == ExportPath::Kind::kDefinition);
  CHECK(definition->definition == "plan");
  CHECK(definition->id == "nightly.v2");
  const auto signature = ParseExportPath(SignaturePath("etl", "1.4.0-rc.1"));
  REQUIRE(signature.has_value());
  CHECK(signature->kind == ExportPath::Kind::kSignature);
  CHECK(signature->id == "etl-1.4.0-rc.1");
  CHECK(ParseExportPath(RowsPath(7))->kind == ExportPath::Kind::kRows);
}

TEST_CASE("files are sent in one order, whatever the order of a tar") {
  const std::vector<std::string> sent = {"namespace.yaml",
                                         "definitions/limit/a.yaml",
                                         "definitions/machine/a.yaml",
                                         "definitions/machine/b.yaml",
                                         "packages/a-1.0.0.dfsmr",
                                         "packages/a-1.0.0.dfsmr.sig",
                                         "packages/a-2.0.0.dfsmr",
                                         "packages/a-2.0.0.dfsmr.sig",
                                         "packages/active.yaml",
                                         "instances/00000001.rows",
                                         "instances/00000002.rows"};
  std::vector<std::string> sorted = sent;
  std::ranges::sort(sorted);
  std::ranges::sort(sorted, [](const std::string& a, const std::string& b) {
    return SentBefore(*ParseExportPath(a), a, *ParseExportPath(b), b);
  });
  CHECK(sorted == sent);
}

class Names : public TarReader {
 public:
  Names() : TarReader("an export") {}
  Result<Ok> Finish() const { return FinishTar(); }
  std::vector<std::pair<std::string, std::string>> files;

 private:
  Result<Ok> Begin(const ArchiveEntry& entry) override {
    files.emplace_back(entry.path, "");
    return Ok{};
  }
  void Data(std::string_view piece) override { files.back().second += piece; }
  Result<Ok> End() override { return Ok{}; }
  std::string Place() const override { return files.empty() ? "" : files.back().first; }
};

TEST_CASE("a file of any path goes into a tar and comes out of it") {
  const std::string long_name = DefinitionPath("machine", std::string(128, 'x'));
  std::string tar;
  for (const std::string& path : {std::string("namespace.yaml"), long_name}) {
    const std::string text = "text of " + path;
    tar += FileHeader(path, text.size()) + text + std::string(UstarPadding(text.size()), '\0');
  }
  Names cut;
  REQUIRE(cut.Feed(tar).has_value());
  CHECK(!cut.Finish().has_value());
  tar += std::string(kTarEnd, '\0');
  Names names;
  for (char c : tar) REQUIRE(names.Feed(std::string_view(&c, 1)).has_value());
  REQUIRE(names.Finish().has_value());
  REQUIRE(names.files.size() == 2);
  CHECK(names.files[0] ==
        std::pair<std::string, std::string>("namespace.yaml", "text of namespace.yaml"));
  CHECK(names.files[1] == std::pair(long_name, "text of " + long_name));
}

}  // namespace
}  // namespace dfsmr
