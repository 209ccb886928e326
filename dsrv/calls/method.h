// The kinds of rows in the table of methods (methods.h), and how a row serves a call. A row holds
// the method's name and roles, the namespaces of a request, and the functions that parse the
// request, do the work and make the reply. A protocol turns its bytes into the request, makes a
// Call, and calls Serve.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dsrv/calls/asking.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/counting.h"
#include "dsrv/calls/explaining.h"
#include "dsrv/calls/polls.h"
#include "fsm/base/limits.h"

namespace dfsmr {

// The namespaces that a request wants to enter: calls `enter` with each of them, the request's own
// first (empty: "default"). A request without any is admitted if its caller may enter some
// namespace; the method checks later which.
struct Its {
  template <typename Request, typename Enter>
  void operator()(const Request& request, Enter enter) const {
    enter(request.namespace_());
  }
};
// The same, of what depends on how many instances there are, of all partitions.
template <typename Namespaces, Counting kHow>
struct WithCounts : Namespaces {
  static constexpr Counting kCounting = kHow;
};
// The same, of what sets the numbers of a limit, which is answered when they hold everywhere.
struct OfLimit : Its {
  static constexpr bool kHeard = true;
};
// The same, of what starts instances, which limits may leave out.
template <typename Namespaces>
struct OfBegins : Namespaces {
  static constexpr bool kStarts = true;
};
struct Anywhere {
  template <typename Request, typename Enter>
  void operator()(const Request&, Enter) const {}
};
// All there are: for what concerns the server as a whole.
struct Everywhere {
  template <typename Request, typename Enter>
  void operator()(const Request&, Enter enter) const {
    enter("*");
  }
};

// `run` decides in the loop. When all that it did is durable, `reply` fills in the reply. `parse`
// may keep in the command what `reply` needs.
template <typename Namespaces, typename Request, typename Command, typename Outcome, typename Reply>
struct DecideRow {
  using Takes = Request;
  using Gives = Reply;
  using Parse = Result<Command>(const Request&, const Call&);
  using Run = Result<Outcome>(Engine&, const Caller&, Command&);
  using Show = void(const Outcome&, const Command&, Reply*);

  constexpr DecideRow(Method its, Namespaces spaces, Parse* parse_it, Run* run_it, Show* show)
      : method(its), namespaces(spaces), parse(parse_it), run(run_it), reply(show) {}

  const Method method;
  const Namespaces namespaces;
  Parse* const parse;
  Run* const run;
  Show* const reply;
};

// `settle` runs in the loop and puts everything that `read` needs to see into the turn's batch.
// When that is durable, `read` reads the store for the reply, in the pool.
template <typename Namespaces, typename Request, typename Command, typename Reply>
struct ReadRow {
  using Takes = Request;
  using Gives = Reply;
  using Parse = Result<Command>(const Request&, const Call&);
  using Settle = Result<Ok>(Engine&, const Caller&, const Command&);
  using Read = Result<Ok>(const Reader&, const Command&, Reply*);

  constexpr ReadRow(Method its, Namespaces spaces, Parse* parse_it, Settle* settle_it,
                    Read* read_it)
      : method(its), namespaces(spaces), parse(parse_it), settle(settle_it), read(read_it) {}

  const Method method;
  const Namespaces namespaces;
  Parse* const parse;
  Settle* const settle;
  Read* const read;
};

// Reports, starts beside them, and a poll that may wait for tasks. `answer` appends the result of
// one report. `hand` puts the tasks into the reply, or returns the error with which the call fails
// because there are none. `started` puts the results of the starts into it; null: the method has
// none.
template <typename Namespaces, typename Request, typename Reply>
struct PollRow {
  using Takes = Request;
  using Gives = Reply;
  using Parse = Result<PollCommand>(const Request&, const Call&);
  using AnswerOne = void(const std::string& instance, const Result<Answer>&, Reply*);
  using Hand = std::optional<Error>(const std::vector<Task>&, const PollCommand::Asked&, Reply*);

  using AnswerStarts = void(const std::vector<Result<Started>>&, Reply*);

  constexpr PollRow(Method its, Namespaces spaces, Parse* parse_it, AnswerOne* answer_it,
                    Hand* hand_it, AnswerStarts* started_it = nullptr)
      : method(its),
        namespaces(spaces),
        parse(parse_it),
        answer(answer_it),
        hand(hand_it),
        started(started_it) {}

