// The kinds of load: each caller asks, waits for the answer, and asks again.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <chrono>
#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dfsmr/v1/runner.grpc.pb.h"
#include "tests/bench/case.h"
#include "tests/bench/loop.h"

namespace dfsmr::bench {

using Stub = v1::RunnerService::Stub;
using ChannelPtr = std::shared_ptr<grpc::Channel>;

constexpr int kErrorsBeforeGivingUp = 100;

// When a caller's next call is due. In a closed loop: as soon as it is free. In an open loop once a
// period, whether the last one was answered in time or not; a call that had to wait for that counts
// from when it was due. What the alarm itself is late by is not the server's.
class Pacer final : public Event {
 public:
  // A period of 0 is a closed loop. The first call is due at `phase` of the first period.
  Pacer(Loop* loop, Event* go, double period_seconds, double phase)
      : loop_(*loop),
        go_(*go),
        period_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(period_seconds))),
        due_(Clock::now() + std::chrono::duration_cast<Clock::duration>(period_ * phase)) {}

  // Then `go` is done: now, or on the loop's thread.
  void Await() {
    const Clock::time_point now = Clock::now();
    if (period_ == Clock::duration::zero()) {
      since_ = now;
      return go_.Done(true);
    }
    const Clock::time_point due = std::exchange(due_, due_ + period_);
    if (due <= now) {
      since_ = due;
      return go_.Done(true);
    }
    alarm_.Set(loop_.queue(), std::chrono::system_clock::now() + (due - now), this);
    loop_.Expect();
  }
  // What the call under way counts from.
  Clock::time_point since() const { return since_; }

 private:
  void Done(bool) override {
    since_ = Clock::now();
    go_.Done(true);
  }

  Loop& loop_;
  Event& go_;
  const Clock::duration period_;
  Clock::time_point due_;
  Clock::time_point since_;
  grpc::Alarm alarm_;
};

// What all callers have: a connection, and an end when too much goes wrong.
class ClosedLoop : public Caller {
 public:
  ClosedLoop(Loop* loop, const ChannelPtr& channel) : loop_(*loop), stub_(channel) {}

 protected:
  // Whether to go on after it.
  bool Failed(const grpc::Status& status) {
    loop_.CountError(std::to_string(status.error_code()) + " " + status.error_message());
    return ++errors_ < kErrorsBeforeGivingUp && !loop_.stopping();
  }

  Loop& loop_;
  Stub stub_;
  int errors_ = 0;
};

// Starts instances: as many as it is owed, or for ever.
class Starter final : public ClosedLoop, public Event {
 public:
  struct Plan {
    std::string machine;
    std::string id_prefix;
    int batch = 1;  // 1: Start, else StartBatch
    std::string params;
    std::optional<int64_t> owed = {};  // absent: for ever
    int64_t delay_seconds = 0;  // the instances are not due before
    int64_t ends = 1;     // one is owed each time that so many instances have ended
    bool beside = false;  // the load is another's: nothing is counted
    // Each instance is one of a large plan, of so many steps, and the next one is started when all
    // of these are ready; 0: when the server has answered.
    int64_t steps = 0;
  };

  Starter(Loop* loop, const ChannelPtr& channel, Plan plan)
      : ClosedLoop(loop, channel), plan_(std::move(plan)) {}

  void Begin() override { Next(); }
  void InstanceEnded() {
    if (++ended_ % plan_.ends != 0) return;
    ++*plan_.owed;
    if (!busy_) Next();
  }

 private:
  void Next() {
    if (!plan_.owed && loop_.stopping()) return;
    const int64_t count = std::min<int64_t>(plan_.batch, plan_.owed.value_or(plan_.batch));
    if (count == 0) return;
    if (plan_.owed) *plan_.owed -= count;
    request_.clear_starts();
    for (int64_t i = 0; i < count; ++i) {
      v1::StartRequest* start = request_.add_starts();
      start->set_machine(plan_.machine);
      start->set_id(plan_.id_prefix + std::to_string(++started_));
      start->set_params(plan_.params);
      if (plan_.delay_seconds > 0) {
        start->mutable_start_at()->set_seconds(std::time(nullptr) + plan_.delay_seconds);
      }
    }
    busy_ = true;
    since_ = Clock::now();
    if (plan_.batch == 1) {
      single_.Issue(&loop_, &stub_, &Stub::AsyncStart, request_.starts(0), this);
    } else {
      many_.Issue(&loop_, &stub_, &Stub::AsyncStartBatch, request_, this);
    }
  }

