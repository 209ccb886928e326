// Streams of work over several partitions, without calls.
#include "dsrv/cluster/sharing.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "fsm/base/reason.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;

constexpr uint16_t kShares = 4;

// A worker's stream, and what each partition's has been told.
struct Shared {
  explicit Shared(int32_t capacity = 5) {
    v1::WorkRequest first;
    first.mutable_open()->set_machine("m");
    first.mutable_open()->set_max_tasks(capacity);
    REQUIRE(sharing.Take(std::move(first)));
    for (PartitionId of = 0; of < kShares; ++of) {
      CHECK(sharing.Open(of, now).size() == 1);
      Has(of, 0);
    }
  }
  // Where an instance lives that is the n-th of its partition.
  static std::string In(PartitionId partition, int number = 0) {
    for (int i = 0;; ++i) {
      const std::string id = "i" + std::to_string(i);
      if (PartitionOf("", id, kShares) == partition && number-- == 0) return id;
    }
  }
  // The partition says what it has of one priority.
  void Has(PartitionId partition, uint32_t tasks, int64_t priority = 0) {
    peer::WorkPartReply reply;
    reply.set_looked(true);
    if (tasks > 0) {
      auto& level = *reply.add_levels();
      level.set_priority(priority);
      level.set_tasks(tasks);
    }
    sharing.TakeReply(partition, std::move(reply), now);
  }
  void Hands(PartitionId partition, const std::string& claim, uint32_t spare = 0) {
    peer::WorkPartReply reply;
    if (!claim.empty()) {
      auto& task = *reply.mutable_work()->add_tasks();
      task.set_instance(In(partition));
      task.set_claim(claim);
    }
    reply.set_spare(spare);
    sharing.TakeReply(partition, std::move(reply), now);
  }
  void Over(PartitionId partition, const std::string& claim) {
    peer::WorkPartReply reply;
    reply.add_over(claim);
    sharing.TakeReply(partition, std::move(reply), now);
  }
  void Accepts(PartitionId partition) {
    peer::WorkPartReply reply;
    reply.mutable_work()->add_results()->mutable_accepted()->set_node(std::to_string(partition));
    sharing.TakeReply(partition, std::move(reply), now);
  }
  void Report(PartitionId partition, const std::string& claim) {
    v1::WorkRequest message;
    auto& one = *message.add_transitions();
    one.set_instance(In(partition));
    one.set_claim(claim);
    one.set_transition("ok");
    CHECK(sharing.Take(std::move(message)));
  }
  // What each partition is allowed now.
  std::map<PartitionId, uint32_t> Allowed() {
    again = sharing.Deal(now);
    std::map<PartitionId, uint32_t> allowed;
    for (const auto& [of, part] : sharing.TakeParts()) {
      if (part.allow() > 0) allowed[of] = part.allow();
      if (part.look()) looks.push_back(of);
    }
    return allowed;
  }
  std::vector<std::string> Results() {
    std::vector<std::string> results;
    if (const auto told = sharing.TakeResponse()) {
      for (const auto& one : told->results()) {
        results.push_back(one.has_accepted() ? one.accepted().node() : one.error().reason());
      }
    }
    return results;
  }

  Sharing sharing{kShares};
  Sharing::Time now{std::chrono::hours(1)};
  std::optional<Sharing::Time> again;
  std::vector<PartitionId> looks;
};

using Allowed = std::map<PartitionId, uint32_t>;

TEST_CASE("the most urgent work is handed out first, within what the worker has room for") {
  Shared stream(3);
  CHECK(stream.Allowed().empty());
  stream.Has(1, 2, 5);
  stream.Has(2, 9, 1);
  stream.Has(3, 9, 0);
  CHECK(stream.Allowed() == Allowed{{1, 2}, {2, 1}});
  CHECK(stream.Allowed().empty());  // there is no room while that is not answered
  stream.Hands(1, "a");
  stream.Hands(1, "b");
  stream.Hands(2, "c");
  CHECK(stream.Allowed().empty());
  stream.Over(1, "a");
  CHECK(stream.Allowed() == Allowed{{3, 1}});
}

