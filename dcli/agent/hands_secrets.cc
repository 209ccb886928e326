// What an agent asks for before it begins: the secrets of a task.
#include "dcli/agent/hands.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskAgain{500};

std::string WhyNot(const Error& error) {
  const std::string hint =
      error.reason == Reason::kBadToken
          ? "; dcli token create --role worker --secret NAME makes a token, for --token-file"
          : "";
  return "its secrets cannot be read: " + error.message + hint;
}

}  // namespace

// Then it is begun.
void Hands::AskForSecrets(Hand* hand) {
  const auto pool = pools_.find(hand->worker);
  const bool variables = pool == pools_.end() || pool->second.processes->NeedsProcess();
  auto missing =
      MissingSecrets(*hand->worker, hand->task, variables, plan_.own_secrets, &hand->secrets);
  if (missing && missing->empty()) return Prepared(hand);
  hand->stage = Hand::Stage::kPreparing;
  if (!missing) return RefuseSoon(hand, missing.error().message);
  if (asker_ == nullptr) {
    asker_ = std::make_unique<SecretAsker>(
        *context_.client, [this](std::function<void()> then) { loop_.Post(std::move(then)); });
  }
  asker_->Ask(hand->task, *std::move(missing),
              [this, claim = hand->task.claim()](const Result<SecretValues>& values) {
                Hand* asked = Find(claim);
                if (asked == nullptr || asked->stage != Hand::Stage::kPreparing) return;
                values ? HaveSecrets(asked, *values) : HaveNoSecrets(asked, values.error());
              });
}

void Hands::HaveSecrets(Hand* hand, const SecretValues& values) {
  hand->secrets.Add(values);
  Prepared(hand);
}

// Meanwhile the claim is extended.
void Hands::HaveNoSecrets(Hand* hand, const Error& error) {
  if (error.reason == Reason::kStaleClaim) {
    return Finish(hand, "not begun: " + error.message);
  }
  if (Passing(error)) {
    hand->again.SetIn(kAskAgain, [this, hand] { AskForSecrets(hand); });
    return;
  }
  GiveBack(hand, WhyNot(error), true);
}

// Not at once: whoever prepares it goes on with others.
void Hands::RefuseSoon(Hand* hand, const std::string& why) {
  hand->again.SetIn(milliseconds(0), [this, hand, why] { GiveBack(hand, why, true); });
}

}  // namespace dfsmr::cli
