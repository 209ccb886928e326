#include "dsrv/calls/restoring.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/call.h"
#include "dsrv/wire/moment.h"
#include "fsm/base/names.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr size_t kRestoredAtOnce = 1'000;  // instances in a commit
constexpr size_t kRestoredBytes = 4 << 20;

size_t SizeOfRows(const CarriedInstance& rows) {
  size_t bytes = 0;
  for (const rows::CarriedRow& row : rows) bytes += row.key.size() + row.value.size();
  return bytes;
}

}  // namespace

void Restoring::Begin(const Backend& backend, RestoreOrder order, std::function<bool()> ended,
                      Done done) {
  auto self = std::make_shared<Restoring>(Private(), backend, std::move(order), std::move(ended),
                                          std::move(done));
  backend.pool.Post([self] { self->Next(); });
}

Result<Ok> Restoring::TakeRow(rows::CarriedRow row) {
  using Of = rows::CarriedRow::Of;
  if (row.of() == Of::kGroup) {
    auto group = rows::GroupIn(row);
    if (!group) return group.error();
    groups_[std::string(row.Name())] = *std::move(group);
    return Ok{};
  }
  if (row.of() == Of::kInstance) ready_.emplace_back();
  ready_.back().push_back(std::move(row));
  return Ok{};
}

Result<Ok> Restoring::ReadMore() {
  if (!reader_) {
    reader_ = std::make_unique<rows::CarriedReader>(
        [this](rows::CarriedRow row) { return TakeRow(std::move(row)); });
    if (auto begun = reader_->Feed(rows::CarriedHead()); !begun) return begun;
  }
  const Moment moment(Reader{backend_.reader.registry, backend_.reader.store, kHome});
  auto piece = rows::GetPiece(moment.rows, order_.ns, order_.upload, piece_++);
  if (!piece) return piece.error();
  if (!*piece) {
    return Error{Code::kFailedPrecondition, Reason::kNamespaceDeleting,
                 "namespace " + Quoted(order_.ns) + " was deleted meanwhile"};
  }
  return reader_->Feed(**piece);
}

Restoring::Portion Restoring::TakePortion() {
  Portion portion{std::exchange(groups_, {}), {}};
  // Of the last one more rows may come.
  const size_t most =
      piece_ < order_.pieces && !ready_.empty() ? ready_.size() - 1 : ready_.size();
  size_t bytes = 0;
  while (portion.instances.size() < std::min(most, kRestoredAtOnce) && bytes < kRestoredBytes &&
         !ready_.empty()) {
    bytes += SizeOfRows(ready_.front());
    portion.instances.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  return portion;
}

void Restoring::Next() {
  if (ended_()) return;
  while (ready_.size() <= kRestoredAtOnce && piece_ < order_.pieces) {
    if (auto read = ReadMore(); !read) return End(read.error());
  }
  if (ready_.empty() && groups_.empty()) return End(sum_);
  auto portion = std::make_shared<const Portion>(TakePortion());
  const bool posted =
      backend_.loop.Post({.run =
                              [self = shared_from_this(), portion](Engine& engine) {
                                auto done = self->Bring(engine, *portion);
                                engine.AfterCommit([self, done] { self->Took(done); });
                              },
                          .drop = [self = shared_from_this()] { self->End(DeadlinePassed()); }});
  if (!posted) End(Overloaded());
}

Result<Imported> Restoring::Bring(Engine& engine, const Portion& portion) const {
  Imports& imports = engine.imports();
  if (order_.follow) return imports.Follow(order_.ns, portion.instances);
  if (auto came = imports.RestoreGroups(order_.ns, portion.groups); !came) return came.error();
  return imports.Restore(order_.ns, order_.by, order_.graphs, portion.instances);
}

void Restoring::Took(const Result<Imported>& done) {
  if (!done) return End(done);
  sum_.instances += done->instances;
  sum_.already_there += done->already_there;
  sum_.follows = sum_.follows || done->follows;
  backend_.pool.Post([self = shared_from_this()] { self->Next(); });
}

void Restoring::End(const Result<Imported>& done) {
  const Done tell = std::exchange(done_, nullptr);
  if (tell) tell(done);
}

}  // namespace dfsmr