TEST_CASE("what was allowed in vain makes room, and its partition is left alone for a moment") {
  Shared stream(1);
  stream.Has(0, 1);
  CHECK(stream.Allowed() == Allowed{{0, 1}});
  stream.Hands(0, "", 1);
  stream.Has(0, 1);
  CHECK(stream.Allowed().empty());
  REQUIRE(stream.again);
  stream.now = *stream.again;
  CHECK(stream.Allowed() == Allowed{{0, 1}});
}

TEST_CASE("a partition that said long ago what it has is asked again") {
  Shared stream(1);
  stream.Has(0, 5);
  CHECK(stream.Allowed() == Allowed{{0, 1}});
  stream.Hands(0, "a");
  stream.Has(0, 4);
  stream.Has(1, 1);
  stream.now += milliseconds(30);
  stream.Over(0, "a");
  CHECK(stream.Allowed().empty());
  CHECK(stream.looks == std::vector<PartitionId>{0, 1});  // the others have nothing, as far as told
  stream.Has(0, 4);
  CHECK(stream.Allowed().empty());  // the other one has not answered yet
  stream.Has(1, 1, 7);
  CHECK(stream.Allowed() == Allowed{{1, 1}});
}

TEST_CASE("a partition that does not answer holds nobody up") {
  Shared stream(1);
  stream.Has(0, 5);
  stream.Has(1, 5, 9);
  stream.now += milliseconds(30);
  CHECK(stream.Allowed().empty());
  stream.Has(0, 5);
  CHECK(stream.Allowed().empty());
  REQUIRE(stream.again);
  stream.now = *stream.again;
  CHECK(stream.Allowed().empty());  // what the other has said is old by now
  stream.Has(0, 5);
  CHECK(stream.Allowed() == Allowed{{0, 1}});
}

TEST_CASE("what a partition has is asked when its stream is opened, and waited for once") {
  Shared stream(1);
  stream.sharing.Lose(1);
  CHECK(stream.sharing.Open(1, stream.now)[0].look());
  stream.Has(0, 5);
  CHECK(stream.Allowed().empty());
  stream.now = *stream.again;
  CHECK(stream.Allowed().empty());  // what the other has said is old by now
  stream.Has(0, 5);
  CHECK(stream.Allowed() == Allowed{{0, 1}});
  stream.Hands(0, "", 1);
  stream.now += milliseconds(2);
  stream.Has(0, 5);
  CHECK(stream.Allowed() == Allowed{{0, 1}});  // it has not answered yet, and holds nobody up
  stream.Hands(0, "", 1);
  stream.now += milliseconds(2);
  stream.Has(0, 5);
  stream.Has(1, 1, 9);
  CHECK(stream.Allowed() == Allowed{{1, 1}});
}

TEST_CASE("results come in the order of the reports, whoever is quicker") {
  Shared stream;
  stream.Report(2, "c");
  stream.Report(0, "a");
  stream.Report(2, "d");
  CHECK(stream.sharing.TakeParts().size() == 2);
  stream.Accepts(0);
  CHECK(stream.Results().empty());
  stream.Accepts(2);
  CHECK(stream.Results() == std::vector<std::string>{"2", "0"});
  stream.Accepts(2);
  CHECK(stream.Results() == std::vector<std::string>{"2"});
}

