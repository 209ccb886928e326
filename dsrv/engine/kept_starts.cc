#include "dsrv/engine/kept_starts.h"

#include <utility>

namespace dfsmr {
namespace {

rows::KeptStart ToKept(const StartArgs& args) {
  rows::KeptStart kept;
  kept.machine = args.machine;
  kept.version = args.version;
  kept.id = args.id;
  kept.priority = args.priority;
  kept.spec = args.spec;
  kept.start_at = args.start_at;
  kept.start_before = args.start_before;
  kept.hold = args.hold;
  kept.after = args.after;
  kept.ns = args.ns;
  kept.package_version = args.package_version;
  if (args.provenance) kept.group = args.provenance->group;
  kept.wait_after_fail = args.wait_after_fail;
  kept.on_conflict = args.on_conflict;
  kept.force = args.force;
  kept.dry_run = args.dry_run;
  return kept;
}

Result<StartArgs> ToArgs(rows::KeptStart kept, const EngineOptions& options) {
  StartArgs args;
  args.ns = std::move(kept.ns);
  args.machine = std::move(kept.machine);
  args.version = kept.version;
  args.package_version = std::move(kept.package_version);
  args.id = std::move(kept.id);
  args.priority = kept.priority;
  args.wait_after_fail = kept.wait_after_fail;
  if (!kept.group.empty()) args.provenance = Provenance{.group = std::move(kept.group)};
  args.on_conflict = kept.on_conflict;
  args.force = kept.force;
  args.dry_run = kept.dry_run;
  if (auto asked = AsAsked(kept, options, &args); !asked) return asked.error();
  return args;
}

}  // namespace

Result<Ok> AsAsked(const rows::ChildStart& start, const EngineOptions& options, StartArgs* args) {
  args->spec = start.spec;
  args->start_at = start.start_at;
  args->start_before = start.start_before;
  args->hold = start.hold;
  args->after = start.after;
  if (args->spec.flow.empty()) return Ok{};
  auto flow = options.parse_flow(args->spec.flow, TextOrigin::kStored);
  if (!flow) return flow.error();
  args->flow = *std::move(flow);
  return Ok{};
}

rows::Message::Begin ToBegin(const StartArgs& args, rows::Message::Asker asker) {
  rows::Message::Begin begin;
  begin.asker = std::move(asker);
  begin.start = ToKept(args);
  begin.provenance = args.provenance;
  begin.asks = args.asks;
  begin.client = args.spec.client;
  begin.inside = args.inside;
  begin.outside = args.outside;
  begin.follows = args.follows;
  return begin;
}

Result<StartArgs> ReadBegin(const rows::Message::Begin& begin, const EngineOptions& options) {
  auto args = ToArgs(begin.start, options);
  if (!args) return args;
  args->provenance = begin.provenance;
  args->asks = begin.asks;
  args->spec.client = begin.client;
  args->inside = begin.inside;
  args->outside = begin.outside;
  args->follows = begin.follows;
  return args;
}

std::string KeepStarts(const std::vector<StartArgs>& starts) {
  std::vector<rows::KeptStart> kept;
  kept.reserve(starts.size());
  for (const StartArgs& args : starts) kept.push_back(ToKept(args));
  return rows::EncodeStarts(kept);
}

Result<std::vector<StartArgs>> ReadStarts(std::string_view text, const EngineOptions& options) {
  auto kept = rows::DecodeStarts(text);
  if (!kept) return kept.error();
  std::vector<StartArgs> starts;
  starts.reserve(kept->size());
  for (rows::KeptStart& one : *kept) {
    auto args = ToArgs(std::move(one), options);
    if (!args) return args.error();
    starts.push_back(*std::move(args));
  }
  return starts;
}

}  // namespace dfsmr
