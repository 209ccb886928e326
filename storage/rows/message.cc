#include "storage/rows/message.h"

#include <algorithm>
#include <utility>

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

std::string OutKey(PartitionId partition, PartitionId to, uint64_t number) {
  return Key(partition, kOut).Partition(to).Number(number);
}

std::string FollowerKey(PartitionId partition, const FollowerRow& row) {
  return Key(partition, kFollower)
      .Text(row.ns)
      .Text(row.instance)
      .Text(row.follower)
      .Partition(row.from);
}

Error NoMessage() {
  return {Code::kDataLoss, Reason::kStoreFailed,
          "a message of another partition is damaged, or of a later version"};
}

void Pack(const Message::Asker& asker, record::Message::Asker* out) {
  out->set_ns(asker.ns);
  out->set_cause(asker.cause);
  out->set_number(asker.number);
  out->set_instance(asker.instance);
}

void Pack(const Message::Follow& follow, record::Message* out) {
  auto* to = out->mutable_follow();
  to->set_ns(follow.ns);
  to->set_instance(follow.instance);
  to->set_follower(follow.follower);
  to->set_born(follow.born);
}

void Pack(const Message::Ended& ended, record::Message* out) {
  auto* to = out->mutable_ended();
  to->set_ns(ended.ns);
  to->set_instance(ended.instance);
  to->set_follower(ended.follower);
  to->set_born(ended.born);
  to->set_missing(!ended.result);
  if (ended.result) to->set_result(static_cast<uint32_t>(*ended.result));
}

void Pack(const Message::Begin& begin, record::Message* out) {
  auto* to = out->mutable_begin();
  Pack(begin.asker, to->mutable_asker());
  to->set_starts(EncodeStarts({begin.start}));
  if (begin.provenance) {
    auto* provenance = to->mutable_provenance();
    provenance->set_group(begin.provenance->group);
    provenance->set_cause(begin.provenance->cause);
    provenance->set_depth(begin.provenance->depth);
    provenance->set_backfill(begin.provenance->backfill);
    provenance->set_time(Micros(begin.provenance->time));
  }
  for (const LimitAsk& ask : begin.asks) rows::Encode(ask, to->add_asks());
  to->set_client(begin.client);
  to->set_inside(begin.inside);
  to->set_outside(begin.outside);
  to->set_follows(begin.follows);
}

void Pack(const Message::Move& move, record::Message* out) {
  auto* to = out->mutable_move();
  Pack(move.asker, to->mutable_asker());
  to->set_ns(move.ns);
  to->set_instance(move.instance);
  to->set_transition(move.transition);
  to->set_node(move.node);
  to->set_params(move.params);
  to->set_depth(move.depth);
}

void Pack(const Message::Decided& decided, record::Message* out) {
  auto* to = out->mutable_decided();
  Pack(decided.asker, to->mutable_asker());
  to->set_outcome(static_cast<uint32_t>(decided.outcome));
  to->set_error(decided.error);
  to->set_instance(decided.instance);
}

void Pack(const Message::Finished& finished, record::Message* out) {
  auto* to = out->mutable_finished();
  to->set_ns(finished.ns);
  to->set_cause(finished.cause);
  to->set_instance(finished.instance);
  to->set_failed(finished.failed);
  to->set_time(Micros(finished.time));
}

void Pack(const Message::Stake& stake, record::Message* out) {
  auto* to = out->mutable_stake();
  to->set_ns(stake.ns);
  to->set_instance(stake.instance);
  to->set_visit(stake.visit);
  to->set_ask(stake.ask);
  to->set_kind(static_cast<uint32_t>(stake.kind));
  for (const LimitAsk& ask : stake.asks) rows::Encode(ask, to->add_asks());
  to->set_priority(stake.priority);
  to->set_order(stake.order);
  to->set_since(Micros(stake.since));
  to->set_forced(stake.forced);
  for (const std::string& one : stake.above) to->add_above(one);
  to->set_group(stake.group);
  to->set_in_line(stake.in_line);
}

