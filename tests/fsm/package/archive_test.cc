// Archives as they are written, read, and refused.
#include <doctest/doctest.h>

#include "fsm/base/names.h"
#include "fsm/package/archive_reader.h"
#include "fsm/package/ustar.h"

namespace dfsmr {
namespace {

constexpr std::string_view kManifest = "package: etl\nversion: 1.4.0\n";

// One entry with its bytes.
std::string Entry(const std::string& path, std::string_view text, char type = '0',
                  const std::string& link = "", std::string_view top = "etl-1.4.0") {
  std::string block = *UstarHeader(top, "x", {.size = text.size(), .link = ""});
  const std::string whole = top.empty() ? path : std::string(top) + "/" + path;
  block.replace(0, 100, std::string(100, '\0'));
  block.replace(0, whole.size(), whole);
  block[156] = type;
  block.replace(157, link.size(), link);
  block.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  block.replace(148, 8, std::string(digits, 6) + '\0' + ' ');
  return block + std::string(text) + std::string(UstarPadding(text.size()), '\0');
}

const std::string kEnd(kTarEnd, '\0');
std::string First() { return Entry("package.yaml", kManifest); }

std::string Read(std::string_view bytes, size_t piece = 100'000) {
  std::string seen;
  ArchiveReader reader([&](const std::string& path, std::string_view text) {
    seen += text.empty() ? "<" + path + ">" : std::string(text);
  });
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    if (auto fed = reader.Feed(bytes.substr(0, piece)); !fed) {
      return std::string(Name(fed.error().reason)) + ": " + fed.error().message;
    }
  }
  if (auto ended = reader.Finish(); !ended) {
    return std::string(Name(ended.error().reason)) + ": " + ended.error().message;
  }
  for (const auto& [path, file] : reader.files()) {
    if (!file.link.empty()) seen += path + "->" + file.link + ";";
  }
  return seen;
}

std::string PaxRecord(const std::string& key, const std::string& value) {
  size_t length = key.size() + value.size() + 3;
  length += std::to_string(length).size();
  if (std::to_string(length).size() + key.size() + value.size() + 3 != length) ++length;
  return std::to_string(length) + " " + key + "=" + value + "\n";
}

}  // namespace

TEST_CASE("a header is the same bytes everywhere") {
  const auto header = UstarHeader("etl-1.4.0", "bin/fetch", {.size = 8, .executable = true});
  REQUIRE(header);
  CHECK(header->size() == 512);
  CHECK(header->substr(0, 20) == std::string("etl-1.4.0/bin/fetch\0", 20));
  CHECK(header->substr(100, 48) == std::string("0000755\0"
                                               "0000000\0"
                                               "0000000\0"
                                               "00000000010\0"
                                               "07033241600\0",
                                               48));
  CHECK(header->substr(156, 1) == "0");
  CHECK(header->substr(257, 8) == std::string("ustar\0"
                                              "00",
                                              8));
  CHECK(header->substr(265, 80) == std::string(80, '\0'));
  const auto link = UstarHeader("t", "l", {.link = "bin/fetch"});
  CHECK(link->substr(100, 7) == "0000777");
  CHECK((*link)[156] == '2');
  CHECK(link->substr(157, 10) == std::string("bin/fetch\0", 10));
}

TEST_CASE("long paths are cut at a slash, or refused") {
  const std::string ninety(90, 'a');
  const auto cut = UstarHeader("t", ninety + "/" + ninety, {.size = 0});
  REQUIRE(cut);
  CHECK(cut->substr(345, 92) == "t/" + ninety);
  CHECK(cut->substr(0, 90) == ninety);
  CHECK_FALSE(UstarHeader("t", std::string(101, 'a'), {.size = 0}).has_value());
  CHECK_FALSE(UstarHeader("t", ninety + "/" + ninety + "/" + ninety, {.size = 0}).has_value());
  CHECK_FALSE(UstarHeader("t", "l", {.link = std::string(101, 'a')}).has_value());
  CHECK(WriteOrder({{"a", {}}, {"package.yaml", {}}, {"B", {}}}) ==
        std::vector<std::string>{"package.yaml", "B", "a"});
}