  void Done(bool) override {
    busy_ = false;
    const grpc::Status& status = plan_.batch == 1 ? single_.status : many_.status;
    if (!status.ok()) {
      if (Failed(status)) Next();
      return;
    }
    if (plan_.steps > 0) return ready_.Ask();
    Count(plan_.batch > 1 ? CountAccepted() : 1);
    Next();
  }

  void Count(uint64_t accepted) {
    if (!loop_.recording() || plan_.beside) return;
    loop_.tally().started += accepted;
    if (!plan_.owed) loop_.CountLatency(since_, Clock::now(), accepted);
  }

  // Asks again and again how many steps are ready, until all of the instances started so far are.
  class AllReady final : public Event {
   public:
    explicit AllReady(Starter* starter) : starter_(*starter) {
      request_.set_id(starter_.plan_.machine);
    }
    void Ask() {
      asking_ = true;
      machine_.Issue(&starter_.loop_, &starter_.stub_, &Stub::AsyncGetMachine, request_, this);
    }

   private:
    void Done(bool) override {
      if (!std::exchange(asking_, false)) return Ask();
      if (!machine_.status.ok()) {
        if (starter_.Failed(machine_.status)) starter_.Next();
        return;
      }
      uint64_t ready = 0;
      for (const v1::Node& node : machine_.response.nodes()) ready += node.stats().ready();
      if (ready >= starter_.started_ * static_cast<uint64_t>(starter_.plan_.steps)) {
        starter_.Count(1);
        return starter_.Next();
      }
      if (starter_.loop_.stopping()) return;
      constexpr auto kPause = std::chrono::milliseconds(5);
      alarm_.Set(starter_.loop_.queue(), std::chrono::system_clock::now() + kPause, this);
      starter_.loop_.Expect();
    }

    Starter& starter_;
    bool asking_ = false;
    v1::GetMachineRequest request_;
    Call<v1::Machine> machine_;
    grpc::Alarm alarm_;
  };

  uint64_t CountAccepted() {
    uint64_t accepted = 0;
    for (const v1::StartResult& result : many_.response.results()) {
      if (result.has_error()) {
        loop_.CountError(result.error().message());
      } else {
        ++accepted;
      }
    }
    return accepted;
  }

  Plan plan_;
  uint64_t started_ = 0;
  int64_t ended_ = 0;
  bool busy_ = false;
  Clock::time_point since_;
  v1::StartBatchRequest request_;
  Call<v1::StartResponse> single_;
  Call<v1::StartBatchResponse> many_;
  AllReady ready_{this};
};

// A caller that claims tasks and reports "ok" for each.
class Worker : public ClosedLoop {
 public:
  struct Plan {
    std::string name;
    int batch = 1;
    int node_params_bytes = 0;
    double period_seconds = 0;  // open loop: from one call to the next
    double phase = 0;
    Starter* starter = nullptr;  // gets a successor for each instance that ends
    // Or the report that ends it, from this node, starts the successor. Empty: it does not.
    std::string last_node = {};
    std::string id_prefix = {};
    std::string params = {};
  };

  Worker(Loop* loop, const ChannelPtr& channel, const Plan& plan)
      : ClosedLoop(loop, channel), plan_(plan), node_params_(JsonOfSize(plan.node_params_bytes)) {}

 protected:
  void Ask(v1::ReadyRequest* request) const {
    request->set_machine("bench");
    request->set_worker(plan_.name);
    request->set_max_tasks(plan_.batch);
    request->mutable_wait()->set_seconds(1);
  }

  void Answer(const v1::Task& task, v1::TransitionRequest* request) {
    request->clear_starts();
    if (task.node() == plan_.last_node) {
      v1::StartRequest* start = request->add_starts();
      start->set_machine("bench");
      start->set_id(plan_.id_prefix + std::to_string(++started_));
      start->set_params(plan_.params);
    }
    request->set_instance(task.instance());
    request->set_claim(task.claim());
    request->set_transition("ok");
    request->set_node_params(node_params_);
  }

