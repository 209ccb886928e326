#include "dcli/commands/logs.h"

#include <algorithm>

#include "dcli/commands/commands.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace {

constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kErrColor = "\x1b[31m";
constexpr std::string_view kAgentColor = "\x1b[2m";

// How long the order is that sets a colour at the begin of `text`: "\x1b[1;31m". 0: there is none.
size_t ColorAt(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;:", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

// "1,204"
std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3;) text.insert(i -= 3, ",");
  return text;
}

std::string Padded(std::string text, size_t* columns) {
  const size_t has = Columns(text);
  *columns = std::max(*columns, has);
  return text.append(*columns - has, ' ');
}

// "17:04:10.785", in UTC, as all times.
std::string TimeOfDay(const google::protobuf::Timestamp& time) {
  std::string text = TimeText(time);  // 2026-01-31T17:04:10.785123Z
  const size_t begin = text.find('T');
  if (begin == text.npos) return "-";
  std::string of_day = text.substr(begin + 1, 8);
  std::string millis = std::to_string(time.nanos() / 1'000'000);
  return of_day + '.' + std::string(3 - std::min<size_t>(3, millis.size()), '0') + millis;
}

v1::ReadLogsRequest RequestOf(const Context& context, const LogsOptions& options) {
  v1::ReadLogsRequest request;
  request.set_namespace_(context.name_space);
  request.set_instance(options.instance);
  request.set_node(options.step);
  request.set_visit(options.visit);
  request.set_attempt(options.attempt);
  request.set_tail(options.tail);
  request.set_after(options.after);
  request.set_follow(options.follow);
  return request;
}

// Reads on after a lost connection where it was, with a note on standard error.
class Reading {
 public:
  using Visit = std::function<bool(const v1::ReadLogsResponse&)>;

  Reading(Context& context, v1::ReadLogsRequest request, Canceller* cancel)
      : context_(context), request_(std::move(request)), cancel_(*cancel) {}

  Result<Ok> Run(const Visit& visit) {
    for (;;) {
      bool enough = false;
      auto ended = context_.client->ReadLogs(request_, &cancel_, [&](const auto& response) {
        Take(response);
        enough = !visit(response);
        return !enough;
      });
      if (enough) return Ok{};
      if (cancel_.cancelled()) return Error{Code::kCancelled, Reason::kNone, "interrupted"};
      if (ended || !request_.follow() || !reached_ || !Passing(ended.error())) return ended;
      if (!std::exchange(lost_, true)) {
        context_.Note("the connection was lost: " + Cause(ended.error()) + "; trying again");
      }
      if (cancel_.SleepFor(backoff_.Next())) {
        return Error{Code::kCancelled, Reason::kNone, "interrupted"};
      }
    }
  }

  const std::string& cursor() const { return request_.after(); }

 private:
  void Take(const v1::ReadLogsResponse& response) {
    if (std::exchange(lost_, false)) context_.Note("connected again");
    reached_ = true;
    backoff_.Reset();
    if (response.cursor().empty()) return;
    request_.set_after(response.cursor());
    request_.set_tail(0);
  }

  Context& context_;
  v1::ReadLogsRequest request_;
  Canceller& cancel_;
  Backoff backoff_;
  bool reached_ = false;
  bool lost_ = false;
};

void PrintEntry(Context& context, const v1::LogEntry& entry, LogPrinter* printer) {
  if (context.PrintOne(entry)) return;
  if (context.names()) {
    context.out << LogText(entry.text(), context.look) << '\n';
  } else {
    printer->Print(entry);
  }
}

}  // namespace

std::string LogText(std::string_view text, const Look& look) {
  std::string shown;
  bool colored = false;
  size_t plain = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t color = ColorAt(text.substr(at));
    if (color == 0) {
      ++at;
      continue;
    }
    shown += Escaped(text.substr(plain, at - plain));
    if (look.color) shown += text.substr(at, color);
    colored = true;
    plain = at += color;
  }
  shown += Escaped(text.substr(plain));
  if (colored && look.color) shown += kPlain;
  return shown;
}

void LogPrinter::Print(const v1::LogEntry& entry) {
  if (entry.left_out() > 0) {
    out_ << "… " << Grouped(entry.left_out()) << (entry.left_out() == 1 ? " line" : " lines")
         << " left out\n";
  }
  out_ << (wide_ ? TimeText(entry.time()) : TimeOfDay(entry.time())) << "  "
       << Padded(Escaped(entry.node()), &step_) << "  ";
  if (wide_) out_ << entry.visit() << "  " << entry.attempt() << "  ";
  out_ << Padded(entry.worker().empty() ? "-" : Escaped(entry.worker()), &agent_) << "  ";
  const std::string_view color = !look_.color                           ? ""
                                 : entry.stream() == v1::LogLine::ERR   ? kErrColor
                                 : entry.stream() == v1::LogLine::AGENT ? kAgentColor
                                                                        : "";
  out_ << color << LogText(entry.text(), look_) << (color.empty() ? "" : kPlain) << '\n';
}

int Logs(Context& context, const LogsOptions& options) {
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  LogPrinter printer(context.out, context.look, context.wide());
  bool any = false;
  Reading reading(context, RequestOf(context, options), &canceller);
  const auto ended = reading.Run([&](const v1::ReadLogsResponse& response) {
    any = any || response.entries_size() > 0;
    for (const v1::LogEntry& entry : response.entries()) PrintEntry(context, entry, &printer);
    context.out.flush();
    return context.out.good();
  });
  const bool interrupted = !ended && ended.error().code == Code::kCancelled;
  if (!ended && !interrupted) return context.Fail(ended.error());
  if (!any) {
    context.Note(reading.cursor().empty()
                     ? options.instance + " has no lines of logs, and never had any"
                     : options.instance +
                           " had lines of logs, and none that are asked for are kept");
  }
  if (!reading.cursor().empty()) {
    context.Note("to go on from here: --after " + reading.cursor());
  }
  return interrupted ? kInterrupted : kSucceeded;
}

}  // namespace dfsmr::cli
