#include "dcli/agent/set_up.h"

#include <sys/wait.h>

#include "dcli/text/text.h"
#include "dcli/text/values.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kSetUpTail = 4 << 10;
constexpr size_t kSetUpWords = 500;  // of its last line, in the reason of a refusal
constexpr std::chrono::milliseconds kSetUpPatience{10'000};

}  // namespace

SetUp::SetUp(Loop& loop, Keeper& keeper, const Surroundings& surroundings, const Manifest& manifest,
             const std::string& folder, Events events)
    : loop_(loop),
      manifest_(manifest),
      events_(std::move(events)),
      out_lines_(masks_,
                 [this](std::string line) { events_.line(LogStream::kOut, std::move(line)); }),
      err_lines_(masks_,
                 [this](std::string line) { events_.line(LogStream::kErr, std::move(line)); }),
      err_(kSetUpTail),
      timeout_(loop),
      late_(loop) {
  const auto begun = Begin(keeper, surroundings, folder);
  if (begun) return;
  // Whoever made it has no handle of it yet.
  late_.SetIn(std::chrono::milliseconds(0), [this, error = begun.error()] {
    const auto done = std::move(events_.done);
    done(error);
  });
}

Result<Ok> SetUp::Begin(Keeper& keeper, const Surroundings& surroundings,
                        const std::string& folder) {
  auto made = Folder::Make(surroundings.folders);
  if (!made) return made.error();
  folder_ = std::move(*made);
  Worker as;
  as.name = "setup";
  as.run = manifest_.setup;
  as.folder = folder;
  const auto launch = LaunchOf(surroundings, as, nullptr, *folder_);
  if (!launch) return launch.error();
  auto command =
      Command::Start(loop_, keeper, *launch,
                     {.started = [](pid_t) {},
                      .output = [this](bool err, std::string_view bytes) { Output(err, bytes); },
                      .gone = [this](const CommandEnd& end) { Gone(end); }});
  if (!command) return command.error();
  command_ = std::move(*command);
  command_->CloseInput();
  timeout_.SetIn(std::chrono::duration_cast<std::chrono::milliseconds>(manifest_.setup_timeout),
                 [this] {
                   timed_out_ = true;
                   command_->Stop(kSetUpPatience);
                 });
  return Ok{};
}

void SetUp::Output(bool err, std::string_view bytes) {
  if (err) err_.Add(bytes);
  (err ? err_lines_ : out_lines_).Add(bytes);
}

void SetUp::Gone(const CommandEnd& end) {
  timeout_.Clear();
  out_lines_.End();
  err_lines_.End();
  const auto outcome = Outcome(end);
  const auto done = std::move(events_.done);
  done(outcome);
}

Result<Ok> SetUp::Outcome(const CommandEnd& end) const {
  const auto failed = [](const std::string& why) {
    return Error{Code::kFailedPrecondition, Reason::kNone, why};
  };
  if (!end.started) {
    return failed(end.failure.empty() ? "the process that keeps it was killed" : end.failure);
  }
  if (timed_out_) {
    return failed("it ran for longer than " + DurationText(manifest_.setup_timeout) +
                  " (setup_timeout)");
  }
  if (end.exited && WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0) return Ok{};
  const std::string status = end.exited ? StatusText(end.status) : "its warden was killed";
  const std::string last = Escaped(LastLine(err_.text()).substr(0, kSetUpWords));
  return failed(status + (last.empty() ? "" : ": " + last));
}

}  // namespace dfsmr::cli
