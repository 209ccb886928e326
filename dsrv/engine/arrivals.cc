#include "dsrv/engine/arrivals.h"

#include <variant>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/deletions.h"
#include "dsrv/engine/followers.h"
#include "dsrv/engine/groups.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/space_shares.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/throttle.h"
#include "dsrv/engine/triggers.h"
#include "fsm/base/names.h"
#include "fsm/rules/elsewhere.h"

namespace dfsmr {

bool Arrivals::Take(PartitionId from, const rows::Message& message) {
  using Message = rows::Message;
  if (const auto* begin = std::get_if<Message::Begin>(&message.of)) {
    auto launched = launcher_.Begin(*begin);
    if (launched && !begin->asker.instance.empty() && !launched->error.empty()) {
      launched->error = "instance " + Quoted(begin->start.id) + " of machine " +
                        Quoted(begin->start.machine) + " was not started: " + launched->error;
    }
    // Of a poll, which has no number, its keeper knows the instance alone.
    const auto cause = ReadCause(begin->asker.cause);
    const bool poll =
        cause && cause->kind == DocumentKind::kTrigger && begin->asker.number == 0;
    if (launched && poll) launched->instance = begin->start.id;
    const auto& provenance = begin->provenance;
    if (launched && provenance && provenance->backfill && !provenance->group.empty()) {
      groups_.NoteLaunched(begin->asker.ns, provenance->group);
    }
    return Answer(from, begin->asker, launched);
  }
  if (const auto* move = std::get_if<Message::Move>(&message.of)) {
    return Answer(from, move->asker, launcher_.Move(*move));
  }
  if (const auto* item = std::get_if<Message::Item>(&message.of)) {
    return triggers_.TakeItem(from, *item);
  }
  if (const auto* follow = std::get_if<Message::Follow>(&message.of)) {
    followers_.Follow(from, *follow);
  } else if (const auto* ended = std::get_if<Message::Ended>(&message.of)) {
    followers_.Tell(*ended);
  } else if (const auto* finished = std::get_if<Message::Finished>(&message.of)) {
    launcher_.Finished(*finished);
  } else if (const auto* decided = std::get_if<Message::Decided>(&message.of)) {
    decided->asker.instance.empty() ? launcher_.Decided(*decided) : Refused(*decided);
  } else if (const auto* stake = std::get_if<Message::Stake>(&message.of)) {
    limits_.TakeStake(*stake);
  } else if (const auto* verdict = std::get_if<Message::Verdict>(&message.of)) {
    limits_.HearVerdict(*verdict);
  } else if (const auto* yield = std::get_if<Message::Yield>(&message.of)) {
    limits_.MakeWay(*yield);
  } else if (const auto* emptied = std::get_if<Message::Emptied>(&message.of)) {
    deletions_.Emptied(from, *emptied);
  } else if (const auto* gone = std::get_if<Message::Gone>(&message.of)) {
    deletions_.Gone(*gone);
  } else if (const auto* reread = std::get_if<Message::Reread>(&message.of)) {
    triggers_.ReadAgain(*reread);
  } else if (const auto* polled = std::get_if<Message::Polled>(&message.of)) {
    triggers_.HearOfPoll(*polled);
  } else if (const auto* tally = std::get_if<Message::Tally>(&message.of)) {
    groups_.TakeTally(*tally);
  } else if (const auto* ordered = std::get_if<Message::Ordered>(&message.of)) {
    groups_.TakeOrder(*ordered);
  } else if (const auto* uses = std::get_if<Message::Uses>(&message.of)) {
    shares_.Take(from, *uses);
  } else if (const auto* counted = std::get_if<Message::Counted>(&message.of)) {
    limits_.census().TakeKey(*counted);
  } else if (const auto* held = std::get_if<Message::Held>(&message.of)) {
    limits_.census().TakeHeld(from, *held);
  } else if (const auto* wanted = std::get_if<Message::Wanted>(&message.of)) {
    limits_.places().TakeWanted(from, *wanted);
  } else if (const auto* places = std::get_if<Message::Places>(&message.of)) {
    limits_.places().TakePlaces(*places);
  } else if (const auto* learned = std::get_if<Message::Learned>(&message.of)) {
    statistics_.Take(from, *learned);
  } else if (const auto* paced = std::get_if<Message::Paced>(&message.of)) {
    statistics_.Take(*paced);
  } else if (const auto* braked = std::get_if<Message::Braked>(&message.of)) {
    throttle_.Take(from, *braked);
  } else if (const auto* brake = std::get_if<Message::Brake>(&message.of)) {
    throttle_.Take(*brake);
  }
  return true;
}

// What was to be started is expected to be: nobody is told that it was.
bool Arrivals::Answer(PartitionId to, const rows::Message::Asker& asker,
                      const Result<Launched>& launched) {
  if (!launched) return false;
  const bool told = launched->outcome != OccurrenceOutcome::kStarted &&
                    (asker.instance.empty() || launched->outcome != OccurrenceOutcome::kExists);
  if (!told) return true;
  /*mutant message-refusal-not-told*/ messages_.Send(
      to, {rows::Message::Decided{asker, launched->outcome, launched->error,
                                  launched->instance}}); /*end*/
  return true;
}

void Arrivals::Refused(const rows::Message::Decided& decided) {
  auto resident = changer_.Touch(decided.asker.ns, decided.asker.instance);
  if (!resident) return;
  changer_.Apply(**resident,
                 [&](Scene& scene) { rules::StartRefused(scene, decided.error); });
  residents_.MarkDirty(**resident);
}

}  // namespace dfsmr
