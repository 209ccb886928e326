#include "dsrv/calls/put_package.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "dsrv/calls/definitions.h"
#include "dsrv/calls/packages.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/trust.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/packages.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr auto kUploadPatience = std::chrono::seconds(30);
constexpr size_t kMessageBytes = 1 << 20;  // of a message
constexpr std::string_view kSha = "sha256:";
// After a piece was written the disk is the others' for so many times as long as that took.
constexpr int kPauses = 2;

bool IsDigest(std::string_view digest) {
  return digest.size() == kSha.size() + 64 && digest.starts_with(kSha) &&
         std::ranges::all_of(digest.substr(kSha.size()), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Error Mismatch(const std::string& what, const std::string& said, const std::string& is) {
  return {Code::kInvalidArgument, Reason::kDigestMismatch,
          "the header says a " + what + " of " + said + ", and what came has " + is};
}

}  // namespace

// Room ------------------------------------------------------------------------------------------

uint64_t Uploads::Enter(std::function<void()> enter) {
  uint64_t number = 0;
  {
    const Lock lock(mutex_);
    number = next_++;
    if (inside_ == kAtOnce) {
      waiting_[number] = std::move(enter);
      return number;
    }
    ++inside_;
  }
  enter();
  return number;
}

bool Uploads::GiveUp(uint64_t number) {
  const Lock lock(mutex_);
  return waiting_.erase(number) > 0;
}

void Uploads::Leave() {
  std::function<void()> enter;
  {
    const Lock lock(mutex_);
    if (waiting_.empty()) {
      --inside_;
      return;
    }
    enter = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
  }
  enter();
}

void Uploads::Write(std::function<void()> write) {
  {
    const Lock lock(mutex_);
    if (writing_) return writes_.push_back(std::move(write));
    writing_ = true;
    began_ = std::chrono::steady_clock::now();
  }
  write();
}

void Uploads::Written() {
  const Lock lock(mutex_);
  const auto pause = kPauses * (std::chrono::steady_clock::now() - began_);
  pool_.Post([this, pause] {
    std::this_thread::sleep_for(pause);
    WriteNext();
  });
}

void Uploads::WriteNext() {
  std::function<void()> write;
  {
    const Lock lock(mutex_);
    writing_ = !writes_.empty();
    if (!writing_) return;
    write = std::move(writes_.front());
    writes_.pop_front();
    began_ = std::chrono::steady_clock::now();
  }
  write();
}

// The header ------------------------------------------------------------------------------------

PutPackageStream* PutPackageStream::Begin(const Backend& backend, Uploads& uploads,
                                          grpc::CallbackServerContext* context,
                                          v1::PutPackageResponse* reply, const Method& method) {
  auto* stream = new PutPackageStream(backend, uploads, context, reply);
  stream->Counts(backend, *context, method);
  std::shared_ptr<PutPackageStream> self(stream);
  {
    const Lock lock(stream->mutex_);
    stream->self_ = self;
  }
  // The header says which namespace it wants to enter.
  auto caller = backend.access.AdmitAnywhere(GrpcOrigin(*context), {&method});
  if (!caller) {
    stream->End(caller.error());
    return stream;
  }
  stream->caller_ = *std::move(caller);
  stream->entered_ = backend.gate.Admit();
  if (!stream->entered_) {
    stream->End(Stopping());
    return stream;
  }
  backend.access.Watch(stream->caller_, std::weak_ptr<Revocable>(self));
  stream->Read();
  return stream;
}

void PutPackageStream::Read() {
  if (!Ended()) StartRead(&incoming_);
}

void PutPackageStream::OnReadDone(bool ok) {
  if (Ended()) return;
  if (!header_read_) {
    if (!ok || !incoming_.has_header()) {
      return End(Bad("the first message of an upload is its header"));
    }
    return TakeHeader();
  }
  uploads_.Take([self = self_of(), ok] {
    if (self) ok ? self->TakeData() : self->Check();
  });
}

Result<Ok> PutPackageStream::CheckHeader() {
  auto ns = ToNamespace(header_.namespace_());
  if (!ns) return ns.error();
  ns_ = *std::move(ns);
  if (auto may = caller_.MayEnter(ns_); !may) return may;
  if (!IsDigest(header_.digest())) {
    return Bad("digest is to be 'sha256:' and 64 hex digits, in lower case");
  }
  if (header_.size() == 0) return Bad("the size of the archive is missing");
  if (header_.size() > limits::kArchive) {
    return TooLarge("the archive", header_.size(), limits::kArchive);
  }
  auto given = ParseSignatures({header_.signatures().begin(), header_.signatures().end()});
  if (!given) return given.error();
  signatures_ = *std::move(given);
  return Ok{};
}

void PutPackageStream::TakeHeader() {
  header_read_ = true;
  header_ = std::move(*incoming_.mutable_header());
  caller_.On(header_.digest(), header_.validate_only() ? "validate only" : "");
  if (auto sound = CheckHeader(); !sound) return End(sound.error());
  AwaitRoom();
}

void PutPackageStream::AwaitRoom() {
  std::shared_ptr<PutPackageStream> self;
  {
    const Lock lock(mutex_);
    self = self_;
  }
  if (!self) return;
  const std::weak_ptr<PutPackageStream> weak = self;
  waiting_ = uploads_.Enter([weak, &uploads = uploads_] {
    const auto stream = weak.lock();
    if (!stream || !stream->Counted()) return uploads.Leave();
    stream->Post(0, [stream](Engine& engine) { stream->Look(engine); });
  });
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(std::chrono::system_clock::now() + kUploadPatience, [weak](bool ok) {
    const auto stream = weak.lock();
    if (ok && stream && stream->uploads_.GiveUp(stream->waiting_)) {
      stream->End({Code::kResourceExhausted, Reason::kOverloaded,
                   "8 archives are on their way here already, and none of them has come to its "
                   "end in 30 s; try again later"});
    }
  });
}

// In the loop: what is known of these bytes?
void PutPackageStream::Look(Engine& engine) {
  const PackageState::Known* known = engine.packages().WithDigest(ns_, header_.digest());
  if (auto may = engine.packages().MayPut(ns_, known ? 0 : header_.size()); !may) {
    return engine.AfterCommit([self = self_of(), error = may.error()] { self->End(error); });
  }
  if (known) {
    engine.AfterCommit([this, self = self_of(), version = known->version] {
      if (signatures_.empty()) return ShowAndEnd(version->package, version->version, false);
      backend_.pool.Post([this, self, version] { SignKnown(version); });
    });
    return;
  }
  if (!header_.validate_only()) {
    if (auto room = engine.packages().HasRoom(header_.size()); !room) {
      return engine.AfterCommit([self = self_of(), error = room.error()] { self->End(error); });
    }
    upload_ = engine.packages().BeginUpload(ns_, header_.size());
  }
  archive_ = std::make_unique<ArchiveIntake>();
  engine.AfterCommit([self = self_of()] { self->Read(); });
}

// In the pool.
void PutPackageStream::SignKnown(const PackageVersionPtr& version) {
  if (Ended()) return;
  {
    const Moment moment(backend_.reader);
    auto row = rows::GetPackageVersion(moment.rows, ns_, version->package, version->version);
    if (!row || !*row) return End(row ? Overloaded() : row.error());
    auto hashes = HashesOf(moment, **row);
    auto good = hashes ? VerifyAll(signatures_, *hashes) : Result<Ok>(hashes.error());
    if (!good) return End(good.error());
  }
  Post(0, [this, self = self_of(), version](Engine& engine) {
    const auto rows = RowsOf(signatures_, IdOf(caller_));
    Trust& trust = engine.packages().trust();
    Result<Ok> kept = Ok{};
    if (!header_.validate_only()) {
      kept = trust.Sign(*version, rows);
    } else if (auto fresh = trust.NewOf(*version, rows); !fresh) {
      kept = fresh.error();
    }
    engine.AfterCommit([this, self, version, kept] {
      if (!kept) return End(kept.error());
      ShowAndEnd(version->package, version->version, false);
    });
  });
}

// The archive -----------------------------------------------------------------------------------

// In the pool of uploads.
void PutPackageStream::TakeData() {
  if (Ended()) return;
  if (incoming_.has_header()) return End(Bad("an upload has one header, in its first message"));
  const std::string data = std::move(*incoming_.mutable_data());
  if (data.size() > kMessageBytes) {
    return End(TooLarge("a message of an upload", data.size(), kMessageBytes));
  }
  if (auto fed = Feed(data); !fed) return End(fed.error());
  if (!header_.validate_only()) piece_ += data;
  WriteWhole([this] { Read(); });
}

Result<Ok> PutPackageStream::Feed(const std::string& data) {
  if (archive_->bytes() + data.size() > header_.size()) {
    return Mismatch("size", std::to_string(header_.size()) + " bytes", "more");
  }
  return archive_->Feed(data);
}

void PutPackageStream::WriteWhole(std::function<void()> then) {
  if (piece_.size() < kPieceBytes) return then();
  WritePiece([this, then = std::move(then)] { WriteWhole(then); });
}

// The next piece, alone among those of all uploads; then the rest.
void PutPackageStream::WritePiece(std::function<void()> then) {
  auto bytes = std::make_shared<std::string>(piece_.substr(0, kPieceBytes));
  piece_.erase(0, bytes->size());
  if (bytes->empty()) return then();
  const auto self = self_of();
  uploads_.Write([this, self, bytes, then] {
    if (Ended()) return uploads_.Written();
    const size_t size = bytes->size();
    const auto run = [this, self, bytes, then](Engine& engine) {
      auto put = engine.packages().PutPiece(ns_, *upload_, pieces_++, std::move(*bytes));
      engine.AfterCommit([this, self, then, put] {
        uploads_.Written();
        put ? then() : End(put.error());
      });
    };
    const bool posted = backend_.loop.Post(
        {.run = run, .drop = [this, self] { uploads_.Written(); }, .bytes = size});
    if (posted) return;
    End(Overloaded());
    uploads_.Written();
  });
}

Result<Ok> PutPackageStream::CheckWhole() {
  if (archive_->bytes() != header_.size()) {
    return Mismatch("size", std::to_string(header_.size()) + " bytes",
                    std::to_string(archive_->bytes()));
  }
  const std::string digest = archive_->Hash().Digest();
  if (digest != header_.digest()) return Mismatch("digest", header_.digest(), digest);
  if (auto good = VerifyAll(signatures_, archive_->hashes()); !good) return good;
  return archive_->Finish();
}

// In the pool of uploads: all has come.
void PutPackageStream::Check() {
  if (Ended()) return;
  if (auto whole = CheckWhole(); !whole) return End(whole.error());
  auto checked = archive_->Check(backend_.zones, backend_.clock());
  if (!checked) return End(checked.error());
  if (!checked->ok()) return EndBadPackage(checked->diagnostics);
  for (const Diagnostic& one : checked->diagnostics) ToProto(one, made_.add_diagnostics());
  auto whole = std::make_shared<CheckedPackage>(*std::move(checked));
  if (header_.validate_only()) return PutTexts(whole);
  WritePiece([this, self = self_of(), whole] { PutTexts(whole); });
}

rows::PackageVersionRow PutPackageStream::RowOf(const CheckedPackage& checked) {
  rows::PackageVersionRow row = archive_->RowOf(checked);
  row.ns = ns_;
  row.put_by = IdOf(caller_);
  row.pieces = pieces_;
  if (upload_) row.upload = *upload_;
  return row;
}

// Texts in a turn, then the row in a turn of its own.
void PutPackageStream::PutTexts(const std::shared_ptr<CheckedPackage>& checked) {
  if (Ended()) return;
  auto row = std::make_shared<rows::PackageVersionRow>(RowOf(*checked));
  const auto self = self_of();
  if (header_.validate_only()) {
    return Post(0, [this, self, row](Engine& engine) {
      auto there = engine.packages().IsThere(*row);
      const auto version = KnownOf(*row).version;
      auto may = engine.packages().trust().NewOf(*version, RowsOf(signatures_, IdOf(caller_)));
      if (there && !may) there = may.error();
      PackageStanding standing;
      Trust::Signers signers;
      for (const GivenSignature& one : signatures_) signers.push_back(Fingerprint(one.parsed.key));
      standing.trust = engine.packages().trust().ViewOf(ns_, signers);
      engine.AfterCommit([this, self, row, there, standing] {
        if (!there) return End(there.error());
        ToProto(*row, standing, made_.mutable_package());
        made_.set_created(!*there);
        Succeed();
      });
    });
  }
  Post(0, [this, self, checked, row](Engine& engine) {
    for (const PackageSource& source : checked->sources) {
      engine.packages().PutText(ns_, *upload_, source.path, source.text);
    }
    engine.AfterCommit([this, self, row] {
      Post(0, [this, self, row](Engine& deciding) { FinishIn(deciding, *row); });
    });
  });
}

void PutPackageStream::FinishIn(Engine& engine, const rows::PackageVersionRow& row) {
  if (Ended()) return;
  auto created = engine.packages().Finish(row, RowsOf(signatures_, IdOf(caller_)));
  upload_.reset();  // it is the version's, or was dropped
  engine.AfterCommit([this, self = self_of(), row, created] {
    if (!created) return End(created.error());
    ShowAndEnd(row.package, row.version, *created);
  });
}

// The end ---------------------------------------------------------------------------------------

void PutPackageStream::ShowAndEnd(const std::string& package, const std::string& version,
                                  bool created) {
  made_.set_created(created);
  Post(0, [this, self = self_of(), package, version](Engine& engine) {
    auto known = engine.packages().Find(ns_, package, version);
    if (!known) return End(known.error());
    const PackageStanding standing = engine.packages().StandingOf(*known->version);
    backend_.pool.Post([this, self, package, version, standing] {
      const Moment moment(backend_.reader);
      auto shown = ShowPackage(moment, ns_, {package, version, standing}, made_.mutable_package());
      if (!shown) return End(shown.error());
      Succeed();
    });
  });
}

void PutPackageStream::Post(size_t bytes, std::function<void(Engine&)> run) {
  const bool posted = backend_.loop.Post({.run = std::move(run),
                                          .drop =
                                              [self = self_of()] {
                                                if (self) self->End(DeadlinePassed());
                                              },
                                          .bytes = bytes});
  if (!posted) End(Overloaded());
}

void PutPackageStream::EndBadPackage(const std::vector<Diagnostic>& wrong) {
  {
    const Lock lock(mutex_);
    if (finished_) return;
    context_->AddTrailingMetadata("dfsmr-diagnostics-bin", DiagnosticsTrailer(wrong));
  }
  End(BadSource(wrong, Reason::kBadPackage));
}

void PutPackageStream::Succeed() {
  {
    const Lock lock(mutex_);
    if (std::exchange(finished_, true)) return;
    reply_->Swap(&made_);
  }
  caller_.Note(nullptr);
  Finish(grpc::Status::OK);
}

void PutPackageStream::End(const Error& error) {
  {
    const Lock lock(mutex_);
    if (std::exchange(finished_, true)) return;
  }
  caller_.Note(&error);
  Abandon();
  Finish(RefuseStream(backend_, context_, error));
}

void PutPackageStream::Abandon() {
  backend_.loop.Post({.run =
                          [self = self_of()](Engine& engine) {
                            if (!self || !self->upload_) return;
                            engine.packages().Abandon(self->ns_, *self->upload_);
                          },
                      .drop = [] {},
                      .owed = true});
}

std::shared_ptr<PutPackageStream> PutPackageStream::self_of() {
  const Lock lock(mutex_);
  return self_;
}

bool PutPackageStream::Ended() {
  const Lock lock(mutex_);
  return finished_;
}

bool PutPackageStream::Counted() {
  const Lock lock(mutex_);
  return counted_ = !finished_;
}

void PutPackageStream::OnDone() {
  if (waiting_ != 0) uploads_.GiveUp(waiting_);
  if (alarm_) alarm_->Cancel();
  std::shared_ptr<PutPackageStream> self;
  bool counted = false;
  {
    const Lock lock(mutex_);
    self.swap(self_);
    counted = std::exchange(counted_, false);
  }
  if (counted) uploads_.Leave();
  if (entered_) backend_.gate.Leave();
}

}  // namespace dfsmr