void Pack(const Message::Verdict& verdict, record::Message* out) {
  auto* to = out->mutable_verdict();
  to->set_ns(verdict.ns);
  to->set_instance(verdict.instance);
  to->set_visit(verdict.visit);
  to->set_ask(verdict.ask);
  to->set_kind(static_cast<uint32_t>(verdict.kind));
  to->set_key(verdict.key);
  to->set_why(verdict.why);
  to->set_singleton(verdict.singleton);
  to->set_for_ever(verdict.for_ever);
}

void Pack(const Message::Yield& yield, record::Message* out) {
  auto* to = out->mutable_yield();
  to->set_ns(yield.ns);
  to->set_instance(yield.instance);
  to->set_mode(static_cast<uint32_t>(yield.mode));
  to->set_why(yield.why);
}

void Pack(const Message::Emptied& emptied, record::Message* out) {
  out->mutable_emptied()->set_ns(emptied.ns);
  out->mutable_emptied()->set_made(Micros(emptied.made));
}

void Pack(const Message::Gone& gone, record::Message* out) {
  out->mutable_gone()->set_ns(gone.ns);
  out->mutable_gone()->set_made(Micros(gone.made));
}

void Pack(const Message::Item& item, record::Message* out) {
  auto* to = out->mutable_item();
  to->set_ns(item.ns);
  to->set_trigger(item.trigger);
  to->set_begins(item.begins);
  to->set_round(item.round);
  to->set_seq(item.seq);
  to->set_source(item.source);
  to->set_json(item.json);
  to->set_depth(item.depth);
  to->set_missed(item.missed);
}

void Pack(const Message::Reread& reread, record::Message* out) {
  auto* to = out->mutable_reread();
  to->set_ns(reread.ns);
  to->set_trigger(reread.trigger);
  to->set_begins(reread.begins);
  to->set_round(reread.round);
  to->set_seq(reread.seq);
  to->set_changes(reread.changes);
  to->set_paused(reread.paused);
}

void Pack(const Message::Polled& polled, record::Message* out) {
  auto* to = out->mutable_polled();
  to->set_ns(polled.ns);
  to->set_trigger(polled.trigger);
  to->set_instance(polled.instance);
  to->set_output(polled.output);
  to->set_nothing(polled.nothing);
}

void Pack(const Message::Tally& tally, record::Message* out) {
  auto* to = out->mutable_tally();
  to->set_ns(tally.ns);
  to->set_group(tally.group);
  rows::Encode(tally.by, to->mutable_by());
  to->set_failed(tally.failed);
  to->set_recovered(tally.recovered);
  to->set_last(tally.last);
  to->set_ended(Micros(tally.ended));
  to->set_launched(tally.launched);
}

void Pack(const Message::Ordered& ordered, record::Message* out) {
  auto* to = out->mutable_ordered();
  to->set_ns(ordered.ns);
  to->set_group(ordered.group);
  to->set_action(static_cast<uint32_t>(ordered.action));
  to->set_members(ordered.members);
}

void Pack(const Message::Uses& uses, record::Message* out) {
  for (const Message::Use& use : uses.uses) {
    auto* to = out->mutable_uses()->add_uses();
    to->set_ns(use.ns);
    to->set_live(use.live);
    to->set_ready(use.ready);
    to->set_started(use.started);
  }
  out->mutable_uses()->set_anew(uses.anew);
}

void Pack(const Message::Counted& counted, record::Message* out) {
  auto* to = out->mutable_counted();
  to->set_ns(counted.ns);
  to->set_key(counted.key);
  to->set_counts(counted.counts);
  to->set_followed(counted.followed);
  to->set_round(counted.round);
}

