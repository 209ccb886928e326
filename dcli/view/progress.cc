#include "dcli/view/progress.h"

#include <algorithm>
#include <cmath>

#include "dcli/text/text.h"
#include "dcli/view/describe.h"
#include "dcli/view/steps.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFrame{250};
constexpr int kRest = 4;  // the time between two looks, in multiples of what a look took
constexpr int kBarColumns = 20;
constexpr size_t kMostHeld = 3;

std::vector<const v1::Token*> HeldOf(const v1::Instance& instance) {
  std::vector<const v1::Token*> held;
  for (const v1::Token& token : instance.tokens()) {
    if (token.state() == v1::Token::HELD) held.push_back(&token);
  }
  return held;
}

std::string HeldText(const v1::Token& token) {
  return StepOfNode(token.node()) + (token.error().empty() ? "" : ": " + token.error());
}

std::string CountsText(const v1::Instance& instance) {
  size_t running = 0;
  size_t suspended = 0;
  for (const v1::Token& token : instance.tokens()) {
    if (token.state() == v1::Token::CLAIMED) ++running;
    if (token.state() == v1::Token::WAITING && token.node().ends_with("/suspended")) ++suspended;
  }
  const auto held = HeldOf(instance);
  std::vector<std::string> parts;
  if (running > 0) parts.push_back(std::to_string(running) + " running");
  if (suspended > 0) parts.push_back(std::to_string(suspended) + " suspended");
  if (!held.empty()) {
    parts.push_back(std::to_string(held.size()) + " held: " + HeldText(*held.front()));
  }
  return Join(parts, ", ");
}

}  // namespace

std::string ProgressLine(const v1::Instance& instance) {
  const double share = std::clamp(instance.progress(), 0.0, 1.0);
  const auto filled = static_cast<size_t>(std::floor(share * kBarColumns));
  const std::string bar = "[" + std::string(filled, '#') + std::string(kBarColumns - filled, ' ') +
                          "] " + std::to_string(static_cast<int>(std::floor(share * 100))) + "%";
  const bool moving = instance.state() == v1::Instance::RUNNING ||
                      instance.state() == v1::Instance::STATE_UNSPECIFIED;
  const std::string counts = CountsText(instance);
  return bar + (moving ? "" : "  " + Lower(NameOf(instance.state()))) +
         (counts.empty() ? "" : "  " + counts);
}

PlanWatch::PlanWatch(Context& context, const std::string& instance)
    : context_(context), drawing_(context.err_look.relative) {
  request_.set_namespace_(context.name_space);
  request_.set_id(instance);
  news_ = drawing_;
  thread_ = std::thread([this] { Run(); });
}

PlanWatch::~PlanWatch() {
  {
    const Lock lock(mutex_);
    over_ = true;
  }
  changed_.NotifyAll();
  canceller_.Cancel();
  thread_.join();
  context_.Status("");
}

void PlanWatch::Heard(const v1::Change& change) {
  const bool paused = change.kind() == v1::Change::PAUSED;
  if (!drawing_ && !paused) return;
  {
    const Lock lock(mutex_);
    news_ = true;
    if (paused) ++pauses_;
  }
  changed_.NotifyAll();
}

void PlanWatch::Run() {
  Lock lock(mutex_);
  for (;;) {
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return over_ || news_; });
    if (over_) return;
    news_ = false;
    const uint64_t pauses = pauses_;
    lock.Unlock();
    const auto begun = std::chrono::steady_clock::now();
    TakeALook(pauses);
    const auto took = std::chrono::steady_clock::now() - begun;
    const auto rest = std::max<std::chrono::steady_clock::duration>(kFrame, took * kRest);
    lock.Relock();
    if (changed_.WaitFor(lock, rest, [this]() REQUIRES(mutex_) { return over_; })) return;
  }
}

void PlanWatch::TakeALook(uint64_t pauses) {
  const auto instance = context_.client->GetInstance(request_, &canceller_);
  if (!instance) return;  // the thread that follows the feed reports the error
  if (instance->state() == v1::Instance::PAUSED && told_ != pauses) {
    told_ = pauses;
    TellPaused(*instance);
  }
  if (drawing_) context_.Status(ProgressLine(*instance));
}

void PlanWatch::TellPaused(const v1::Instance& instance) {
  const std::string& id = instance.id();
  const auto held = HeldOf(instance);
  if (held.empty()) {
    return context_.Note(id + " is paused; it goes on with: dcli resume " + id);
  }
  context_.Note(id + " is paused: " + std::to_string(held.size()) +
                (held.size() == 1 ? " step is held" : " steps are held"));
  for (size_t i = 0; i < held.size() && i < kMostHeld; ++i) {
    context_.Note("held: " + HeldText(*held[i]));
  }
  const std::string step = StepOfNode(held.front()->node());
  context_.Note("try again with: dcli resume " + id + "; leave it out with: dcli skip " + id + " " +
                step + "; all of it: dcli show " + id);
}

}  // namespace dfsmr::cli
