#include <optional>

#include "dcli/commands/agents.h"
#include "dcli/commands/bulks.h"
#include "dcli/commands/commands.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

template <typename Request>
Request RequestFor(const Context& context, const ControlOptions& options) {
  Request request;
  request.set_namespace_(context.name_space);
  request.set_instance(options.instance);
  request.set_reason(options.bulk.reason);
  return request;
}

int Answer(Context& context, const Result<v1::Instance>& instance, std::string_view remark = "") {
  if (!instance) return context.Fail(instance.error());
  if (context.Print(*instance)) return kSucceeded;
  if (context.names()) {
    context.out << instance->id() << '\n';
  } else {
    PrintInstance(context.out, *instance, context.look, remark);
  }
  return kSucceeded;
}

}  // namespace

int Pause(Context& context, const ControlOptions& options) {
  if (auto status = InBulk(context, v1::StartBulkRequest::PAUSE, options)) return *status;
  return Answer(context, context.client->Pause(RequestFor<v1::PauseRequest>(context, options)));
}

int Resume(Context& context, const ControlOptions& options) {
  if (auto status = InBulk(context, v1::StartBulkRequest::RESUME, options)) return *status;
  auto request = RequestFor<v1::ResumeRequest>(context, options);
  request.set_node(options.node);
  request.set_force(options.force);
  return Answer(context, context.client->Resume(request));
}

int Skip(Context& context, const ControlOptions& options) {
  if (auto status = InBulk(context, v1::StartBulkRequest::SKIP, options)) return *status;
  auto request = RequestFor<v1::SkipRequest>(context, options);
  if (!options.step.empty() && !options.node.empty() && options.step != options.node) {
    return context.Fail(kBadUsage, "skip: \"" + options.step + "\" and --node \"" +
                                       options.node + "\" are two places: name one");
  }
  request.set_node(options.step.empty() ? options.node : options.step);
  return Answer(context, context.client->Skip(request));
}

int Cancel(Context& context, const ControlOptions& options) {
  if (auto status = InBulk(context, v1::StartBulkRequest::CANCEL, options)) return *status;
  auto request = RequestFor<v1::CancelRequest>(context, options);
  request.set_mode(options.kill    ? v1::CancelRequest::KILL
                   : options.force ? v1::CancelRequest::FORCE
                                   : v1::CancelRequest::CANCEL);
  std::optional<Leftovers> leftovers;
  if (options.kill && !options.bulk.no_wait) leftovers.emplace(context, options.instance);
  const auto instance = context.client->Cancel(request);
  const bool open = instance && instance->state() != v1::Instance::STOPPED;
  const int status = Answer(context, instance,
                            open ? "it stops when they have reported; --force does not wait" : "");
  if (status != kSucceeded || !leftovers) return status;
  context.out.flush();
  return leftovers->Await();
}

}  // namespace dfsmr::cli
