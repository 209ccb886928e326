#include "dsrv/secretless.h"

#include <algorithm>
#include <cstring>

namespace dfsmr {
namespace {

constexpr std::string_view kScheme = "://";
constexpr std::string_view kParameter = "password=";

}  // namespace

Arguments::Arguments(int argc, char** argv) : texts_(argv, argv + argc) {
  for (std::string& text : texts_) values_.push_back(text.data());
  values_.push_back(nullptr);
  for (int i = 1; i < argc; ++i) HidePasswords(argv[i]);
}

void HidePasswords(char* text) {
  const std::string whole(text);
  const size_t scheme = whole.find(kScheme);
  if (scheme == whole.npos) return;
  const auto hide = [text](size_t from, size_t to) { std::fill(text + from, text + to, '*'); };
  const size_t user = scheme + kScheme.size();
  const size_t host = whole.rfind('@', std::min(whole.find('?', user), whole.size()));
  const size_t colon = whole.find(':', user);
  if (host != whole.npos && host > user && colon < host) hide(colon + 1, host);
  for (size_t at = whole.find(kParameter, user); at != whole.npos;
       at = whole.find(kParameter, at + 1)) {
    const size_t from = at + kParameter.size();
    hide(from, std::min(whole.find('&', from), whole.size()));
  }
}

bool MayHoldPassword(std::string_view text) {
  return text.find('@') != text.npos || text.find(kParameter) != text.npos ||
         text.find(kScheme) != text.npos;
}

std::string Secretless(const std::string& message) {
  std::string shown;
  for (size_t at = 0; at < message.size();) {
    const size_t end = std::min(message.find_first_of(" \n", at), message.size());
    const std::string_view word = std::string_view(message).substr(at, end - at);
    shown += MayHoldPassword(word) ? "(a text that may hold a password)" : word;
    if (end < message.size()) shown += message[end];
    at = end + 1;
  }
  return shown;
}

}  // namespace dfsmr
