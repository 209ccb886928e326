#include "dsrv/calls/feed.h"

#include <string_view>

#include "dsrv/wire/replies.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {
namespace {

void AppendField(uint32_t number, std::string_view bytes, std::string* out) {
  *out += static_cast<char>(number << 3 | 2);
  size_t size = bytes.size();
  for (; size >= 128; size >>= 7) *out += static_cast<char>(size | 128);
  *out += static_cast<char>(size);
  *out += bytes;
}

}  // namespace

void EncodeResponse(const Changes::PortionPtr& portion, const std::string& cursor,
                    std::deque<grpc::ByteBuffer>* out) {
  const std::string& message = portion->Message([&] {
    std::string made;
    for (const auto& change : portion->changes) AppendField(1, *change, &made);
    AppendField(2, cursor, &made);
    return made;
  });
  auto release = [](void* held) { delete static_cast<Changes::PortionPtr*>(held); };
  const grpc::Slice slice(const_cast<char*>(message.data()), message.size(), release,
                          new Changes::PortionPtr(portion));
  out->emplace_back(&slice, 1);
}

Result<ChangesStream::Open> ToOpen(const Backend& backend, const v1::ChangesRequest& request) {
  ChangesStream::Open open;
  auto filter = ToChangeFilter(request);
  if (!filter) return filter.error();
  open.filter = *std::move(filter);
  const uint64_t head = backend.changes.head();
  if (!request.follow()) open.until = head;
  if (request.after().empty()) {
    open.after = head;
  } else if (request.after() == "0") {
    open.from_first = true;
  } else {
    auto cursor = ParseCursor(request.after());
    if (!cursor) return cursor.error();
    const Cursor end = backend.changes.CursorAt(head);
    if (cursor->life != end.life) {
      return Error{
          Code::kOutOfRange, Reason::kCursorExpired,
          "the cursor is from before this store was restored, or from another server: what "
          "it had read may never have happened here; read on from '0'"};
    }
    if (cursor->seqs.size() != end.seqs.size() || cursor->seqs.front() > head) {
      return Error{Code::kOutOfRange, Reason::kCursorAhead,
                   "the cursor is ahead of the feed, which ends at " + CursorText(end)};
    }
    open.after = cursor->seqs.front();
  }
  if (!open.filter.ns.empty()) {
    // What is before that was of another namespace, which had the name.
    open.after = std::max(open.after, backend.reader.registry.FeedFloor(open.filter.ns));
  }
  return open;
}

std::string SerialiseChange(const Event& event, PartitionId partition) {
  v1::Change change;
  ToProto(event, partition, &change);
  return change.SerializeAsString();
}

}  // namespace dfsmr