  const Method method;
  const Namespaces namespaces;
  Parse* const parse;
  AnswerOne* const answer;
  Hand* const hand;
  AnswerStarts* const started;
};
// For a method that takes no reports.
template <typename Reply>
void NoReports(const std::string&, const Result<Answer>&, Reply*) {}

// A method that does everything by itself once its caller is admitted. `serve` ends the call.
template <typename Namespaces, typename Request, typename Reply>
struct OwnRow {
  using Takes = Request;
  using Gives = Reply;
  using Serve = void(Call&, const Request&, Reply*);

  constexpr OwnRow(Method its, Namespaces spaces, Serve* serve_it)
      : method(its), namespaces(spaces), serve(serve_it) {}

  const Method method;
  const Namespaces namespaces;
  Serve* const serve;
};

// A stream, which its reactor serves.
template <typename Namespaces>
struct StreamRow {
  constexpr StreamRow(Method its, Namespaces spaces) : method(its), namespaces(spaces) {}

  const Method method;
  const Namespaces namespaces;
};

// Posts `run`, which ends the call, to the loop. The call fails when the loop has no room for it,
// or when its deadline passes first.
inline void PostFor(Call& call, size_t bytes, std::function<void(Engine&)> run) {
  Mailbox::Mail mail{.run = std::move(run), .drop = [&call] { call.Fail(DeadlinePassed()); }};
  mail.deadline = call.Deadline();
  mail.bytes = bytes;
  if (!call.backend().loop.Post(std::move(mail))) call.Fail(Overloaded());
}

// What changes something in a namespace is refused while that is being deleted. Work that is claimed
// is reported all the same.
template <typename Row, typename Request>
Result<Ok> MayChangeIn(const Row& row, Engine& engine, const Request& request) {
  Result<Ok> may = Ok{};
  if constexpr (std::is_base_of_v<Its, std::remove_cv_t<decltype(row.namespaces)>>) {
    if (!row.method.changes) return may;
    row.namespaces(request, [&](const std::string& ns) {
      if (may) may = engine.MayChange(ns.empty() ? "default" : ns);
    });
  }
  return may;
}

// The error is a copy, since a call that has failed may be gone at once with all that it keeps.
inline void FailBy(Call& call, Error error) { call.Fail(error); }

// A call on its way through a row that decides. It lives as long as the call.
template <typename Row, typename Request, typename Command, typename Outcome, typename Reply>
struct DecideCall {
  const Row& row;
  Call& call;
  const Request& request;
  Reply* const reply;
  Command command;
  std::optional<Result<Outcome>> outcome = {};

  void Decide(Engine& engine) {
    const auto may = MayChangeIn(row, engine, request);
    outcome = may ? row.run(engine, call.caller(), command) : Result<Outcome>(may.error());
    if constexpr (requires { row.namespaces.kHeard; }) {
      engine.AfterHeard([this] { Answer(); });
    } else {
      engine.AfterCommit([this] { Answer(); });
    }
  }
  void Answer() {
    if (!*outcome) return FailBy(call, outcome->error());
    row.reply(**outcome, command, reply);
    call.Succeed();
  }
};

// As PostFor, for a row.
template <typename Row, typename Request, typename Command>
void PostBy(const Row& row, Call& call, const Request& request, Command& command,
            std::function<void(Engine&)> run) {
  if constexpr (requires { row.namespaces.kStarts; }) {
    if (!call.backend().others) return PostFor(call, request.ByteSizeLong(), std::move(run));
    PostStarting(call, StartsOf(command), request.ByteSizeLong(), std::move(run));
  } else if constexpr (requires { row.namespaces.kCounting; }) {
    std::string ns;
    row.namespaces(request, [&ns](const std::string& one) { ns = one.empty() ? "default" : one; });
    PostCounting(call, ns, row.namespaces.kCounting, request.ByteSizeLong(), std::move(run));
  } else {
    PostFor(call, request.ByteSizeLong(), std::move(run));
  }
}

template <typename N, typename Request, typename Command, typename Outcome, typename Reply>
void Run(const DecideRow<N, Request, Command, Outcome, Reply>& row, Call& call,
         const Request& request, Reply* reply) {
  using Row = DecideRow<N, Request, Command, Outcome, Reply>;
  auto parsed = row.parse(request, call);
  if (!parsed) return call.Refuse(parsed.error());
  if (!call.Enter()) return;
  auto* const way = call.Keep(DecideCall<Row, Request, Command, Outcome, Reply>{
      row, call, request, reply, *std::move(parsed)});
  PostBy(row, call, request, way->command, [way](Engine& engine) { way->Decide(engine); });
}

// The same of a row that reads.
template <typename Row, typename Command, typename Reply>
struct ReadCall {
  const Row& row;
  Call& call;
  Reply* const reply;
  Command command;
  Result<Ok> settled = Ok{};

