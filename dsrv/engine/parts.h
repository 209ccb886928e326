// The engine's parts, put together. Included by parts.cc, engine.cc and recovery.cc only.
#pragma once

#include <vector>

#include "dsrv/engine/agents.h"
#include "dsrv/engine/arrivals.h"
#include "dsrv/engine/backfills.h"
#include "dsrv/engine/bulks.h"
#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/claims.h"
#include "dsrv/engine/control.h"
#include "dsrv/engine/deletions.h"
#include "dsrv/engine/desk.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/dry_runs.h"
#include "dsrv/engine/elsewhere.h"
#include "dsrv/engine/engine.h"
#include "dsrv/engine/family.h"
#include "dsrv/engine/followers.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/handouts.h"
#include "dsrv/engine/hooks.h"
#include "dsrv/engine/imports.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/measures.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/occurrences.h"
#include "dsrv/engine/package_table.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/planner.h"
#include "dsrv/engine/reports.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/resumer.h"
#include "dsrv/engine/retention.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/engine/secrets.h"
#include "dsrv/engine/sessions.h"
#include "dsrv/engine/space_shares.h"
#include "dsrv/engine/spawner.h"
#include "dsrv/engine/starter.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/survey.h"
#include "dsrv/engine/throttle.h"
#include "dsrv/engine/timers.h"
#include "dsrv/engine/traces.h"
#include "dsrv/engine/triggers.h"
#include "dsrv/engine/trust.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/unclaimed.h"
#include "dsrv/engine/upgrades.h"
#include "dsrv/engine/values.h"
#include "dsrv/engine/walker.h"
#include "dsrv/engine/workers.h"

namespace dfsmr {

struct Engine::Parts {
  Parts(Store& store, EngineOptions given);

  const EngineOptions options;
  bool flushed = false;  // in this turn: what begins after that counts for the rates, too
  // Each part is given what stands above it.
  OpenTurn turn;
  Messages messages;
  PackageTable package_table;
  Catalog catalog;
  Measures measures;
  Documents documents;
  Spaces spaces;
  Occurrences occurrences;
  Statistics statistics;
  Residents residents;
  Traces traces;
  Changer changer;
  Agenda agenda;
  Trust trust;
  Timers timers;
  Throttle throttle;
  Claims claims;
  Sessions sessions;
  Upgrades upgrades;
  Values values;
  Walker walker;
  Limits limits;
  Unclaimed unclaimed;
  Planner planner;
  Followers followers;
  Workers workers;
  Survey survey;
  Starter starter;
  Hooks hooks;
  Family family;
  Canceller canceller;
  Spawner spawner;
  Reports reports;
  Resumer resumer;
  Launcher launcher;
  Arrivals arrivals;
  Schedules schedules;
  HandOuts handouts;
  DryRuns dry_runs;
  Desk desk;
  Operations operations;
  Control control;
  Bulks bulks;
  Agents agents;
  Groups groups;
  SpaceShares shares;
  Backfills backfills;
  Retention retention;
  Triggers triggers;
  Packages packages;
  Secrets secrets;
  Deletions deletions;
  Imports imports;
  Elsewhere elsewhere;
  // The parts that hear of changes, in this order. Their work is done in this order, too: a part
  // works only when the parts before it have nothing left to do.
  const std::vector<Part*> all;
};

}  // namespace dfsmr
