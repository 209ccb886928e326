#include "storage/rocks/read_ahead.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dfsmr {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
constexpr size_t kChunksAhead = 8;

struct Chunk {
  struct Sizes {
    size_t key;
    size_t value;
  };
  std::string bytes;  // key, value, key, value, …
  std::vector<Sizes> rows;

  void Add(std::string_view key, std::string_view value) {
    bytes.append(key).append(value);
    rows.push_back({key.size(), value.size()});
  }
};

bool VisitAll(const Chunk& chunk, const View::Visit& visit) {
  std::string_view rest = chunk.bytes;
  for (const auto& [key, value] : chunk.rows) {
    if (!visit(rest.substr(0, key), rest.substr(key, value))) return false;
    rest.remove_prefix(key + value);
  }
  return true;
}

// Both ends may close it: the reader has nothing more, the visitor wants nothing more.
class Pipe {
 public:
  // Waits for room. False: it is closed.
  bool Push(Chunk chunk) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || chunks_.size() < kChunksAhead; });
    if (closed_) return false;
    chunks_.push_back(std::move(chunk));
    changed_.notify_one();
    return true;
  }
  // Waits for a chunk; an empty one when it is closed and nothing is left.
  Chunk Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !chunks_.empty(); });
    if (chunks_.empty()) return {};
    Chunk chunk = std::move(chunks_.front());
    chunks_.pop_front();
    changed_.notify_one();
    return chunk;
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Chunk> chunks_;
  bool closed_ = false;
};

}  // namespace

Result<Ok> ReadAhead(const std::function<Result<Ok>(const View::Visit&)>& read,
                     const View::Visit& visit) {
  Pipe pipe;
  Result<Ok> outcome = Ok{};
  std::thread reader([&] {
    Chunk chunk;
    outcome = read([&](std::string_view key, std::string_view value) {
      chunk.Add(key, value);
      return chunk.bytes.size() < kChunkBytes || pipe.Push(std::exchange(chunk, {}));
    });
    if (!chunk.rows.empty()) pipe.Push(std::move(chunk));
    pipe.Close();
  });
  bool enough = false;
  for (Chunk chunk = pipe.Pop(); !enough && !chunk.rows.empty(); chunk = pipe.Pop()) {
    enough = !VisitAll(chunk, visit);
    if (enough) pipe.Close();
  }
  reader.join();
  return enough ? Ok{} : outcome;
}

}  // namespace dfsmr
