// What an AppendLogs stream says, shared among the partitions where its instances live: what each of
// them is still to be told, and which requests all of them have answered. Knows no threads and no
// servers. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dfsmr/v1/agent.pb.h"
#include "storage/store.h"

namespace dfsmr {

class LogShares {
 public:
  explicit LogShares(uint16_t partitions) : parts_(partitions) {}

  // The next request, as it came. Home is asked about the first one, whosever lines it has, and says
  // what is wrong with any.
  void Take(std::string bytes);
  // The next message to a partition, on the stream that it has; nullopt: there is none.
  std::optional<std::string> NextFor(PartitionId partition);
  // Whether there is one.
  bool HasNextFor(PartitionId partition) const {
    return parts_[partition].said < parts_[partition].unanswered.size();
  }
  void TakeAnswer(PartitionId partition, const v1::AppendLogsResponse& answer);
  // Its stream has ended. What it has not answered is said anew on the next one.
  void Lose(PartitionId partition);

  // The answer to the next request that all have answered; nullopt: there is none.
  std::optional<v1::AppendLogsResponse> TakeResponse();
  // Requests.
  size_t unanswered() const { return requests_.size(); }

 private:
  struct Request {
    size_t left = 0;                // partitions that have not answered
    std::set<std::string> refused;  // claims
  };
  struct Share {
    uint64_t request = 0;  // its number
    std::string bytes;     // without the namespace
  };
  struct Part {
    std::deque<Share> unanswered;
    size_t said = 0;        // of these, on its stream
    bool begun = false;     // its stream knows the namespace
    uint64_t answered = 0;  // on its stream
  };

  void Add(PartitionId partition, std::string bytes);

  std::vector<Part> parts_;
  std::string ns_;
  std::deque<Request> requests_;  // the last ones
  uint64_t taken_ = 0;
};

}  // namespace dfsmr
