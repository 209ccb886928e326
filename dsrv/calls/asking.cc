#include "dsrv/calls/asking.h"

#include <utility>

#include "dsrv/calls/backend.h"
#include "dsrv/calls/method.h"
#include "dsrv/calls/others.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

void Hear(const StartRefs& asked, const Result<peer::Answer>& answer) {
  for (size_t i = 0; i < asked.size(); ++i) {
    Result<Ok>& says = asked[i]->home_says.emplace(Ok{});
    if (!answer) {
      says = answer.error();
    } else if (std::cmp_greater(answer->reservations().refused_size(), i)) {
      const peer::Failure& refused = answer->reservations().refused(static_cast<int>(i));
      if (refused.code() != 0) says = FromProto(refused);
    } else {
      says = Error{Code::kUnavailable, Reason::kNone, "home has not said whether limits let it in"};
    }
  }
}

}  // namespace

StartRefs StartsOf(std::vector<Result<StartArgs>>& starts) {
  StartRefs refs;
  for (Result<StartArgs>& start : starts) {
    if (start) refs.push_back(&*start);
  }
  return refs;
}

bool AskHome(const Backend& backend, Engine& engine, const StartRefs& starts,
             std::function<void()> then) {
  if (!backend.others || backend.reader.partition == kHome) return false;
  StartRefs asked;
  peer::Question question;
  question.set_partition(kHome);
  for (StartArgs* const start : starts) {
    auto one = engine.QuestionOf(start);
    if (!one) continue;
    question.mutable_reserve()->add_questions(*std::move(one));
    asked.push_back(start);
  }
  if (asked.empty()) return false;
  backend.others->ask(std::move(question), kForOwners,
                      [asked, then = std::move(then)](const Result<peer::Answer>& answer) {
                        Hear(asked, answer);
                        then();
                      });
  return true;
}

void PostStarting(Call& call, const StartRefs& starts, size_t bytes,
                  std::function<void(Engine&)> run) {
  PostFor(call, bytes, [&call, starts, bytes, run](Engine& engine) {
    const auto then = [&call, bytes, run] { PostFor(call, bytes, run); };
    if (!AskHome(call.backend(), engine, starts, then)) run(engine);
  });
}

}  // namespace dfsmr
