#include "storage/rows/schedule.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

std::string ScheduleKeyOf(PartitionId partition, std::string_view ns, std::string_view name) {
  return Key(partition, kSchedule).Text(ns).Text(name);
}

Result<ScheduleState> DecodeSchedule(std::string_view key, std::string_view value) {
  record::ScheduleState in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Corrupt("schedule", key);
  }
  ScheduleState state;
  state.version = in.version();
  state.position = FromMicros(in.position());
  state.next_time = DeadlineFrom(in.next_time());
  state.next_begin = DeadlineFrom(in.next_begin());
  state.last_time = DeadlineFrom(in.last_time());
  state.paused = in.paused();
  state.note = in.note();
  state.paused_by = in.paused_by();
  state.pause_time = FromMicros(in.pause_time());
  state.failures = in.failures();
  if (in.last_success() != 0) state.last_success = FromMicros(in.last_success());
  state.deleted = in.deleted();
  return state;
}

}  // namespace

void PutScheduleState(const Writer& writer, std::string_view ns, std::string_view name,
                      const ScheduleState& state) {
  record::ScheduleState out;
  out.set_version(state.version);
  out.set_position(Micros(state.position));
  out.set_next_time(DeadlineMicros(state.next_time));
  out.set_next_begin(DeadlineMicros(state.next_begin));
  out.set_last_time(DeadlineMicros(state.last_time));
  out.set_paused(state.paused);
  out.set_note(state.note);
  out.set_paused_by(state.paused_by);
  out.set_pause_time(Micros(state.pause_time));
  out.set_failures(state.failures);
  if (state.last_success) out.set_last_success(Micros(*state.last_success));
  out.set_deleted(state.deleted);
  writer.batch.Put(ScheduleKeyOf(writer.partition, ns, name), out.SerializeAsString());
}

Result<std::optional<ScheduleState>> GetScheduleState(const Reader& reader, std::string_view ns,
                                                      std::string_view name) {
  const std::string key = ScheduleKeyOf(reader.partition, ns, name);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<ScheduleState>();
  auto state = DecodeSchedule(key, **value);
  if (!state) return state.error();
  return std::optional(*std::move(state));
}

Result<Ok> ScanScheduleStates(
    const Reader& reader,
    const std::function<void(std::string_view, std::string_view, const ScheduleState&)>& visit) {
  const std::string begin = Key(reader.partition, kSchedule);
  Result<Ok> outcome = Ok{};
  auto scanned = reader.view.ScanOnce(begin, PrefixEnd(begin),
                                      [&](std::string_view key, std::string_view value) {
                                        auto state = DecodeSchedule(key, value);
                                        if (!state) {
                                          outcome = state.error();
                                          return false;
                                        }
                                        KeyReader parts(key);
                                        const std::string_view ns = parts.Text();
                                        visit(ns, parts.Text(), *state);
                                        return true;
                                      });
  return scanned ? outcome : scanned;
}

}  // namespace dfsmr::rows
