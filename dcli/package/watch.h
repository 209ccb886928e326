// Tells when something in some folders has changed, and rests.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "dcli/call/client.h"
#include "dcli/system/process.h"

namespace dfsmr::cli {

// One thread. What happens after it was made, or after Await returned, is never missed; what is
// read in between may be read again.
class FolderWatch {
 public:
  // `poll`: looks each second. Else the kernel tells; where it has no more watches, `note` is
  // called with why, and it looks each second from then on.
  FolderWatch(std::vector<std::string> folders, bool poll,
              std::function<void(const std::string&)> note);

  // Waits until something has changed and nothing did for 200 ms (or for 2 s, if it goes on), at
  // most so long. False: cancelled.
  bool Await(const Canceller& canceller, std::chrono::milliseconds at_most);

 private:
  using Clock = std::chrono::steady_clock;
  void WatchAll();
  bool WatchFolder(const std::string& folder);
  bool Drain();
  bool AwaitEvents(const Canceller& canceller, Clock::time_point until);
  bool AwaitLooks(const Canceller& canceller, Clock::time_point until);
  std::string Look() const;

  const std::vector<std::string> folders_;
  const std::function<void(const std::string&)> note_;
  Descriptor inotify_;  // not open: it looks
  std::string seen_;
};

}  // namespace dfsmr::cli
