// Archives of packages as they come with a put, in pieces of any size.
#include "fsm/package/archive_reader.h"
#include "tests/fuzz/bytes.h"

namespace dfsmr {
namespace {

// What was read, or the reason why it was refused.
std::string Read(std::string_view text, size_t piece) {
  size_t bytes = 0;
  ArchiveReader reader([&](const std::string& path, std::string_view data) {
    Check(!path.empty() && !PathProblem(path), "only sound paths have bytes");
    bytes += data.size();
  });
  while (!text.empty()) {
    if (auto fed = reader.Feed(text.substr(0, piece)); !fed) return fed.error().message;
    text.remove_prefix(std::min(piece, text.size()));
  }
  if (auto ended = reader.Finish(); !ended) return ended.error().message;
  size_t all = 0;
  for (const auto& [path, file] : reader.files()) {
    Check(file.link.empty() || !file.link.starts_with('/'), "no link is absolute");
    all += file.size;
  }
  Check(all == bytes, "all bytes of all files were given");
  return "";
}

}  // namespace
}  // namespace dfsmr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const size_t piece = bytes.Byte() + size_t{1};
  const std::string_view text = bytes.Rest();
  Check(Read(text, piece) == Read(text, size + 1), "pieces make no difference");
  return 0;
}
