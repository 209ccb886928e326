#include "dsrv/migrate/copying.h"

#include <optional>
#include <utility>

namespace dfsmr {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBatchRows = 10'000;
constexpr size_t kBatchBytes = 8 << 20;

}  // namespace

// One batch is on its way while the next one is read.
Result<Ok> Copying::Send() {
  if (auto before = Settle(); !before) return before;
  sent_ = std::async(std::launch::async,
                     [this, id = partition_, batch = std::exchange(batch_, Batch())] {
                       return pair_.Write(id, batch);
                     });
  return Ok{};
}

Result<Ok> Copying::Settle() { return sent_.valid() ? sent_.get() : Result<Ok>(Ok{}); }

Result<Ok> Copying::Copy() {
  auto last = pair_.LastKey();
  if (!last) return last.error();
  const std::string begin = last->empty() ? "" : *last + '\0';
  if (!begin.empty()) pair_.migration().tell("going on where it was interrupted");
  const auto started = Clock::now();
  Tally tally;
  std::optional<Error> failed;
  const auto read =
      pair_.source().ScanOnce(begin, "", [&](std::string_view key, std::string_view value) {
        const PartitionId partition = PartitionIn(key);
        if (partition != partition_ && !batch_.empty()) {
          if (auto sent = Send(); !sent) failed = sent.error();
        }
        partition_ = partition;
        tally.Add(key, value);
        batch_.Put(std::string(key), std::string(value));
        const bool full = batch_.operations().size() >= kBatchRows || batch_.bytes() >= kBatchBytes;
        if (!full && !failed) return true;
        if (auto sent = failed ? Result<Ok>(*failed) : Send(); !sent) failed = sent.error();
        if (!failed && pair_.Interrupted()) failed = Pair::Interruption();
        pair_.Tell("copied", tally, started);
        return !failed;
      });
  if (!failed && read && !batch_.empty()) {
    if (auto sent = Send(); !sent) failed = sent.error();
  }
  const auto settled = Settle();
  if (failed) return *failed;
  return read ? settled : read;
}

Result<Copying::Read> Copying::ReadAll(const View& store, const char* doing) {
  Read all;
  const auto read =
      pair_.ReadAll(store, doing, [&all](std::string_view key, std::string_view value) {
        all.tally.Add(key, value);
        all.digest.Mix(key);
        all.digest.Mix(value);
      });
  return read ? Result<Read>(all) : read.error();
}

Result<Tally> Copying::Compare() {
  auto source = ReadAll(pair_.source(), "compared, of the source");
  if (!source) return source.error();
  auto target = ReadAll(pair_.target(), "compared, of the copy");
  if (!target) return target.error();
  const bool same = source->tally == target->tally && source->digest == target->digest;
  return same ? Result<Tally>(target->tally) : pair_.Differs(source->tally, target->tally);
}

}  // namespace dfsmr