TEST_CASE("an archive is read in pieces of any size, with names by ustar, pax and GNU") {
  const std::string name(120, 'n');
  const std::string bytes =
      Entry("", "", '5') + First() + Entry("bin/", "", '5') + Entry("bin/a", "text") +
      Entry("empty", "") + Entry("link", "", '2', "bin/a") +
      Entry("PaxHeader", PaxRecord("path", "etl-1.4.0/" + name) + PaxRecord("mtime", "1.5"), 'x') +
      Entry("short", "pax") + Entry("././@LongLink", "etl-1.4.0/gnu" + name + '\0', 'L', "", "") +
      Entry("short", "gnu") + kEnd + kEnd;
  const std::string want = std::string(kManifest) + "<package.yaml>text<bin/a><empty>pax<" + name +
                           ">gnu<gnu" + name + ">link->bin/a;";
  for (const size_t piece : {1U, 7U, 511U, 512U, 513U, 100'000U}) {
    CAPTURE(piece);
    CHECK(Read(bytes, piece) == want);
  }
}

TEST_CASE("what an archive may not hold is refused by the entry's name") {
  const std::pair<std::string, const char*> kBad[] = {
      {First() + Entry("../x", "") + kEnd, "'etl-1.4.0/../x': the path has the part '..'"},
      {First() + Entry("./x", "") + kEnd, "the part '.'"},
      {First() + Entry("a//x", "") + kEnd, "an empty part"},
      {First() + Entry("/etc/passwd", "", '0', "", "") + kEnd,
       "'/etc/passwd': the path is absolute"},
      {First() + Entry("a\nb", "") + kEnd, "control character"},
      {First() + Entry("a\xff", "") + kEnd, "not UTF-8"},
      {First() + Entry("x", "", '0', "", "other-1.0.0") + kEnd, "another top folder"},
      {Entry("package.yaml", kManifest, '0', "", "") + kEnd, "in no top folder"},
      {Entry("package.yaml", kManifest, '0', "", "etl-1.4.1") + kEnd,
       "the manifest says that the top folder is 'etl-1.4.0/'"},
      {Entry("x", "") + First() + kEnd, "the first file of a package is package.yaml"},
      {Entry("package.yaml", "", '2', "x") + kEnd, "the first file"},
      {First() + Entry("x", "") + Entry("x", "") + kEnd, "'etl-1.4.0/x': the path is there twice"},
      {First() + First() + kEnd, "twice"},
      {First() + Entry("l", "", '2', "d") + Entry("l/x", "") + kEnd, "through the link 'l'"},
      {First() + Entry("l/x", "") + Entry("l", "", '2', "d") + kEnd, "leads through this link"},
      {First() + Entry("l", "") + Entry("l/x", "") + kEnd, "through the file 'l'"},
      {First() + Entry("l", "", '2', "/etc/passwd") + kEnd, "'/etc/passwd' is absolute"},
      {First() + Entry("l", "", '2', "../x") + kEnd, "'../x' leads out"},
      {First() + Entry("a/l", "", '2', "b/../../../x") + kEnd, "leads out"},
      {First() + Entry("d/b", "", '2', "..") + Entry("d/a", "", '2', "b/../../x") + kEnd,
       "leads out"},
      {First() + Entry("h", "", '1', "etl-1.4.0/package.yaml") + kEnd, "it is a hard link"},
      {First() + Entry("c", "", '3') + kEnd, "it is a device"},
      {First() + Entry("c", "", '4') + kEnd, "it is a device"},
      {First() + Entry("f", "", '6') + kEnd, "it is a FIFO"},
      {First() + Entry("s", "", 'S') + kEnd, "it is a sparse file"},
      {First() + Entry("p", PaxRecord("GNU.sparse.major", "1"), 'x') + Entry("s", "") + kEnd,
       "it is a sparse file"},
      {First() + Entry("q", "", 'Z') + kEnd, "neither a file nor a link"},
      {First(), "cut off"},
      {First() + std::string(512, '\0'), "cut off"},
      {First() + Entry("x", "text").substr(0, 514), "'etl-1.4.0/x': the archive is cut off"},
      {First() + Entry("x", "text").substr(0, 100), "cut off"},
      {First() + std::string(512, 'x') + kEnd, "is no entry"},
      {First() + kEnd + Entry("x", ""), "behind the end"},
      {"", "the file is empty"},
      {kEnd, "no tar archive"},
      {"\x1f\x8b" + std::string(600, 'z'), "run gunzip (gzip -d) first"},
      {"\x28\xb5\x2f\xfd" + std::string(60, 'z'), "run unzstd (zstd -d) first"},
      {"BZh9" + std::string(600, 'z'), "run bunzip2 (bzip2 -d) first"},
      {std::string("\xfd"
                   "7zXZ\0",
                   6) +
           std::string(600, 'z'),
       "run unxz (xz -d) first"},
  };
  for (const auto& row : kBad) {
    const std::string wrong = Read(row.first);
    const char* message = row.second;
    CAPTURE(message);
    CAPTURE(wrong);
    CHECK(wrong.starts_with("BAD_ARCHIVE: "));
    CHECK(wrong.find(message) != std::string::npos);
  }
}

TEST_CASE("links may lead anywhere within the package") {
  const std::string bytes =
      First() + Entry("a/b/l", "", '2', "../../bin/x") + Entry("dangling", "", '2', "no/where") +
      Entry("loop", "", '2', "loop") + Entry("dir", "", '2', "a/b") + Entry("bin/x", "") + kEnd;
  CHECK(Read(bytes).find("a/b/l->../../bin/x;") != std::string::npos);
  const PackageFiles files = {{"a/b/l", {.link = "../../bin/x"}},
                              {"bin/x", {}},
                              {"dir", {.link = "a/b"}},
                              {"loop", {.link = "loop"}}};
  CHECK(Resolved(files, "./dir/l") == "bin/x");
  CHECK(Resolved(files, "bin") == "bin");
  CHECK(Resolved(files, "dir") == "a/b");
  CHECK_FALSE(Resolved(files, "loop").has_value());
  CHECK_FALSE(Resolved(files, "../x").has_value());
  CHECK_FALSE(Resolved(files, "bin/y").has_value());
}

TEST_CASE("an archive has limits") {
  ArchiveRules rules;
  REQUIRE(rules.Take({.path = "t/package.yaml"}));
  const auto reason = [&](const ArchiveEntry& entry) {
    const auto taken = rules.Take(entry);
    return taken ? "" : std::string(Name(taken.error().reason));
  };
  CHECK(reason({.path = "t/" + std::string(253, 'a')}).empty());
  CHECK(reason({.path = "t/" + std::string(254, 'a')}) == "TOO_LARGE");
  std::string deep = "t";
  for (int i = 0; i < 31; ++i) deep += "/d";
  CHECK(reason({.path = deep + "/f"}).empty());
  CHECK(reason({.path = deep + "/g/f"}) == "TOO_LARGE");
  CHECK(reason({.path = "t/big", .size = limits::kArchive}) == "TOO_LARGE");
  ArchiveRules many;
  REQUIRE(many.Take({.path = "t/package.yaml"}));
  for (int i = 1; i < 20'000; ++i) REQUIRE(many.Take({.path = "t/" + std::to_string(i)}));
  CHECK_FALSE(many.Take({.path = "t/more"}).has_value());
  const std::string large(256 * 1024 + 1, '#');
  CHECK(Read(Entry("package.yaml", large) + kEnd).starts_with("TOO_LARGE: "));
}

}  // namespace dfsmr