TEST_CASE("what a stream that broke has not answered is asked again, and what is in hand told") {
  Shared stream;
  stream.Has(1, 3);
  CHECK(stream.Allowed() == Allowed{{1, 3}});
  for (const char* claim : {"a", "b", "c"}) stream.Hands(1, claim);
  CHECK(stream.sharing.TakeResponse()->tasks_size() == 3);
  stream.Report(1, "b");
  CHECK(stream.sharing.TakeParts().size() == 1);
  stream.sharing.Lose(1);
  stream.Report(1, "c");
  CHECK(stream.sharing.TakeParts().empty());
  CHECK(stream.Results().empty());
  const auto first = stream.sharing.Open(1, {});
  REQUIRE(first.size() == 1);
  CHECK(first[0].work().open().machine() == "m");
  REQUIRE(first[0].held_size() == 1);
  CHECK(first[0].held(0).claim() == "a");
  CHECK(first[0].held(0).instance() == Shared::In(1));
  REQUIRE(first[0].work().transitions_size() == 2);
  CHECK(first[0].work().transitions(0).claim() == "b");
  stream.Accepts(1);
  stream.Accepts(1);
  CHECK(stream.Results() == std::vector<std::string>{"1", "1"});
  CHECK(stream.sharing.TakeParts().empty());
}

TEST_CASE("a claim that is still held after its repeated report was refused is taken up") {
  Shared stream;
  stream.Has(1, 1);
  stream.Allowed();
  stream.Hands(1, "a");
  stream.Report(1, "a");
  stream.sharing.TakeParts();
  stream.sharing.Lose(1);
  CHECK(stream.sharing.Open(1, {})[0].held().empty());
  peer::WorkPartReply refused;
  refused.mutable_work()->add_results()->mutable_error()->set_reason("NO_SUCH_TRANSITION");
  stream.sharing.TakeReply(1, std::move(refused), stream.now);
  const auto parts = stream.sharing.TakeParts();
  REQUIRE(parts.contains(1));
  CHECK(parts.at(1).held(0).claim() == "a");
}

TEST_CASE("a transition without a claim is not repeated") {
  Shared stream;
  stream.Report(3, "");
  stream.sharing.TakeParts();
  stream.sharing.Lose(3);
  CHECK(stream.Results() == std::vector<std::string>{"OUTCOME_UNKNOWN"});
  stream.Report(3, "");  // nobody has it yet
  CHECK(stream.sharing.Open(3, {})[0].work().transitions_size() == 1);
}

TEST_CASE("while nobody has a partition its reports are refused, as unknown where they may be") {
  Shared stream;
  v1::Error why;
  why.set_reason("NO_OWNER");
  stream.Report(1, "a");
  stream.sharing.Lose(1);
  stream.sharing.Open(1, {});
  stream.sharing.Lose(1);
  stream.Report(1, "b");
  stream.sharing.Refuse(1, why);
  CHECK(stream.Results() == std::vector<std::string>{"OUTCOME_UNKNOWN", "NO_OWNER"});
  CHECK_FALSE(stream.sharing.Full());
}

TEST_CASE("claims in hand count while their partition is lost, and what was allowed does not") {
  Shared stream(3);
  stream.Has(1, 1);
  stream.Has(2, 1);
  CHECK(stream.Allowed() == Allowed{{1, 1}, {2, 1}});
  stream.Hands(1, "a");
  stream.sharing.Lose(1);
  stream.sharing.Lose(2);
  stream.Has(0, 9);
  CHECK(stream.Allowed() == Allowed{{0, 2}});
}

TEST_CASE("a stream that drains is handed nothing, and tells so to streams that are opened anew") {
  Shared stream;
  v1::WorkRequest drain;
  drain.set_drain(true);
  REQUIRE(stream.sharing.Take(std::move(drain)));
  CHECK(stream.sharing.TakeParts().size() == kShares);
  stream.Has(0, 1);
  CHECK(stream.Allowed().empty());
  stream.sharing.Lose(2);
  CHECK(stream.sharing.Open(2, {})[0].work().drain());
}