void Pack(const Message::Held& held, record::Message* out) {
  auto* to = out->mutable_held();
  to->set_ns(held.ns);
  to->set_key(held.key);
  to->set_by(held.by);
  to->set_answers(held.answers);
}

void Pack(const Message::Wanted& wanted, record::Message* out) {
  auto* to = out->mutable_wanted();
  to->set_ns(wanted.ns);
  to->set_key(wanted.key);
  to->set_by(wanted.by);
  to->set_back(wanted.back);
  for (const Agenda::Turn& one : wanted.first) {
    to->add_priorities(one.priority);
    to->add_since(Micros(one.since));
  }
}

void Pack(const Message::Places& places, record::Message* out) {
  auto* to = out->mutable_places();
  to->set_ns(places.ns);
  to->set_key(places.key);
  to->set_more(places.more);
}

void Pack(const Message::Learned& learned, record::Message* out) {
  auto* const to = out->mutable_learned();
  for (const Message::Learned::Node& one : learned.nodes) {
    auto* node = to->add_nodes();
    node->set_ns(one.ns);
    node->set_machine(one.machine);
    node->set_node(one.node);
    node->set_under_way(one.under_way);
    for (const Latency::Sample& sample : one.samples) {
      auto* its = node->add_samples();
      its->set_took(sample.took.count());
      its->set_censored(sample.censored);
      its->set_replaces(sample.replaces.count());
      its->set_retry(sample.retry);
    }
  }
}

void Pack(const Message::Paced& paced, record::Message* out) {
  auto* const to = out->mutable_paced();
  for (const Message::Paced::Node& one : paced.nodes) {
    auto* node = to->add_nodes();
    node->set_ns(one.ns);
    node->set_machine(one.machine);
    node->set_node(one.node);
    Encode(one.pace, node->mutable_pace());
  }
}

void Pack(const Message::Braked& braked, record::Message* out) {
  auto* const to = out->mutable_braked();
  to->set_ns(braked.ns);
  to->set_machine(braked.machine);
  to->set_waits(braked.waits);
  to->set_believes(static_cast<uint32_t>(braked.believes));
  for (const Breaker::Second& one : braked.spent.seconds) {
    auto* second = to->add_seconds();
    second->set_second(one.second);
    second->set_claims(one.claims);
    second->set_retries(one.retries);
  }
  for (Timestamp one : braked.spent.succeeded) to->add_succeeded(Micros(one));
  for (Timestamp one : braked.spent.failed) to->add_failed(Micros(one));
}

void Pack(const Message::Brake& brake, record::Message* out) {
  auto* const to = out->mutable_brake();
  to->set_ns(brake.ns);
  to->set_machine(brake.machine);
  to->set_state(static_cast<uint32_t>(brake.stand.state));
  to->set_rate(brake.stand.rate);
  to->set_since(Micros(brake.stand.since));
  to->set_place(brake.stand.place);
  to->set_of(brake.stand.of);
  to->set_counts(brake.counts);
}

Message::Asker Unpack(const record::Message::Asker& in) {
  return {in.ns(), in.cause(), in.number(), in.instance()};
}

Result<Message> Unpack(const record::Message::Ended& in) {
  constexpr auto kLast = static_cast<uint32_t>(InstanceResult::kAborted);
  if (in.result() > kLast) return NoMessage();
  Message::Ended ended{in.ns(), in.instance(), in.follower(), in.born(), {}};
  if (!in.missing()) ended.result = static_cast<InstanceResult>(in.result());
  return Message{std::move(ended)};
}

Result<Message> Unpack(const record::Message::Begin& in) {
  auto starts = DecodeStarts(in.starts());
  if (!starts || starts->size() != 1) return NoMessage();
  Message::Begin begin;
  begin.asker = Unpack(in.asker());
  begin.start = std::move(starts->front());
  if (in.has_provenance()) {
    begin.provenance =
        Provenance{in.provenance().group(), in.provenance().cause(), in.provenance().depth(),
                   in.provenance().backfill(), FromMicros(in.provenance().time())};
  }
  for (const auto& ask : in.asks()) begin.asks.push_back(rows::Decode(ask));
  begin.client = in.client();
  begin.inside = in.inside();
  begin.outside = in.outside();
  begin.follows = in.follows();
  return Message{std::move(begin)};
}

