#include "dsrv/wire/namespaces.h"

#include <cmath>

#include "dsrv/engine/space_views.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kDescription = 1'000;
constexpr Duration kDrain = std::chrono::seconds(30);
constexpr Duration kDrainMost = std::chrono::hours(24);
constexpr Duration kRetentionMost = std::chrono::hours(24 * 365 * 100);

static_assert(static_cast<int>(rows::SpaceState::kFrozen) == v1::Namespace::FROZEN);
static_assert(static_cast<int>(rows::SpaceState::kDeleted) == v1::Namespace::DELETED);

void ToProto(const rows::Quotas& quotas, v1::Quotas* out) {
  if (quotas.live_instances) out->set_live_instances(*quotas.live_instances);
  if (quotas.ready_tasks) out->set_ready_tasks(*quotas.ready_tasks);
  if (quotas.definitions) out->set_definitions(*quotas.definitions);
  if (quotas.package_bytes) out->set_package_bytes(*quotas.package_bytes);
  if (quotas.starts_per_second) out->set_starts_per_second(*quotas.starts_per_second);
  if (quotas.retention) dfsmr::ToProto(*quotas.retention, out->mutable_retention());
}

void ToProto(const SpaceUsage& usage, v1::NamespaceUsage* out) {
  out->set_live_instances(usage.live);
  out->set_ready_tasks(usage.ready);
  out->set_claimed_tasks(usage.claimed);
  out->set_definitions(usage.definitions);
  out->set_package_bytes(usage.package_bytes);
  out->set_starts_per_second(usage.starts_per_second);
  out->set_stopped_instances(usage.stopped);
  out->set_secrets(usage.secrets);
}

Result<rows::Quotas> ToQuotas(const v1::Quotas& in) {
  rows::Quotas quotas;
  if (in.has_live_instances()) quotas.live_instances = in.live_instances();
  if (in.has_ready_tasks()) quotas.ready_tasks = in.ready_tasks();
  if (in.has_definitions()) quotas.definitions = in.definitions();
  if (in.has_package_bytes()) quotas.package_bytes = in.package_bytes();
  if (in.has_starts_per_second()) {
    const double rate = in.starts_per_second();
    if (!std::isfinite(rate) || rate < 0 || rate > 1e9) {
      return Bad("quota starts_per_second is " + std::to_string(rate) +
                 ": it is a number from 0, which is no limit, to 1e9");
    }
    quotas.starts_per_second = rate;
  }
  if (in.has_retention()) {
    auto retention = ToDuration("quota retention", in.retention(), kRetentionMost);
    if (!retention) return retention.error();
    if (*retention > Duration() && *retention < std::chrono::seconds(1)) {
      return Bad("quota retention must be at least 1s, or 0, which is no limit");
    }
    quotas.retention = *retention;
  }
  return quotas;
}

// Names one field in the change. False: there is no such field.
bool Name(const std::string& path, const SpaceChange& all, SpaceChange* change) {
  const bool quotas = path == "quotas";
  bool known = true;
  if (path == "description") {
    change->description = all.description;
  } else if (path == "labels") {
    change->labels = all.labels;
  } else if (path == "require_signatures") {
    change->require_signatures = all.require_signatures;
  } else {
    known = quotas;
  }
  const auto named = [&](const char* name, bool* flag) {
    if (!quotas && path != std::string("quotas.") + name) return;
    *flag = known = true;
  };
  named("live_instances", &change->live_instances);
  named("ready_tasks", &change->ready_tasks);
  named("definitions", &change->definitions);
  named("package_bytes", &change->package_bytes);
  named("starts_per_second", &change->starts_per_second);
  named("retention", &change->retention);
  return known;
}

}  // namespace

void ToProto(const SpaceView& view, v1::Namespace* out) {
  const rows::SpaceRow& row = view.row;
  out->set_name(view.ns);
  out->set_state(static_cast<v1::Namespace::State>(row.state));
  if (row.state == rows::SpaceState::kDeleted) return;
  v1::NamespaceSettings* settings = out->mutable_settings();
  settings->set_description(row.description);
  settings->mutable_labels()->insert(row.labels.begin(), row.labels.end());
  settings->set_require_signatures(row.require_signatures);
  if (row.quotas != rows::Quotas()) ToProto(row.quotas, settings->mutable_quotas());
  ToProto(view.usage, out->mutable_usage());
  ToProto(view.effective, out->mutable_effective());
  if (row.create_time != Timestamp()) ToProto(row.create_time, out->mutable_create_time());
  out->set_created_by(row.created_by);
  if (row.state == rows::SpaceState::kDraining) {
    ToProto(row.drain_until, out->mutable_drain_until());
  }
}

Result<SpaceChange> ToSettings(const v1::NamespaceSettings& settings) {
  auto checked =
      All([&] { return CheckText("the description", settings.description(), kDescription); },
          [&] { return CheckLabels(settings.labels()); });
  if (!checked) return checked.error();
  auto quotas = ToQuotas(settings.quotas());
  if (!quotas) return quotas.error();
  SpaceChange change;
  change.description = settings.description();
  change.labels =
      std::map<std::string, std::string>(settings.labels().begin(), settings.labels().end());
  change.require_signatures = settings.require_signatures();
  change.quotas = *std::move(quotas);
  change.live_instances = change.ready_tasks = change.definitions = change.package_bytes =
      change.starts_per_second = change.retention = true;
  return change;
}

Result<SpaceChange> ToChange(const v1::UpdateNamespaceRequest& request) {
  if (request.fields().paths().empty()) {
    return Bad("which settings? 'fields' names none, such as \"quotas.live_instances\"");
  }
  auto all = ToSettings(request.settings());
  if (!all) return all;
  SpaceChange change;
  change.quotas = all->quotas;
  for (const std::string& path : request.fields().paths()) {
    if (Name(path, *all, &change)) continue;
    return Bad("'fields' names " + Quoted(path) +
               ", which is not a setting: description, labels, require_signatures, quotas, or "
               "quotas. and live_instances, ready_tasks, definitions, package_bytes, "
               "starts_per_second or retention");
  }
  return change;
}

Result<Duration> ToDrain(const v1::DeleteNamespaceRequest& request) {
  if (!request.has_drain()) return kDrain;
  return ToDuration("drain", request.drain(), kDrainMost);
}

std::string FieldsOf(const v1::UpdateNamespaceRequest& request) {
  std::string fields;
  for (const std::string& path : request.fields().paths()) {
    fields += (fields.empty() ? "" : " ") + path;
  }
  return fields;
}

}  // namespace dfsmr