  void Accepted(const v1::TransitionResponse& response, Clock::time_point since,
                Clock::time_point now) {
    const bool stopped = response.state() == v1::Instance::STOPPED;
    if (stopped && plan_.starter != nullptr) plan_.starter->InstanceEnded();
    if (!loop_.recording()) return;
    ++loop_.tally().transitions;
    if (stopped) ++loop_.tally().finished;
    loop_.CountLatency(since, now, 1);
  }

  void Accepted(const v1::TransitionResult& result, Clock::time_point since,
                Clock::time_point now) {
    if (result.has_error()) {
      loop_.CountError(result.error().reason() + " " + result.error().message());
    } else {
      Accepted(result.accepted(), since, now);
    }
  }

  void CountEmpty() {
    if (loop_.recording()) ++loop_.tally().empty;
  }

  const Plan plan_;
  const std::string node_params_;
  uint64_t started_ = 0;
};

// Ready, then Transition.
class UnaryWorker final : public Worker, public Event {
 public:
  UnaryWorker(Loop* loop, const ChannelPtr& channel, const Plan& plan)
      : Worker(loop, channel, plan), pacer_(loop, &due_, plan.period_seconds, plan.phase) {
    Ask(&ask_);
  }
  void Begin() override { pacer_.Await(); }

 private:
  struct Due final : Event {
    explicit Due(UnaryWorker* of_worker) : worker(*of_worker) {}
    void Done(bool) override {
      if (!worker.loop_.stopping()) worker.Claim();
    }
    UnaryWorker& worker;
  };

  void Claim() {
    claiming_ = true;
    ready_.Issue(&loop_, &stub_, &Stub::AsyncReady, ask_, this);
  }

  void Done(bool) override {
    if (claiming_) {
      Claimed();
    } else {
      Reported();
    }
  }

  void Claimed() {
    if (!ready_.status.ok()) {
      if (Failed(ready_.status)) Claim();
      return;
    }
    if (ready_.response.tasks().empty()) {
      CountEmpty();
      if (!loop_.stopping()) Claim();
      return;
    }
    // Of a closed loop the wait for a task is not the transition's.
    since_ = plan_.period_seconds > 0 ? pacer_.since() : Clock::now();
    claiming_ = false;
    Answer(ready_.response.tasks(0), &report_);
    transition_.Issue(&loop_, &stub_, &Stub::AsyncTransition, report_, this);
  }

  void Reported() {
    if (!transition_.status.ok()) {
      if (Failed(transition_.status)) Claim();
      return;
    }
    Accepted(transition_.response, since_, Clock::now());
    if (!loop_.stopping()) pacer_.Await();
  }

  Due due_{this};
  Pacer pacer_;
  bool claiming_ = false;
  Clock::time_point since_;
  v1::ReadyRequest ask_;
  v1::TransitionRequest report_;
  Call<v1::ReadyResponse> ready_;
  Call<v1::TransitionResponse> transition_;
};

// Report: the transitions of the tasks that the last reply brought, and the next tasks.
class ReportWorker final : public Worker, public Event {
 public:
  ReportWorker(Loop* loop, const ChannelPtr& channel, const Plan& plan)
      : Worker(loop, channel, plan), pacer_(loop, &due_, plan.period_seconds, plan.phase) {
    Ask(request_.mutable_next());
  }
  void Begin() override { pacer_.Await(); }

 private:
  struct Due final : Event {
    explicit Due(ReportWorker* of_worker) : worker(*of_worker) {}
    void Done(bool) override {
      // What is in hand is reported all the same, or it would be nobody's in the next turn.
      if (worker.loop_.stopping()) worker.request_.clear_next();
      worker.Report();
    }
    ReportWorker& worker;
  };

  void Report() { call_.Issue(&loop_, &stub_, &Stub::AsyncReport, request_, this); }

