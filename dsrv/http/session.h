// /v1/session: who is signed in, and signing in and out. A session's secret is only in the cookie.
#pragma once

#include <memory>

#include "dsrv/http/exchange.h"
#include "dsrv/http/inside.h"

namespace dfsmr::http {

// `asks`: calls for tokens.
void ServeSession(bool asks, Inside& inside, std::shared_ptr<Exchange> exchange);

}  // namespace dfsmr::http
