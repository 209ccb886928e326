// All families of metrics, with their names, types and labels. Pure.
#pragma once

#include <functional>
#include <string>

#include "dsrv/metrics/exposition.h"
#include "dsrv/metrics/snapshot.h"

namespace dfsmr::metrics {

// Whose series are shown: those of the namespaces for which it is true; for "*": whether those that
// have no namespace are shown, too.
using Sees = std::function<bool(const std::string& ns)>;

std::string Render(const Snapshot& snapshot, const Sees& sees, Form form);
// Of a server that serves nothing: what is of the process and of the cluster.
std::string RenderProcess(const Snapshot& snapshot, const Sees& sees, Form form);

}  // namespace dfsmr::metrics