  void Done(bool) override {
    if (!call_.status.ok()) {
      request_.clear_transitions();
      if (Failed(call_.status)) Report();
      return;
    }
    const Clock::time_point now = Clock::now();
    for (const auto& result : call_.response.results()) Accepted(result, pacer_.since(), now);
    request_.clear_transitions();
    for (const auto& task : call_.response.tasks()) Answer(task, request_.add_transitions());
    if (call_.response.tasks().empty()) {
      CountEmpty();
      if (loop_.stopping()) return;
    }
    if (loop_.stopping()) return due_.Done(true);
    pacer_.Await();
  }

  Due due_{this};
  Pacer pacer_;
  v1::ReportRequest request_;
  Call<v1::ReportResponse> call_;
};

// One task that is handed round: each of many waits for it, reports it, and waits again. A latency
// is the time from the report until the next one has what follows from it. At the end it goes round
// until nobody waits, so that it is nobody's when the next turn begins.
class Relay final : public Worker {
 public:
  struct Baton {
    Clock::time_point reported;      // zero: never yet
    Clock::time_point acknowledged;  // not before `reported`: not yet
  };

  Relay(Loop* loop, const ChannelPtr& channel, const Plan& plan, Baton* baton)
      : Worker(loop, channel, plan), baton_(*baton) {
    Ask(&ask_);
  }
  void Begin() override { ready_.Issue(&loop_, &stub_, &Stub::AsyncReady, ask_, &claimed_); }

 private:
  struct Step final : Event {
    using Handler = void (Relay::*)();
    Step(Relay* of_relay, Handler of_handler) : relay(*of_relay), handler(of_handler) {}
    void Done(bool) override { (relay.*handler)(); }
    Relay& relay;
    Handler handler;
  };

  void Claimed() {
    if (!ready_.status.ok()) {
      if (Failed(ready_.status)) Begin();
      return;
    }
    if (ready_.response.tasks().empty()) {
      if (!loop_.stopping()) Begin();
      return;
    }
    const Clock::time_point now = Clock::now();
    if (loop_.recording() && baton_.reported != Clock::time_point()) {
      const bool told = baton_.acknowledged >= baton_.reported;
      loop_.CountLatency(baton_.reported, now, 1);
      loop_.CountGap(told ? baton_.acknowledged : now, now);
    }
    Answer(ready_.response.tasks(0), &report_);
    baton_.reported = now;
    transition_.Issue(&loop_, &stub_, &Stub::AsyncTransition, report_, &reported_);
  }

  void Reported() {
    baton_.acknowledged = Clock::now();
    if (!transition_.status.ok()) {
      Failed(transition_.status);
    } else if (loop_.recording()) {
      ++loop_.tally().transitions;
    }
    if (!loop_.stopping()) Begin();
  }

  Baton& baton_;
  Step claimed_{this, &Relay::Claimed};
  Step reported_{this, &Relay::Reported};
  v1::ReadyRequest ask_;
  v1::TransitionRequest report_;
  Call<v1::ReadyResponse> ready_;
  Call<v1::TransitionResponse> transition_;
};

// The Work stream: tasks are answered as they come, in one message while the last is being sent.
class StreamWorker final : public Worker {
 public:
  StreamWorker(Loop* loop, const ChannelPtr& channel, const Plan& plan)
      : Worker(loop, channel, plan) {}

  void Begin() override {
    stream_ = stub_.AsyncWork(&context_, loop_.queue(), &opened_);
    loop_.Expect();
  }

 private:
  struct Step final : Event {
    using Handler = void (StreamWorker::*)(bool);
    Step(StreamWorker* of_worker, Handler of_handler) : worker(*of_worker), handler(of_handler) {}
    void Done(bool ok) override { (worker.*handler)(ok); }
    StreamWorker& worker;
    Handler handler;
  };

  void Opened(bool ok) {
    if (!ok) return Finish();
    Ask(request_.mutable_open());
    Write();
    Read();
  }

  void Read() {
    stream_->Read(&response_, &read_);
    loop_.Expect();
  }

  void ReadDone(bool ok) {
    if (!ok) {
      read_ended_ = true;
      if (!writing_) Finish();
      return;
    }
    const Clock::time_point now = Clock::now();
    for (const auto& result : response_.results()) {
      if (in_flight_.empty()) break;
      Accepted(result, in_flight_.front(), now);
      in_flight_.pop_front();
    }
    for (const auto& task : response_.tasks()) {
      Answer(task, request_.add_transitions());
      in_flight_.push_back(now);
    }
    Read();
    if (!writing_) WriteWhatThereIs();
  }

