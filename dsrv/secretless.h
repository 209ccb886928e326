// Passwords in the URLs of databases, which nobody is to see: not in what the process was started
// with, and not in what it says of that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

// What a process was started with. From the beginning on the passwords in it are hidden where others
// see it (ps, /proc/PID/cmdline); here they are as they were given.
class Arguments {
 public:
  Arguments(int argc, char** argv);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  int count() const { return static_cast<int>(texts_.size()); }
  char** values() { return values_.data(); }  // and a null pointer

 private:
  std::vector<std::string> texts_;
  std::vector<char*> values_;
};

// Overwrites the passwords in a text that may be a URL: behind the user, and as a parameter.
void HidePasswords(char* text);

// Whether a text may hold a password, and is not to be repeated.
bool MayHoldPassword(std::string_view text);
// A message without the words that may hold one.
std::string Secretless(const std::string& message);

}  // namespace dfsmr
