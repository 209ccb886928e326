// Namespaces as messages, and what clients ask of them.
#pragma once

#include <string>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/engine/names.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

void ToProto(const SpaceView& view, v1::Namespace* out);

// What a page token of their list is valid for.
inline constexpr const char* kFiltersOfNamespaces = "namespaces";

// All settings that are given.
Result<SpaceChange> ToSettings(const v1::NamespaceSettings& settings);
// The fields that the request names.
Result<SpaceChange> ToChange(const v1::UpdateNamespaceRequest& request);
// 30 s when absent, at most 24 h.
Result<Duration> ToDrain(const v1::DeleteNamespaceRequest& request);
// For the audit trail: "quotas.live_instances description".
std::string FieldsOf(const v1::UpdateNamespaceRequest& request);

}  // namespace dfsmr