  void WriteWhatThereIs() {
    if (loop_.stopping() && !drained_) {
      drained_ = true;
      request_.set_drain(true);
    } else if (request_.transitions().empty()) {
      return;
    }
    Write();
  }

  void Write() {
    writing_ = true;
    stream_->Write(request_, &written_);
    loop_.Expect();
    request_.clear_open();
    request_.clear_transitions();
    request_.clear_drain();
  }

  void WriteDone(bool ok) {
    writing_ = false;
    if (read_ended_) return Finish();
    if (ok) WriteWhatThereIs();
  }

  void Finish() {
    stream_->Finish(&status_, &finished_);
    loop_.Expect();
  }

  void Finished(bool) {
    if (!status_.ok()) Failed(status_);
    if (!in_flight_.empty()) loop_.CountError("the stream ended without all results");
  }

  Step opened_{this, &StreamWorker::Opened};
  Step read_{this, &StreamWorker::ReadDone};
  Step written_{this, &StreamWorker::WriteDone};
  Step finished_{this, &StreamWorker::Finished};
  grpc::ClientContext context_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::WorkRequest, v1::WorkResponse>> stream_;
  v1::WorkRequest request_;
  v1::WorkResponse response_;
  std::deque<Clock::time_point> in_flight_;  // when their claims came, in the order of the reports
  bool writing_ = false;
  bool read_ended_ = false;
  bool drained_ = false;
};

// A long poll for work that never comes.
class IdlePoll final : public ClosedLoop, public Event {
 public:
  IdlePoll(Loop* loop, const ChannelPtr& channel) : ClosedLoop(loop, channel) {
    request_.set_machine("nothing");
    request_.mutable_wait()->set_seconds(300);
  }
  void Begin() override { call_.Issue(&loop_, &stub_, &Stub::AsyncReady, request_, this); }
  void Stop() override { call_.context->TryCancel(); }

 private:
  void Done(bool) override {
    if (loop_.stopping()) return;
    if (call_.status.ok() || Failed(call_.status)) Begin();
  }

  v1::ReadyRequest request_;
  Call<v1::ReadyResponse> call_;
};

// Follows the feed and throws it away unread, so as to cost the machine as little as it can.
class Watcher final : public ClosedLoop, public Event {
 public:
  Watcher(Loop* loop, const ChannelPtr& channel) : ClosedLoop(loop, channel), generic_(channel) {}

  void Begin() override {
    call_ = generic_.PrepareCall(&context_, "/dfsmr.v1.RunnerService/Changes", loop_.queue());
    call_->StartCall(tag_);
    loop_.Expect();
  }
  void Stop() override { context_.TryCancel(); }

 private:
  enum class Step { kOpen, kAsk, kRead, kFinish };

  void Done(bool ok) override {
    if (step_ == Step::kFinish) {
      if (!loop_.stopping()) Failed(status_);
      return;
    }
    if (!ok) {
      step_ = Step::kFinish;
      call_->Finish(&status_, tag_);
    } else if (step_ == Step::kOpen) {
      step_ = Step::kAsk;
      call_->Write(Question(), grpc::WriteOptions().set_last_message(), tag_);
    } else {
      if (step_ == Step::kRead && loop_.recording()) ++loop_.tally().fed;
      step_ = Step::kRead;
      call_->Read(&message_, tag_);
    }
    loop_.Expect();
  }

  static grpc::ByteBuffer Question() {
    v1::ChangesRequest request;
    request.set_follow(true);
    const grpc::Slice slice(request.SerializeAsString());
    return grpc::ByteBuffer(&slice, 1);
  }

  void* const tag_ = static_cast<Event*>(this);  // the queue gives it back as an Event
  grpc::GenericStub generic_;
  grpc::ClientContext context_;
  grpc::Status status_;
  grpc::ByteBuffer message_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  Step step_ = Step::kOpen;
};

}  // namespace dfsmr::bench
