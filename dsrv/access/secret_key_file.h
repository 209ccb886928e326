// The file with the keys that seal secrets (--secret-key-file).
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "fsm/base/mutex.h"
#include "fsm/base/result.h"
#include "storage/secrets/seal.h"

namespace dfsmr {

// The keys in the file. BAD_REQUEST: it cannot be read, others than its owner may read it, or a
// line is no key.
Result<SecretKeys> ReadSecretKeyFile(const std::string& path);

// Reads the file again within two seconds of a change, and hands over what it holds. As long as it
// is wrong, the log says so, and the keys before stay. Does nothing when there is no file.
class SecretKeyWatch {
 public:
  using Changed = std::function<void(SecretKeysPtr)>;
  // `known`: what it held when the server started.
  SecretKeyWatch(std::string path, const SecretKeysPtr& known, Changed changed);
  ~SecretKeyWatch();

 private:
  void Watch();
  void Look();

  const std::string path_;
  const Changed changed_;
  std::string known_;  // the bytes of the keys that are in use
  std::string problem_;
  Mutex mutex_;
  ConditionVariable wake_;
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;
};

}  // namespace dfsmr
