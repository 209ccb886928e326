#include "fsm/package/tar_reader.h"

#include <algorithm>
#include <charconv>

#include "fsm/base/names.h"
#include "fsm/package/ustar.h"

namespace dfsmr {
namespace {

constexpr size_t kExtraMax = 64 << 10;  // of pax records or a long name

// Up to the first zero byte.
std::string_view TextOf(std::string_view block, size_t at, size_t length) {
  const std::string_view field = block.substr(at, length);
  return field.substr(0, field.find('\0'));
}

// Octal digits with blanks or zero bytes around them, or GNU's big-endian bytes behind 0x80.
std::optional<uint64_t> NumberOf(std::string_view field) {
  uint64_t number = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80U) != 0) {
    if (static_cast<unsigned char>(field[0]) != 0x80) return std::nullopt;
    for (const char c : field.substr(1)) {
      if (number >> 55 != 0) return std::nullopt;
      number = number << 8 | static_cast<unsigned char>(c);
    }
    return number;
  }
  while (field.starts_with(' ')) field.remove_prefix(1);
  const size_t end = std::min(field.find_first_of(std::string_view(" \0", 2)), field.size());
  for (const char c : field.substr(0, end)) {
    if (c < '0' || c > '7' || number >> 60 != 0) return std::nullopt;
    number = number * 8 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

bool ChecksumHolds(std::string_view block) {
  const auto said = NumberOf(block.substr(148, 8));
  uint64_t sum = 0;
  int64_t signed_sum = 0;  // as old programs reckon
  for (size_t i = 0; i < block.size(); ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block[i];
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  return said && (*said == sum || static_cast<int64_t>(*said) == signed_sum);
}

std::string NameOf(std::string_view block) {
  std::string name(TextOf(block, 0, 100));
  const bool posix = block.substr(257, 6) == std::string_view("ustar\0", 6);
  const std::string_view prefix = TextOf(block, 345, 155);
  return posix && !prefix.empty() ? std::string(prefix) + "/" + name : name;
}

EntryKind KindOf(char type) {
  switch (type) {
    case '0':
    case '\0':
    case '7':
      return EntryKind::kFile;
    case '1':
      return EntryKind::kHardLink;
    case '2':
      return EntryKind::kLink;
    case '3':
    case '4':
      return EntryKind::kDevice;
    case '5':
      return EntryKind::kFolder;
    case '6':
      return EntryKind::kFifo;
    case 'S':
      return EntryKind::kSparse;
    default:
      return EntryKind::kOther;
  }
}

bool IsZero(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

Error CutEnd(std::string_view entry) {
  return BadArchive(entry, "the archive is cut off here: its end is missing");
}

}  // namespace

std::optional<std::string> Decompressor(std::string_view begin) {
  struct Kind {
    std::string_view magic;
    const char* command;
  };
  static constexpr Kind kKinds[] = {{"\x1f\x8b", "gunzip (gzip -d)"},
                                    {"\x28\xb5\x2f\xfd", "unzstd (zstd -d)"},
                                    {"\xfd"
                                     "7zXZ",
                                     "unxz (xz -d)"},
                                    {"BZh", "bunzip2 (bzip2 -d)"},
                                    {"\x04\x22\x4d\x18", "lz4 -d"},
                                    {"\x1f\x9d", "uncompress"},
                                    {"PK\x03\x04", "unzip"},
                                    {"LZIP", "lzip -d"},
                                    {"7z\xbc\xaf", "7z x"}};
  for (const Kind& kind : kKinds) {
    if (begin.starts_with(kind.magic)) return kind.command;
  }
  return std::nullopt;
}

Result<Ok> TarReader::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (state_ == State::kFile || state_ == State::kExtra) {
      TakeData(&bytes);
      if (left_ == 0 && padding_ == 0) {
        if (auto ended = EndData(); !ended) return ended;
      }
      continue;
    }
    const size_t length = std::min(bytes.size(), kTarBlock - block_.size());
    block_.append(bytes.substr(0, length));
    bytes.remove_prefix(length);
    position_ += length;
    if (block_.size() < kTarBlock) return Ok{};
    const std::string block = std::move(block_);
    block_.clear();
    if (auto taken = TakeBlock(block); !taken) return taken;
  }
  return Ok{};
}

Result<Ok> TarReader::TakeBlock(std::string_view block) {
  if (auto counted = Count(position_); !counted) return counted;
  if (IsZero(block)) {
    if (position_ == kTarBlock) return BadArchive("", "the file is no tar archive");
    if (state_ == State::kHeader && ++zero_blocks_ * kTarBlock >= kTarEnd) state_ = State::kEnd;
    return Ok{};
  }
  if (state_ == State::kEnd || zero_blocks_ > 0) {
    return BadArchive("", "something stands behind the end of the archive");
  }
  if (ChecksumHolds(block)) return TakeHeader(block);
  if (position_ > kTarBlock) {
    return BadArchive("",
                      "what follows " + Quoted(Place()) + " is no entry: the archive is broken");
  }
  if (const auto command = Decompressor(block)) return Compressed(*command);
  return BadArchive("", "the file is no tar archive");
}

Result<Ok> TarReader::TakeHeader(std::string_view block) {
  const auto size = NumberOf(block.substr(124, 12));
  if (!size) return BadArchive(NameOf(block), "its size is no number");
  const char type = block[156];
  if (type == 'x' || type == 'g' || type == 'L' || type == 'K') return BeginExtra(block, *size);
  return BeginEntry(block, extra_.size.value_or(*size));
}

Result<Ok> TarReader::BeginExtra(std::string_view block, uint64_t size) {
  if (size > kExtraMax) {
    return TooLarge(NameOf(block), "what stands in front of an entry has more than 64 KiB");
  }
  state_ = State::kExtra;
  extra_kind_ = block[156];
  extra_text_.clear();
  left_ = size;
  padding_ = UstarPadding(size);
  return left_ == 0 ? EndData() : Result<Ok>(Ok{});
}

Result<Ok> TarReader::BeginEntry(std::string_view block, uint64_t size) {
  ArchiveEntry entry;
  const Extra extra = std::exchange(extra_, Extra());
  const char type = block[156];
  entry.path = extra.path.value_or(NameOf(block));
  entry.kind = KindOf(type);
  // Before there were folders among the types, a slash at the end said it.
  if ((type == '0' || type == '\0') && entry.path.ends_with('/')) entry.kind = EntryKind::kFolder;
  if (extra.sparse) entry.kind = EntryKind::kSparse;
  if (entry.kind == EntryKind::kLink) {
    entry.link = extra.link.value_or(std::string(TextOf(block, 157, 100)));
  }
  entry.executable = (NumberOf(block.substr(100, 8)).value_or(0) & 0111U) != 0;
  entry.size = entry.kind == EntryKind::kFile ? size : 0;
  entry.offset = position_;
  if (auto begun = Begin(entry); !begun) return begun;
  if (entry.kind != EntryKind::kFile) return Ok{};
  state_ = State::kFile;
  left_ = size;
  padding_ = UstarPadding(size);
  return left_ == 0 ? EndData() : Result<Ok>(Ok{});
}

void TarReader::TakeData(std::string_view* bytes) {
  const std::string_view piece =
      bytes->substr(0, static_cast<size_t>(std::min<uint64_t>(left_, bytes->size())));
  bytes->remove_prefix(piece.size());
  left_ -= piece.size();
  position_ += piece.size();
  if (state_ == State::kExtra) {
    extra_text_ += piece;
  } else if (!piece.empty()) {
    Data(piece);
  }
  const size_t padding = left_ > 0 ? 0 : std::min(padding_, bytes->size());
  bytes->remove_prefix(padding);
  padding_ -= padding;
  position_ += padding;
}

Result<Ok> TarReader::EndData() {
  const bool file = state_ == State::kFile;
  state_ = State::kHeader;
  return file ? End() : TakeExtra();
}

Result<Ok> TarReader::TakeExtra() {
  const std::string text = std::exchange(extra_text_, "");
  const std::string name = text.substr(0, text.find('\0'));
  switch (extra_kind_) {
    case 'L':
      extra_.path = name;
      return Ok{};
    case 'K':
      extra_.link = name;
      return Ok{};
    default:
      return ReadPax(text, extra_kind_ == 'g');
  }
}

// Records "LENGTH KEY=VALUE\n", where LENGTH counts all of it.
Result<Ok> TarReader::ReadPax(std::string_view records, bool global) {
  while (!records.empty() && !IsZero(records)) {
    size_t length = 0;
    const auto read = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<size_t>(read.ptr - records.data());
    const bool sound = read.ec == std::errc() && length > digits + 2 && length <= records.size() &&
                       records[digits] == ' ' && records[length - 1] == '\n';
    const std::string_view record =
        sound ? records.substr(digits + 1, length - digits - 2) : std::string_view();
    const size_t equals = record.find('=');
    if (equals == record.npos) return BadArchive("", "a pax record is broken");
    if (auto taken = TakeRecord(record.substr(0, equals), record.substr(equals + 1), global);
        !taken) {
      return taken;
    }
    records.remove_prefix(length);
  }
  return Ok{};
}

Result<Ok> TarReader::TakeRecord(std::string_view key, std::string_view value, bool global) {
  const bool matters =
      key == "path" || key == "linkpath" || key == "size" || key.starts_with("GNU.sparse");
  if (!matters) return Ok{};
  if (global) return BadArchive("", "a pax record for all entries says " + std::string(key));
  if (key == "path") extra_.path = value;
  if (key == "linkpath") extra_.link = value;
  if (key.starts_with("GNU.sparse")) extra_.sparse = true;
  if (key != "size") return Ok{};
  uint64_t size = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), size);
  if (read.ec != std::errc() || read.ptr != value.data() + value.size()) {
    return BadArchive("", "the size in a pax record is no number");
  }
  extra_.size = size;
  return Ok{};
}

Error TarReader::Compressed(const std::string& command) const {
  return BadArchive(
      "", "the archive is compressed; " + what_ + " is a plain tar: run " + command + " first");
}

Result<Ok> TarReader::FinishTar() const {
  if (position_ == 0) return BadArchive("", "the file is empty");
  if (state_ == State::kFile) return CutEnd(Place());
  if (state_ == State::kEnd && block_.empty()) return Ok{};
  if (position_ >= kTarBlock) return CutEnd(Place());
  const auto command = Decompressor(block_);
  return command ? Compressed(*command) : BadArchive("", "the file is no tar archive");
}

}  // namespace dfsmr
