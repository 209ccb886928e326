// Texts that must not be seen: secrets, and what a command has said is one. `***` stands for them
// in all that is sent.
#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace dfsmr::cli {

// One thread uses it.
class Masks {
 public:
  // Hides `value` from now on: as it is, JSON-escaped, URL-encoded and in base64, and each line of
  // 8 bytes or more of a value with several. A value of less than 6 bytes cannot be hidden.
  void Add(std::string_view value);
  bool empty() const { return patterns_.empty(); }

  // `text` with *** in place of what is hidden.
  std::string Hide(std::string_view text) const;
  // The same inside a JSON text, which stays JSON: in its strings, however they are escaped, and in
  // its numbers.
  std::string HideInJson(std::string_view json) const;
  // Hides in all texts of a message; the `params` of the contract's messages are JSON.
  void HideIn(google::protobuf::Message* message) const;

  // How many bytes at the end of `text` may be the beginning of something to hide.
  size_t Unsure(std::string_view text) const;

 private:
  friend class MaskedStream;
  void AddPattern(std::string pattern);
  // How long the pattern at the beginning of `text` is; 0: there is none.
  size_t MatchAt(std::string_view text) const;

  std::unordered_map<uint16_t, std::vector<std::string>> patterns_;  // by two bytes, longest first
  std::bitset<65536> begins_;
};

// Hides what comes in pieces: what is hidden may begin in one and end in another.
class MaskedStream {
 public:
  explicit MaskedStream(const Masks& masks) : masks_(masks) {}
  // What can be told of all that came so far, but was not told yet.
  std::string Add(std::string_view piece);
  // The whole lines of what is held back: they have waited long enough.
  std::string FlushLines();
  // The rest: nothing more comes.
  std::string Flush();
  bool holds_lines() const { return held_.find('\n') != held_.npos; }

 private:
  const Masks& masks_;
  std::string held_;
};

}  // namespace dfsmr::cli
