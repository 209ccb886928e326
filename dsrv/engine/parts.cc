#include "dsrv/engine/parts.h"

#include <utility>

namespace dfsmr {
namespace {

EngineOptions WithDefaults(EngineOptions options) {
  if (!options.offload) {
    options.offload = [](const EngineOptions::Job& job) {
      if (auto then = job()) then();
    };
  }
  return options;
}

}  // namespace

Engine::Parts::Parts(Store& store, EngineOptions given)
    : options(WithDefaults(std::move(given))),
      turn(store, options.partition, options.home.value_or(options.partition),
           options.virtual_clock),
      messages(turn, options),
      catalog(turn, options),
      measures(turn, catalog, options),
      documents(turn, options, package_table),
      spaces(turn, catalog, documents, options),
      occurrences(turn, measures, options),
      statistics(turn, catalog, measures, messages, options),
      residents(turn, catalog, statistics, options),
      traces(turn, residents),
      changer(turn, residents, options),
      trust(turn, catalog, package_table, spaces, agenda),
      timers(turn),
      throttle(turn, catalog, statistics, measures, timers, agenda, messages, options),
      claims(turn, catalog, statistics, residents, changer, throttle, options),
      sessions(turn, claims),
      upgrades(turn, catalog, residents, changer, agenda, throttle),
      values(turn, residents, options),
      walker(turn, changer, options),
      limits(turn, catalog, residents, changer, values, documents, agenda, messages, options),
      unclaimed(turn, changer, timers, limits, spaces, agenda, package_table),
      planner(turn, catalog, residents, changer, values, limits, options),
      followers(turn, residents, changer, messages, options),
      workers(turn, residents),
      survey(turn, catalog, residents, agenda, followers, values, workers, package_table),
      starter(turn, catalog, residents, changer, limits, followers, planner, spaces, messages,
              package_table, options),
      hooks(catalog, residents, values, starter),
      family(residents, changer),
      canceller(turn, residents, changer, family),
      spawner(turn, catalog, statistics, residents, changer, values, followers, family, starter,
              options),
      reports(turn, catalog, residents, changer, claims, starter, options),
      resumer(turn, statistics, residents, changer, limits, reports),
      launcher(turn, changer, starter, reports, messages, options),
      arrivals(residents, changer, followers, launcher, limits, deletions, groups, shares,
               triggers, statistics, throttle, messages),
      schedules(turn, documents, occurrences, launcher, limits, spaces),
      handouts(turn, agenda, residents, changer, values, limits, throttle, timers, unclaimed,
               upgrades, package_table, measures),
      dry_runs(turn, residents, changer, reports, handouts),
      desk(turn, agenda, claims, handouts, sessions),
      operations(turn, residents, changer, claims, desk),
      control(residents, changer, spaces, limits, resumer, reports, operations),
      bulks(turn, catalog, residents, control, measures, options),
      agents(turn, claims, sessions, desk, operations, options),
      groups(turn, residents, changer, limits, resumer, messages, options),
      shares(turn, spaces, messages, options),
      backfills(turn, documents, residents, schedules, groups, options),
      retention(turn, catalog, statistics, residents, groups, options),
      triggers(
          {turn, documents, occurrences, residents, changer, starter, launcher, limits, retention,
           spaces, messages, options}),
      packages({turn, package_table, catalog, documents, statistics, upgrades, limits, triggers,
                spaces, trust, agenda, options}),
      secrets({turn, spaces, changer, traces, handouts, options}),
      deletions({turn, spaces, catalog, documents, statistics, residents, changer, agenda, throttle,
                 upgrades, limits, groups, bulks, agents, retention, measures, workers, packages,
                 secrets, messages, options}),
      imports({turn, spaces, catalog, documents, statistics, residents, trust, schedules, triggers,
               limits, groups, packages, followers, all, options}),
      elsewhere(catalog, launcher, triggers),
      all{&messages, &followers, &planner,   &walker,    &family,     &limits,   &hooks,
          &spawner,  &launcher,  &schedules, &canceller, &resumer,    &upgrades, &claims,
          &sessions, &timers,    &unclaimed, &desk,      &operations, &agents,   &handouts,
          &groups,   &triggers,  &dry_runs,  &workers,   &survey} {
  changer.Tell(all);
  messages.SetApply([this](PartitionId from, const rows::Message& message) {
    return arrivals.Take(from, message);
  });
  residents.SetSpaces(&spaces);
  changer.Consult([this](Resident& resident, const Reference& reference, const FreshOutput& fresh) {
    return values.ForCondition(resident, reference, fresh);
  });
  unclaimed.Consult([this](const QueueKey& key) {
    return desk.WhyNobody(key, [this](const std::string& in, const std::string& agent) {
      return agents.WhyNot(in, agent);
    });
  });
  documents.SetKeeper(DocumentKind::kSchedule, &schedules);
  launcher.SetKeeper(DocumentKind::kSchedule, &schedules);
  groups.SetSource(&backfills);
  schedules.OnDeleted(
      [this](const std::string& ns, const std::string& name) { backfills.DropOf(ns, name); });
  changer.SetGroups(&groups);
  documents.SetKeeper(DocumentKind::kTrigger, &triggers);
  launcher.SetKeeper(DocumentKind::kTrigger, &triggers);
}

}  // namespace dfsmr
