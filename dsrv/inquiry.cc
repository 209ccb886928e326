#include "dsrv/inquiry.h"

#include <utility>

#include "dsrv/cluster/peers.h"
#include "dsrv/cluster/run_after.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kAgain{20};

}  // namespace

struct Inquiry::Asked {
  peer::Question question;
  Clock::time_point until;
  Others::Done done;
};

void Inquiry::Ask(peer::Question question, milliseconds patience, Others::Done done) const {
  Try(std::make_shared<Asked>(
      Asked{std::move(question), Clock::now() + patience, std::move(done)}));
}

// False: it is not served here.
bool Inquiry::AnswerHere(const peer::Question& question,
                         std::function<void(peer::Answer answer)> done) const {
  const auto partition = static_cast<PartitionId>(question.partition());
  if (partition >= front_.outside().partitions) return false;
  if (front_.route(partition)->kind != Route::Kind::kHere) return false;
  const auto served = partitions_.Find(partition);
  if (!served) return false;
  AnswerQuestion(served->backend(), question, std::move(done));
  return true;
}

void Inquiry::Try(const AskedPtr& asked) const {
  const auto take = [this, asked](const std::optional<peer::Answer>& answer) {
    Take(asked, answer);
  };
  if (AnswerHere(asked->question, take)) return;
  const auto route = front_.route(static_cast<PartitionId>(asked->question.partition()));
  if (route->kind != Route::Kind::kThere) return take(std::nullopt);
  const auto left = std::chrono::duration_cast<milliseconds>(asked->until - Clock::now());
  HaveAnswered(front_, route->peer, asked->question.SerializeAsString(), left,
               [take](const std::optional<std::string>& reply) {
                 peer::Answer answer;
                 const bool known = reply && answer.ParseFromString(*reply);
                 take(known ? std::optional(answer) : std::nullopt);
               });
}

void Inquiry::Take(const AskedPtr& asked, const std::optional<peer::Answer>& answer) const {
  const bool failed = answer && answer->has_failure();
  const auto code = failed ? static_cast<Code>(answer->failure().code()) : Code::kUnavailable;
  if (answer && !failed) return asked->done(*answer);
  if (failed && code != Code::kUnavailable) return asked->done(FromProto(answer->failure()));
  if (Clock::now() + kAgain >= asked->until || front_.ending()) {
    return asked->done(Error{
        Code::kUnavailable, Reason::kNoOwner,
        "partition " + std::to_string(asked->question.partition()) +
            " has not said what it has: no server owns it, or its owner cannot be reached"});
  }
  // Another one owns it soon.
  RunAfter(kAgain, [this, asked] { Try(asked); });
}

void Inquiry::Answer(const std::string& bytes,
                     std::function<void(std::optional<std::string> reply)> done) const {
  peer::Question question;
  const bool known = question.ParseFromString(bytes);
  const bool here = known && AnswerHere(question, [done](const peer::Answer& answer) {
                      done(answer.SerializeAsString());
                    });
  if (!here) done(std::nullopt);
}

}  // namespace dfsmr