TEST_CASE("each partition is told how the stream ended, and what did not reach its worker") {
  Shared stream;
  stream.Hands(0, "a");
  const auto writing = *stream.sharing.TakeResponse();
  stream.Hands(0, "b");
  stream.Hands(1, "c");
  stream.sharing.Lose(1);
  const auto last = stream.sharing.Farewell(peer::WorkPart::BROKEN, writing);
  REQUIRE(last.size() == kShares);
  CHECK(last.at(0).end() == peer::WorkPart::BROKEN);
  CHECK(last.at(0).unsent(0).claim() == "b");
  CHECK(last.at(0).doubtful(0).claim() == "a");
  CHECK(last.at(1).end() == peer::WorkPart::GOES_ON);
  CHECK(last.at(1).unsent(0).claim() == "c");
}

TEST_CASE("the first message of a stream of work opens it, and no other") {
  Sharing sharing(kShares);
  CHECK(sharing.Take({}).error().reason == Reason::kBadRequest);
  Shared stream;
  v1::WorkRequest again;
  again.mutable_open();
  CHECK(stream.sharing.Take(std::move(again)).error().reason == Reason::kBadRequest);
  v1::WorkRequest large;
  for (int i = 0; i < 1'001; ++i) large.add_extends();
  CHECK(stream.sharing.Take(std::move(large)).error().reason == Reason::kTooLarge);
}

TEST_CASE("what is asked anew goes in messages of a moderate size") {
  Shared stream;
  stream.sharing.Lose(1);
  for (int i = 0; i < 600; ++i) stream.Report(1, "c" + std::to_string(i));
  stream.sharing.HalfClose();
  const auto all = stream.sharing.Open(1, {});
  REQUIRE(all.size() == 2);
  CHECK(all[0].work().transitions_size() + all[1].work().transitions_size() == 600);
  CHECK(all[0].end() == peer::WorkPart::GOES_ON);
  CHECK(all[1].end() == peer::WorkPart::HALF_CLOSED);
}

// An agent's stream, of which home knows nothing yet.
struct SharedAgent : Shared {
  SharedAgent() {
    sharing = Sharing(kShares);
    v1::AgentMessage first;
    first.mutable_register_()->set_name("h");
    first.mutable_work()->mutable_open()->set_max_tasks(5);
    REQUIRE(sharing.Take(std::move(first), now));
    CHECK(sharing.Unwelcomed());
    CHECK(sharing.Open(kHome, {})[0].agent().register_().name() == "h");
  }
  void Welcomes(PartitionId partition, const std::string& lost, bool drained = false) {
    peer::WorkPartReply reply;
    reply.mutable_order()->mutable_welcome()->add_lost_claims(lost);
    reply.mutable_order()->set_drained(drained);
    sharing.TakeReply(partition, std::move(reply), now);
  }
  void WelcomeAll() {
    Welcomes(kHome, "0");
    for (PartitionId of = 1; of < kShares; ++of) {
      sharing.Open(of, {});
      Welcomes(of, std::to_string(of));
    }
  }
};

TEST_CASE("an agent is welcomed when all partitions have, with what each says it has lost") {
  SharedAgent agent;
  CHECK_FALSE(agent.sharing.TakeOrder(agent.now, true));
  agent.Welcomes(kHome, "0");
  agent.Has(kHome, 3);
  CHECK(agent.Allowed().empty());
  for (PartitionId of = 1; of < kShares; ++of) {
    agent.sharing.Open(of, {});
    agent.Welcomes(of, std::to_string(of));
  }
  CHECK_FALSE(agent.sharing.Unwelcomed());
  CHECK(agent.Allowed() == Allowed{{kHome, 3}});  // at once, behind the welcome
  const auto order = agent.sharing.TakeOrder(agent.now, false);
  REQUIRE(order);
  CHECK(order->welcome().lost_claims_size() == kShares);
  CHECK_FALSE(agent.sharing.TakeOrder(agent.now, false));
  CHECK_FALSE(agent.sharing.TakeOrder(agent.now, true)->has_welcome());  // a sign of life
}

TEST_CASE("a partition that nobody has does not keep an agent from being welcomed") {
  SharedAgent agent;
  agent.Welcomes(kHome, "0");
  agent.Allowed();
  REQUIRE(agent.again);
  CHECK_FALSE(agent.sharing.TakeOrder(agent.now, false));
  CHECK(agent.sharing.TakeOrder(*agent.again, false));
}

TEST_CASE("an agent that is drained is handed nothing, whoever has work") {
  SharedAgent agent;
  agent.WelcomeAll();
  agent.sharing.TakeOrder(agent.now, false);
  peer::WorkPartReply drained;
  drained.mutable_order()->set_drained(true);
  agent.sharing.TakeReply(kHome, drained, agent.now);
  agent.Has(1, 3);
  CHECK(agent.Allowed().empty());
  CHECK(agent.sharing.TakeOrder(agent.now, false)->drained());
  drained.mutable_order()->set_drained(false);
  agent.sharing.TakeReply(kHome, drained, agent.now);
  CHECK(agent.Allowed() == Allowed{{1, 3}});
}

TEST_CASE("what an agent stops is told where the instance lives, and that it leaves to all") {
  SharedAgent agent;
  agent.WelcomeAll();
  v1::AgentMessage message;
  auto& stop = *message.add_stops();
  stop.set_instance(Shared::In(2));
  stop.set_claim("c");
  message.set_leave(true);
  REQUIRE(agent.sharing.Take(std::move(message), agent.now));
  const auto parts = agent.sharing.TakeParts();
  REQUIRE(parts.size() == kShares);
  CHECK(parts.at(2).agent().stops(0).claim() == "c");
  CHECK(parts.at(3).agent().leave());
  CHECK(parts.at(3).agent().stops().empty());
  CHECK(agent.sharing.ends());
}

TEST_CASE("home hears of an agent every few seconds, whatever it says") {
  SharedAgent agent;
  agent.WelcomeAll();
  REQUIRE(agent.sharing.Take(v1::AgentMessage(), agent.now));
  CHECK(agent.sharing.TakeParts().empty());
  agent.now += std::chrono::seconds(3);
  REQUIRE(agent.sharing.Take(v1::AgentMessage(), agent.now));
  CHECK(agent.sharing.TakeParts().at(kHome).has_agent());
}

TEST_CASE("what the worker refuses in one partition the others do not offer it, for a while") {
  Shared stream;
  (void)stream.sharing.TakeParts();
  peer::WorkPartReply reply;
  reply.add_refuses()->set_node("n");
  stream.sharing.TakeReply(1, std::move(reply), stream.now);
  const auto told = stream.sharing.TakeParts();
  for (PartitionId of = 0; of < kShares; ++of) {
    const auto part = told.find(of);
    const int refuses = part == told.end() ? 0 : part->second.refuses_size();
    CHECK(refuses == (of == 1 ? 0 : 1));
  }
  stream.sharing.Lose(1);  // the next owner does not know of it
  CHECK(stream.sharing.Open(1, stream.now)[0].refuses(0).node() == "n");
  stream.sharing.Lose(1);
  CHECK(stream.sharing.Open(1, stream.now + Sharing::kRefused)[0].refuses().empty());
}

TEST_CASE("a stream is idle when nothing is in hand, and all is answered") {
  Shared stream;
  CHECK(stream.sharing.Idle());
  stream.Has(1, 1);
  CHECK(stream.Allowed() == Allowed{{1, 1}});
  stream.Hands(1, "c");
  CHECK_FALSE(stream.sharing.Idle());
  stream.Report(1, "c");
  stream.Over(1, "c");
  CHECK_FALSE(stream.sharing.Idle());
  stream.Accepts(1);
  CHECK(stream.Results() == std::vector<std::string>{"1"});
  CHECK(stream.sharing.Idle());
}

}  // namespace
}  // namespace dfsmr
