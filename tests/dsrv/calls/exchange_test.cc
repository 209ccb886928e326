// What a Work stream reads, writes and ends with. Real streams are in tests/e2e.
#include "dsrv/calls/exchange.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace dfsmr {
namespace {

using Names = std::vector<std::string>;

Task TaskOf(const std::string& instance) {
  Task task;
  task.instance = instance;
  return task;
}

SessionUpdate TasksOf(const Names& instances) {
  SessionUpdate update;
  for (const std::string& instance : instances) update.tasks.push_back(TaskOf(instance));
  return update;
}

v1::WorkResponse AnswerOf(const std::string& node, int results = 1) {
  v1::WorkResponse answers;
  for (int i = 0; i < results; ++i) answers.add_results()->mutable_accepted()->set_node(node);
  return answers;
}

v1::WorkResponse ExtendsOf(int64_t deadline) {
  v1::WorkResponse answers;
  answers.add_extended()->mutable_deadline()->set_seconds(deadline);
  return answers;
}

Names TasksIn(const v1::WorkResponse& message) {
  Names names;
  for (const v1::Task& task : message.tasks()) names.push_back(task.instance());
  return names;
}

Names NamesOf(const std::vector<Task>& tasks) {
  Names names;
  for (const Task& task : tasks) names.push_back(task.instance);
  return names;
}

// Reads one message, whose answers are to come.
void ReadOne(Exchange& exchange) {
  REQUIRE(exchange.BeginRead());
  exchange.Expect();
  exchange.ReadDone();
}

void AnswerOne(Exchange& exchange, const std::string& node, int results = 1) {
  auto answers = AnswerOf(node, results);
  exchange.Answer(&answers);
}

const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "broken");
const grpc::Status kLater(grpc::StatusCode::INTERNAL, "later");

}  // namespace

TEST_CASE("what comes while a message is written is merged into the next one") {
  Outbox box;
  CHECK(!box.Ready());
  box.Add(TasksOf({"a"}));
  REQUIRE(box.Ready());
  const v1::WorkResponse* first = box.Write();
  CHECK(box.writing());
  CHECK(TasksIn(*first) == Names{"a"});

  auto answers = AnswerOf("x");
  box.Add(&answers);
  box.Add(TasksOf({"b"}));
  SessionUpdate told;
  told.cancelled = {"claim 1"};
  told.killed = {"claim 2"};
  box.Add(std::move(told));
  CHECK(!box.Ready());  // one message at a time
  CHECK(box.answers() == 1);
  CHECK(box.tasks() == 1);
  CHECK(TasksIn(*first) == Names{"a"});

  box.Written();
  REQUIRE(box.Ready());
  const v1::WorkResponse* second = box.Write();
  CHECK(TasksIn(*second) == Names{"b"});
  CHECK(second->results(0).accepted().node() == "x");
  CHECK(second->cancelled_claims(0) == "claim 1");
  CHECK(second->killed_claims(0) == "claim 2");
  CHECK(box.answers() == 0);
  box.Written();
  CHECK(!box.Ready());
}

TEST_CASE(
    "each task that was not delivered is given back once, and says whether it may have been") {
  Outbox box;
  box.Add(TasksOf({"written"}));
  box.Write();
  box.Written();
  box.Add(TasksOf({"on its way"}));
  box.Write();
  box.Add(TasksOf({"waits"}));
  box.Broke();
  CHECK(!box.writing());
  CHECK(!box.Ready());
  box.Return({TaskOf("late")});
  const auto unsent = box.TakeUnsent();
  CHECK(NamesOf(unsent.doubtful) == Names{"on its way"});
  CHECK(NamesOf(unsent.undelivered) == Names{"waits", "late"});
  const auto again = box.TakeUnsent();
  CHECK(again.doubtful.empty());
  CHECK(again.undelivered.empty());
}

TEST_CASE("extends are answered in their order, also early ones") {
  Exchange exchange;
  for (int i = 0; i < 4; ++i) ReadOne(exchange);
  CHECK(exchange.TakeExtends(/*early=*/true));
  auto first = ExtendsOf(1);
  exchange.AnswerEarly(&first, /*all=*/false);
  const v1::WorkResponse* message = exchange.BeginWrite();
  REQUIRE(message);
  CHECK(message->extended_size() == 1);
  exchange.WriteDone(true);

  CHECK(!exchange.TakeExtends(/*early=*/false));
  CHECK(!exchange.TakeExtends(/*early=*/true));  // the one before is not answered
  AnswerOne(exchange, "x");  // of the first message: there was nothing left of its extends
  auto second = ExtendsOf(2);
  exchange.Answer(&second);
  CHECK(!exchange.TakeExtends(/*early=*/true));
  for (int64_t deadline : {3, 4}) {
    auto later = ExtendsOf(deadline);
    exchange.Answer(&later);
  }
  message = exchange.BeginWrite();
  REQUIRE(message);
  REQUIRE(message->extended_size() == 3);
  for (int i = 0; i < 3; ++i) CHECK(message->extended(i).deadline().seconds() == i + 2);
  exchange.WriteDone(true);
  CHECK(exchange.TakeExtends(/*early=*/true));
}

TEST_CASE("a message that is answered early is not one of those that pause reads") {
  Exchange exchange;
  for (size_t i = 0; i < 2 * Exchange::kUnanswered; ++i) {
    ReadOne(exchange);
    REQUIRE(exchange.TakeExtends(/*early=*/true));
    auto extended = ExtendsOf(1);
    exchange.AnswerEarly(&extended, /*all=*/true);
  }
  CHECK(exchange.BeginRead());
}

