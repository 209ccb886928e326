#include <algorithm>
#include <charconv>
#include <optional>

#include "fsm/base/names.h"
#include "storage/signatures/signatures.h"

namespace dfsmr {
namespace {

constexpr std::string_view kKnownTypes[] = {"ssh-", "sk-ssh-", "ecdsa-sha2-", "sk-ecdsa-sha2-",
                                            "rsa-sha2-"};

bool IsKeyType(std::string_view word) {
  return std::ranges::any_of(kKnownTypes,
                             [&](std::string_view type) { return word.starts_with(type); });
}

// Takes a field off the line: up to a blank that is in no quotes.
std::string TakeField(std::string_view* line) {
  std::string field;
  size_t at = std::min(line->find_first_not_of(" \t\r"), line->size());
  bool quoted = false;
  for (; at < line->size(); ++at) {
    const char c = (*line)[at];
    if (!quoted && (c == ' ' || c == '\t' || c == '\r')) break;
    if (c == '"') quoted = !quoted;
    field += c;
  }
  line->remove_prefix(at);
  return field;
}

// Pieces between commas that are in no quotes; the quotes are left out.
std::vector<std::string> Pieces(std::string_view field) {
  std::vector<std::string> pieces(1);
  bool quoted = false;
  for (const char c : field) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

// * and ? as in patterns of ssh.
bool Fits(std::string_view pattern, std::string_view text) {
  size_t star = pattern.npos;
  size_t back = 0;
  size_t p = 0;
  for (size_t t = 0; t < text.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      back = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++back;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool TakesOurNamespace(std::string_view list) {
  bool takes = false;
  for (const std::string& one : Pieces(list)) {
    const bool negated = one.starts_with('!');
    if (!Fits(std::string_view(one).substr(negated ? 1 : 0), kSignatureNamespace)) continue;
    if (negated) return false;
    takes = true;
  }
  return takes;
}

struct Options {
  bool authority = false;
  bool ours = true;
  std::string after;
  std::string before;
};

bool IsTime(std::string_view text) {
  if (text.ends_with('Z')) text.remove_suffix(1);
  return (text.size() == 8 || text.size() == 12 || text.size() == 14) &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<std::string> ReadOptions(const std::string& field, Options* to) {
  // The value of namespaces has commas, and is in quotes for that.
  for (std::string option : Pieces(field)) {
    const size_t equals = std::min(option.find('='), option.size());
    const std::string name = option.substr(0, equals);
    const std::string value = option.substr(std::min(equals + 1, option.size()));
    if (name == "cert-authority") {
      to->authority = true;
    } else if (name == "namespaces") {
      to->ours = TakesOurNamespace(value);
    } else if (name == "valid-after" || name == "valid-before") {
      if (!IsTime(value)) return name + " is a time such as 20261231 or 202612312359Z";
      (name == "valid-after" ? to->after : to->before) = value;
    } else {
      return "the option " + Quoted(name) + " is not known";
    }
  }
  return std::nullopt;
}

Error Broken(size_t number, const std::string& why) {
  return {Code::kInvalidArgument, Reason::kBadRequest,
          "line " + std::to_string(number) + ": " + why +
              "; a line is PRINCIPALS [OPTIONS] TYPE KEY, see ssh-keygen(1)"};
}

// A time such as 20261231, 202612312359 or 20261231235959, with or without Z; 0 when it is empty.
Timestamp TimeOf(std::string_view text) {
  const auto number = [&](size_t at, size_t length) {
    int value = 0;
    if (at + length <= text.size()) {
      std::from_chars(text.data() + at, text.data() + at + length, value);
    }
    return value;
  };
  const auto day = std::chrono::year(number(0, 4)) /
                   std::chrono::month(static_cast<unsigned>(number(4, 2))) /
                   std::chrono::day(static_cast<unsigned>(number(6, 2)));
  const bool minutes = text.size() > 9;
  const bool seconds = text.size() > 13;
  return std::chrono::sys_days(day) + std::chrono::hours(minutes ? number(8, 2) : 0) +
         std::chrono::minutes(minutes ? number(10, 2) : 0) +
         std::chrono::seconds(seconds ? number(12, 2) : 0);
}

}  // namespace

Result<std::vector<AllowedSigner>> ParseAllowedSigners(std::string_view text) {
  std::vector<AllowedSigner> signers;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const std::string principals = TakeField(&line);
    if (principals.empty() || principals[0] == '#') continue;
    std::string word = TakeField(&line);
    Options options;
    if (!word.empty() && !IsKeyType(word)) {
      if (auto problem = ReadOptions(word, &options)) return Broken(number, *problem);
      word = TakeField(&line);
    }
    if (!IsKeyType(word)) return Broken(number, "there is no key in it");
    const bool counts = word == "ssh-ed25519" || word == "sk-ssh-ed25519@openssh.com";
    if (!counts || options.authority || !options.ours) continue;
    auto key = ParsePublicKey(word + std::string(line));
    if (!key) return Broken(number, key.error().message);
    std::string names = principals;
    std::erase(names, '"');
    signers.push_back({names, *std::move(key), options.after, options.before});
  }
  return signers;
}

const AllowedSigner* FindSigner(const std::vector<AllowedSigner>& signers, const PublicKey& key,
                                Timestamp now) {
  const auto may = [&](const AllowedSigner& signer) {
    return signer.key == key && (signer.valid_after.empty() || TimeOf(signer.valid_after) <= now) &&
           (signer.valid_before.empty() || now < TimeOf(signer.valid_before));
  };
  const auto found = std::ranges::find_if(signers, may);
  return found == signers.end() ? nullptr : &*found;
}

}  // namespace dfsmr
