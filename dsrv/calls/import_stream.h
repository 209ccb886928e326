// ImportNamespace: takes the files of an export as they come. Archives and the rows of instances
// are kept in the store in pieces that nobody sees, as those of puts are; when all has come and is
// sound, one turn decides, and instances follow, some in each turn.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/counted.h"
#include "dsrv/calls/import_files.h"
#include "dsrv/calls/method.h"
#include "dsrv/calls/put_package.h"
#include "dsrv/calls/restoring.h"
#include "dsrv/engine/imports.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class ImportStream : public Counted<grpc::ServerReadReactor<v1::ImportNamespaceRequest>>,
                     public Revocable,
                     public std::enable_shared_from_this<ImportStream> {
 public:
  // The stream owns itself until it is done.
  static ImportStream* Begin(const Backend& backend, Uploads& uploads,
                             grpc::CallbackServerContext* context,
                             v1::ImportNamespaceResponse* reply, const Method& method);

 private:
  // What is on its way into the store.
  struct Staging {
    std::optional<rows::UploadId> upload;
    uint32_t pieces = 0;
    std::string rest;  // that is not written yet
  };
  using Then = std::function<void()>;

  ImportStream(const Backend& backend, Uploads& uploads, grpc::CallbackServerContext* context,
               v1::ImportNamespaceResponse* reply)
      : backend_(backend), uploads_(uploads), context_(context), reply_(reply) {}

  void OnReadDone(bool ok) override;
  void OnCancel() override { End({Code::kCancelled, Reason::kNone, "the call was cancelled"}); }
  void OnDone() override;
  void Revoke(const Error& error) override { End(error); }

  void Read();
  void TakeHeader();
  // In the pool, one item after the other.
  void TakeItem();
  void TakeData();
  void EndFile(Then then);
  void PutTexts(const Then& then);
  void WriteRows(bool all, const Then& then);
  // Writes pieces while there are whole ones, or all that is left.
  void Write(Staging& staging, bool all, Then then);
  void WritePiece(Staging& staging, Then then);
  void AllHasCome();
  // What is defined; then compiling; then the decision.
  void Look();
  void Compile(const std::shared_ptr<const DefinitionSet>& under);
  void Decide(Engine& engine);
  // Instances, each where it lives.
  void Spread();
  void Restore(bool follow);
  RestoreOrder OrderFor(PartitionId place, bool follow) const;
  void AskToRestore(PartitionId place, const RestoreOrder& order,
                    const Restoring::Done& done) const;
  void Restored(PartitionId place, bool follow, const Result<Imported>& done);
  void Succeed();

  void Post(std::function<void(Engine&)> run);
  void InPool(std::function<void()> run);
  void End(const Error& error);
  void Abandon();
  bool Ended();

  const Backend& backend_;
  Uploads& uploads_;
  grpc::CallbackServerContext* const context_;
  v1::ImportNamespaceResponse* const reply_;
  Caller caller_;
  bool entered_ = false;
  bool header_read_ = false;
  bool complete_ = false;  // the last item has come
  v1::ImportNamespaceRequest incoming_;
  std::string path_;  // of the file under way; empty: none is
  std::unique_ptr<ImportFiles> files_;
  Staging archive_;
  std::map<PartitionId, Staging> rows_;
  std::vector<rows::UploadId> begun_;
  Import import_;
  Compiled compiled_;
  Imported done_;
  int overtaken_ = 0;

  Mutex mutex_;
  // Partitions that have not taken yet what lives there, and those that are to follow up.
  size_t restoring_ = 0;
  std::set<PartitionId> follows_;
  std::shared_ptr<ImportStream> self_ GUARDED(mutex_);  // until OnDone
  bool finished_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
