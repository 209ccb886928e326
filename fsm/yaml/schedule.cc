#include "fsm/yaml/schedule.h"

#include <array>
#include <utility>

#include "fsm/yaml/fields.h"
#include "fsm/yaml/launch.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 17> kScheduleKeys = {
    "schedule", "description", "cron",  "every",  "at",   "except",  "timezone",     "from",  "until",
    "count",    "jitter",      "start", "send",   "missed", "overlap", "stop_on_fail", "paused"};
constexpr std::array<std::string_view, 3> kMissedKeys = {"take", "window", "max"};
constexpr std::array<std::string_view, 3> kTakes = {"last", "skip", "all"};
constexpr int64_t kTakenMax = 1'000;

// Each text under a key, one or a list of them.
template <typename Read>
void ForEachText(const Keys& keys, std::string_view key, std::string_view example, size_t most,
                 Read read) {
  const auto field = keys.Take(key);
  if (!field) return;
  auto one = [&](const Field& item) {
    if (!item.value.IsScalar() || item.value.IsEmpty()) {
      item.Fail("expected a text such as " + std::string(example) + ", or a list of such texts, "
                "not " + Describe(item.value));
    } else {
      read(item);
    }
  };
  if (!field->value.IsList()) return one(*field);
  if (field->value.items.empty()) field->Fail("the list is empty; leave the key out");
  if (field->value.items.size() > most) {
    return field->Fail("a schedule has at most " + std::to_string(most) + " of them, not " +
                       std::to_string(field->value.items.size()));
  }
  for (size_t i = 0; i < field->value.items.size(); ++i) one(field->Item(i));
}

void Warn(const Field& field, std::string warning) {
  if (!warning.empty()) field.reporter->Warning(field.At(), field.path, std::move(warning));
}

void ReadRules(const Keys& keys, CalendarRules* rules) {
  ForEachText(keys, "cron", "\"30 2 * * *\"", limits::kCalendarRules, [&](const Field& field) {
    auto cron = ParseCron(field.value.text);
    if (!cron) return field.Fail(cron.error().message);
    Warn(field, cron->warning);
    rules->cron.push_back(cron->rule);
  });
  ForEachText(keys, "every", "15m", limits::kCalendarRules, [&](const Field& field) {
    auto every = ParseEvery(field.value.text);
    if (!every) return field.Fail(every.error().message);
    rules->every.push_back(*std::move(every));
  });
  ForEachText(keys, "at", "2026-12-24T18:00", limits::kCalendarTimes, [&](const Field& field) {
    auto at = ParseTimeText(field.value.text);
    if (!at) return field.Fail(at.error().message);
    rules->at.push_back(*at);
  });
  ForEachText(keys, "except", "2026-12-24", limits::kCalendarTimes + limits::kCalendarRules,
              [&](const Field& field) {
                auto warning = AddExcept(field.value.text, *rules);
                if (!warning) return field.Fail(warning.error().message);
                Warn(field, *std::move(warning));
              });
}

void ReadMoment(const Keys& keys, std::string_view key, std::optional<WrittenTime>* out) {
  const auto field = keys.Take(key);
  if (!field) return;
  if (!field->value.IsScalar() || field->value.IsEmpty()) {
    return field->Fail("expected a time such as 2026-01-02 or 2026-01-02T17:00, not " +
                       Describe(field->value));
  }
  auto moment = ParseTimeText(field->value.text);
  if (!moment) return field->Fail(moment.error().message);
  *out = *moment;
}

// Null: there is no such zone.
ZonePtr ReadZone(const Keys& keys, const FindZone& zones, CalendarRules* rules) {
  const auto field = keys.Take("timezone");
  if (!field) return Zone::Utc();
  if (!field->value.IsScalar() || field->value.IsEmpty()) {
    field->Fail("expected the name of a time zone such as Europe/Berlin, not " +
                Describe(field->value));
    return nullptr;
  }
  rules->timezone = field->value.text;
  auto zone = zones(rules->timezone);
  if (zone) return *zone;
  field->Fail(zone.error().message);
  return nullptr;
}

void ReadMissed(const Field& field, MissedPolicy* missed) {
  size_t take = 0;
  if (field.value.IsScalar()) {
    if (ReadWord(field, kTakes, &take)) missed->take = static_cast<MissedPolicy::Take>(take);
    return;
  }
  if (!ReadMap(field, "{take: all, window: 3d}")) return;
  const Keys keys(field, kMissedKeys, "missed has take, window and max");
  if (auto word = keys.Take("take"); word && ReadWord(*word, kTakes, &take)) {
    missed->take = static_cast<MissedPolicy::Take>(take);
  }
  if (auto window = keys.Take("window")) ReadDurationAboveZero(*window, &missed->window);
  const auto max = keys.Take("max");
  if (!max) return;
  int64_t number = 0;
  if (!ReadInteger(*max, 1, kTakenMax, &number)) return;
  missed->max = static_cast<uint32_t>(number);
  if (missed->take != MissedPolicy::Take::kAll) {
    max->Fail("'max' is for 'take: all'; " + std::string(kTakes[static_cast<size_t>(missed->take)]) +
              " takes one at most");
  }
}

void Report(const CalendarProblem& problem, const Keys& keys, const YamlNode& root,
            Reporter* reporter) {
  const auto field = problem.key.empty() ? std::nullopt : keys.Take(problem.key);
  if (!field) return reporter->Error(root.at, problem.key, problem.message);
  const bool item = field->value.IsList() && problem.index < field->value.items.size();
  (item ? field->Item(problem.index) : *field).Fail(problem.message);
}

}  // namespace

std::span<const std::string_view> ScheduleKeys() { return kScheduleKeys; }

std::shared_ptr<const ScheduleSource> ReadSchedule(const YamlNode& root, const FindZone& zones,
                                                   Reporter* reporter) {
  const size_t errors = reporter->errors();
  const Field document(root, "", reporter);
  const Keys keys(document, kScheduleKeys,
                  "a schedule has cron, every, at, except, timezone, from, until, count, jitter, "
                  "start or send, missed, overlap, stop_on_fail, paused and description");
  auto source = std::make_shared<ScheduleSource>();
  source->written = {root.at, "schedule"};
  CalendarRules& rules = source->rules;
  ReadRules(keys, &rules);
  const ZonePtr zone = ReadZone(keys, zones, &rules);
  ReadMoment(keys, "from", &rules.from);
  ReadMoment(keys, "until", &rules.until);
  int64_t count = 0;
  if (auto field = keys.Take("count");
      field && ReadInteger(*field, 1, limits::kCalendarCount, &count)) {
    rules.count = count;
  }
  if (auto jitter = keys.Take("jitter")) ReadDuration(*jitter, &rules.jitter);
  if (auto missed = keys.Take("missed")) ReadMissed(*missed, &source->missed);
  source->launch.overlap = Overlap::kSkip;
  ReadLaunch(keys, document, ScheduleReferenceProblem, &source->launch);
  // What is wrong with all of them together shows only when each of them has been read.
  if (reporter->errors() == errors) {
    for (const CalendarProblem& one : Problems(rules)) Report(one, keys, root, reporter);
  }
  if (reporter->errors() != errors || !zone) return nullptr;
  source->calendar = std::make_shared<const Calendar>(rules, zone);
  return source;
}

}  // namespace dfsmr
