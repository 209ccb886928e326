#include "dcli/agent/progress.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "dcli/text/json.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kNoteCharacters = 256;
constexpr size_t kCheckpointBytes = 64 << 10;
constexpr size_t kLineBytes = 1 << 20;
constexpr size_t kShownBytes = 200;  // of a line that is not understood

// The first so many characters.
std::string Cut(const std::string& text, size_t characters) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
    if (count++ == characters) return text.substr(0, i);
  }
  return text;
}

std::string TakeProgress(const std::string& value, Progress* to) {
  double share = 0;
  const char* end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, share);
  const bool sound = read.ec == std::errc() && read.ptr == end && share >= 0 && share <= 1;
  if (!sound) return "\"progress\" is not a number from 0 to 1";
  to->progress = share;
  return "";
}

std::string TakeMember(const Member& member, Progress* to) {
  const std::string& value = member.value;
  if (value == "null") return "";
  if (member.key == "progress") return TakeProgress(value, to);
  if (member.key == "note") {
    if (!value.starts_with('"')) return "\"note\" is not a text";
    to->note = Cut(Unquoted(value), kNoteCharacters);
  } else if (member.key == "checkpoint") {
    if (!value.starts_with('{')) return "\"checkpoint\" is not an object";
    if (value.size() > kCheckpointBytes) return "\"checkpoint\" is larger than 64 KiB";
    to->checkpoint = value;
  } else if (member.key == "mask") {
    if (!value.starts_with('"')) return "\"mask\" is not a text";
    to->masks.push_back(Unquoted(value));
  } else if (member.key != "type" && member.key != "id") {
    return "it knows progress, note, checkpoint and mask, and no \"" + member.key + "\"";
  }
  return "";
}

}  // namespace

void Progress::Merge(const Progress& later) {
  if (later.progress) progress = later.progress;
  if (later.note) note = later.note;
  if (later.checkpoint) checkpoint = later.checkpoint;
  masks.insert(masks.end(), later.masks.begin(), later.masks.end());
  if (!later.wrong.empty()) wrong = later.wrong;
}

Progress ProgressOf(std::string_view line) {
  Progress said;
  if (!IsJsonObject(line)) {
    said.wrong =
        "a line of DFSMR_PROGRESS is no JSON object: " + Escaped(line.substr(0, kShownBytes));
    return said;
  }
  for (const Member& member : Members(line)) {
    const std::string wrong = TakeMember(member, &said);
    if (!wrong.empty()) said.wrong = "a line of DFSMR_PROGRESS is not understood: " + wrong;
  }
  return said;
}

ProgressFile::ProgressFile(const std::string& path)
    : file_(open(path.c_str(), O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)) {}

std::optional<Progress> ProgressFile::Read(bool all) {
  struct stat about {};
  if (!file_.open() || fstat(file_.get(), &about) != 0) return std::nullopt;
  if (about.st_size < at_) at_ = 0;  // written anew, not appended
  std::optional<Progress> said;
  std::array<char, 16'384> buffer;
  while (at_ < about.st_size) {
    const ssize_t count = pread(file_.get(), buffer.data(), buffer.size(), at_);
    if (count <= 0) break;
    at_ += count;
    rest_.append(buffer.data(), static_cast<size_t>(count));
  }
  if (all && !rest_.empty()) rest_ += '\n';
  size_t begin = 0;
  for (size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(rest_).substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!said) said.emplace();
    said->Merge(ProgressOf(line));
  }
  rest_.erase(0, begin);
  if (rest_.size() > kLineBytes) rest_.clear();
  return said;
}

}  // namespace dfsmr::cli
