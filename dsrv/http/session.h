// /v1/session: who is signed in, and signing in and out. A session's secret is only in the cookie.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "dsrv/http/exchange.h"
#include "dsrv/http/failure.h"
#include "dsrv/http/inside.h"

namespace dfsmr::http {

struct SessionOptions {
  bool asks = false;  // calls for tokens
  // Ends the session of the asker; `done` gets a failure, or none, from any thread.
  std::function<void(const Asker&, std::function<void(std::optional<Error>)> done)> end;
};

void ServeSession(const SessionOptions& options, Inside& inside,
                  std::shared_ptr<Exchange> exchange);

}  // namespace dfsmr::http
