// Backfills: the times of a range in the past as a group. Those to come do not exist yet: where a
// backfill has come to is a row, and the group asks for the next one when it has room.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dsrv/engine/groups.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/when/schedule.h"
#include "storage/rows/backfill.h"

namespace dfsmr {

// Which of the times run again that have run already.
enum class Again : uint8_t { kNone, kFailed, kAll };

// A run of a time that is there already.
struct FormerRun {
  bool stopped = false;
  InstanceResult result = InstanceResult::kNone;
};
// What is there already of a schedule's times.
struct Former {
  std::function<Result<std::optional<FormerRun>>(const std::string& id)> run;
  std::function<Result<bool>(Timestamp time)> sent;  // whether what a time sends was sent
};

// The id's suffix with which a time of a schedule runs in a backfill: "" for the first time,
// "-again-N" later; nullopt: what exists stays as it is.
Result<std::optional<std::string>> SuffixOf(const ScheduleSource& source,
                                            const ScheduleTimes& times, const std::string& name,
                                            Timestamp time, Again again, const Former& former);

struct BackfillArgs {
  std::string ns;
  std::string name;
  uint32_t version = 0;  // of the schedule, that the times are of
  Timestamp from;        // both ends belong to it
  Timestamp to;
  std::optional<uint32_t> max_running;
  Again again = Again::kNone;
  bool reverse = false;
  std::optional<int32_t> priority;
  std::string group;  // empty: backfill-NAME-STAMP
  uint64_t total = 0;  // that will run, as far as it is known
  std::string client;
};

class Backfills : public MemberSource {
 public:
  static constexpr uint64_t kTimes = 100'000;  // of one, at most

  Backfills(OpenTurn& turn, Documents& documents, Residents& residents, Schedules& schedules,
            Groups& groups, const EngineOptions& options)
      : turn_(turn),
        documents_(documents),
        residents_(residents),
        schedules_(schedules),
        groups_(groups),
        options_(options) {}

  // At start, after the groups: how many are to come in each.
  Result<Ok> Recover();
  // Makes the group, whose members follow. NO_SUCH_SCHEDULE; the group is there already.
  Result<GroupView> Begin(const BackfillArgs& args);

  uint64_t MakeNext(const std::string& ns, const std::string& group) override;
  void DropRest(const std::string& ns, const std::string& group) override;
  // A schedule is deleted: of its backfills nothing more is to come.
  void DropOf(const std::string& ns, const std::string& schedule);

 private:
  Result<std::string> NewGroup(const BackfillArgs& args);
  // nullopt: there is none, or `group`, a backfill, has started it.
  Result<std::optional<FormerRun>> RunOf(const std::string& ns, const std::string& id,
                                         const std::string& group);
  // Deals with the next time. False: there is none.
  Result<bool> Next(const std::string& ns, const std::string& group, rows::BackfillRow* row);

  OpenTurn& turn_;
  Documents& documents_;
  Residents& residents_;
  Schedules& schedules_;
  Groups& groups_;
  const EngineOptions& options_;
};

}  // namespace dfsmr
