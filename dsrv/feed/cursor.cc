#include "dsrv/feed/cursor.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

// Of several partitions a text is one row of bits, six in each digit, zeros at its end: how many
// bits a number takes, how many partitions there are, the life, and the numbers.
constexpr int kWidthBits = 7;
constexpr int kCountBits = 11;
constexpr int kLifeBits = 64;
constexpr uint64_t kMostPartitions = 1'024;

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

uint64_t LowBits(int bits) { return (uint64_t{1} << bits) - 1; }

class BitWriter {
 public:
  void Add(uint64_t number, int bits) {
    while (bits > 0) {
      const int some = std::min(bits, 6 - have_);
      bits -= some;
      digit_ = digit_ << some | (number >> bits & LowBits(some));
      have_ += some;
      if (have_ == 6) Flush();
    }
  }
  std::string Text() {
    if (have_ > 0) Add(0, 6 - have_);
    return std::move(text_);
  }

 private:
  void Flush() {
    text_ += kDigits[digit_];
    digit_ = 0;
    have_ = 0;
  }
  std::string text_;
  uint64_t digit_ = 0;
  int have_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::string_view text) : text_(text) {}
  // nullopt: there are not so many, or what is there is no digit.
  std::optional<uint64_t> Take(int bits) {
    uint64_t number = 0;
    while (bits > 0) {
      if (have_ == 0 && !NextDigit()) return std::nullopt;
      const int some = std::min(bits, have_);
      bits -= some;
      have_ -= some;
      number = number << some | (digit_ >> have_ & LowBits(some));
    }
    return number;
  }

 private:
  bool NextDigit() {
    const size_t digit = text_.empty() ? kDigits.npos : kDigits.find(text_.front());
    if (digit == kDigits.npos) return false;
    text_.remove_prefix(1);
    digit_ = digit;
    have_ = 6;
    return true;
  }

  std::string_view text_;
  uint64_t digit_ = 0;
  int have_ = 0;
};

std::string TextOfOne(const Cursor& cursor) {
  char life[17];
  const auto end = std::to_chars(life, life + sizeof life, cursor.life, 16).ptr;
  return "0." + std::to_string(cursor.seqs.front()) + "." + std::string(life, end);
}

std::optional<Cursor> ReadOne(std::string_view text) {
  Cursor cursor{.seqs = {0}};
  const char* at = text.data();
  const char* const end = at + text.size();
  uint64_t partition = 0;
  auto read = [&at, end](uint64_t& number, int base, bool last) {
    const auto [next, error] = std::from_chars(at, end, number, base);
    at = next + 1;
    return error == std::errc() && (last ? next == end : next != end && *next == '.');
  };
  const bool sound = read(partition, 10, false) && read(cursor.seqs.front(), 10, false) &&
                     read(cursor.life, 16, true) && partition == 0;
  return sound ? std::optional(std::move(cursor)) : std::nullopt;
}

std::optional<Cursor> ReadSeveral(std::string_view text) {
  BitReader bits(text);
  const auto width = bits.Take(kWidthBits);
  const auto count = bits.Take(kCountBits);
  const auto life = bits.Take(kLifeBits);
  if (!life || *width == 0 || *width > 64 || *count < 2 || *count > kMostPartitions) {
    return std::nullopt;
  }
  Cursor cursor{.life = *life};
  cursor.seqs.reserve(*count);
  for (uint64_t i = 0; i < *count; ++i) {
    const auto seq = bits.Take(static_cast<int>(*width));
    if (!seq) return std::nullopt;
    cursor.seqs.push_back(*seq);
  }
  // One place has one text.
  return CursorText(cursor) == text ? std::optional(std::move(cursor)) : std::nullopt;
}

}  // namespace

std::string CursorText(const Cursor& cursor) {
  if (cursor.seqs.size() == 1) return TextOfOne(cursor);
  const int width = std::max(1, static_cast<int>(std::bit_width(std::ranges::max(cursor.seqs))));
  BitWriter bits;
  bits.Add(static_cast<uint64_t>(width), kWidthBits);
  bits.Add(cursor.seqs.size(), kCountBits);
  bits.Add(cursor.life, kLifeBits);
  for (const uint64_t seq : cursor.seqs) bits.Add(seq, width);
  return bits.Text();
}

Result<Cursor> ParseCursor(std::string_view text) {
  auto cursor = text.find('.') != text.npos ? ReadOne(text) : ReadSeveral(text);
  if (cursor) return *std::move(cursor);
  return Error{
      Code::kInvalidArgument, Reason::kBadRequest,
      Quoted(Head(text, 64)) +
          " is not a cursor: take one from Changes, or '0' for the oldest change, or leave "
          "it empty to begin now"};
}

}  // namespace dfsmr
