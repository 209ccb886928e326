#include "storage/backup/tar.h"

#include <algorithm>
#include <optional>

namespace dfsmr {
namespace {

struct Place {
  size_t at;
  size_t length;
};
constexpr Place kName{0, 100}, kMode{100, 8}, kOwner{108, 8}, kGroup{116, 8}, kSize{124, 12},
    kMtime{136, 12}, kChecksum{148, 8}, kMagic{257, 8}, kPathPrefix{345, 155};
constexpr size_t kType = 156;

void PutOctal(std::string* block, Place place, uint64_t number) {
  for (size_t i = place.length - 1; i-- > 0; number /= 8) {
    (*block)[place.at + i] = static_cast<char>('0' + number % 8);
  }
}

// As GNU tar writes what octal digits have no room for: a byte 0x80, then the number itself.
void PutBinary(std::string* block, Place place, uint64_t number) {
  for (size_t i = place.length; i-- > 1; number >>= 8) {
    (*block)[place.at + i] = static_cast<char>(number);
  }
  (*block)[place.at] = static_cast<char>(0x80);
}

std::optional<uint64_t> NumberAt(std::string_view block, Place place) {
  std::string_view text = block.substr(place.at, place.length);
  uint64_t number = 0;
  if ((static_cast<unsigned char>(text.front()) & 0x80U) != 0) {
    for (const char c : text.substr(1)) {
      if (number >> 55 != 0) return std::nullopt;
      number = number << 8 | static_cast<unsigned char>(c);
    }
    return number;
  }
  for (const char c : text) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7') return std::nullopt;
    number = number * 8 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

std::string TextAt(std::string_view block, Place place) {
  const std::string_view text = block.substr(place.at, place.length);
  return std::string(text.substr(0, text.find('\0')));
}

uint64_t SumOf(std::string_view block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.length;
    sum += own ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

Error NoTar(uint64_t position) {
  return {Code::kDataLoss, Reason::kNone,
          "it is no tar from its byte " + std::to_string(position) + " on"};
}

}  // namespace

std::string TarHeader(std::string_view name, uint64_t bytes) {
  Check(name.size() <= kName.length, "the name fits into the header");
  std::string block(kTarBlockBytes, '\0');
  block.replace(kName.at, name.size(), name);
  PutOctal(&block, kMode, 0640);
  PutOctal(&block, kOwner, 0);
  PutOctal(&block, kGroup, 0);
  if (bytes >> 33 == 0) {
    PutOctal(&block, kSize, bytes);
  } else {
    PutBinary(&block, kSize, bytes);
  }
  PutOctal(&block, kMtime, 0);
  block[kType] = '0';
  block.replace(kMagic.at, kMagic.length,
                std::string_view("ustar\0"
                                 "00",
                                 8));
  PutOctal(&block, {kChecksum.at, 7}, SumOf(block));
  block[kChecksum.at + 7] = ' ';
  return block;
}

Result<Ok> BackupTarReader::Feed(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    size_t used = 0;
    Result<Ok> taken = Ok{};
    if (left_ > 0) {
      used = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
      left_ -= used;
      if (file_) taken = take_(name_, bytes.substr(0, used));
    } else if (padding_ > 0) {
      used = std::min(padding_, bytes.size());
      padding_ -= used;
    } else {
      used = std::min(kTarBlockBytes - header_.size(), bytes.size());
      header_ += bytes.substr(0, used);
      if (header_.size() == kTarBlockBytes) taken = TakeHeader();
    }
    if (taken && inside_ && left_ == 0 && padding_ == 0) taken = EndEntry();
    if (!taken) return taken;
    position_ += used;
    bytes.remove_prefix(used);
  }
  return Ok{};
}

Result<Ok> BackupTarReader::TakeHeader() {
  if (header_.find_first_not_of('\0') == header_.npos) {
    ended_ = true;
    return Ok{};
  }
  const auto sum = NumberAt(header_, kChecksum);
  const auto size = NumberAt(header_, kSize);
  if (!sum || !size || *sum != SumOf(header_)) return NoTar(position_);
  left_ = *size;
  padding_ = TarPadding(*size);
  file_ = header_[kType] == '0' || header_[kType] == '\0';
  const std::string prefix = TextAt(header_, kPathPrefix);
  name_ = (prefix.empty() ? "" : prefix + "/") + TextAt(header_, kName);
  if (name_.starts_with("./")) name_.erase(0, 2);
  inside_ = true;
  header_.clear();
  return Ok{};
}

Result<Ok> BackupTarReader::EndEntry() {
  inside_ = false;
  return file_ ? take_(name_, {}) : Ok{};
}

Result<Ok> BackupTarReader::Finish() const {
  if (ended_) return Ok{};
  return Error{Code::kDataLoss, Reason::kNone,
               "it is cut: its tar ends after " + std::to_string(position_) + " bytes" +
                   (inside_ && file_ ? ", in the file " + name_ : "")};
}

}  // namespace dfsmr
