// The call of BackupService.
#pragma once

#include <functional>

#include "dcli/call/client.h"

namespace dfsmr::cli {

// Valid as long as its client.
class BackupCalls {
 public:
  explicit BackupCalls(Client& client) : client_(client) {}

  // Hands each message of the stream to `visit`, until that returns false: then the call is
  // cancelled, and that is no error. OK otherwise only when the backup is whole.
  Result<Ok> Backup(const std::function<bool(const v1::BackupResponse&)>& visit, Canceller* cancel);

 private:
  Client& client_;
};

}  // namespace dfsmr::cli
