#include "dcli/agent/progress.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "dcli/text/json.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kNoteCharacters = 256;
constexpr size_t kCheckpointBytes = 64 << 10;
constexpr size_t kLineBytes = 2 * kCheckpointBytes;  // a checkpoint, and what is around it
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
  if (wrong.empty()) wrong = later.wrong;
}

Progress ProgressOf(std::string_view line, std::string_view what) {
  Progress said;
  if (!IsJsonObject(line)) {
    said.wrong = std::string(what) + " is no JSON object: " + Escaped(line.substr(0, kShownBytes));
    return said;
  }
  for (const Member& member : Members(line)) {
    const std::string wrong = TakeMember(member, &said);
    if (!wrong.empty()) said.wrong = std::string(what) + " is not understood: " + wrong;
  }
  return said;
}

ProgressFile::ProgressFile(const std::string& path)
    : file_(open(path.c_str(), O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)) {}

std::optional<Progress> ProgressFile::Read(bool all) {
  struct stat about {};
  if (!file_.open() || fstat(file_.get(), &about) != 0) return std::nullopt;
  if (about.st_size < at_) {  // written anew, not appended
    at_ = 0;
    rest_.clear();
    too_long_ = false;
  }
  std::optional<Progress> said;
  std::array<char, 16'384> buffer;
  while (at_ < about.st_size) {
    if (too_long_) PassHole(about.st_size);
    const ssize_t count = pread(file_.get(), buffer.data(), buffer.size(), at_);
    if (count <= 0) break;
    at_ += count;
    Take({buffer.data(), static_cast<size_t>(count)}, &said);
  }
  if (all && !rest_.empty()) Take("\n", &said);
  return said;
}

void ProgressFile::Take(std::string_view bytes, std::optional<Progress>* said) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    if (!too_long_) rest_.append(bytes.substr(0, end));
    if (rest_.size() > kLineBytes) TellTooLong(said);
    if (end == bytes.size()) return;
    if (rest_.find_first_not_of(" \t\r") != std::string::npos) {
      if (!*said) said->emplace();
      (*said)->Merge(ProgressOf(rest_));
    }
    rest_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

void ProgressFile::TellTooLong(std::optional<Progress>* said) {
  too_long_ = true;
  rest_.clear();
  if (std::exchange(told_, true)) return;
  if (!*said) said->emplace();
  (*said)->wrong = "a line of DFSMR_PROGRESS is longer than " + std::to_string(kLineBytes >> 10) +
                   " KiB: such lines are passed over";
}

// A file may have holes larger than anybody can read: there is no line break in them.
void ProgressFile::PassHole(off_t size) {
  const off_t data = lseek(file_.get(), at_, SEEK_DATA);
  if (data >= 0) at_ = data;
  if (data < 0 && errno == ENXIO) at_ = size;
}

}  // namespace dfsmr::cli