Result<Message> Unpack(const record::Message::Decided& in) {
  if (in.outcome() > static_cast<uint32_t>(OccurrenceOutcome::kDuplicate)) return NoMessage();
  return Message{Message::Decided{Unpack(in.asker()), static_cast<OccurrenceOutcome>(in.outcome()),
                                  in.error(), in.instance()}};
}

Result<Message> Unpack(const record::Message::Stake& in) {
  if (in.kind() > static_cast<uint32_t>(Message::Stake::Kind::kHolds)) return NoMessage();
  Message::Stake stake{in.ns(), in.instance(), in.visit(), in.ask()};
  stake.kind = static_cast<Message::Stake::Kind>(in.kind());
  for (const auto& ask : in.asks()) stake.asks.push_back(rows::Decode(ask));
  stake.priority = in.priority();
  stake.order = in.order();
  stake.since = FromMicros(in.since());
  stake.forced = in.forced();
  stake.above.assign(in.above().begin(), in.above().end());
  stake.group = in.group();
  stake.in_line = in.in_line();
  return Message{std::move(stake)};
}

Result<Message> Unpack(const record::Message::Verdict& in) {
  if (in.kind() > static_cast<uint32_t>(LimitAnswer::Kind::kFails)) return NoMessage();
  return Message{Message::Verdict{in.ns(), in.instance(), in.visit(), in.ask(),
                                  static_cast<LimitAnswer::Kind>(in.kind()), in.key(), in.why(),
                                  in.singleton(), in.for_ever()}};
}

Result<Message> Unpack(const record::Message::Yield& in) {
  if (in.mode() > static_cast<uint32_t>(CancelMode::kKill)) return NoMessage();
  return Message{Message::Yield{in.ns(), in.instance(), static_cast<CancelMode>(in.mode()),
                                in.why()}};
}

Message Unpack(const record::Message::Wanted& in) {
  Message::Wanted wanted{in.ns(), in.key(), in.by(), in.back()};
  const int turns = std::min(in.priorities_size(), in.since_size());
  for (int i = 0; i < turns; ++i) {
    wanted.first.push_back({in.priorities(i), FromMicros(in.since(i))});
  }
  return {std::move(wanted)};
}

Message Unpack(const record::Message::Learned& in) {
  Message::Learned learned;
  for (const auto& one : in.nodes()) {
    auto& node = learned.nodes.emplace_back(
        Message::Learned::Node{one.ns(), one.machine(), one.node(), one.under_way(), {}});
    for (const auto& sample : one.samples()) {
      node.samples.push_back({Duration(sample.took()), sample.censored(),
                              Duration(sample.replaces()), sample.retry()});
    }
  }
  return {std::move(learned)};
}

Message Unpack(const record::Message::Paced& in) {
  Message::Paced paced;
  for (const auto& one : in.nodes()) {
    paced.nodes.push_back({one.ns(), one.machine(), one.node(), Decode(one.pace())});
  }
  return {std::move(paced)};
}

std::optional<Breaker::State> StateOf(uint32_t number) {
  if (number > static_cast<uint32_t>(Breaker::State::kHalfOpen)) return std::nullopt;
  return static_cast<Breaker::State>(number);
}

Result<Message> Unpack(const record::Message::Braked& in) {
  const auto state = StateOf(in.believes());
  if (!state) return NoMessage();
  Message::Braked braked{in.ns(), in.machine(), in.waits(), *state, {}};
  for (const auto& one : in.seconds()) {
    braked.spent.seconds.push_back({one.second(), one.claims(), one.retries()});
  }
  for (int64_t one : in.succeeded()) braked.spent.succeeded.push_back(FromMicros(one));
  for (int64_t one : in.failed()) braked.spent.failed.push_back(FromMicros(one));
  return Message{std::move(braked)};
}

