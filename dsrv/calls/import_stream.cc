#include "dsrv/calls/import_stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "dsrv/calls/others.h"
#include "dsrv/calls/packages.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/trust.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/moment.h"
#include "fsm/base/names.h"
#include "storage/rows/secret.h"

namespace dfsmr {
namespace {

constexpr size_t kMostItemBytes = 1 << 20;  // of an item
constexpr int kOvertakenMost = 10;
// For the owner of a partition that takes what lives there: it may be a lot.
constexpr std::chrono::seconds kForRestore{120};

}  // namespace

ImportStream* ImportStream::Begin(const Backend& backend, Uploads& uploads,
                                  grpc::CallbackServerContext* context,
                                  v1::ImportNamespaceResponse* reply, const Method& method) {
  auto* stream = new ImportStream(backend, uploads, context, reply);
  stream->Counts(backend, *context, method);
  std::shared_ptr<ImportStream> self(stream);
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

void ImportStream::Read() {
  if (!Ended()) StartRead(&incoming_);
}

void ImportStream::OnReadDone(bool ok) {
  if (Ended()) return;
  if (!header_read_) {
    if (!ok || !incoming_.has_header()) {
      return End(Bad("the first message of an import is its header"));
    }
    return TakeHeader();
  }
  if (!ok && !complete_) {
    return End(BadArchive("",
                          "the export is torn: its last item, which says that it is the end, "
                          "is missing"));
  }
  InPool([this, ok] { ok ? TakeItem() : AllHasCome(); });
}

void ImportStream::TakeHeader() {
  header_read_ = true;
  const v1::ImportNamespaceRequest::Header header = incoming_.header();
  caller_.On(header.name(), header.validate_only() ? "validate only" : "");
  auto ns = ToNamespace(header.name());
  if (!ns) return End(ns.error());
  if (auto may = caller_.MayEnter(*ns); !may) return End(may.error());
  import_.ns = *ns;
  import_.by = IdOf(caller_);
  import_.validate_only = header.validate_only();
  const bool quotas = !caller_.principal() || caller_.MayInAll("to set quotas").has_value();
  files_ = std::make_unique<ImportFiles>(*ns, backend_.zones, backend_.clock(), quotas,
                                         backend_.others ? backend_.others->partitions : 1);
  Post([this](Engine& engine) {
    auto may = engine.namespaces().MayUse(import_.ns);
    engine.AfterCommit(
        [this, self = weak_from_this().lock(), may] { may ? Read() : End(may.error()); });
  });
}

// Files -----------------------------------------------------------------------------------------

void ImportStream::TakeItem() {
  if (complete_) return End(BadArchive("", "something comes behind the end of the export"));
  if (!incoming_.has_item()) return End(Bad("an import has one header, in its first message"));
  const v1::ExportItem& item = incoming_.item();
  if (item.data().size() > kMostItemBytes) {
    return End(TooLarge("an item of an import", item.data().size(), kMostItemBytes));
  }
  if (item.end()) {
    complete_ = true;
    return EndFile([this] { Read(); });
  }
  if (item.path() == path_) return TakeData();
  EndFile([this] {
    path_ = incoming_.item().path();
    if (auto begun = files_->Begin(path_); !begun) return End(begun.error());
    TakeData();
  });
}

void ImportStream::TakeData() {
  const std::string& data = incoming_.item().data();
  if (auto taken = files_->Take(data); !taken) return End(taken.error());
  if (import_.validate_only) {
    (void)files_->TakeRows();
    return Read();
  }
  if (!files_->in_archive()) return WriteRows(/*all=*/false, [this] { Read(); });
  archive_.rest += data;
  Write(archive_, /*all=*/false, [this] { Read(); });
}

// What has come of rows, each partition's by itself.
void ImportStream::WriteRows(bool all, const Then& then) {
  for (auto& [partition, rows] : files_->TakeRows()) rows_[partition].rest += rows;
  for (auto& [partition, staging] : rows_) {
    if (staging.rest.size() < kPieceBytes && (!all || staging.rest.empty())) continue;
    return Write(staging, all, [this, all, then] { WriteRows(all, then); });
  }
  then();
}

void ImportStream::EndFile(Then then) {
  if (path_.empty()) return then();
  path_.clear();
  const bool archive = files_->in_archive();
  if (auto ended = files_->End(); !ended) return End(ended.error());
  if (!archive || import_.validate_only) return then();
  Write(archive_, /*all=*/true, [this, then = std::move(then)] { PutTexts(then); });
}

// The texts of an archive whose pieces are written; with the row it is complete.
void ImportStream::PutTexts(const Then& then) {
  rows::PackageVersionRow& row = files_->package().row;
  row.upload = *archive_.upload;
  row.pieces = archive_.pieces;
  row.put_by = import_.by;
  archive_ = {};
  Post([this, then](Engine& engine) {
    for (const auto& [path, text] : files_->texts()) {
      engine.packages().PutText(import_.ns, files_->package().row.upload, path, text);
    }
    engine.AfterCommit([this, self = weak_from_this().lock(), then] { InPool(then); });
  });
}

void ImportStream::Write(Staging& staging, bool all, Then then) {
  const bool whole = staging.rest.size() >= kPieceBytes;
  if (!whole && (!all || staging.rest.empty())) return then();
  WritePiece(staging, [this, &staging, all, then = std::move(then)] { Write(staging, all, then); });
}

// The next piece, alone among those of all uploads.
void ImportStream::WritePiece(Staging& staging, Then then) {
  auto bytes = std::make_shared<std::string>(staging.rest.substr(0, kPieceBytes));
  staging.rest.erase(0, bytes->size());
  const auto self = weak_from_this().lock();
  uploads_.Write([this, self, bytes, &staging, then] {
    if (Ended()) return uploads_.Written();
    const auto run = [this, self, bytes, &staging, then](Engine& engine) {
      if (Ended()) return uploads_.Written();
      Packages& packages = engine.packages();
      if (!staging.upload) begun_.push_back(*(staging.upload = packages.BeginUpload(import_.ns)));
      auto put = packages.HasRoom(bytes->size());  // nobody has said how much is to come
      if (put) {
        put = packages.PutPiece(import_.ns, *staging.upload, staging.pieces++, std::move(*bytes));
      }
      engine.AfterCommit([this, self, then, put] {
        uploads_.Written();
        put ? InPool(then) : End(put.error());
      });
    };
    const size_t size = bytes->size();
    const bool posted = backend_.loop.Post(
        {.run = run, .drop = [this, self] { uploads_.Written(); }, .bytes = size});
    if (posted) return;
    End(Overloaded());
    uploads_.Written();
  });
}

// The decision ----------------------------------------------------------------------------------

void ImportStream::AllHasCome() {
  if (auto sound = files_->Finish(); !sound) return End(sound.error());
  if (import_.validate_only) return Look();
  WriteRows(/*all=*/true, [this] { Look(); });
}

void ImportStream::Look() {
  Post([this](Engine& engine) {
    auto under = engine.DefinitionsOf(import_.ns);
    engine.AfterCommit([this, self = weak_from_this().lock(), under] {
      InPool([this, under] { Compile(under); });
    });
  });
}

void ImportStream::Compile(const std::shared_ptr<const DefinitionSet>& under) {
  auto made = files_->Compile(under, &import_, &compiled_);
  if (!made) return End(made.error());
  Post([this](Engine& engine) { Decide(engine); });
}

void ImportStream::Decide(Engine& engine) {
  if (Ended()) return;
  auto done = engine.imports().Bring(&import_, compiled_);
  if (!done && ++overtaken_ > kOvertakenMost) done = Result<Imported>(Overloaded());
  engine.AfterCommit([this, self = weak_from_this().lock(), done = std::move(done)] {
    if (!done) return Look();
    if (!*done) return End(done->error());
    done_ = **done;
    InPool([this] { import_.validate_only ? Succeed() : Spread(); });
  });
}

// Instances -------------------------------------------------------------------------------------

// All partitions know what was brought before instances come that need it.
void ImportStream::Spread() {
  if (!backend_.others) return Restore(/*follow=*/false);
  backend_.others->spread(import_.ns, [this, self = weak_from_this().lock()] {
    InPool([this] { Restore(/*follow=*/false); });
  });
}

// Has all partitions take what lives there; with `follow`, once they all have, those of which some
// instances begin after others elsewhere say so.
void ImportStream::Restore(bool follow) {
  std::vector<PartitionId> places;
  {
    const Lock lock(mutex_);
    for (const auto& [partition, staging] : rows_) {
      if (staging.upload && (!follow || follows_.contains(partition))) places.push_back(partition);
    }
    restoring_ = places.size();
    follows_.clear();
  }
  if (places.empty()) return Succeed();
  for (const PartitionId place : places) {
    const auto done = [this, self = weak_from_this().lock(), place,
                       follow](const Result<Imported>& restored) {
      InPool([this, place, follow, restored] { Restored(place, follow, restored); });
    };
    if (place != backend_.reader.partition) {
      AskToRestore(place, OrderFor(place, follow), done);
      continue;
    }
    const auto ended = [this, self = weak_from_this().lock()] { return Ended(); };
    Restoring::Begin(backend_, OrderFor(place, follow), ended, done);
  }
}

RestoreOrder ImportStream::OrderFor(PartitionId place, bool follow) const {
  const Staging& staging = rows_.at(place);
  return {import_.ns, import_.by, *staging.upload, staging.pieces, files_->graph_names(), follow};
}

void ImportStream::AskToRestore(PartitionId place, const RestoreOrder& order,
                                const Restoring::Done& done) const {
  peer::Question question;
  question.set_partition(place);
  peer::Restore& restore = *question.mutable_restore();
  restore.set_namespace_(order.ns);
  restore.set_by(order.by);
  restore.set_upload_epoch(order.upload.epoch);
  restore.set_upload_number(order.upload.number);
  restore.set_pieces(order.pieces);
  restore.mutable_graphs()->insert(order.graphs.begin(), order.graphs.end());
  restore.set_follow(order.follow);
  const auto take = [done](const Result<peer::Answer>& answer) {
    if (!answer) return done(answer.error());
    Imported came;
    came.instances = answer->restored().instances();
    came.already_there = answer->restored().already_there();
    came.follows = answer->restored().follows();
    done(came);
  };
  backend_.others->ask(std::move(question), kForRestore, take);
}

// In the pool, in any order.
void ImportStream::Restored(PartitionId place, bool follow, const Result<Imported>& done) {
  if (!done) return End(done.error());
  bool more = false;
  {
    const Lock lock(mutex_);
    done_.instances += done->instances;
    done_.already_there += done->already_there;
    if (done->follows) follows_.insert(place);
    if (--restoring_ > 0) return;
    more = !follow && !follows_.empty();
  }
  more ? Restore(/*follow=*/true) : Succeed();
}

// The end ---------------------------------------------------------------------------------------

void ImportStream::Succeed() {
  v1::ImportNamespaceResponse made;
  made.set_definitions(done_.definitions);
  made.set_packages(done_.packages);
  made.set_instances(import_.validate_only ? files_->instances() : done_.instances);
  made.set_already_there(done_.already_there);
  const Moment moment(backend_.reader);
  for (const std::string& name : files_->secrets()) {
    auto secret = rows::GetSecret(moment.rows, import_.ns, name);
    if (!secret) return End(secret.error());
    if (!*secret || (*secret)->versions.empty()) made.add_secrets_to_set(name);
  }
  for (const std::string& note : files_->notes()) made.add_notes(note);
  if (!done_.made)
    made.add_notes("the namespace was there: its settings and keys are as they were");
  const bool schedules = std::ranges::any_of(import_.sources.documents, [](const Document& one) {
    return one.kind() == DocumentKind::kSchedule;
  });
  if (schedules) made.add_notes("its schedules are paused: dcli schedules resume NAME");
  {
    const Lock lock(mutex_);
    if (std::exchange(finished_, true)) return;
    reply_->Swap(&made);
  }
  caller_.Note(nullptr);
  Abandon();  // the rows, which are read
  Finish(grpc::Status::OK);
}

void ImportStream::Post(std::function<void(Engine&)> run) {
  const bool posted = backend_.loop.Post(
      {.run =
           [self = weak_from_this().lock(), run = std::move(run)](Engine& engine) {
             if (self) run(engine);
           },
       .drop =
           [self = weak_from_this().lock()] {
             if (self) self->End(DeadlinePassed());
           }});
  if (!posted) End(Overloaded());
}

void ImportStream::InPool(std::function<void()> run) {
  backend_.pool.Post([self = weak_from_this().lock(), run = std::move(run)] {
    if (self && !self->Ended()) run();
  });
}

void ImportStream::End(const Error& error) {
  {
    const Lock lock(mutex_);
    if (std::exchange(finished_, true)) return;
  }
  caller_.Note(&error);
  Abandon();
  Finish(RefuseStream(backend_, context_, error));
}

void ImportStream::Abandon() {
  backend_.loop.Post({.run =
                          [self = weak_from_this().lock()](Engine& engine) {
                            if (!self) return;
                            for (const rows::UploadId& upload : self->begun_) {
                              engine.packages().Abandon(self->import_.ns, upload);
                            }
                          },
                      .drop = [] {},
                      .owed = true});
}

bool ImportStream::Ended() {
  const Lock lock(mutex_);
  return finished_;
}

void ImportStream::OnDone() {
  if (entered_) backend_.gate.Leave();
  std::shared_ptr<ImportStream> self;
  const Lock lock(mutex_);
  self.swap(self_);
}

}  // namespace dfsmr
