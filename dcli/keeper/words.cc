#include "dcli/keeper/words.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace dfsmr::cli {
namespace {

void Put(uint32_t number, std::string* to) {
  to->append(reinterpret_cast<const char*>(&number), sizeof number);
}

void PutText(std::string_view text, std::string* to) {
  Put(static_cast<uint32_t>(text.size()), to);
  to->append(text);
}

void PutTexts(const std::vector<std::string>& texts, std::string* to) {
  Put(static_cast<uint32_t>(texts.size()), to);
  for (const std::string& text : texts) PutText(text, to);
}

// Takes pieces off the front of a text.
class Pieces {
 public:
  explicit Pieces(std::string_view text) : left_(text) {}
  bool Number(uint32_t* to) {
    if (left_.size() < sizeof *to) return false;
    std::memcpy(to, left_.data(), sizeof *to);
    left_.remove_prefix(sizeof *to);
    return true;
  }
  bool Text(std::string* to) {
    uint32_t size = 0;
    if (!Number(&size) || left_.size() < size) return false;
    *to = left_.substr(0, size);
    left_.remove_prefix(size);
    return true;
  }
  bool Texts(std::vector<std::string>* to) {
    uint32_t count = 0;
    if (!Number(&count)) return false;
    for (uint32_t i = 0; i < count; ++i) {
      if (!Text(&to->emplace_back())) return false;
    }
    return true;
  }
  bool over() const { return left_.empty(); }

 private:
  std::string_view left_;
};

}  // namespace

std::string Encoded(const Launch& launch) {
  std::string text;
  PutText(launch.file, &text);
  PutTexts(launch.arguments, &text);
  PutTexts(launch.environment, &text);
  PutText(launch.directory, &text);
  PutText(launch.cgroup, &text);
  PutText(launch.folder, &text);
  return text;
}

std::optional<Launch> Decoded(std::string_view text) {
  Pieces pieces(text);
  Launch launch;
  const bool sound = pieces.Text(&launch.file) && pieces.Texts(&launch.arguments) &&
                     pieces.Texts(&launch.environment) && pieces.Text(&launch.directory) &&
                     pieces.Text(&launch.cgroup) && pieces.Text(&launch.folder) && pieces.over();
  if (!sound) return std::nullopt;
  return launch;
}

bool Say(int socket, const Word& word) {
  ssize_t sent = 0;
  do {
    sent = send(socket, &word, sizeof word, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == sizeof word;
}

std::optional<Word> Hear(int socket, bool* gone) {
  Word word;
  ssize_t count = 0;
  do {
    count = recv(socket, &word, sizeof word, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  *gone = count == 0 || (count < 0 && errno != EAGAIN);
  if (count != sizeof word) return std::nullopt;
  return word;
}

}  // namespace dfsmr::cli
