#include "dcli/agent/command.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace dfsmr::cli {
namespace {

constexpr size_t kPiece = 65'536;
constexpr size_t kCompact = 1 << 20;

std::string FailureText(const Word& word) {
  const std::string why = std::strerror(word.number);
  switch (static_cast<LaunchStep>(word.detail)) {
    case LaunchStep::kFork:
      return "no process can be started: " + why;
    case LaunchStep::kCgroup:
      return "its control group cannot be joined: " + why;
    case LaunchStep::kDirectory:
      return "its directory cannot be entered: " + why;
    case LaunchStep::kProgram:
      return "its program cannot be run: " + why;
  }
  return why;
}

}  // namespace

Result<std::unique_ptr<Command>> Command::Start(Loop& loop, Keeper& keeper, const Launch& launch,
                                                Events events) {
  auto reins = keeper.Run(launch);
  if (!reins) return reins.error();
  return std::unique_ptr<Command>(new Command(loop, std::move(*reins), std::move(events)));
}

Command::Command(Loop& loop, Reins reins, Events events)
    : loop_(loop), reins_(std::move(reins)), events_(std::move(events)), kill_(loop) {
  // What the command writes is read once it is known to have begun, so that its begin comes first.
  loop_.Watch(reins_.control.get(), false, [this] { Listen(); });
}

Command::~Command() {
  for (const Descriptor* end : {&reins_.in, &reins_.out, &reins_.err, &reins_.control}) {
    if (end->open()) loop_.Unwatch(end->get());
  }
}

void Command::Write(std::string text) {
  if (!reins_.in.open()) return;
  if (fed_ > kCompact) {
    input_.erase(0, fed_);
    fed_ = 0;
  }
  input_ += text;
  if (!feeding_) Feed();
}

void Command::CloseInput() {
  input_ends_ = true;
  if (!feeding_ && reins_.in.open()) Feed();
}

void Command::Feed() {
  while (fed_ < input_.size()) {
    const ssize_t count = write(reins_.in.get(), input_.data() + fed_, input_.size() - fed_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      if (!feeding_) loop_.Watch(reins_.in.get(), true, [this] { Feed(); });
      feeding_ = true;
      return;
    }
    if (count <= 0) {  // it need not read
      input_ends_ = true;
      break;
    }
    fed_ += static_cast<size_t>(count);
  }
  if (feeding_) loop_.Unwatch(reins_.in.get());
  feeding_ = false;
  input_.clear();
  fed_ = 0;
  if (input_ends_) reins_.in.Close();
}

bool Command::PullOnce(bool err) {
  Descriptor& from = err ? reins_.err : reins_.out;
  if (!from.open()) return false;
  std::array<char, kPiece> buffer;
  const ssize_t count = read(from.get(), buffer.data(), buffer.size());
  if (count > 0) {
    events_.output(err, {buffer.data(), static_cast<size_t>(count)});
    return true;
  }
  if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    loop_.Unwatch(from.get());
    from.Close();
  }
  return false;
}

void Command::Pull(bool err) { PullOnce(err); }

void Command::Listen() {
  bool gone = false;
  while (const auto word = Hear(reins_.control.get(), &gone)) {
    switch (word->kind) {
      case Word::Kind::kStarted:
        Started(word->number);
        break;
      case Word::Kind::kFailed:
        end_.failure = FailureText(*word);
        break;
      case Word::Kind::kExited:
        end_.exited = true;
        end_.status = word->number;
        break;
      case Word::Kind::kGone:
        end_.cpu = std::chrono::microseconds(word->cpu);
        end_.memory = word->memory;
        gone = true;
        break;
      case Word::Kind::kSignal:
      case Word::Kind::kKill:
        break;
    }
    if (gone) break;
  }
  if (gone) Gone();
}

void Command::Started(pid_t pid) {
  end_.started = true;
  loop_.Watch(reins_.out.get(), false, [this] { Pull(false); });
  loop_.Watch(reins_.err.get(), false, [this] { Pull(true); });
  if (events_.started) events_.started(pid);
}

void Command::Gone() {
  for (const bool err : {false, true}) {
    constexpr int kMost = 64;  // more than a pipe holds: somebody else may have it open
    for (int i = 0; i < kMost && PullOnce(err); ++i) continue;
  }
  loop_.Unwatch(reins_.control.get());
  reins_.control.Close();
  kill_.Clear();
  const auto gone = std::move(events_.gone);
  gone(CommandEnd(end_));
}

void Command::Stop(std::chrono::milliseconds kill_after) {
  Say(reins_.control.get(), {.kind = Word::Kind::kSignal, .number = SIGTERM});
  if (kill_after.count() <= 0) return Kill();
  const SteadyTime at = std::chrono::steady_clock::now() + kill_after;
  if (at >= kill_at_) return;
  kill_at_ = at;
  kill_.Set(at, [this] { Kill(); });
}

void Command::Kill() { Say(reins_.control.get(), {.kind = Word::Kind::kKill}); }

}  // namespace dfsmr::cli
