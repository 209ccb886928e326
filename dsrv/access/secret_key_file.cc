#include "dsrv/access/secret_key_file.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr size_t kLargest = 64 << 10;

class File {
 public:
  explicit File(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (file_ >= 0) close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return file_; }

 private:
  const int file_;
};

std::string BytesOf(const SecretKeysPtr& keys) {
  std::string bytes;
  if (!keys) return bytes;
  for (const SecretKey& key : keys->keys) bytes += key.bytes;
  return bytes;
}

std::string NamesOf(const SecretKeys& keys) {
  std::string names;
  for (const SecretKey& key : keys.keys) names += (names.empty() ? "" : ", ") + key.id;
  return names;
}

}  // namespace

Result<SecretKeys> ReadSecretKeyFile(const std::string& path) {
  const auto wrong = [&path](const std::string& why) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 "the secret key file " + Quoted(path) + " " + why};
  };
  const File file(path);
  struct stat about {};
  if (file.get() < 0 || fstat(file.get(), &about) != 0) {
    return wrong(std::string("cannot be read: ") + std::strerror(errno));
  }
  if ((about.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) != 0) {
    return wrong("is open to others than its owner, and with it all secrets: chmod 600 " + path);
  }
  std::string text(kLargest + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(file.get(), text.data() + size, text.size() - size);
    if (count < 0) return wrong(std::string("cannot be read: ") + std::strerror(errno));
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  if (size > kLargest) return wrong("is larger than 64 KiB");
  text.resize(size);
  return ParseSecretKeys(text, path);
}

SecretKeyWatch::SecretKeyWatch(std::string path, const SecretKeysPtr& known, Changed changed)
    : path_(std::move(path)), changed_(std::move(changed)), known_(BytesOf(known)) {
  if (!path_.empty()) thread_ = std::thread([this] { Watch(); });
}

SecretKeyWatch::~SecretKeyWatch() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void SecretKeyWatch::Watch() {
  Lock lock(mutex_);
  while (!wake_.WaitFor(lock, kLookEvery, [this]() REQUIRES(mutex_) { return ended_; })) {
    lock.Unlock();
    Look();
    lock.Relock();
  }
}

void SecretKeyWatch::Look() {
  auto read = ReadSecretKeyFile(path_);
  const std::string problem = read ? "" : read.error().message;
  if (problem != std::exchange(problem_, problem) && !problem.empty()) {
    spdlog::warn("secrets: {}; until then the keys from before are used", problem);
  }
  if (!read) return;
  auto keys = std::make_shared<const SecretKeys>(*std::move(read));
  if (BytesOf(keys) == known_) return;
  known_ = BytesOf(keys);
  spdlog::info("secrets: the key file has changed; the key {} seals from now on, these open: {}",
               keys->first().id, NamesOf(*keys));
  changed_(std::move(keys));
}

}  // namespace dfsmr
