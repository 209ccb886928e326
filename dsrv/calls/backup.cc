#include "dsrv/calls/backup.h"

#include <chrono>
#include <utility>

#include "dsrv/backup/backups.h"
#include "storage/backup/pack.h"

namespace dfsmr {
namespace {

// How long a reader may take nothing: as long as it does not, the copy holds space of the disk.
constexpr auto kPatience = std::chrono::minutes(10);

Error Gone() { return {Code::kCancelled, Reason::kNone, "the stream broke"}; }

}  // namespace

BackupStream* BackupStream::Begin(const Backend& backend, grpc::CallbackServerContext* context,
                                  const Method& method, const Result<Caller>& caller) {
  auto* stream = new BackupStream(backend, context);
  stream->Counts(backend, *context, method);
  std::shared_ptr<BackupStream> self(stream);
  {
    const Lock lock(stream->mutex_);
    stream->self_ = self;
  }
  stream->entered_ = backend.gate.Admit();
  const Result<Ok> sound = !caller             ? caller.error()
                           : !stream->entered_ ? Stopping()
                                               : Result<Ok>(Ok{});
  if (!sound) {
    stream->End(sound.error());
    return stream;
  }
  stream->caller_ = *caller;
  backend.access.Watch(*caller, std::weak_ptr<Revocable>(self));
  if (!backend.backups.Run([self] { self->Run(); })) stream->End(Overloaded());
  return stream;
}

void BackupStream::Run() {
  const auto sent = SendAll();
  if (!sent) return End(sent.error());
  if (Over()) return;
  caller_.Note(nullptr);
  Finish(grpc::Status::OK);
}

Result<Ok> BackupStream::SendAll() {
  auto copy = backend_.backups.Take();
  if (!copy) return copy.error();
  auto size = BytesBelow((*copy)->folder());
  if (!size) return size.error();
  if (auto sent = Send({}, *size); !sent) return sent;
  return PackBackup((*copy)->folder(), (*copy)->manifest,
                    {.give = [this](std::string_view bytes) { return Send(bytes, 0); },
                     .pace = Backups::Pacer(backend_.backups)});
}

// Waits until the message before has gone: so one is in memory at a time.
Result<Ok> BackupStream::Send(std::string_view bytes, uint64_t size) {
  Lock lock(mutex_);
  const bool free = changed_.WaitFor(lock, kPatience,
                                     [this]() REQUIRES(mutex_) { return finished_ || !writing_; });
  if (finished_) return Gone();
  if (!free) {
    return Error{Code::kAborted, Reason::kNone,
                 "the reader has taken nothing of the backup for 10 minutes"};
  }
  outgoing_.set_data(bytes.data(), bytes.size());
  outgoing_.set_size(size);
  writing_ = true;
  StartWrite(&outgoing_);
  return Ok{};
}

void BackupStream::OnWriteDone(bool ok) {
  {
    const Lock lock(mutex_);
    writing_ = false;
  }
  changed_.NotifyAll();
  if (!ok) End(Gone());
}

void BackupStream::End(const Error& error) {
  if (Over()) return;
  caller_.Note(&error);
  Finish(RefuseStream(backend_, context_, error));
}

// True: it is over already. False: it is from now on, and the caller finishes it.
bool BackupStream::Over() {
  {
    const Lock lock(mutex_);
    if (std::exchange(finished_, true)) return true;
  }
  changed_.NotifyAll();
  return false;
}

void BackupStream::OnDone() {
  if (entered_) backend_.gate.Leave();
  std::shared_ptr<BackupStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
