#include "storage/rocks/read_ahead.h"

#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fsm/base/mutex.h"

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

// Either end may close it: the reader when it has no more rows, the visitor when it wants no more.
class Pipe {
 public:
  // Waits for space. False: the pipe is closed.
  bool Push(Chunk chunk) {
    Lock lock(mutex_);
    changed_.Wait(lock, [this]() REQUIRES(mutex_) {
      return closed_ || chunks_.size() < kChunksAhead;
    });
    if (closed_) return false;
    chunks_.push_back(std::move(chunk));
    changed_.NotifyOne();
    return true;
  }
  // Waits for a chunk; an empty one when the pipe is closed and nothing is left.
  Chunk Pop() {
    Lock lock(mutex_);
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return closed_ || !chunks_.empty(); });
    if (chunks_.empty()) return {};
    Chunk chunk = std::move(chunks_.front());
    chunks_.pop_front();
    changed_.NotifyOne();
    return chunk;
  }
  void Close() {
    const Lock lock(mutex_);
    closed_ = true;
    changed_.NotifyOne();
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Chunk> chunks_ GUARDED(mutex_);
  bool closed_ GUARDED(mutex_) = false;
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
