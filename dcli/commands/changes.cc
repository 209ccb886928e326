#include "dcli/commands/commands.h"
#include "dcli/commands/follow.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

Result<v1::ChangesRequest> RequestOf(const Context& context, const ChangesOptions& options) {
  v1::ChangesRequest request;
  request.set_namespace_(context.name_space);
  request.set_machine(options.machine);
  request.set_instance(options.instance);
  request.set_after(options.after);
  request.set_follow(!options.no_follow);
  request.set_dry_run(options.dry_run);
  for (const std::string& list : options.kinds) {
    for (const std::string& kind : Split(list, ',')) {
      const auto number = ParseEnum(v1::Change::Kind_descriptor(), kind, "kind of change");
      if (!number) return number.error();
      request.add_kinds(static_cast<v1::Change::Kind>(*number));
    }
  }
  return request;
}

void PrintOne(Context& context, const v1::Change& change) {
  if (context.PrintOne(change)) return;
  if (context.names()) {
    const std::string& of = change.machine().empty() ? change.cause() : change.machine();
    context.out << Escaped(change.instance().empty() ? of : change.instance()) << '\n';
  } else {
    PrintChange(context.out, change, context.look);
  }
}

}  // namespace

int Changes(Context& context, const ChangesOptions& options) {
  const auto request = RequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  std::string cursor;
  const auto ended = Follow(context, *request, &canceller, &cursor, [&](const auto& response) {
    for (const v1::Change& change : response.changes()) PrintOne(context, change);
    context.out.flush();
    return context.out.good();
  });
  const bool interrupted = !ended && ended.error().code == Code::kCancelled;
  if (!ended && !interrupted) return context.Fail(ended.error());
  if (!cursor.empty()) context.Note("to go on from here: --after " + cursor);
  return interrupted ? kInterrupted : kSucceeded;
}

}  // namespace dfsmr::cli
