#include "storage/rows/group.h"

#include <algorithm>

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

using Member = MemberShare::Kind;

std::string GroupKey(PartitionId partition, GroupName name) {
  return Key(partition, kGroupHead).Text(name.ns).Text(name.name);
}

Result<GroupRow> Decode(std::string_view key, std::string_view value) {
  record::InstanceGroup in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) ||
      in.order().action() > static_cast<uint32_t>(GroupOrder::Action::kKill)) {
    return Corrupt("group", key);
  }
  GroupRow group;
  group.create_time = FromMicros(in.create_time());
  group.end_time = FromMicros(in.end_time());
  group.stop_on_fail = in.stop_on_fail();
  group.paused = in.paused();
  group.note = in.note();
  group.failures = in.failures();
  const auto count = [&](Member kind) -> uint64_t& {
    return group.counts.members[static_cast<size_t>(kind)];
  };
  count(Member::kSuccess) = in.success();
  count(Member::kWarning) = in.warning();
  count(Member::kError) = in.error();
  count(Member::kCancelled) = in.cancelled();
  count(Member::kAborted) = in.aborted();
  group.counts.progress_stopped = in.progress();
  group.schedule = in.schedule();
  group.own_max = in.own_max();
  group.order = {static_cast<GroupOrder::Action>(in.order().action()), in.order().swept()};
  group.apart = rows::Decode(in.apart());
  group.awaited = in.awaited();
  return group;
}

}  // namespace

void Encode(const GroupCounts& counts, record::GroupShare* out) {
  for (const uint64_t count : counts.members) out->add_members(static_cast<int64_t>(count));
  out->set_stuck(static_cast<int64_t>(counts.stuck));
  out->set_progress_live(counts.progress_live);
  out->set_progress_stopped(counts.progress_stopped);
}

GroupCounts Decode(const record::GroupShare& in) {
  GroupCounts counts;
  const size_t kinds = std::min(counts.members.size(), static_cast<size_t>(in.members_size()));
  for (size_t i = 0; i < kinds; ++i) {
    counts.members[i] = static_cast<uint64_t>(in.members(static_cast<int>(i)));
  }
  counts.stuck = static_cast<uint64_t>(in.stuck());
  counts.progress_live = in.progress_live();
  counts.progress_stopped = in.progress_stopped();
  return counts;
}

void Add(const GroupCounts& more, uint64_t by, GroupCounts* to) {
  for (size_t i = 0; i < to->members.size(); ++i) to->members[i] += by * more.members[i];
  to->stuck += by * more.stuck;
  to->progress_live += static_cast<int64_t>(by) * more.progress_live;
  to->progress_stopped += static_cast<int64_t>(by) * more.progress_stopped;
}

Result<GroupRow> DecodeGroup(std::string_view key, std::string_view value) {
  return Decode(key, value);
}

void PutGroup(const Writer& writer, GroupName name, const GroupRow& group) {
  record::InstanceGroup out;
  out.set_create_time(Micros(group.create_time));
  out.set_end_time(Micros(group.end_time));
  out.set_stop_on_fail(group.stop_on_fail);
  out.set_paused(group.paused);
  out.set_note(group.note);
  out.set_failures(group.failures);
  out.set_success(group.counts.Of(Member::kSuccess));
  out.set_warning(group.counts.Of(Member::kWarning));
  out.set_error(group.counts.Of(Member::kError));
  out.set_cancelled(group.counts.Of(Member::kCancelled));
  out.set_aborted(group.counts.Of(Member::kAborted));
  out.set_progress(group.counts.progress_stopped);
  out.set_schedule(group.schedule);
  out.set_own_max(group.own_max);
  if (group.order.action != GroupOrder::Action::kNone) {
    out.mutable_order()->set_action(static_cast<uint32_t>(group.order.action));
    out.mutable_order()->set_swept(group.order.swept);
  }
  if (group.apart != GroupCounts()) Encode(group.apart, out.mutable_apart());
  out.set_awaited(group.awaited);
  writer.batch.Put(GroupKey(writer.partition, name), out.SerializeAsString());
}

void DropGroup(const Writer& writer, GroupName name) {
  writer.batch.Delete(GroupKey(writer.partition, name));
}

Result<std::optional<GroupRow>> GetGroup(const Reader& reader, GroupName name) {
  const std::string key = GroupKey(reader.partition, name);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<GroupRow>();
  auto group = Decode(key, **value);
  if (!group) return group.error();
  return std::optional(*std::move(group));
}

Result<Ok> ScanGroups(const Reader& reader, const std::function<void(GroupName, GroupRow)>& visit) {
  const std::string begin = Key(reader.partition, kGroupHead);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto group = Decode(key, value);
                   if (!group) return group.error();
                   KeyReader parts(key);
                   GroupName name{};
                   name.ns = parts.Text();
                   name.name = parts.Text();
                   visit(name, *std::move(group));
                   return true;
                 });
}

}  // namespace dfsmr::rows