Result<Message> Unpack(const record::Message::Brake& in) {
  const auto state = StateOf(in.state());
  if (!state) return NoMessage();
  return Message{Message::Brake{in.ns(), in.machine(),
                                {*state, in.rate(), FromMicros(in.since()), in.place(), in.of()},
                                in.counts()}};
}

Result<Message> Unpack(const record::Message::Ordered& in) {
  if (in.action() > static_cast<uint32_t>(GroupOrder::Action::kKill)) return NoMessage();
  return Message{Message::Ordered{in.ns(), in.group(),
                                  static_cast<GroupOrder::Action>(in.action()), in.members()}};
}

}  // namespace

std::string EncodeMessage(const Message& message) {
  record::Message out;
  std::visit([&out](const auto& one) { Pack(one, &out); }, message.of);
  return out.SerializeAsString();
}

Result<Message> DecodeMessage(std::string_view text) {
  record::Message in;
  if (!in.ParseFromArray(text.data(), static_cast<int>(text.size()))) return NoMessage();
  switch (in.of_case()) {
    case record::Message::kFollow: {
      const auto& one = in.follow();
      return Message{Message::Follow{one.ns(), one.instance(), one.follower(), one.born()}};
    }
    case record::Message::kEnded:
      return Unpack(in.ended());
    case record::Message::kBegin:
      return Unpack(in.begin());
    case record::Message::kMove: {
      const auto& one = in.move();
      return Message{Message::Move{Unpack(one.asker()), one.ns(), one.instance(),
                                   one.transition(), one.node(), one.params(), one.depth()}};
    }
    case record::Message::kDecided:
      return Unpack(in.decided());
    case record::Message::kFinished: {
      const auto& one = in.finished();
      return Message{Message::Finished{one.ns(), one.cause(), one.instance(), one.failed(),
                                       FromMicros(one.time())}};
    }
    case record::Message::kStake:
      return Unpack(in.stake());
    case record::Message::kVerdict:
      return Unpack(in.verdict());
    case record::Message::kYield:
      return Unpack(in.yield());
    case record::Message::kEmptied:
      return Message{Message::Emptied{in.emptied().ns(), FromMicros(in.emptied().made())}};
    case record::Message::kGone:
      return Message{Message::Gone{in.gone().ns(), FromMicros(in.gone().made())}};
    case record::Message::kItem: {
      const auto& one = in.item();
      return Message{Message::Item{one.ns(), one.trigger(), one.begins(), one.round(), one.seq(),
                                   one.source(), one.json(), one.depth(), one.missed()}};
    }
    case record::Message::kReread: {
      const auto& one = in.reread();
      return Message{Message::Reread{one.ns(), one.trigger(), one.begins(), one.round(),
                                     one.seq(), one.changes(), one.paused()}};
    }
    case record::Message::kPolled: {
      const auto& one = in.polled();
      return Message{Message::Polled{one.ns(), one.trigger(), one.instance(), one.output(),
                                     one.nothing()}};
    }
    case record::Message::kTally: {
      const auto& one = in.tally();
      return Message{Message::Tally{one.ns(), one.group(), rows::Decode(one.by()), one.failed(),
                                    one.recovered(), one.last(), FromMicros(one.ended()),
                                    one.launched()}};
    }
    case record::Message::kOrdered:
      return Unpack(in.ordered());
    case record::Message::kUses: {
      Message::Uses uses{{}, in.uses().anew()};
      for (const auto& one : in.uses().uses()) {
        uses.uses.push_back({one.ns(), one.live(), one.ready(), one.started()});
      }
      return Message{std::move(uses)};
    }
    case record::Message::kCounted: {
      const auto& one = in.counted();
      return Message{Message::Counted{one.ns(), one.key(), one.counts(), one.followed(),
                                      one.round()}};
    }
    case record::Message::kHeld: {
      const auto& one = in.held();
      return Message{Message::Held{one.ns(), one.key(), one.by(), one.answers()}};
    }
    case record::Message::kWanted:
      return Unpack(in.wanted());
    case record::Message::kPlaces: {
      const auto& one = in.places();
      return Message{Message::Places{one.ns(), one.key(), one.more()}};
    }
    case record::Message::kLearned:
      return Unpack(in.learned());
    case record::Message::kPaced:
      return Unpack(in.paced());
    case record::Message::kBraked:
      return Unpack(in.braked());
    case record::Message::kBrake:
      return Unpack(in.brake());
    case record::Message::OF_NOT_SET:
      break;
  }
  return NoMessage();
}

