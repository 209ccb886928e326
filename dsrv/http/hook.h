// POST /hooks/NAMESPACE/PATH: the webhooks of triggers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "dsrv/http/exchange.h"
#include "dsrv/http/inside.h"

namespace dfsmr::http {

inline constexpr size_t kHookBody = 1 << 20;  // at most

// `rest`: NAMESPACE/PATH as it stands in the URL. The answer is 202 with the occurrence.
void ServeHook(Inside& inside, std::shared_ptr<Exchange> exchange, const std::string& rest);

}  // namespace dfsmr::http