  void Settle(Engine& engine) {
    settled = row.settle(engine, call.caller(), command);
    engine.AfterCommit([this] {
      if (!settled) return FailBy(call, settled.error());
      const auto go_on = [this] { call.backend().pool.Post([this] { Read(); }); };
      if constexpr (requires { command.waits; }) {
        ExplainWaits(call.backend(), command.ns, command.instance, *command.waits, go_on);
      } else {
        go_on();
      }
    });
  }
  void Read() {
    const auto outcome = row.read(call.backend().reader, command, reply);
    outcome ? call.Succeed() : call.Fail(outcome.error());
  }
};

template <typename N, typename Request, typename Command, typename Reply>
void Run(const ReadRow<N, Request, Command, Reply>& row, Call& call, const Request& request,
         Reply* reply) {
  using Row = ReadRow<N, Request, Command, Reply>;
  auto parsed = row.parse(request, call);
  if (!parsed) return call.Refuse(parsed.error());
  if (!call.Enter()) return;
  if (call.backend().pool.Behind(limits::kMailboxWait)) return call.Fail(Overloaded());
  auto* const way =
      call.Keep(ReadCall<Row, Command, Reply>{row, call, reply, *std::move(parsed)});
  PostBy(row, call, request, way->command, [way](Engine& engine) { way->Settle(engine); });
}

template <typename N, typename Request, typename Reply>
void Run(const PollRow<N, Request, Reply>& row, Call& call, const Request& request, Reply* reply) {
  auto command = row.parse(request, call);
  if (!command) return call.Refuse(command.error());
  if (!call.Enter()) return;
  Poll::Sinks sinks;
  sinks.answer = [&row, reply](const std::string& instance, const Result<Answer>& answer) {
    row.answer(instance, answer, reply);
  };
  sinks.hand = [&row, reply, asked = command->asked](const std::vector<Task>& tasks) {
    return row.hand(tasks, asked, reply);
  };
  sinks.started = [&row, reply](const std::vector<Result<Started>>& results) {
    row.started(results, reply);
  };
  Poll::Begin(call, *std::move(command), std::move(sinks));
}

template <typename N, typename Request, typename Reply>
void Run(const OwnRow<N, Request, Reply>& row, Call& call, const Request& request, Reply* reply) {
  row.serve(call, request, reply);
}

// A request that can name a claim but does not comes from outside, unless nobody outside may make
// it.
template <typename Request>
Deed DeedOf(const Method& method, const Request& request) {
  if constexpr (requires { request.validate_only(); }) {
    bool previews = request.validate_only();
    if constexpr (requires { request.preview(); }) previews = previews && request.preview();
    if (method.preview && previews) return {method.preview, false};
  }
  if constexpr (requires { request.claim(); }) {
    return {&method, request.claim().empty() && !method.told};
  }
  return {&method, false};
}

// Calls `enter` with the namespaces of the whole of which a call is a part. Only of items there are
// parts.
template <typename Enter>
void EnterBesides(const Origin& origin, Enter enter) {
  std::string_view rest = origin.Besides();
  while (!rest.empty()) {
    const size_t end = std::min(rest.size(), rest.find('\0'));
    enter(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
}

template <typename Row, typename Request>
Result<Caller> Admit(const Row& row, const Access& access, const Origin& origin,
                     const Request& request) {
  const Deed deed = DeedOf(row.method, request);
  std::optional<Result<Caller>> caller;
  const auto enter = [&](std::string_view ns) {
    if (!caller) {
      caller = access.Admit(origin, deed, ns);
    } else if (*caller && (**caller).principal()) {
      auto entered = (**caller).MayEnter(ns);
      if (!entered) caller = entered.error();
    }
  };
  if constexpr (requires { row.namespaces.kOfItems; }) EnterBesides(origin, enter);
  row.namespaces(request, enter);
  return caller ? *std::move(caller) : access.AdmitAnywhere(origin, deed);
}

// Serves a call by its row; the call ends now or later. `request` and `reply` live as long as it.
template <typename Row, typename Request, typename Reply>
void Serve(const Row& row, Call& call, const Request& request, Reply* reply) {
  call.Counts(row.method);
  auto caller = Admit(row, call.backend().access, call, request);
  if (!caller) return call.Refuse(caller.error());
  call.SetCaller(*std::move(caller));
  Run(row, call, request, reply);
}

}  // namespace dfsmr