void PutOut(const Writer& writer, PartitionId to, uint64_t number, std::string message) {
  writer.batch.Put(OutKey(writer.partition, to, number), std::move(message));
}

void DropOut(const Writer& writer, PartitionId to, uint64_t number) {
  writer.batch.Delete(OutKey(writer.partition, to, number));
}

Result<Ok> ScanOut(const Reader& reader,
                   const std::function<void(PartitionId to, uint64_t number)>& visit) {
  const std::string begin = Key(reader.partition, kOut);
  return reader.view.Scan(begin, PrefixEnd(begin), [&](std::string_view key, std::string_view) {
    KeyReader parts(key);
    const auto to = static_cast<PartitionId>(parts.Number(2));
    visit(to, parts.Number());
    return true;
  });
}

Result<Ok> ReadOut(const Reader& reader, PartitionId to, uint64_t after,
                   const std::function<bool(uint64_t, std::string_view)>& visit) {
  const std::string prefix = Key(reader.partition, kOut).Partition(to);
  return reader.view.Scan(OutKey(reader.partition, to, after + 1), PrefixEnd(prefix),
                          [&](std::string_view key, std::string_view value) {
                            KeyReader parts(key);
                            (void)parts.Number(2);
                            return visit(parts.Number(), value);
                          });
}

void PutIn(const Writer& writer, PartitionId from, uint64_t number) {
  PutNumber(writer, Key(writer.partition, kIn).Partition(from), number);
}

Result<std::map<PartitionId, uint64_t>> GetIns(const Reader& reader) {
  std::map<PartitionId, uint64_t> ins;
  const std::string begin = Key(reader.partition, kIn);
  auto scanned = ScanAll(reader, begin, PrefixEnd(begin),
                         [&](std::string_view key, std::string_view value) -> Result<bool> {
                           auto number = NumberIn(key, value);
                           if (!number) return number.error();
                           ins[static_cast<PartitionId>(KeyReader(key).Number(2))] = *number;
                           return true;
                         });
  if (!scanned) return scanned.error();
  return ins;
}

void PutFollower(const Writer& writer, const FollowerRow& row) {
  PutNumber(writer, FollowerKey(writer.partition, row), row.born);
}

void DropFollower(const Writer& writer, const FollowerRow& row) {
  writer.batch.Delete(FollowerKey(writer.partition, row));
}

Result<Ok> ScanFollowers(const Reader& reader, const std::function<void(FollowerRow)>& visit) {
  const std::string begin = Key(reader.partition, kFollower);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto born = NumberIn(key, value);
                   if (!born) return born.error();
                   KeyReader parts(key);
                   FollowerRow row;
                   row.ns = parts.Text();
                   row.instance = parts.Text();
                   row.follower = parts.Text();
                   row.from = static_cast<PartitionId>(parts.Number(2));
                   row.born = *born;
                   visit(std::move(row));
                   return true;
                 });
}

}  // namespace dfsmr::rows
