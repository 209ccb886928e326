#include "dsrv/calls/fetch_package.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/packages.h"
#include "dsrv/calls/put_package.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/trust.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/packages.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

// Where the link at `path` leads, which was found to stay in the package.
std::string LinkedPath(const std::string& path, const std::string& link) {
  std::vector<std::string> parts;
  const auto take = [&parts](std::string_view text) {
    while (!text.empty()) {
      const std::string_view part = text.substr(0, text.find('/'));
      text.remove_prefix(std::min(part.size() + 1, text.size()));
      if (part == "..") {
        if (!parts.empty()) parts.pop_back();
      } else if (!part.empty() && part != ".") {
        parts.emplace_back(part);
      }
    }
  };
  const size_t slash = path.rfind('/');
  take(slash == std::string::npos ? std::string_view() : std::string_view(path).substr(0, slash));
  take(link);
  std::string to;
  for (const std::string& part : parts) to += (to.empty() ? "" : "/") + part;
  return to;
}

bool IsWorker(const Caller& caller) {
  return caller.principal() && caller.principal()->role() == v1::AccessToken::WORKER;
}

}  // namespace

FetchPackageStream* FetchPackageStream::Begin(const Backend& backend,
                                              grpc::CallbackServerContext* context,
                                              const Method& method, const Result<Caller>& caller,
                                              const v1::FetchPackageRequest& request) {
  auto* stream = new FetchPackageStream(backend, context, request);
  stream->Counts(backend, *context, method);
  std::shared_ptr<FetchPackageStream> self(stream);
  {
    const Lock lock(stream->mutex_);
    stream->self_ = self;
  }
  stream->entered_ = backend.gate.Admit();
  auto ns = ToNamespace(request.namespace_());
  const Result<Ok> sound = !caller             ? caller.error()
                           : !stream->entered_ ? Stopping()
                           : !ns               ? ns.error()
                                               : Result<Ok>(Ok{});
  if (!sound) {
    stream->End(sound.error());
    return stream;
  }
  stream->ns_ = *std::move(ns);
  stream->caller_ = *caller;
  backend.access.Watch(*caller, std::weak_ptr<Revocable>(self));
  const bool posted = backend.loop.Post({.run = [self](Engine& engine) { self->Find(engine); },
                                         .drop = [self] { self->End(DeadlinePassed()); }});
  if (!posted) stream->End(Overloaded());
  return stream;
}

void FetchPackageStream::Find(Engine& engine) {
  auto known = engine.packages().Find(ns_, request_.package(), request_.version());
  if (!known) return End(known.error());
  if (auto may = MayHave(caller_, known->version->package); !may) return End(may.error());
  if (IsWorker(caller_)) {
    auto may = engine.packages().trust().MayUse(*known->version);
    if (!may) return End(may.error());
  }
  package_ = known->version->package;
  version_ = known->version->version;
  standing_ = engine.packages().StandingOf(*known->version);
  engine.AfterCommit([this, self = self_of()] { backend_.pool.Post([this, self] { Open(); }); });
}

void FetchPackageStream::Open() {
  if (Ended()) return;
  const Moment moment(backend_.reader);
  auto row = rows::GetPackageVersion(moment.rows, ns_, package_, version_);
  if (!row) return End(row.error());
  if (!*row || (*row)->removed) {
    return End({Code::kNotFound, Reason::kNoSuchPackage, "the version was removed just now"});
  }
  row_ = **std::move(row);
  if (auto place = Place(); !place) return End(place.error());
  ToProto(row_, standing_, outgoing_.mutable_package());
  auto read = ShowSignatures(moment, row_, standing_, outgoing_.mutable_package());
  if (!read) return End(read.error());
  SendNext();
}

// Where what is asked for is in the archive.
Result<Ok> FetchPackageStream::Place() {
  uint64_t begin = 0;
  uint64_t size = row_.size;
  if (!request_.path().empty()) {
    std::string path = request_.path();
    for (int links = 0;; ++links) {
      const auto file = std::ranges::find(row_.files, path, &rows::PackageFile::path);
      if (file == row_.files.end() || links > 40) {
        return Error{Code::kNotFound, Reason::kNoSuchFile,
                     "package " + Quoted(package_) + " has no file " + Quoted(request_.path()) +
                         " in its version " + version_};
      }
      begin = file->offset;
      size = file->size;
      if (file->link.empty()) break;
      path = LinkedPath(path, file->link);
    }
  }
  if (request_.offset() > size) {
    return Bad("the offset is behind the end, which is at " + std::to_string(size));
  }
  at_ = begin + request_.offset();
  end_ = begin + size;
  return Ok{};
}

// A piece never changes, so each may be read from a moment of its own.
Result<std::string> FetchPackageStream::PieceOf(uint32_t number) {
  const Moment moment(backend_.reader);
  auto piece = rows::GetPiece(moment.rows, ns_, row_.upload, number);
  if (!piece) return piece.error();
  if (!*piece) {
    return Error{Code::kNotFound, Reason::kNoSuchPackage, "the version was removed just now"};
  }
  return **std::move(piece);
}

// All pieces but the last are as large as the first one.
Result<std::string> FetchPackageStream::PieceAt() {
  if (piece_bytes_ == 0) {
    auto first = PieceOf(0);
    if (!first) return first;
    piece_bytes_ = std::max<uint64_t>(first->size(), 1);
    if (at_ < piece_bytes_) return first;
  }
  return PieceOf(static_cast<uint32_t>(at_ / piece_bytes_));
}

void FetchPackageStream::SendNext() {
  if (Ended()) return;
  if (at_ == end_ && !first_) return EndWith(grpc::Status::OK);
  outgoing_.clear_data();
  if (at_ < end_) {
    auto piece = PieceAt();
    if (!piece) return End(piece.error());
    const uint64_t offset = at_ % piece_bytes_;
    const uint64_t bytes = std::min<uint64_t>(end_ - at_, piece->size() - offset);
    outgoing_.set_data(piece->substr(offset, bytes));
    at_ += bytes;
  }
  first_ = false;
  const Lock lock(mutex_);
  if (!finished_) StartWrite(&outgoing_);
}

void FetchPackageStream::OnWriteDone(bool ok) {
  if (!ok) return EndWith({grpc::StatusCode::CANCELLED, "the stream broke"});
  if (Ended()) return;
  outgoing_.clear_package();
  backend_.pool.Post([self = self_of()] { self->SendNext(); });
}

void FetchPackageStream::End(const Error& error) {
  if (!Ended()) EndWith(RefuseStream(backend_, context_, error));
}

void FetchPackageStream::EndWith(grpc::Status status) {
  {
    const Lock lock(mutex_);
    if (std::exchange(finished_, true)) return;
  }
  Finish(std::move(status));
}

bool FetchPackageStream::Ended() {
  const Lock lock(mutex_);
  return finished_;
}

std::shared_ptr<FetchPackageStream> FetchPackageStream::self_of() {
  const Lock lock(mutex_);
  return self_;
}

void FetchPackageStream::OnDone() {
  if (entered_) backend_.gate.Leave();
  std::shared_ptr<FetchPackageStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
