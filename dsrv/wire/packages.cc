#include "dsrv/wire/packages.h"

#include <cmath>

#include "dsrv/engine/package_version.h"
#include "dsrv/engine/package_views.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "storage/rows/trust.h"

namespace dfsmr {

static_assert(static_cast<int>(PackageStanding::State::kIdle) == v1::PackageVersion::IDLE);
static_assert(static_cast<int>(Verdict::kRevoked) == v1::PackageVersion::REVOKED);
static_assert(static_cast<int>(DocumentChange::What::kAdopted) == v1::DocumentChange::ADOPTED);

void ToProto(const PackageStanding& standing, v1::PackageVersion* out) {
  out->set_state(static_cast<v1::PackageVersion::State>(standing.state));
  out->set_percent(standing.share / 100.0);
  out->set_verdict(static_cast<v1::PackageVersion::Verdict>(standing.trust.verdict));
  out->set_blocked(standing.trust.blocked);
  v1::PackageStats* stats = out->mutable_stats();
  const auto ended = [&standing](InstanceResult result) {
    return standing.results[static_cast<size_t>(result)];
  };
  stats->set_live(standing.Live());
  stats->set_success(ended(InstanceResult::kSuccess));
  stats->set_warning(ended(InstanceResult::kWarning));
  stats->set_error(ended(InstanceResult::kError) + ended(InstanceResult::kAborted));
  stats->set_cancelled(ended(InstanceResult::kCancelled));
}

void ToProto(const rows::PackageVersionRow& row, const PackageStanding& standing,
             v1::PackageVersion* out) {
  ToProto(standing, out);
  out->set_namespace_(row.ns);
  out->set_package(row.package);
  out->set_version(row.version);
  out->set_digest(row.digest);
  out->set_size(row.size);
  out->set_description(row.description);
  out->mutable_labels()->insert(row.labels.begin(), row.labels.end());
  out->set_manifest(row.manifest);
  for (const rows::PackageDocument& one : row.documents) {
    v1::PackageDocument* to = out->add_documents();
    to->set_kind(one.kind);
    to->set_id(row.package + "." + one.id);
    to->set_path(one.path);
    to->set_line(one.line);
    const auto defined = standing.defined.find(one.kind + ":" + to->id());
    if (defined != standing.defined.end()) to->set_version(defined->second);
  }
  for (const rows::PackageWorker& one : row.workers) {
    v1::PackageWorker* to = out->add_workers();
    to->set_name(one.name);
    to->mutable_serves()->Assign(one.serves.begin(), one.serves.end());
    to->mutable_capabilities()->Assign(one.capabilities.begin(), one.capabilities.end());
    to->mutable_secrets()->Assign(one.secrets.begin(), one.secrets.end());
    to->mutable_actions()->Assign(one.actions.begin(), one.actions.end());
  }
  ToProto(row.put_time, out->mutable_put_time());
  out->set_put_by(row.put_by);
}

void ToProto(const rows::ActivationRow& row, v1::Activation* out) {
  ToProto(row.time, out->mutable_time());
  out->set_version(row.version);
  out->set_digest(row.digest);
  out->set_percent(row.share / 100.0);
  out->set_rollback(row.rollback);
  out->set_by(row.by);
  out->set_note(row.note);
}

void ToProto(const DocumentChange& change, v1::DocumentChange* out) {
  out->set_kind(change.kind);
  out->set_id(change.id);
  out->set_version(change.version);
  out->set_what(static_cast<v1::DocumentChange::What>(change.what));
  if (change.strategy) out->set_upgrade_strategy(std::string(Name(*change.strategy)));
  out->set_affected_instances(change.affected);
}

Result<Ok> ShowSignatures(const Moment& moment, const rows::PackageVersionRow& row,
                          const PackageStanding& standing, v1::PackageVersion* out) {
  auto signatures = rows::GetSignatures(moment.rows, row.ns, row.package, row.version);
  if (!signatures) return signatures.error();
  for (const rows::SignatureRow& one : *signatures) {
    v1::Signature* to = out->add_signatures();
    to->set_fingerprint(one.fingerprint);
    to->set_text(one.text);
    for (const TrustView::Signer& signer : standing.trust.signers) {
      if (signer.fingerprint != one.fingerprint) continue;
      to->set_key_name(signer.name);
      to->set_revoked(signer.revoked);
    }
  }
  return Ok{};
}

Result<uint32_t> ToShare(double percent) {
  const double hundredths = percent * 100;
  const double rounded = std::round(hundredths);
  if (!(percent >= 0 && percent <= 100) || std::abs(hundredths - rounded) > 1e-6) {
    return Bad("percent is to be from 0 to 100, in steps of 0.01");
  }
  const auto share = static_cast<uint32_t>(rounded);
  return share == 10'000 ? 0 : share;
}

}  // namespace dfsmr