TEST_CASE("dropping what waits leaves the message that is being written") {
  Outbox box;
  box.Add(TasksOf({"on its way"}));
  box.Write();
  box.Add(TasksOf({"waits"}));
  box.Drop();
  CHECK(box.writing());
  CHECK(NamesOf(box.TakeUnsent().undelivered) == Names{"waits"});
  box.Written();
  CHECK(!box.Ready());
  CHECK(box.TakeUnsent().doubtful.empty());
}

TEST_CASE("a stream reads one message at a time, and pauses when too many are unanswered") {
  Exchange exchange;
  REQUIRE(exchange.BeginRead());
  CHECK(!exchange.BeginRead());
  exchange.Expect();
  exchange.ReadDone();
  for (size_t i = 1; i < Exchange::kUnanswered; ++i) ReadOne(exchange);
  CHECK(!exchange.BeginRead());
  AnswerOne(exchange, "x");
  CHECK(exchange.BeginRead());
}

TEST_CASE("a stream pauses reading while a client leaves its answers unread") {
  Exchange exchange;
  ReadOne(exchange);
  AnswerOne(exchange, "x");
  REQUIRE(exchange.BeginWrite());
  ReadOne(exchange);
  AnswerOne(exchange, "y", Exchange::kUnwritten);
  CHECK(!exchange.BeginRead());
  exchange.WriteDone(true);
  REQUIRE(exchange.BeginWrite());
  CHECK(exchange.BeginRead());
}

TEST_CASE("a stream that was half-closed ends when all is answered and written") {
  Exchange exchange;
  ReadOne(exchange);
  ReadOne(exchange);
  REQUIRE(exchange.BeginRead());
  exchange.ReadEnded();
  CHECK(!exchange.BeginRead());
  exchange.End(grpc::Status::OK);
  CHECK(!exchange.TakeEnd());
  AnswerOne(exchange, "x");
  REQUIRE(exchange.BeginWrite());
  CHECK(!exchange.TakeEnd());
  AnswerOne(exchange, "y");
  exchange.WriteDone(true);
  CHECK(!exchange.TakeEnd());
  REQUIRE(exchange.BeginWrite());
  exchange.WriteDone(true);
  const auto end = exchange.TakeEnd();
  REQUIRE(end);
  CHECK(end->ok());
  CHECK(!exchange.TakeEnd());  // once
}

TEST_CASE("a session that is drained ends its stream behind the update") {
  Exchange exchange;
  SessionUpdate update = TasksOf({});
  update.cancelled = {"claim"};
  update.drained = true;
  CHECK(exchange.Add(std::move(update)));
  CHECK(!exchange.serving());
  CHECK(!exchange.TakeEnd());
  REQUIRE(exchange.BeginWrite());
  exchange.WriteDone(true);
  CHECK(exchange.TakeEnd());
}

// The count of unanswered messages was set to zero here, fell below zero with the answer that came
// after all, and so the stream never ended.
TEST_CASE("a broken stream ends although an answer comes that it no longer waits for") {
  Exchange exchange;
  CHECK(exchange.Add(TasksOf({"a"})));
  REQUIRE(exchange.BeginWrite());
  ReadOne(exchange);
  exchange.Break(kBroken);
  CHECK(!exchange.TakeEnd());  // a message is still being written
  AnswerOne(exchange, "x");
  exchange.WriteDone(true);
  REQUIRE(exchange.BeginWrite());  // the answer is not withheld
  exchange.WriteDone(true);
  const auto end = exchange.TakeEnd();
  REQUIRE(end);
  CHECK(end->error_message() == "broken");
}

TEST_CASE("a stream ends as the first reason says") {
  Exchange exchange;
  CHECK(exchange.Add(TasksOf({"a"})));
  REQUIRE(exchange.BeginWrite());
  exchange.Break(kBroken);
  exchange.End(grpc::Status::OK);
  exchange.Cancel(kLater);
  exchange.WriteDone(false);
  const auto end = exchange.TakeEnd();
  REQUIRE(end);
  CHECK(end->error_message() == "broken");
}

TEST_CASE("a broken stream waits for no answers") {
  Exchange exchange;
  ReadOne(exchange);
  exchange.Break(kBroken);
  CHECK(exchange.TakeEnd());
  AnswerOne(exchange, "x");
  CHECK(!exchange.BeginWrite());
  CHECK(!exchange.TakeEnd());
}

TEST_CASE("a stream that breaks while it writes gives its tasks back and ends") {
  Exchange exchange;
  CHECK(exchange.Add(TasksOf({"on its way"})));
  REQUIRE(exchange.BeginWrite());
  ReadOne(exchange);
  CHECK(exchange.Add(TasksOf({"waits"})));
  CHECK(exchange.tasks() == 1);
  exchange.WriteDone(false);
  CHECK(!exchange.BeginWrite());
  const auto end = exchange.TakeEnd();
  REQUIRE(end);
  CHECK(end->error_code() == grpc::StatusCode::CANCELLED);
  CHECK(!exchange.Add(TasksOf({"late"})));
  const auto unsent = exchange.TakeUnsent();
  CHECK(NamesOf(unsent.doubtful) == Names{"on its way"});
  CHECK(NamesOf(unsent.undelivered) == Names{"waits", "late"});
}

TEST_CASE("a cancelled call writes nothing more, and waits for no answers") {
  Exchange exchange;
  ReadOne(exchange);
  CHECK(exchange.Add(TasksOf({"waits"})));
  exchange.Cancel(kBroken);
  CHECK(!exchange.BeginWrite());
  CHECK(exchange.TakeEnd());
  CHECK(NamesOf(exchange.TakeUnsent().undelivered) == Names{"waits"});
  CHECK(!exchange.done());
  exchange.Done();
  CHECK(exchange.done());
  CHECK(!exchange.TakeEnd());
}

}  // namespace dfsmr
